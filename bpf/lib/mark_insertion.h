// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The AltMark option (RFC 9343) of packets of measured flows that leave. */
#ifndef WAYMARK_MARK_INSERTION_H
#define WAYMARK_MARK_INSERTION_H

#include "growth.h"
#include "marking.h"

/* What insert_mark() says, besides why it did not insert. */
enum insertion {
	MARK_INSERTED = MAY_CARRY_MARK,
	MARK_BROKE, /* the packet lost its VLAN tag */
};

/* Writes the header. Its values of L and D are zero yet. */
static __always_inline int put_mark_header(context *ctx, struct packet *p, __u8 kind, __u32 monitor)
{
	struct ipv6 *ip6;
	__be32 *header;

	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	header = at(p, IPV6_HEADER, MARK_HEADER);
	if (!ip6 || !header)
		return -1;
	header[0] = bpf_htonl((__u32)ip6->next_header << 24 | MARK_TYPE << 8 | MARK_LENGTH);
	header[1] = bpf_htonl(monitor << 12);
	ip6->next_header = kind;
	ip6->payload_length = bpf_htons(bpf_ntohs(ip6->payload_length) + MARK_HEADER);
	return 0;
}

/*
 * Inserts a header with the option directly after the IPv6 header: a Hop-by-Hop header is the first
 * one, and Destination Options before a routing header are read by each of its segments (RFC 8200
 * §4.1). Not inlined: the stack is small.
 */
__noinline int insert_mark(context *ctx, struct segments *s, __u32 number, __u32 kind)
{
	struct flow_state *state = bpf_map_lookup_elem(&measured_flows, &number);
	struct growth g = {.bytes = MARK_HEADER};
	struct packet packet = {}, *p = &packet;
	const struct headers unknown = {};
	const struct ipv6 *ip6;
	enum outcome outcome;
	__u32 refused;

	opaque(kind);
	if (!s || !state)
		return UNMARKED_HEADROOM;
	p->l3 = s->l3;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return UNMARKED_HEADROOM;
	if (ip6->next_header == NEXT_HBH || ip6->next_header == NEXT_DESTINATION ||
	    s->next_header == NEXT_AH) /* its sum covers the option */
		return UNMARKED_HEADER;
	refused = may_carry_mark(ctx, p, ip6);
	if (refused != MAY_CARRY_MARK)
		return refused;
	outcome = packet_grow(ctx, p, &g, &unknown);
	if (outcome == OUTCOME_NO_IOAM) {
		put_mark_header(ctx, p, kind, state->monitor);
		packet_grown(ctx, p, &g);
		if (s->count)
			s->last += MARK_HEADER;
		s->list += MARK_HEADER;
		s->upper += MARK_HEADER;
		s->mark = IPV6_HEADER + MARK_DATA;
	}
	s->l3 = p->l3;
	if (p->broken)
		return MARK_BROKE;
	if (outcome == OUTCOME_NO_IOAM)
		return MARK_INSERTED;
	return outcome == OUTCOME_ENCAP_SKIPPED_GSO ? UNMARKED_GSO : UNMARKED_HEADROOM;
}

/* In what measure_departure() says: why the packet has no mark, + 1, from this bit on. */
#define UNMARKED_SHIFT 8

static __always_inline void count_unmarked(__u32 slot, __u32 departed)
{
	__u32 why = (departed >> UNMARKED_SHIFT) - 1;

	if (why < NUM_UNMARKED)
		count(slot, COUNTER_UNMARKED + why);
}

/*
 * measure() where packets that leave get the option: enum departed, and why there is no mark. Not
 * inlined: the stack is small.
 */
__noinline int measure_departure(context *ctx)
{
	struct measured_flow flow = {};
	struct segments s = {};
	struct marking *m;
	__u32 zero = 0, came = MARK_INSERTED, left;

	if (carrier_of(DIRECTION_OUT) == CARRIER_NONE)
		return LEFT;
	m = bpf_map_lookup_elem(&markings, &zero);
	if (!m || !find_flow_of(ctx, &s, DIRECTION_OUT, m->carrier, &flow))
		return LEFT;
	if (m->carrier == CARRIER_OPTION)
		came = insert_mark(ctx, &s, flow.number, m->header);
	if (came == MARK_BROKE)
		return LEFT_BROKEN;
	left = depart(ctx, &s, &flow);
	return came < NUM_UNMARKED ? left | (came + 1) << UNMARKED_SHIFT : left;
}

/* Counts and marks a packet that leaves by an interface; enum departed. */
static __always_inline __u32 measure_leaving(context *ctx, const struct interface *by)
{
	__u32 left;

	if (!NODE.inserts_mark)
		return NODE.measures ? measure(ctx, DIRECTION_OUT, is_outside(by, ROLE_EGRESS))
				     : LEFT;
	if (is_outside(by, ROLE_EGRESS))
		return LEFT;
	left = measure_departure(ctx);
	count_unmarked(by->slot, left);
	return left;
}

#endif
