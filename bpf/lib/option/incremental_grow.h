// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Growth of incremental traces (docs/data-plane/incremental-traces.md). This node's data come first, so
 * all before them moves to the front, and all behind them stays. The header grows by a multiple of 8:
 * padding at its beginning takes 4 bytes, or gives them back.
 */
#ifndef WAYMARK_OPTION_INCREMENTAL_GROW_H
#define WAYMARK_OPTION_INCREMENTAL_GROW_H

#include "growth.h"
#include "route.h"
#include "option/dex.h"
#include "option/incremental.h"

/* A trace that is about to grow. */
struct growing {
	__u32 length; /* bytes of this node's data */
	__u32 room;   /* bytes that the packet grows by */
	__s32 shift;  /* by how much the trace moves away from the header's beginning */
};

/*
 * Whether this node's data are the newest already: a packet may pass the hooks of several devices. The hop
 * limit tells this from a packet that has come back.
 */
static __always_inline int has_grown(const struct packet *p, const struct option *o,
				     const struct hop *hop)
{
	__u32 header = o->header, limit = (__u32)hop->hop_limit << 24, offset;
	const volatile __u32 *type = &o->type;
	const __be32 *word;

	if (TRACE_NODELEN(header) > o->words)
		return 0;
	if (*type & TRACE_BIT(0)) {
		word = at(p, o->offset + TRACE_OFFSET, 4);
		return word && bpf_ntohl(*word) == (limit | NODE.node_id);
	}
	if (!(*type & TRACE_BIT(8)))
		return 0;
	offset = o->offset + TRACE_OFFSET + (node_length(*type & 0xff000000) << 2);
	word = at(p, offset, 8);
	return word && bpf_ntohl(word[0]) == (limit | (__u32)(NODE.node_id_wide >> 32)) &&
	       bpf_ntohl(word[1]) == (__u32)NODE.node_id_wide;
}

/*
 * Finds out how the header grows by *g.length; nonzero: it cannot. Padding of 2 or 6 bytes can be at its
 * beginning. `behind` is the length of a Destination Options header right after it.
 */
static __always_inline int plan_growth(const struct packet *p, const struct options *o,
				       const struct option *option, __u32 behind, struct growing *g)
{
	const __be32 *words = at(p, IPV6_HEADER, 8);
	const __u8 *length = at(p, option->offset + 1, 1);

	if (!words || !length || *length + g->length > MAX_OPTION)
		return -1;
	if (g->length & 4) {
		if ((words[0] & bpf_htonl(0xffff)) == bpf_htonl(OPTION_PADN << 8))
			g->shift = 4;
		else if ((words[0] & bpf_htonl(0xffff)) == bpf_htonl(OPTION_PADN << 8 | 4))
			g->shift = -4;
		else
			return -1;
	}
	g->room = g->length + g->shift;
	/* what is longer could not be taken apart again */
	return o->length + g->room + behind > E2E_HEADER;
}

/*
 * The upper layer of a packet that is to be cut. The kernel cuts TCP in a tunnel as it does TCP alone: where
 * the headers end, it finds anew. Other layers of a tunnel are not reached, so they do not grow.
 */
static __always_inline void find_cut_layer(context *ctx, struct packet *p, struct headers *h)
{
	__u32 length = packet_length(ctx, p), inner;
	const struct ipv6 *ip6;

	packet_pull(ctx, p, length < UPPER_LAYER_REACH ? length : UPPER_LAYER_REACH);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return;
	find_headers(ctx, p, ip6->next_header, IPV6_HEADER, h);
	if (h->next_header != NEXT_IPV6 || !h->upper)
		return;
	inner = h->upper & 0xfff;
	h->upper = 0;
	ip6 = at(p, inner, IPV6_HEADER);
	if (!ip6)
		return;
	find_headers(ctx, p, ip6->next_header, inner + IPV6_HEADER, h);
	if (h->next_header != NEXT_TCP)
		h->upper = 0;
}

