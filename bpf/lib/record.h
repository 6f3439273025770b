// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Records of removed headers, in a ring per CPU. A full ring costs the packet nothing: the loss
 * is counted. The reader polls, so that waking it is not paid per packet.
 */
#ifndef WAYMARK_RECORD_H
#define WAYMARK_RECORD_H

#include "context.h"
#include "counters.h"

#define RING_WAKE_AT (128 * 1024)

/* Room for a small header (one option of a few nodes), and a large one; MAX_HBH fits any. */
#define ROOM_SMALL 88
#define ROOM_LARGE 536

/*
 * Reads 8 to `most` bytes. Not inlined: where registers are scarce, the compiler spills the length to the
 * stack between its check and its use, and older verifiers then forget the check. opaque() keeps it from
 * merging the two comparisons into one, from which these verifiers learn no bounds.
 */
static __noinline int read_some(context *ctx, __u32 offset, void *to, __u32 length, __u32 most)
{
	if (length < 8)
		return -1;
	opaque(length);
	if (length > most)
		return -1;
	return load_bytes(ctx, offset, to, length);
}

/* Whether all records are wanted, or some: a number that is counted down stays below this one. */
#define IS_ALL(wanted) ((wanted) >= RECORDS_ALL / 2)

/* Whether a record is made of a packet with a trace, if it takes its place by take_wanted(). */
static __always_inline int are_records_wanted(void)
{
	__u32 zero = 0;
	__s32 *wanted = bpf_map_lookup_elem(&records_wanted, &zero);

	return wanted && *wanted > 0;
}

/* Whether Direct Exports are reported: only if all are. */
static __always_inline int are_exports_wanted(void)
{
	__u32 zero = 0;
	__s32 *wanted = bpf_map_lookup_elem(&records_wanted, &zero);

	return wanted && IS_ALL(*wanted);
}

/* Takes one of the records that are wanted; zero if another CPU had the last one. */
static __always_inline int take_wanted(void)
{
	__u32 zero = 0;
	__s32 *wanted = bpf_map_lookup_elem(&records_wanted, &zero);

	if (!wanted || *wanted <= 0)
		return 0;
	return IS_ALL(*wanted) || __sync_fetch_and_add(wanted, -1) > 0;
}

static __always_inline __u32 room_for(__u32 length)
{
	return length <= ROOM_SMALL ? ROOM_SMALL : length <= ROOM_LARGE ? ROOM_LARGE : MAX_HBH;
}

/*
 * Whether to wake the reader, when `waiting` bytes are in the ring, this record's included. Waking costs more
 * than treating a packet, so only the record that crosses RING_WAKE_AT does it.
 */
static __always_inline __u64 wake_by(__u64 waiting, __u32 room)
{
	__u64 size = sizeof(struct record) + room;

	return waiting > RING_WAKE_AT && waiting - size <= RING_WAKE_AT ? BPF_RB_FORCE_WAKEUP
									: BPF_RB_NO_WAKEUP;
}

/* A record being made. */
struct recording {
	struct record *record;
	void *ring;
	__u32 held; /* whether there is one */
};

/*
 * Reserves a record with `room` bytes for the header, and copies the header into it. `held` says whether
 * there is a record: older verifiers forget that rec->record was checked for NULL, and follow both branches.
 */
static __always_inline void record_take(context *ctx, const struct packet *p, struct recording *rec,
					__u32 length, __u32 room)
{
	struct record *r = bpf_ringbuf_reserve(rec->ring, sizeof(*r) + room, 0);

	if (!r)
		return;
	if (read_some(ctx, p->l3 + IPV6_HEADER, (void *)r + sizeof(*r), length, room)) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return;
	}
	r->header_length = length;
	rec->record = r;
	rec->held = 1;
	opaque(rec->held);
}

/* Reserves a record, if it is wanted, and copies the Hop-by-Hop header into it, before it is removed. */
static __always_inline void record_begin(context *ctx, const struct packet *p,
					 struct recording *rec, __u32 length)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (!take_wanted())
		return;
	rec->ring = bpf_map_lookup_elem(&records, &cpu);
	if (rec->ring) {
		if (length <= ROOM_SMALL)
			record_take(ctx, p, rec, length, ROOM_SMALL);
		else if (length <= ROOM_LARGE)
			record_take(ctx, p, rec, length, ROOM_LARGE);
		else
			record_take(ctx, p, rec, length, MAX_HBH);
	}
	if (!rec->held)
		count(p->on->slot, COUNTER_RECORDS_LOST);
}

/* Fills in the packet that goes on and hands the record over. */
static __always_inline void record_end(context *ctx, const struct packet *p,
				       const struct recording *rec, enum outcome outcome, __u64 tai)
{
	struct record *r = rec->record;
	__u32 length = packet_length(ctx, p), head = length;

	r->time = tai;
	r->ifindex = p->on->ifindex;
	r->length = length;
	r->outcome = outcome;
	r->kind = SAMPLE_RECORD;
	if (head > RECORD_PACKET)
		head = RECORD_PACKET;
	if (read_some(ctx, p->l3, r->packet, head, RECORD_PACKET))
		head = 0;
	r->packet_length = head;
	count(p->on->slot, COUNTER_RECORDS_WRITTEN);
	bpf_ringbuf_submit(r, wake_by(bpf_ringbuf_query(rec->ring, BPF_RB_AVAIL_DATA),
				      room_for(r->header_length)));
}

#endif
