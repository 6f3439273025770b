// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Alternate marking (RFC 9341): counts the packets of SRv6 flows by block, and marks those that leave. */
#ifndef WAYMARK_MARKING_H
#define WAYMARK_MARKING_H

#include "clock.h"
#include "context.h"
#include "counters.h"
#include "edit.h"
#include "hook.h"
#include "segments.h"

/* A moment, and the block that it is in. */
struct moment {
	__u64 block;
	__u64 into; /* ns since the block's begin */
};

/*
 * Blocks are of UTC: nodes need not agree on TAI - UTC. Where no delay is asked for, the clock is read
 * once in a tick, because that costs as much as all else here; a packet may then be up to a tick older
 * than it seems.
 */
static __always_inline int find_moment(const struct marking *m, struct moment *now, int exact)
{
	__u64 jiffies = bpf_jiffies64(), time;
	struct clock_state *offset;
	struct block_clock *last;
	__u32 zero = 0;

	last = bpf_map_lookup_elem(&block_clocks, &zero);
	if (!last || !m->length)
		return -1;
	if (exact || last->jiffies != jiffies || last->length != m->length) {
		offset = bpf_map_lookup_elem(&clock, &zero);
		if (!offset)
			return -1;
		time = tai_now() - offset->tai_offset;
		if (last->length != m->length || time - last->start >= m->length) {
			last->length = m->length;
			last->block = time / m->length;
			last->start = last->block * m->length;
		}
		last->into = time - last->start;
		last->jiffies = jiffies;
	}
	now->block = last->block;
	now->into = last->into;
	return 0;
}

static __always_inline __u8 read_mark(const struct packet *p, const struct marking *m,
				      const struct segments *s)
{
	const struct ipv6 *ip6 = at(p, s->ip6, IPV6_HEADER);
	const __u8 *carrier;

	if (m->carrier == CARRIER_CLASS)
		return ip6 ? bpf_ntohl(ip6->class_label) >> 20 & m->mask : 0;
	carrier = at(p, s->last + (m->octet & 15), 1);
	return carrier ? *carrier & m->mask : 0;
}

/* Neither the traffic class nor an outer SID is in any checksum of the packet itself. */
static __always_inline void write_mark(context *ctx, struct packet *p, const struct marking *m,
				       const struct segments *s, __u8 value)
{
	__u32 offset = s->ip6, shift = 20;
	__be32 *carrier, word;

	if (m->carrier == CARRIER_ARGUMENT) {
		offset = s->last + (m->octet & 12);
		shift = (3 - (m->octet & 3)) << 3;
	}
	carrier = at(p, offset, 4);
	if (!carrier)
		return;
	word = *carrier & ~bpf_htonl((__u32)m->mask << shift);
	word |= bpf_htonl((__u32)(value & m->mask) << shift);
	if (word == *carrier)
		return;
	put32(p, carrier, word);
	packet_commit_sum(ctx, p);
}

/* This CPU's counters of a flow's block. Another block's are begun anew. */
static __always_inline struct block_counts *find_counts(const struct marking *m, __u32 flow,
							__u64 block, int *begun)
{
	__u32 index = bpf_get_smp_processor_id() * m->room + flow;
	struct flow_blocks *blocks = bpf_map_lookup_elem(&measured_blocks, &index);
	struct block_counts *c;

	if (!blocks || flow >= m->room)
		return 0;
	c = &blocks->slots[block & (MARKING_SLOTS - 1)];
	*begun = c->block != block;
	if (*begun)
		*c = (struct block_counts){.block = block};
	return c;
}

/* Adds a packet, or what an offloaded one is to be cut into; how many they are. */
static __always_inline __u32 add_packet(context *ctx, struct packet *p, const struct segments *s,
					struct block_counts *c, __u64 into, int delay,
					__u32 repeated)
{
	__u32 length = packet_length(ctx, p), parts = packet_segments(ctx, length - repeated);
	const struct ipv6 *ip6 = at(p, s->ip6, IPV6_HEADER);

	length -= s->ip6;
	if (parts > 1) {
		c->unsized += !repeated;
		c->uncounted += !repeated && !packet_is_counted(ctx);
		repeated -= repeated ? s->ip6 : 0;
	} else {
		parts = 1;
		if (ip6 && ip6->payload_length) /* a short frame is padded */
			length = IPV6_HEADER + bpf_ntohs(ip6->payload_length);
	}
	c->packets += parts;
	c->octets += length + (parts - 1) * repeated;
	c->time += parts * into;
	if (delay) {
		c->delay_packets += parts;
		c->delay_time += parts * into;
	}
	return parts;
}

/* The exact time since a block began. */
static __always_inline __u64 exact_into(const struct marking *m, __u64 block)
{
	struct clock_state *offset;
	__u32 zero = 0;

	offset = bpf_map_lookup_elem(&clock, &zero);
	return offset ? tai_now() - offset->tai_offset - block * m->length : 0;
}