/* Bits about the next header; the option's index and the path's MTU are in the same word. */
#define BEHIND_SUMMED (1 << 24) /* no trace may grow */
#define BEHIND_AT     25 /* the length of a Destination Options header right after it, in units of 8 */
#define BEHIND_MAX    (E2E_HEADER >> 3)

/*
 * Whether an Authentication header follows: its sum covers the trace's length (RFC 4302 §3.3.3.1.2); and
 * how long a Destination Options header is. Not inlined: the stack is small.
 */
__noinline int look_behind(context *ctx, const struct options *o)
{
	struct packet packet = {}, *p = &packet;
	__u32 whole, reach, units, found;
	const __u8 *next;
	struct headers h;
	__u8 first;

	if (!o)
		return 0;
	p->l3 = o->l3;
	packet_load(ctx, p);
	next = at(p, IPV6_HEADER, 1);
	if (!next || !is_extension(*next))
		return 0;
	first = *next;
	whole = packet_length(ctx, p);
	reach = IPV6_HEADER + o->length + UPPER_LAYER_REACH;
	packet_pull(ctx, p, whole < reach ? whole : reach);
	find_headers(ctx, p, NEXT_HBH, IPV6_HEADER, &h);
	found = is_authenticated(&h) ? BEHIND_SUMMED : 0;
	next = at(p, IPV6_HEADER + o->length, 2);
	if (first != NEXT_DESTINATION || !next)
		return found;
	units = next[1] + 1;
	return found | (units < BEHIND_MAX ? units : BEHIND_MAX) << BEHIND_AT;
}

/* Makes the room after the IPv6 header; nonzero: the path, or the kernel, does not allow it. */
static __always_inline int make_room(context *ctx, struct packet *p, const struct growing *g,
				     struct growth *growth)
{
	struct headers h = {};
	struct ipv6 *ip6;

	if (!g->room)
		return 0;
	growth->bytes = g->room;
	if (COMPLETES && (bytes_at_hand(p) + g->room > p->mtu))
		return -1;
	if (packet_is_to_be_cut(ctx))
		find_cut_layer(ctx, p, &h);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return -1;
	if (may_grow(ctx, p, ip6, &h, growth) != OUTCOME_NO_IOAM ||
	    packet_grow(ctx, p, growth, &h) != OUTCOME_NO_IOAM)
		return -1;
	packet_load(ctx, p);
	return 0;
}

/* Moves words that begin in a range of offsets, after a header's beginning. Not inlined: see scan_options(). */
__noinline int move_words(context *ctx, const struct options *o, __u32 from, __u32 end)
{
	struct packet packet = {}, *p = &packet;
	const __be32 *word;
	__be32 *to;

	if (!o)
		return -1;
	p->l3 = o->l3;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_HBH / 4 && from < end; i++, from += 4) {
		word = at(p, from + o->made, 4);
		to = at(p, from + o->shift, 4);
		if (!word || !to)
			return -1;
		put32(p, to, *word);
	}
	packet_commit_sum(ctx, p);
	return 0;
}

/*
 * Moves the header's beginning, up to an offset, to the front of the room. Not inlined: see
 * scan_options().
 */
__noinline int move_beginning(context *ctx, const struct options *o, __u32 end)
{
	struct packet packet = {}, *p = &packet;
	__u32 from = IPV6_HEADER + 4, begin, payload;
	const __be32 *word;
	struct ipv6 *ip6;
	__be32 *to;

	if (!o)
		return -1;
	p->l3 = o->l3;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	to = at(p, IPV6_HEADER, 8);
	word = at(p, IPV6_HEADER + o->made, 4);
	if (!ip6 || !to || !word)
		return -1;
	payload = bpf_ntohs(ip6->payload_length) + o->made;
	begin = bpf_ntohl(*word) + ((__u32)o->made >> 3 << 16);
	if (o->shift > 0) {
		begin |= 4;
		put32(p, to + 1, 0);
	} else if (o->shift < 0) {
		begin &= ~0xffU;
		from += 4;
	}
	put32(p, to, bpf_htonl(begin));
	to = (__be32 *)&ip6->payload_length;
	/* only what is to be cut can be longer: see put_outer() */
	if (o->made)
		put32(p, to,
		      bpf_htonl((bpf_ntohl(*to) & 0xffff) | (payload > 0xffff ? 0 : payload)
								    << 16));
	packet_commit_sum(ctx, p);
	return move_words(ctx, o, from, end);
}

