// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Records of removed headers, in a ring per CPU. A full ring costs the packet nothing: the loss
 * is counted. The reader polls, so that waking it is not paid per packet.
 */
#ifndef WAYMARK_RECORD_H
#define WAYMARK_RECORD_H

#include "clock.h"
#include "counters.h"
#include "ioam.h"

#define RING_WAKE_AT (128 * 1024)

/* Room for a small header (one option of a few nodes), a large one, and any. */
#define RECORD_SMALL   (sizeof(struct record) + 88)
#define RECORD_LARGE   (sizeof(struct record) + 536)
#define RECORD_LARGEST (sizeof(struct record) + MAX_HBH)

/* Bytes that a record takes in the ring, by the length of its header. */
static __always_inline __u32 record_size(__u32 length)
{
	return length <= 88 ? RECORD_SMALL : length <= 536 ? RECORD_LARGE : RECORD_LARGEST;
}

#define TAKE(size)                                                                           \
	({                                                                                   \
		r = bpf_ringbuf_reserve(ring, size, 0);                                      \
		if (r && packet_read(ctx, p, IPV6_HEADER, (void *)r + sizeof(*r), length)) { \
			bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);                            \
			r = 0;                                                               \
		}                                                                            \
	})

/* Reserves a record and copies the Hop-by-Hop header into it, before it is removed. */
static __always_inline struct record *record_begin(context *ctx, const struct packet *p,
						   void **ring_out, __u32 length)
{
	__u32 cpu = bpf_get_smp_processor_id();
	void *ring = bpf_map_lookup_elem(&records, &cpu);
	struct record *r = 0;

	*ring_out = ring;
	opaque(length);
	if (ring && length >= 8) {
		if (length <= 88)
			TAKE(RECORD_SMALL);
		else if (length <= 536)
			TAKE(RECORD_LARGE);
		else if (length <= MAX_HBH)
			TAKE(RECORD_LARGEST);
	}
	if (!r) {
		count(COUNTER_RECORDS_LOST);
		return 0;
	}
	r->header_length = length;
	return r;
}

/* Fills in the packet that goes on and hands the record over. */
static __always_inline void record_end(context *ctx, const struct packet *p, struct record *r,
				       void *ring, enum outcome outcome, __u64 tai)
{
	__u32 length = packet_length(ctx, p), head = length;
	__u64 waiting;

	r->time = tai;
	r->ifindex = NODE.ifindex;
	r->length = length;
	r->outcome = outcome;
	r->pad = 0;
	if (head > RECORD_PACKET)
		head = RECORD_PACKET;
	opaque(head);
	if (head < 1 || head > RECORD_PACKET || packet_read(ctx, p, 0, r->packet, head))
		head = 0;
	r->packet_length = head;
	count(COUNTER_RECORDS_WRITTEN);
	/* waking costs more than a packet: once, by whoever passes the mark */
	waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	bpf_ringbuf_submit(r, waiting > RING_WAKE_AT && waiting - record_size(r->header_length) <=
								RING_WAKE_AT
				      ? BPF_RB_FORCE_WAKEUP
				      : BPF_RB_NO_WAKEUP);
}

#endif
