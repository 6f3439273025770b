// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packets of measured flows that leave: the AltMark option (RFC 9343), and those that are to be cut. */
#ifndef WAYMARK_DEPARTURE_H
#define WAYMARK_DEPARTURE_H

#include "growth.h"
#include "marking.h"

/* What insert_mark() says, besides why it did not insert. */
enum insertion {
	MARK_INSERTED = NUM_UNMARKED,
	MARK_BROKE, /* the packet lost its VLAN tag */
};

/*
 * Whether the packet may grow by the header, and if not, why. Of TCP, smaller segments are cut; the
 * kernel refuses for other offloaded packets.
 */
static __always_inline __u32 may_carry_mark(context *ctx, const struct packet *p,
					    const struct ipv6 *ip6)
{
	__u32 payload = bpf_ntohs(ip6->payload_length) + MARK_HEADER, mtu, length;

	if (ip6->next_header == NEXT_HBH || ip6->next_header == NEXT_DESTINATION)
		return UNMARKED_HEADER;
	if (ctx->gso_size)
		return payload > MARK_HEADER && payload <= 0xffff && ctx->gso_size > 2 * MARK_HEADER
			       ? MARK_INSERTED
			       : UNMARKED_GSO;
	mtu = device_mtu(ctx);
	length = packet_length(ctx, p) + MARK_HEADER;
	return payload > MARK_HEADER && payload <= 0xffff && length <= mtu &&
			       path_carries(ctx, ip6, length, 1)
		       ? MARK_INSERTED
		       : UNMARKED_MTU;
}

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
	refused = may_carry_mark(ctx, p, ip6);
	if (refused != MARK_INSERTED)
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

/* Not inlined: the stack is small. */
__noinline int count_unmarked(context *ctx, __u32 why)
{
	struct packet packet = {}, *p = &packet;

	if (why < NUM_UNMARKED && begin(ctx, p))
		count(p->on->slot, COUNTER_UNMARKED + why);
	return 0;
}

/* measure() where packets that leave get the option. Not inlined: the stack is small. */
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
	if (came < NUM_UNMARKED)
		count_unmarked(ctx, came);
	left = depart(ctx, &s, &flow);
	return came == MARK_BROKE ? LEFT_BROKEN : left;
}

/*
 * Counts the parts that an offloaded packet has more than when it was counted, because its segments
 * became smaller when a header was inserted. Not inlined: few packets need it.
 */
__noinline int recount_cut(context *ctx)
{
	__u32 zero = 0, size = ctx->gso_size, parts;
	const struct marking *m = bpf_map_lookup_elem(&markings, &zero);
	const struct block_clock *last = bpf_map_lookup_elem(&block_clocks, &zero);
	struct measured_flow flow = {};
	struct block_counts *c;

	if (!m || !last || !size)
		return 0;
	flow.number = last->cut.number;
	if (!last->cut.payload) {
		note_packets(&flow, last->cut.block, NOTE_UNCOUNTED, 0, 0);
		return 0;
	}
	parts = (last->cut.payload + size - 1) / size;
	if (parts <= last->cut.parts)
		return 0;
	parts -= last->cut.parts;
	c = counts_at(m, last->cut.place, last->cut.block);
	if (!c || c->block != last->cut.block)
		return 0;
	c->packets += parts;
	c->octets += parts * last->cut.repeated;
	c->time += parts * last->cut.into;
	if (last->cut.delayed)
		note_packets(&flow, last->cut.block, NOTE_DELAY, parts, last->cut.into);
	return 0;
}

#endif
