// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Alternate marking (RFC 9341): counts the packets of SRv6 flows by block, and marks those that leave. */
#ifndef WAYMARK_MARKING_H
#define WAYMARK_MARKING_H

#include "blockcounts.h"
#include "clock.h"
#include "context.h"
#include "counters.h"
#include "edit.h"
#include "hook.h"
#include "selection.h"

/* Reads the clock into what this CPU remembers. Not inlined: the stack is small. */
__noinline int read_clock(void)
{
	__u32 zero = 0;
	const struct marking *m = bpf_map_lookup_elem(&markings, &zero);
	const struct clock_state *offset = bpf_map_lookup_elem(&clock, &zero);
	struct block_clock *last = bpf_map_lookup_elem(&block_clocks, &zero);
	__u64 time;

	if (!m || !m->length || !offset || !last)
		return -1;
	time = tai_now() - offset->tai_offset;
	if (last->length != m->length || time - last->start >= m->length) {
		last->length = m->length;
		last->block = time / m->length;
		last->start = last->block * m->length;
	}
	last->into = time - last->start;
	last->jiffies = bpf_jiffies64();
	return 0;
}

/*
 * Blocks are of UTC: nodes need not agree on TAI - UTC. Where no delay is asked for, the clock is read
 * once in a tick, because that costs as much as all else here; a packet may then be up to a tick older
 * than it seems.
 */
static __always_inline int find_moment(const struct marking *m, struct moment *now, int exact)
{
	struct block_clock *last;
	__u32 zero = 0;

	last = bpf_map_lookup_elem(&block_clocks, &zero);
	if (!last)
		return -1;
	if ((exact || last->jiffies != bpf_jiffies64() || last->length != m->length) &&
	    read_clock())
		return -1;
	now->block = last->block;
	now->into = last->into;
	now->clock = last;
	return 0;
}

/* The octets of which some bits are the mark, in the last SID or the option; 0: there is no option. */
static __always_inline __u32 carrier_at(const struct marking *m, const struct segments *s)
{
	return m->carrier == CARRIER_OPTION ? s->mark : s->last;
}

#define NO_MARK 0xff /* no value of a colour */

static __always_inline __u8 read_mark(const struct packet *p, const struct marking *m,
				      const struct segments *s)
{
	const struct ipv6 *ip6 = at(p, s->ip6, IPV6_HEADER);
	const __u8 *carrier;

	if (m->carrier == CARRIER_CLASS)
		return ip6 ? bpf_ntohl(ip6->class_label) >> 20 & m->mask : 0;
	if (!carrier_at(m, s))
		return NO_MARK;
	carrier = at(p, carrier_at(m, s) + (m->octet & 15), 1);
	return carrier ? *carrier & m->mask : 0;
}

