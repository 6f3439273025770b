// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Segment lists of packets (RFC 8754), in any form that routers give them, and the flows they select. */
#ifndef WAYMARK_SEGMENTS_H
#define WAYMARK_SEGMENTS_H

#include "context.h"
#include "headers.h"
#include "maps.h"

#define ROUTING_SEGMENTS 4  /* Routing Type (RFC 8754 §2) */
#define SRH_FIXED	 8  /* bytes before the segment list */
#define SEGMENT		 16 /* bytes of a SID */
#define NEXT_IPV4	 4
#define NEXT_ETHERNET	 143
#define LEADING_HEADERS	 2 /* Hop-by-Hop and Destination Options before the SRH */

/* Where a packet's segment list is: offsets from the first IPv6 header. */
struct segments {
	__u16 ip6;	  /* the header whose list it is: the first one, or one in a tunnel */
	__u16 list;	  /* the first entry of the SRH, which is the last segment */
	__u16 last;	  /* the last segment, wherever it is */
	__u16 upper;	  /* the header after the list */
	__u8 count;	  /* entries of the SRH */
	__u8 active;	  /* the destination is a segment that is not among them */
	__u8 next_header; /* of the header after the list */
	__u8 l3;	  /* bytes before the IPv6 header */
};

enum segments_found {
	SEGMENTS_FOUND,
	NO_SEGMENTS,
	BAD_SEGMENTS,
	SEGMENTS_BEYOND, /* of what is at hand */
};

/* As far as a segment list may reach: behind two small headers, and with all entries. */
#define SEGMENTS_REACH 384

/*
 * Finds the segment list, also that of one SID that only the destination has. Not inlined: the stack is
 * small.
 */
__noinline int find_segments(context *ctx, struct segments *s)
{
	struct packet packet = {}, *p = &packet;
	__u32 offset, next, length, count;
	const struct ipv6 *ip6;
	const __u8 *header;

	if (!s || packet_open(ctx, p))
		return NO_SEGMENTS;
	s->l3 = p->l3;
	offset = s->ip6;
	ip6 = at(p, offset, IPV6_HEADER);
	if (!ip6)
		return SEGMENTS_BEYOND;
	if (bpf_ntohl(ip6->class_label) >> 28 != 6)
		return NO_SEGMENTS;
	next = ip6->next_header;
	offset += IPV6_HEADER;
#pragma clang loop unroll(full)
	for (int i = 0; i < LEADING_HEADERS; i++) {
		if (next != NEXT_HBH && next != NEXT_DESTINATION)
			break;
		header = at(p, offset, 8);
		if (!header)
			return SEGMENTS_BEYOND;
		next = header[0];
		offset += (header[1] + 1) << 3;
	}
	s->last = s->ip6 + 24; /* the destination */
	s->count = 0;
	s->active = 1;
	s->upper = offset;
	s->next_header = next;
	if (next != NEXT_ROUTING)
		return next == NEXT_IPV6 || next == NEXT_IPV4 || next == NEXT_ETHERNET
			       ? SEGMENTS_FOUND
			       : NO_SEGMENTS;
	header = at(p, offset, SRH_FIXED);
	if (!header)
		return SEGMENTS_BEYOND;
	if (header[2] != ROUTING_SEGMENTS)
		return NO_SEGMENTS;
	length = (header[1] + 1) << 3;
	count = header[4] + 1;
	if (SRH_FIXED + count * SEGMENT > length || header[3] > count)
		return BAD_SEGMENTS;
	if (count > MAX_SEGMENTS)
		return NO_SEGMENTS;
	s->list = offset + SRH_FIXED;
	s->last = s->list;
	s->count = count;
	s->active = header[3] == count; /* reduced, and not at its first endpoint yet */
	s->upper = offset + length;
	s->next_header = header[0];
	return at(p, s->list + (count - 1) * SEGMENT, SEGMENT) ? SEGMENTS_FOUND : SEGMENTS_BEYOND;
}

/* Makes what a segment list may need accessible; its length. Not inlined: the stack is small. */
__noinline int pull_segments(context *ctx, const struct segments *s)
{
	struct packet packet = {}, *p = &packet;
	__u32 length;

	if (!s)
		return 0;
	p->l3 = s->l3;
	packet_load(ctx, p);
	length = packet_length(ctx, p);
	packet_pull(ctx, p, length < SEGMENTS_REACH ? length : SEGMENTS_REACH);
	return length;
}

/* Finds the segment list of the header at s->ip6, also where it is not at hand. */
static __always_inline enum segments_found reach_segments(context *ctx, struct segments *s)
{
	enum segments_found found = find_segments(ctx, s);

	if (found == SEGMENTS_BEYOND) {
		__u32 length = pull_segments(ctx, s);

		found = find_segments(ctx, s);
		if (found == SEGMENTS_BEYOND)
			return length <= SEGMENTS_REACH ? BAD_SEGMENTS : NO_SEGMENTS;
	}
	return found;
}

/*
 * The bytes of headers, from the first IPv6 header on, that each part of an offloaded packet has; 0: not
 * known, or it is not offloaded. Not inlined: the stack is small.
 */