static __always_inline void count_out(context *ctx, struct packet *p, const struct marking *m,
				      const struct segments *s, __u32 flow, __u32 repeated)
{
	struct block_counts *c;
	struct moment now;
	__u32 value;
	int begun, delay;

	if (find_moment(m, &now, m->sums))
		return;
	c = find_counts(m, flow, now.block, &begun);
	if (!c)
		return;
	delay = begun && m->marks_delay; /* once in a block, on each CPU */
	if (delay && !m->sums)
		now.into = exact_into(m, now.block);
	add_packet(ctx, p, s, c, now.into, delay, repeated);
	value = ((now.block & 1) | (delay ? 2 : 0)) & 3;
	opaque(value);
	write_mark(ctx, p, m, s, m->values[value & 3]);
}

/* Whether a mark is a colour; then which one, and whether it asks for the delay. */
static __always_inline int is_coloured(const struct marking *m, __u8 mark, __u32 *colour,
				       int *delay)
{
	*delay = m->marks_delay && (mark == m->values[2] || mark == m->values[3]);
	*colour = mark == m->values[1] || (*delay && mark == m->values[3]);
	return *delay || *colour || mark == m->values[0];
}

/*
 * A packet is of the block with its colour that is nearest to now (RFC 9341 §5): one of the other
 * colour is late in the block's first half, and early in its second.
 */
static __always_inline void count_in(context *ctx, struct packet *p, const struct marking *m,
				     const struct segments *s, __u32 flow, __u32 repeated)
{
	struct block_counts *c;
	struct moment now;
	int begun, delay;
	__u32 colour, parts;
	__u64 outside = 0;
	__u8 mark = read_mark(p, m, s);
	int coloured = is_coloured(m, mark, &colour, &delay), late = 0;

	if (find_moment(m, &now, m->sums || delay))
		return;
	if (coloured && colour != (now.block & 1)) {
		late = now.into < m->length >> 1;
		outside = late ? now.into : m->length - now.into;
		now.block += late ? -1 : 1;
		now.into += late ? m->length : -m->length;
	}
	c = find_counts(m, flow, now.block, &begun);
	if (!c)
		return;
	if (!coloured) {
		parts = packet_segments(ctx, packet_length(ctx, p));
		c->unmarked += parts > 1 ? parts : 1;
		return;
	}
	parts = add_packet(ctx, p, s, c, now.into, delay, repeated);
	if (outside > m->guard) {
		if (late)
			c->late += parts;
		else
			c->early += parts;
	}
}

/* Counts a packet of a flow, and marks it if it leaves. Not inlined: the stack is small. */
__noinline int count_measured(context *ctx, const struct segments *s, __u32 flow, __u32 direction,
			      __u32 repeated)
{
	struct packet packet = {}, *p = &packet;
	struct marking *m;
	__u32 zero = 0;

	opaque(repeated); /* where it is not used, the compiler would not pass it */
	m = bpf_map_lookup_elem(&markings, &zero);
	if (!m || !s)
		return 0;
	p->l3 = s->l3;
	packet_load(ctx, p);
	if (flow == LEAVES_UNMARKED)
		write_mark(ctx, p, m, s, m->unmarked);
	else if (direction == DIRECTION_OUT)
		count_out(ctx, p, m, s, flow, repeated);
	else
		count_in(ctx, p, m, s, flow, repeated);
	return 0;
}

/* Not inlined: the stack is small. */
__noinline int count_malformed(context *ctx)
{
	struct packet packet = {}, *p = &packet;

	if (begin(ctx, p))
		count(p->on->slot, COUNTER_SRH_MALFORMED);
	return 0;
}

/* Whether flows are measured in this direction. */
static __always_inline int measures(__u32 direction)
{
	struct marking *m;
	__u32 zero = 0;

	m = bpf_map_lookup_elem(&markings, &zero);
	return m && m->selected[direction_of(direction)];
}

/*
 * Counts a packet if it is of a measured flow in this direction, and marks it if it leaves: before
 * anything else is done with it that arrives, or to it that leaves, so a packet may be in a tunnel
 * whose other end is to measure it, or not yet. Not inlined: see scan_options().
 */
__noinline int measure(context *ctx, __u32 direction)
{
	enum segments_found found;
	struct segments s = {};
	__u32 flow;

	if (!measures(direction))
		return 0;
	found = reach_segments(ctx, &s);
	if (found == BAD_SEGMENTS)
		count_malformed(ctx);
	if (found != SEGMENTS_FOUND)
		return 0;
	flow = find_measured(ctx, &s, direction);
	if (flow == NO_FLOW && direction == DIRECTION_IN && !s.count &&
	    s.next_header == NEXT_IPV6) {
		s.ip6 = s.upper;
		if (reach_segments(ctx, &s) != SEGMENTS_FOUND)
			return 0;
		flow = find_measured(ctx, &s, direction);
	}
	if (flow != NO_FLOW)
		count_measured(ctx, &s, flow, direction, repeated_length(ctx, &s));
	return 0;
}

#endif
