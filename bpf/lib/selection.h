// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The measured flow that selects a packet: by its addresses, its class, its mark and its segments. */
#ifndef WAYMARK_SELECTION_H
#define WAYMARK_SELECTION_H

#include "segments.h"

#define SEGMENT_MIX 0x9fb21c651e98df25ULL

/* A hash of 128 bits, of which a place has 96. */
struct segment_hash {
	__u64 head;
	__u64 tail;
};

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * SEGMENT_MIX;
	return hash ^ hash >> 29;
}

/* Adds an address to both 64-bit hashes: each depends on both halves of the address. */
static __always_inline void mix_words(struct segment_hash *k, __u64 first, __u64 second)
{
	first += second * FIBONACCI;
	second += first * FIBONACCI;
	k->head = mix(k->head, first);
	k->tail = mix(k->tail, second);
}

/*
 * Mixes the segments in: of the last one, not the bits that carry a mark. Nonzero: they are beyond the
 * packet. Not inlined: see scan_options().
 */
__noinline int mix_segments(context *ctx, const struct segments *s, __u32 first,
			    struct segment_hash *k)
{
	struct packet packet = {}, *p = &packet;
	const struct marking *m;
	const struct ipv6 *ip6;
	__u32 zero = 0;
	__u64 head, tail;

	m = bpf_map_lookup_elem(&markings, &zero);
	if (!m || !s || !k)
		return -1;
	p->l3 = s->l3;
	packet_load(ctx, p);
	ip6 = at(p, s->ip6, IPV6_HEADER);
	if (!ip6)
		return -1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_SEGMENTS; i++) {
		const __u64 *sid;

		if (i >= s->count)
			break;
		sid = at(p, s->list + i * SEGMENT, SEGMENT);
		if (!sid)
			return -1;
		if (i < first)
			continue;
		head = i ? sid[0] : sid[0] & ~m->argument[0];
		tail = i ? sid[1] : sid[1] & ~m->argument[1];
		mix_words(k, head, tail);
	}
	if (!s->active)
		return 0;
	head = s->count ? ip6->destination[0] : ip6->destination[0] & ~m->argument[0];
	tail = s->count ? ip6->destination[1] : ip6->destination[1] & ~m->argument[1];
	mix_words(k, head, tail);
	return 0;
}

#define OCTETS 0x0101010101010101ULL

/* The octets of a word that are zero, by their highest bits; also some above one that is. */
static __always_inline __u64 zero_octets(__u64 word)
{
	return (word - OCTETS) & ~word & OCTETS << 7;
}

/* The number of the lowest octet with its highest bit set. */
static __always_inline __u32 lowest_octet(__u64 high_bits)
{
	__u64 below = ((high_bits & -high_bits) >> 7) - 1; /* all bits of the octets below it */

	return (below & OCTETS) * OCTETS >> 56;
}

/*
 * Finds the place of a key in the table, which has this number of places. Zero: the key is not there. The
 * table is at most half full, so almost all keys are in the first group. Not inlined: see scan_options().
 */
__noinline int find_place(__u32 places, const struct segment_hash *k, struct measured_flow *flow)
{
	__u64 fingerprint;
	__u32 group, tail;

	if (!k || !flow)
		return 0;
	fingerprint = ((k->head >> 56) * (256 - FINGERPRINTS) >> 8) + FINGERPRINTS;
	group = k->head >> 32;
	tail = k->tail >> 32;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MEASURED_PROBES; i++) {
		const struct measured_key *key;
		__u64 octets, same;
		__u64 *at;

		group &= places / MEASURED_GROUP - 1;
		at = bpf_map_lookup_elem(&measured_groups, &group);
		if (!at)
			return 0;
		octets = *(volatile __u64 *)at; /* it may change at any time */
		same = zero_octets(octets ^ fingerprint * OCTETS);
#pragma clang loop unroll(disable)
		for (__u32 j = 0; same && j < MEASURED_GROUP; j++) {
			__u32 place = group * MEASURED_GROUP + lowest_octet(same);

			key = bpf_map_lookup_elem(&measured_keys, &place);
			if (!key)
				return 0;
			if (key->head == k->head && key->tail == tail) {
				flow->number = key->number;
				flow->place = place;
				return 1;
			}
			same &= same - 1;
		}
		if (zero_octets(octets))
			return 0;
		group++;
	}
	return 0;
}

/* Finds the flow that a packet is selected into by these fields; zero: there is none. */
static __always_inline int find_selected(context *ctx, const struct packet *p,
					 const struct marking *m, const struct segments *s,
					 __u32 direction, __u32 selection,
					 struct measured_flow *flow)
{
	struct segment_hash k = {m->seeds[0] ^ (selection << 8 | direction), m->seeds[1]};
	const struct ipv6 *ip6 = at(p, s->ip6, IPV6_HEADER);
	__be32 word = 0;

	if (!ip6)
		return 0;
	mix_words(&k, ip6->source[0], ip6->source[1]);
	if (selection & SELECT_DESTINATION)
		mix_words(&k, ip6->destination[0], ip6->destination[1]);
	if (selection & SELECT_CLASS)
		word |= ip6->class_label & m->class_mask;
	if (selection & SELECT_LABEL)
		word |= ip6->class_label & FLOW_LABEL_MASK;
	if (selection & (SELECT_CLASS | SELECT_LABEL))
		k.head = mix(k.head, word);
	if (selection & SELECT_MONITOR) {
		const __be32 *mark = s->mark ? at(p, s->mark, MARK_LENGTH) : 0;

		if (!mark)
			return 0;
		k.head = mix(k.head, bpf_ntohl(*mark) >> 12);
	}
	if (selection & SELECT_SEGMENTS &&
	    mix_segments(ctx, s, selection & SELECT_INLINE ? 1 : 0, &k))
		return 0;
	/*
	 * Octets at the end of a word, as of the SIDs fc00:2:3:N::, reach only high bits of both hashes: the
	 * tail's halves change places, so that its high bits reach all of the sum.
	 */
	k.head = mix(k.head, k.tail << 32 | k.tail >> 32);
	return find_place(m->places, &k, flow);
}

/* A direction that the verifier of Linux 6.1 knows to be one. */
static __always_inline __u32 direction_of(__u32 direction)
{
	direction &= NUM_DIRECTIONS - 1;
	opaque(direction);
	return direction;
}

/*
 * Finds the flow that a packet is of, by the most specific selection that any flow has. Its number is
 * LEAVES_UNMARKED for a packet that is of none, and is to lose its mark. Zero: nothing is to be done.
 * Not inlined: the stack is small.
 */
__noinline int find_measured(context *ctx, const struct segments *s, __u32 direction,
			     struct measured_flow *flow)
{
	struct packet packet = {}, *p = &packet;
	struct marking *m;
	__u32 zero = 0;

	m = bpf_map_lookup_elem(&markings, &zero);
	if (!m || !s || !flow)
		return 0;
	direction = direction_of(direction);
	p->l3 = s->l3;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MARKING_SELECTIONS; i++) {
		__u32 at = direction * MARKING_SELECTIONS + (i & (MARKING_SELECTIONS - 1));

		if (i >= m->selected[direction])
			break;
		opaque(at);
		if (find_selected(ctx, p, m, s, direction, m->selections[at], flow))
			return 1;
	}
	if (direction != DIRECTION_OUT || !m->clears ||
	    !find_selected(ctx, p, m, s, direction, 0, flow))
		return 0;
	flow->number = LEAVES_UNMARKED;
	return 1;
}

#endif
