// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a CPU counts of a measured flow in a block. */
#ifndef WAYMARK_BLOCKCOUNTS_H
#define WAYMARK_BLOCKCOUNTS_H

#include "context.h"
#include "segments.h"

/* A moment, and the block that it is in. */
struct moment {
	__u64 block;
	__u64 into; /* ns since the block's begin */
	struct block_clock *clock;
};

/* The place of this CPU's counters of a block, by the key that a packet was found by. */
static __always_inline struct block_counts *counts_at(const struct marking *m, __u32 place,
						      __u64 block)
{
	__u32 slot = bpf_get_smp_processor_id() * MARKING_SLOTS + (block & (MARKING_SLOTS - 1));
	__u32 index = slot * m->places + place;
	struct block_counts *c = bpf_map_lookup_elem(&measured_counts, &index);

	return place < m->places ? c : 0;
}

/* The counters there. Another block's begin anew. */
static __always_inline struct block_counts *
find_counts(const struct marking *m, const struct measured_flow *flow, __u64 block, int *begun)
{
	struct block_counts *c = counts_at(m, flow->place, block);

	if (!c)
		return 0;
	*begun = c->block != block;
	if (*begun)
		*c = (struct block_counts){.block = block};
	return c;
}

/* What is noted of few packets. */
enum packet_note {
	NOTE_DELAY = 1, /* has a delay mark */
	NOTE_LATE = 2,
	NOTE_EARLY = 4,
	NOTE_UNMARKED = 8,
	NOTE_UNSIZED = 16, /* offloaded, and the length of its headers is not known */
	NOTE_UNCOUNTED = 32,
};

/*
 * Notes packets, in memory apart from the counters; a negative number takes them back. Not inlined: few
 * packets need it.
 */
__noinline int note_packets(const struct measured_flow *flow, __u64 block, __u32 notes,
			    __s32 packets, __u64 into)
{
	__u32 index = bpf_get_smp_processor_id() * MARKING_SLOTS + (block & (MARKING_SLOTS - 1));
	__u32 zero = 0;
	const struct marking *m = bpf_map_lookup_elem(&markings, &zero);
	struct block_notes *n;

	if (!m || !flow || flow->number >= m->room)
		return 0;
	index = index * m->room + flow->number;
	n = bpf_map_lookup_elem(&measured_notes, &index);
	if (!n)
		return 0;
	if (n->block != (__u32)block)
		*n = (struct block_notes){.block = block};
	if (notes & NOTE_DELAY) {
		n->delay_packets += packets;
		n->delay_time += (__s64)packets * into;
	}
	if (notes & NOTE_LATE)
		n->late += packets;
	if (notes & NOTE_EARLY)
		n->early += packets;
	if (notes & NOTE_UNMARKED)
		n->unmarked += packets;
	if (notes & NOTE_UNSIZED)
		n->unsized += packets < 0 ? -1 : 1;
	if (notes & NOTE_UNCOUNTED)
		n->unsized |= UNCOUNTED;
	return 0;
}

/*
 * Adds a packet, or what an offloaded one is to be cut into; how many they are. *notes: what is to be
 * noted besides.
 */
static __always_inline __u32 add_packet(context *ctx, struct packet *p, const struct segments *s,
					struct block_counts *c, __u64 into, __u32 repeated,
					__u32 *notes)
{
	__u32 length = packet_length(ctx, p), parts = packet_segments(ctx, length - repeated);
	const struct ipv6 *ip6 = at(p, s->ip6, IPV6_HEADER);

	length -= s->ip6;
	if (parts > 1) {
		if (!repeated)
			*notes |= NOTE_UNSIZED | (packet_is_counted(ctx) ? 0 : NOTE_UNCOUNTED);
		repeated -= repeated ? s->ip6 : 0;
	} else {
		parts = 1;
		if (ip6 && ip6->payload_length) /* a short frame is padded */
			length = IPV6_HEADER + bpf_ntohs(ip6->payload_length);
	}
	c->packets += parts;
	c->octets += length + (parts - 1) * repeated;
	c->time += parts * into;
	return parts;
}

#endif