/* Neither the traffic class nor an outer SID is in any checksum of the packet itself. */
static __always_inline void write_mark(context *ctx, struct packet *p, const struct marking *m,
				       const struct segments *s, __u8 value)
{
	__u32 offset = s->ip6, shift = 20;
	__be32 *carrier, word;

	if (m->carrier != CARRIER_CLASS) {
		offset = carrier_at(m, s) + (m->octet & 12);
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

/* The exact time since a block began. */
static __always_inline __u64 exact_into(const struct marking *m, __u64 block)
{
	struct moment now;

	return find_moment(m, &now, 1) ? 0 : now.into + (now.block - block) * m->length;
}

/*
 * Remembers how a packet was counted, where this node may still drop it. `octets` are those of the
 * counters before.
 */
static __always_inline void remember_counted(const struct moment *now,
					     const struct measured_flow *flow, __u32 parts,
					     __u32 octets, __u32 notes)
{
	struct counted_packet *counted = &now->clock->counted;

	if (!NODE.may_take_back)
		return;
	counted->block = now->block;
	counted->into = now->into;
	counted->number = flow->number;
	counted->place = flow->place;
	counted->parts = parts;
	counted->octets = octets;
	counted->notes = notes;
}

/*
 * Takes back the packet that this CPU counted last, because this node drops it: it did not get further,
 * so it must not hide the loss of another. Not inlined: few packets need it.
 */
__noinline int take_back(void)
{
	__u32 zero = 0;
	const struct marking *m = bpf_map_lookup_elem(&markings, &zero);
	const struct block_clock *last = bpf_map_lookup_elem(&block_clocks, &zero);
	const struct counted_packet *counted;
	struct measured_flow flow = {};
	struct block_counts *c;

	if (!m || !last)
		return 0;
	counted = &last->counted;
	flow.number = counted->number;
	if (counted->notes)
		note_packets(&flow, counted->block, counted->notes, -(__s32)counted->parts,
			     counted->into);
	if (!counted->octets)
		return 0;
	c = counts_at(m, counted->place, counted->block);
	if (!c || c->block != counted->block)
		return 0;
	c->packets -= counted->parts;
	c->octets -= counted->octets;
	c->time -= counted->parts * counted->into;
	return 0;
}

/* What count_departure() says: how many packets it counted, and how. */
enum counted {
	COUNTED_PARTS = 0xffff, /* a mask */
	COUNTED_DELAYED = 1 << 16,
	COUNTED_ODD = 1 << 17, /* in a block with an odd number */
	COUNTED = 1 << 18,     /* or noted */
};

static __always_inline __u32 count_out(context *ctx, struct packet *p, const struct marking *m,
				       const struct segments *s, const struct measured_flow *flow,
				       __u32 repeated)
{
	struct block_counts *c;
	struct moment now;
	__u32 value, parts, octets, notes = 0;
	int begun;

	if (find_moment(m, &now, m->sums))
		return 0;
	if (m->carrier == CARRIER_OPTION && !s->mark) { /* it could not get one */
		parts = packet_segments(ctx, packet_length(ctx, p));
		note_packets(flow, now.block, NOTE_UNMARKED, parts > 1 ? parts : 1, 0);
		remember_counted(&now, flow, parts > 1 ? parts : 1, 0, NOTE_UNMARKED);
		return COUNTED;
	}
	c = find_counts(m, flow, now.block, &begun);
	if (!c)
		return 0;
	octets = c->octets;
	if (begun && m->marks_delay) { /* once in a block, on each CPU */
		notes = NOTE_DELAY;
		if (!m->sums)
			now.into = exact_into(m, now.block);
	}
	value = ((now.block & 1) | (notes ? 2 : 0)) & 3;
	parts = add_packet(ctx, p, s, c, now.into, repeated, &notes);
	if (notes)
		note_packets(flow, now.block, notes, parts, now.into);
	remember_counted(&now, flow, parts, c->octets - octets, notes);
	opaque(value);
	write_mark(ctx, p, m, s, m->values[value & 3]);
	return COUNTED | (parts & COUNTED_PARTS) | (notes & NOTE_DELAY ? COUNTED_DELAYED : 0) |
	       (now.block & 1 ? COUNTED_ODD : 0);
}

/* What a mark says. */
enum meaning {
	MARK_COLOUR = 1, /* of blocks with odd numbers */
	MARK_DELAY = 2,
	MARK_NONE = 4,
};

static __always_inline __u32 meaning_of(const struct marking *m, __u8 mark)
{
	if (mark == m->values[0])
		return 0;
	if (mark == m->values[1])
		return MARK_COLOUR;
	if (!m->marks_delay)
		return MARK_NONE;
	if (mark == m->values[2])
		return MARK_DELAY;
	return mark == m->values[3] ? MARK_DELAY | MARK_COLOUR : MARK_NONE;
}

/*
 * A packet is of the block with its colour that is nearest to now (RFC 9341 §5): one of the other
 * colour is late in the block's first half, and early in its second. What is to be noted of it.
 */
static __always_inline __u32 choose_block(const struct marking *m, struct moment *now, __u32 colour)
{
	__u64 outside = now->into;

	if (colour == (now->block & 1))
		return 0;
	if (outside < m->length >> 1) {
		now->block--;
		now->into += m->length;
		return outside > m->guard ? NOTE_LATE : 0;
	}
	now->block++;
	now->into -= m->length;
	return m->length - outside > m->guard ? NOTE_EARLY : 0;
}

/* Nonzero: it was counted, or noted. */
static __always_inline int count_in(context *ctx, struct packet *p, const struct marking *m,
				    const struct segments *s, const struct measured_flow *flow,
				    __u32 repeated)
{
	__u32 mark = meaning_of(m, read_mark(p, m, s)), parts, octets, notes;
	struct block_counts *c;
	struct moment now;
	int begun;

	if (find_moment(m, &now, m->sums || mark & MARK_DELAY))
		return 0;
	if (mark & MARK_NONE) {
		parts = packet_segments(ctx, packet_length(ctx, p));
		note_packets(flow, now.block, NOTE_UNMARKED, parts > 1 ? parts : 1, 0);
		remember_counted(&now, flow, parts > 1 ? parts : 1, 0, NOTE_UNMARKED);
		return 1;
	}
	notes = choose_block(m, &now, mark & MARK_COLOUR);
	if (mark & MARK_DELAY)
		notes |= NOTE_DELAY;
	c = find_counts(m, flow, now.block, &begun);
	if (!c)
		return 0;
	octets = c->octets;
	parts = add_packet(ctx, p, s, c, now.into, repeated, &notes);
	if (notes)
		note_packets(flow, now.block, notes, parts, now.into);
	remember_counted(&now, flow, parts, c->octets - octets, notes);
	return 1;
}

/* Counts a packet of a flow that leaves, and marks it; enum counted. Not inlined: the stack is small. */
__noinline int count_departure(context *ctx, const struct segments *s,
			       const struct measured_flow *flow, __u32 repeated)
{
	struct packet packet = {}, *p = &packet;
	struct marking *m;
	__u32 zero = 0;

	opaque(repeated); /* where it is not used, the compiler would not pass it */
	m = bpf_map_lookup_elem(&markings, &zero);
	if (!m || !s || !flow)
		return 0;
	p->l3 = s->l3;
	packet_load(ctx, p);
	if (flow->number == LEAVES_UNMARKED)
		write_mark(ctx, p, m, s, m->unmarked);
	else
		return count_out(ctx, p, m, s, flow, repeated);
	return 0;
}

/*
 * Remembers an offloaded packet, and how it was counted, with the time that was read last. Not inlined:
 * the stack is small.
 */
__noinline int remember_cut(context *ctx, const struct segments *s,
			    const struct measured_flow *flow, __u32 counted, __u32 repeated)
{
	__u32 zero = 0;
	const struct marking *m = bpf_map_lookup_elem(&markings, &zero);
	struct block_clock *last = bpf_map_lookup_elem(&block_clocks, &zero);
	struct packet packet = {};

	if (!m || !last || !s || !flow)
		return 0;
	packet.l3 = s->l3;
	last->cut.block = last->block;
	last->cut.into = last->into;
	if ((last->block & 1) != !!(counted & COUNTED_ODD)) { /* one began meanwhile */
		last->cut.block--;
		last->cut.into += m->length;
	}
	last->cut.number = flow->number;
	last->cut.place = flow->place;
	last->cut.parts = counted & COUNTED_PARTS;
	last->cut.payload = repeated ? packet_length(ctx, &packet) - repeated : 0;
	last->cut.repeated = repeated;
	last->cut.delayed = counted & COUNTED_DELAYED;
	return 0;
}

/* What became of a packet that left. */
enum departed {
	LEFT,
	LEFT_TO_BE_CUT, /* into parts, which were counted */
	LEFT_BROKEN,	/* of measure_departure() as well: it must not leave */
	DEPARTED = 0xf, /* a mask */
	LEFT_COUNTED = 0x10,
};

/* Counts a packet of a flow that leaves, and remembers one that is still to be cut; enum departed. */
static __always_inline __u32 depart(context *ctx, const struct segments *s,
				    const struct measured_flow *flow)
{
	__u32 repeated = repeated_length(ctx, s);
	__u32 counted = count_departure(ctx, s, flow, repeated);
	__u32 left = counted & COUNTED ? LEFT | LEFT_COUNTED : LEFT;

	if (COMPLETES || (counted & COUNTED_PARTS) <= 1)
		return left;
	remember_cut(ctx, s, flow, counted, repeated);
	return left | LEFT_TO_BE_CUT;
}

/* Counts a packet of a flow that arrives; nonzero if it did. Not inlined: the stack is small. */
__noinline int count_arrival(context *ctx, const struct segments *s,
			     const struct measured_flow *flow, __u32 repeated)
{
	struct packet packet = {}, *p = &packet;
	struct marking *m;
	__u32 zero = 0;

	opaque(repeated);
	m = bpf_map_lookup_elem(&markings, &zero);
	if (!m || !s || !flow)
		return 0;
	p->l3 = s->l3;
	packet_load(ctx, p);
	return count_in(ctx, p, m, s, flow, repeated);
}

/* Counts a header with this fault. Not inlined: the stack is small. */
__noinline int count_malformed(context *ctx, __u32 fault)
{
	struct packet packet = {}, *p = &packet;

	if (begin(ctx, p))
		count(p->on->slot, COUNTER_SRH_MALFORMED + fault);
	return 0;
}

/* Whether packets that are not measured lose their mark as they leave. */
static __always_inline int clears_marks(void)
{
	__u32 zero = 0;
	const struct marking *m = bpf_map_lookup_elem(&markings, &zero);

	return m && m->clears;
}

/* How packets carry their mark, if flows are measured in this direction; else CARRIER_NONE. */
static __always_inline enum carrier carrier_of(__u32 direction)
{
	struct marking *m;
	__u32 zero = 0;

	m = bpf_map_lookup_elem(&markings, &zero);
	return m && m->selected[direction_of(direction)] ? m->carrier : CARRIER_NONE;
}

/* Finds the flow that a packet is of, from the header at s->ip6 on; zero: nothing is to be done. */
static __always_inline int find_flow_of(context *ctx, struct segments *s, __u32 direction,
					enum carrier carrier, struct measured_flow *flow)
{
	__u32 found = reach_segments(ctx, s), fault = found - BAD_SEGMENTS;

	if (found == SEGMENTS_FOUND && !s->ip6 && s->count &&
	    s->upper - s->list > s->count * SEGMENT && look_at_tlvs(ctx, s) & TLVS_OVERRUN)
		fault = SRH_TLV; /* the list is sound, so the packet counts in its flow */
	/* in XDP, a packet that leaves is the one that arrived */
	if (fault < NUM_SRH_FAULTS && !s->ip6 &&
	    !(COMPLETES && direction == DIRECTION_OUT && carrier_of(DIRECTION_IN) != CARRIER_NONE))
		count_malformed(ctx, fault);
	if (found != SEGMENTS_FOUND)
		return 0;
	if (carrier == CARRIER_OPTION) {
		if (direction == DIRECTION_OUT)
			s->mark = 0; /* another node's, which is not this node's to write */
		else if (!s->mark)
			find_mark(ctx, s);
	}
	return find_measured(ctx, s, direction, flow);
}

/*
 * Counts a packet if it is of a measured flow in this direction, and marks it if it leaves: before
 * anything else is done with it that arrives, or to it that leaves, so a packet may be in a tunnel
 * whose other end is to measure it, or not yet. If it is dropped afterwards, take_back(). Nonzero: it
 * arrived, and was counted; enum departed of one that leaves. Where it leaves the domain (`outside`),
 * it only loses its mark, if packets outside are to have none. Not inlined: see scan_options().
 */
__noinline int measure(context *ctx, __u32 direction, __u32 outside)
{
	enum carrier carrier = carrier_of(direction);
	struct measured_flow flow = {};
	struct segments s = {};

	if (carrier == CARRIER_NONE)
		return 0;
	if (!find_flow_of(ctx, &s, direction, carrier, &flow)) {
		if (direction != DIRECTION_IN || s.count || s.next_header != NEXT_IPV6)
			return 0;
		s.ip6 = s.upper;
		if (!find_flow_of(ctx, &s, direction, carrier, &flow))
			return 0;
	}
	if (outside) {
		if (!clears_marks())
			return LEFT;
		flow.number = LEAVES_UNMARKED;
	}
	if (direction == DIRECTION_OUT)
		return depart(ctx, &s, &flow);
	return count_arrival(ctx, &s, &flow, repeated_length(ctx, &s));
}

#endif