__noinline int repeated_length(context *ctx, const struct segments *s)
{
	struct packet packet = {}, *p = &packet;
	const __u8 *header;
	__u32 offset, next;
	struct headers h;

	if (!s)
		return 0;
	p->l3 = s->l3;
	packet_load(ctx, p);
	if (packet_segments(ctx, packet_length(ctx, p)) <= 1)
		return 0;
	offset = s->upper & 0xfff;
	next = s->next_header;
	packet_pull(ctx, p, offset + IPV6_HEADER + 20);
	header = at(p, offset, 20);
	if (!header)
		return 0;
	if (next == NEXT_IPV4) {
		next = header[9];
		offset += (header[0] & 15) << 2;
	} else if (next == NEXT_IPV6) {
		next = header[6];
		offset += IPV6_HEADER;
	}
	find_headers(ctx, p, next, offset, &h);
	packet_load(ctx, p);
	if (!h.upper)
		return 0;
	if (h.next_header == NEXT_UDP)
		return h.upper + 8;
	if (h.next_header != NEXT_TCP)
		return 0;
	packet_pull(ctx, p, h.upper + 20);
	header = at(p, h.upper, 20);
	return header ? h.upper + (header[12] >> 4 << 2) : 0;
}

#define SEGMENT_MIX 0x9fb21c651e98df25ULL

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * SEGMENT_MIX;
	return hash ^ hash >> 29;
}

static __always_inline void mix_address(struct measured_key *k, const __u64 *address)
{
	k->head = mix(k->head, address[0]);
	k->tail = mix(k->tail, address[1]);
}

/* Mixes the segments in: of the last one, not the bits that carry a mark. */
static __always_inline int mix_segments(const struct packet *p, const struct marking *m,
					const struct segments *s, const struct ipv6 *ip6,
					__u32 first, struct measured_key *k)
{
	__u64 head, tail;

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
		k->head = mix(k->head, head);
		k->tail = mix(k->tail, tail);
	}
	if (!s->active)
		return 0;
	head = s->count ? ip6->destination[0] : ip6->destination[0] & ~m->argument[0];
	tail = s->count ? ip6->destination[1] : ip6->destination[1] & ~m->argument[1];
	k->head = mix(k->head, head);
	k->tail = mix(k->tail, tail);
	return 0;
}

/* The flow that a packet is selected into by these fields, or NO_FLOW. */
static __always_inline __u32 find_selected(const struct packet *p, const struct marking *m,
					   const struct segments *s, __u32 direction,
					   __u32 selection)
{
	struct measured_key k = {m->seeds[0] ^ (selection << 8 | direction), m->seeds[1]};
	const struct ipv6 *ip6 = at(p, s->ip6, IPV6_HEADER);
	__be32 word = 0;
	struct measured_flow *flow;

	if (!ip6)
		return NO_FLOW;
	mix_address(&k, ip6->source);
	if (selection & SELECT_DESTINATION)
		mix_address(&k, ip6->destination);
	if (selection & SELECT_CLASS)
		word |= ip6->class_label & m->class_mask;
	if (selection & SELECT_LABEL)
		word |= ip6->class_label & bpf_htonl(0x000fffff);
	k.head = mix(k.head, word);
	if (selection & SELECT_SEGMENTS &&
	    mix_segments(p, m, s, ip6, selection & SELECT_INLINE ? 1 : 0, &k))
		return NO_FLOW;
	k.head = mix(k.head, k.tail);
	k.tail = mix(k.tail, k.head);
	flow = bpf_map_lookup_elem(&measured_flows, &k);
	return flow ? flow->number : NO_FLOW;
}

/* A direction that the verifier of Linux 6.1 knows to be one. */
static __always_inline __u32 direction_of(__u32 direction)
{
	direction &= NUM_DIRECTIONS - 1;
	opaque(direction);
	return direction;
}

/* Whether flows that leave here have the packet's source. */
static __always_inline int is_flow_source(const struct packet *p, const struct marking *m,
					  const struct segments *s)
{
	return find_selected(p, m, s, DIRECTION_OUT, 0) != NO_FLOW;
}

/*
 * The flow that a packet is of, by the most specific selection that any flow has. LEAVES_UNMARKED: it is
 * of none, and is to lose its mark. Not inlined: the stack is small.
 */
__noinline int find_measured(context *ctx, const struct segments *s, __u32 direction)
{
	struct packet packet = {}, *p = &packet;
	struct marking *m;
	__u32 zero = 0;

	m = bpf_map_lookup_elem(&markings, &zero);
	if (!m || !s)
		return NO_FLOW;
	direction = direction_of(direction);
	p->l3 = s->l3;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MARKING_SELECTIONS; i++) {
		__u32 flow, at = direction * MARKING_SELECTIONS + (i & (MARKING_SELECTIONS - 1));

		if (i >= m->selected[direction])
			break;
		opaque(at);
		flow = find_selected(p, m, s, direction, m->selections[at]);
		if (flow != NO_FLOW)
			return flow;
	}
	return direction == DIRECTION_OUT && m->clears && is_flow_source(p, m, s) ? LEAVES_UNMARKED
										  : NO_FLOW;
}

#endif