/* Notes where the options are now. Not inlined: see scan_options(). */
__noinline int move_options(struct options *o, __u32 index)
{
	if (!o)
		return -1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++)
		o->options[i].offset += i > index ? o->made : o->shift;
	o->length += o->made;
	return 0;
}

/*
 * Gives field 7 of this node's data, the first `length` bytes of a trace, the value that makes up for them,
 * for RemainingLen and for the option's length. Returns the change to the sum of the packet's words. Not
 * inlined: see scan_options().
 */
__noinline int complement_growth(context *ctx, __u32 l3, const struct option *o, __u32 length)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u64 sum = (__u64)bpf_htonl(length << 16) + (__u32)~bpf_htonl(length >> 2);
	__u32 begin;
	__be32 *word;

	if (!o)
		return 0;
	packet_load(ctx, p);
	begin = o->offset + TRACE_OFFSET;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_OPTION / 4 && 4 * i < length; i++) {
		word = at(p, begin + 4 * i, 4);
		if (!word)
			return 0;
		sum += *word;
	}
	word = at(p, begin + (node_length(o->type & 0xfe000000) << 2), 4);
	if (!word)
		return 0;
	put_data(p, word, complement_of(sum));
	return fold32(p->sum);
}

/* Writes this node's data, and that the trace has them. */
static __always_inline void put_growth(context *ctx, struct packet *p, struct option *option,
				       const struct options *o, const struct hop *hop,
				       const struct ioam_namespace *ns, __u32 length)
{
	struct values v = {.tai = hop->tai, .delay = UNAVAILABLE};
	const volatile __u32 *type = &option->type;
	__be32 *words = at(p, option->offset, 8);

	if (!words)
		return;
	option->header -= length >> 2;
	option->words += length >> 2;
	put32(p, words, bpf_htonl(bpf_ntohl(words[0]) + (length << 16)));
	put32(p, words + 1, bpf_htonl(option->header));
	if (COMPLETES) {
		if (!NODE.mainline && *type & TRACE_BIT(4))
			v.delay = delay_between(hop->tai, tai_now());
	} else if (o->delay != UNAVAILABLE) {
		v.tai -= o->delay;
		if (!NODE.mainline)
			v.delay = o->delay;
	}
	put_values(ctx, p, hop, option, ns, option->offset + TRACE_OFFSET, &v);
	if (*type & TRACE_BIT(7) && !NODE.mainline)
		p->sum += (__u32)complement_growth(ctx, p->l3, option, length);
}

/* Fills the room that was made for a trace. Not inlined: see scan_options(). */
__noinline int fill_room(context *ctx, struct options *o, const struct hop *hop, __u32 index)
{
	struct packet packet = {}, *p = &packet;
	const struct ioam_namespace *ns;
	struct option *option;

	if (!o || !hop || index >= MAX_IOAM_OPTIONS)
		return -1;
	p->l3 = o->l3;
	option = &o->options[index];
	ns = namespace_of(o, option);
	if (!ns || move_beginning(ctx, o, option->offset + TRACE_OFFSET))
		return -1;
	move_options(o, index);
	packet_load(ctx, p);
	put_growth(ctx, p, option, o, hop, ns, data_length(option, ns) << 2);
	packet_commit_sum(ctx, p);
	return 0;
}

/*
 * Makes room for this node's data in one trace: its outcome; from bit 8 on bytes before the IPv6 header,
 * bit 16 is packet.broken. `which` has the option's index in bits 0 to 7, the path's MTU from bit 8 on, if
 * that is known, and what look_behind() found. Not inlined: see scan_options().
 */
__noinline int make_room_for(context *ctx, struct options *o, const struct hop *hop,
			     const struct interface *on, __u32 which)
{
	struct packet packet = {.on = on, .mtu = (__u16)(which >> 8)}, *p = &packet;
	__u32 index = which & 0xff, left;
	const struct ioam_namespace *ns;
	struct growth growth = {};
	struct growing g = {};
	struct option *option;
	__be32 *word;

	if (!o || !hop || !on || index >= MAX_IOAM_OPTIONS)
		return OUTCOME_UNTOUCHED;
	p->l3 = o->l3;
	option = &o->options[index];
	ns = namespace_of(o, option);
	if (!ns)
		return OUTCOME_UNTOUCHED | p->l3 << 8;
	packet_load(ctx, p);
	if (has_grown(p, option, hop))
		return OUTCOME_UNTOUCHED | p->l3 << 8;
	left = TRACE_REMAINING(option->header);
	g.length = data_length(option, ns) << 2;
	if (which & BEHIND_SUMMED || !left || left << 2 < g.length ||
	    plan_growth(p, o, option, which >> BEHIND_AT << 3, &g) ||
	    make_room(ctx, p, &g, &growth)) {
		packet_load(ctx, p);
		word = at(p, option->offset + 4, 4);
		if (word)
			put32(p, word, bpf_htonl(option->header | TRACE_OVERFLOW));
		packet_commit_sum(ctx, p);
		return with_place(p, OUTCOME_TRACE_OVERFLOW);
	}
	o->made = g.room;
	o->shift = g.shift;
	if (g.room)
		packet_grown(ctx, p, &growth);
	return with_place(p, OUTCOME_TRACE_GROWN);
}

/*
 * Lets all traces grow that do so here: bytes before the IPv6 header, bit 8 is packet.broken. Not inlined:
 * see scan_options().
 */
__noinline int grow_traces(context *ctx, struct options *o, const struct hop *hop,
			   const struct interface *on, __u32 mtu)
{
	__u32 broken = 0, further = (mtu & 0xffff) << 8;

	if (!o || !hop || !on)
		return 0;
	further |= (__u32)look_behind(ctx, o);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		struct option *option = &o->options[i];
		__u32 made;

		if (option->kind != KIND_INCREMENTAL ||
		    option->outcome != OUTCOME_INCREMENTAL_TRACE)
			continue;
		made = make_room_for(ctx, o, hop, on, i | further);
		set_outcome(o, option, made & 0xff);
		o->l3 = made >> 8;
		broken |= made >> 16;
		if (option->outcome == OUTCOME_TRACE_GROWN)
			fill_room(ctx, o, hop, i);
	}
	return o->l3 | broken << 8;
}

/* Why only the stack lets the traces grow of a packet that leaves by the path. */
static __always_inline enum stack_reason needs_stack_to_grow(context *ctx, const struct packet *p,
							     const struct options *o,
							     const struct path *path)
{
	if (COMPLETES)
		return headroom(ctx) < o->room ? STACK_HEADROOM : STACK_NONE;
	/* the egress hook does not see the route of a redirected packet */
	return !packet_is_to_be_cut(ctx) && packet_length(ctx, p) + o->room > path->mtu
		       ? STACK_MTU
		       : STACK_NONE;
}

static __always_inline void incremental_egress(context *ctx, struct packet *p, struct options *o,
					       const struct hop *hop, __u32 mtu)
{
	__u32 grown;

	if (!incremental_grows(o))
		return;
	grown = grow_traces(ctx, o, hop, p->on, mtu);
	p->l3 = grown;
	p->broken |= grown >> 8;
	packet_load(ctx, p);
}

#endif
