// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Insertion of a prebuilt Hop-by-Hop header, inline or after an outer IPv6 header. */
#ifndef WAYMARK_ENCAPSULATE_H
#define WAYMARK_ENCAPSULATE_H

#include "budget.h"
#include "growth.h"
#include "match.h"
#include "merge.h"
#include "modules.h"
#include "queue.h"

static __always_inline __u32 u32_min(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

/* Whether the packet is among the first k of every n, on all CPUs: each takes a block of numbers at a time. */
static __always_inline int is_selected(const struct encapsulation *e)
{
	struct frequency_block *mine;
	struct frequency *f;

	if (e->frequency_k >= e->frequency_n)
		return 1;
	mine = bpf_map_lookup_elem(&frequency_blocks, &e->frequency_slot);
	if (!mine)
		return 0;
	if (mine->next >= mine->end) {
		f = bpf_map_lookup_elem(&frequencies, &e->frequency_slot);
		if (!f)
			return 0;
		mine->next = __sync_fetch_and_add(&f->next, FREQUENCY_BLOCK);
		mine->end = mine->next + FREQUENCY_BLOCK;
	}
	return mine->next++ % e->frequency_n < e->frequency_k;
}

/* Writes the prebuilt header after the IPv6 header, and completes its traces. */
static __always_inline int write_header(context *ctx, const struct encapsulation *e,
					const struct departure *departure, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 words;

	if (!e || !departure)
		return -1;
	words = e->header_length >> 3;
	if (words > MAX_COPIED_WORDS)
		store_bytes(ctx, p->l3 + IPV6_HEADER, e->header,
			    (e->header_length - 1 & (MAX_HEADER_INSERTION - 1)) + 1);
	packet_load(ctx, p);
	if (words <= MAX_COPIED_WORDS && !put_words(p, e, words))
		return -1;
	complete_header(ctx, p, e, departure);
	return 0;
}

/* The same in a call: at egress, the stack is small. */
__noinline int put_header(context *ctx, const struct encapsulation *e,
			  const struct departure *departure, __u32 l3)
{
	return write_header(ctx, e, departure, l3);
}

/*
 * What this node can say of a packet that it encapsulates, which came by this interface; NULL: it is not
 * known.
 */
static __always_inline int say_departure(context *ctx, const struct encapsulation *e,
					 const struct interface *in, __u32 hop_limit,
					 struct departure *d)
{
	if (!e || !d)
		return -1;
	d->hop.queue = e->wants_queue ? queue_depth(ctx) : UNAVAILABLE;
	d->hop.buffer = e->wants_buffer ? buffer_occupancy(ctx) : UNAVAILABLE;
	d->hop.ingress_id = in ? in->interface_id : 0xffff;
	d->hop.ingress_id_wide = in ? in->interface_id_wide : UNAVAILABLE;
	d->hop.hop_limit = hop_limit;
	if (!e->wants_time)
		return 0;
	d->hop.tai = tai_now();
	d->time = timestamp_of(d->hop.tai);
	return 0;
}

/* The same in a call: the verifier would follow all that comes later once for each way through it. */
__noinline int note_departure(context *ctx, const struct encapsulation *e,
			      const struct interface *in, __u32 hop_limit, struct departure *d)
{
	return say_departure(ctx, e, in, hop_limit, d);
}

static __always_inline struct departure departure_of(context *ctx, const struct packet *p,
						     const struct encapsulation *e,
						     const struct ipv6 *ip6)
{
	const struct interface *in =
		COMPLETES ? p->on : find_interface(tables_of(p->on->tables_index), p->arrived);
	struct departure departure = {};

	if (COMPLETES) /* there is little to say, and the stack is small */
		say_departure(ctx, e, in, ip6->hop_limit, &departure);
	else
		note_departure(ctx, e, in, ip6->hop_limit, &departure);
	if (NODE.mainline && !p->arrived) { /* the kernel does not stamp what this node generated */
		departure.hop.tai = 0;
		departure.time = (struct timestamp){};
	}
	return departure;
}

/* The bit of a destination in a filter of collectors: if it is not set, the destination is none. */
static __always_inline __u32 collector_bit(const __u64 *address)
{
	return (address[0] ^ address[1]) * FIBONACCI >> 58;
}

/*
 * Whether the packet goes to a collector of postcards: it would cause more of them (RFC 9326 §3.1.2).
 * Later fragments have no port: for them, the table has each collector with port 0, too.
 */
static __always_inline int is_to_collector(const struct packet *p, const struct ipv6 *ip6,
					   const struct headers *h)
{
	struct collector to = {};
	const __be16 *ports;

	if (!(tables_of(p->on->tables_index)->collector_bits >> collector_bit(ip6->destination) &
	      1) ||
	    !has_ports(h->next_header))
		return 0;
	ports = h->upper ? at(p, h->upper, 4) : 0;
	to.address[0] = ip6->destination[0];
	to.address[1] = ip6->destination[1];
	to.port = ports ? ports[1] : 0;
	to.protocol = h->next_header;
	to.tables_index = p->on->tables_index;
	return bpf_map_lookup_elem(&collectors, &to) != 0;
}

/*
 * Notes the flow of a packet that is to be encapsulated, and returns its hash. Not inlined: as
 * note_departure().
 */
__noinline __u32 note_own_flow(context *ctx, __u32 l3, const struct headers *h)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct draft *x = draft_here();
	const struct ipv6 *ip6;

	if (!x || !h)
		return 0;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return 0;
	note_flow(p, ip6, h, x, 0);
	x->postcard.length = packet_length(ctx, p);
	x->hash = flow_hash(&x->postcard.key);
	return x->hash;
}

/* What decides whether the packet's flow is one of those that the encapsulation takes. */
static __always_inline __u32 choice_of(context *ctx, const struct packet *p,
				       const struct encapsulation *e, const struct ipv6 *ip6,
				       const struct headers *h)
{
	return e->flows_by_label ? label_hash(ip6) : note_own_flow(ctx, p->l3, h);
}

/*
 * Writes the headers around the prebuilt one. In a tunnel, the packet's own header is after the room
 * that was made.
 */
static __always_inline enum outcome put_outer(struct packet *p, const struct encapsulation *e,
					      const struct growth *g, __u32 payload)
{
	struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	__u8 *last = at(p, IPV6_HEADER + ((__u32)e->last_header << 3), 8);
	const struct ipv6 *inner = ip6;

	if (g->tunnel)
		inner = at(p, g->bytes, IPV6_HEADER);
	if (!ip6 || !last || !inner)
		return OUTCOME_ENCAP_SKIPPED_HEADROOM;
	last[0] = g->tunnel ? NEXT_IPV6 : inner->next_header;
	ip6->next_header = e->first_header;
	ip6->payload_length = bpf_htons(payload > 0xffff ? 0 : payload);
	if (!g->tunnel)
		return e->inserted;
	ip6->class_label = inner->class_label;
	ip6->hop_limit = inner->hop_limit;
	ip6->source[0] = e->source[0];
	ip6->source[1] = e->source[1];
	ip6->destination[0] = e->destination[0];
	ip6->destination[1] = e->destination[1];
	return e->tunneled;
}

/*
 * Notes by how much the packet may grow besides the insertion. The parts of an offloaded one have no length
 * yet. Bits 16 to 23 of `mtu`: how many bytes are before the IPv6 header. Not inlined: see scan_options().
 */
__noinline int note_room(context *ctx, const struct growth *g, __u32 mtu)
{
	struct packet packet = {.l3 = mtu >> 16 & 0xff, .mtu = mtu}, *p = &packet;
	struct draft *d = draft_here();
	const struct ipv6 *ip6;
	__u32 length, most;

	if (!d || !g)
		return -1;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return -1;
	length = packet_length(ctx, p) + g->bytes;
	most = path_room(ctx, p, ip6, g);
	d->room = most > length ? most - length : 0;
	if (packet_is_to_be_cut(ctx))
		d->room = MAX_HBH;
	return 0;
}

/* Notes an insertion, and begins its postcards, which are made once it is complete. */
static __always_inline void note_insertion(context *ctx, const struct packet *p,
					   const struct encapsulation *e, const struct hop *hop,
					   enum placement placed)
{
	struct draft *d = NODE.inserts_dex ? begin_postcard(p, NODE_ENCAPSULATING, p->arrived,
							    OUT(p, ifindex), hop)
					   : draft_here();

	if (!d)
		return;
	if (NODE.inserts_dex)
		note_segments(ctx, d);
	d->inserted =
		e->has_dex || e->has_proof || e->e2e_options || e->loopback || e->has_incremental
			? e->index
			: NO_RULE;
	d->placed = placed;
}

/* Completes the inserted options, if the packet was encapsulated. */
static __always_inline void complete_insertion(context *ctx, const struct packet *p,
					       enum outcome outcome)
{
	if (outcome >= OUTCOME_ENCAP_INSERTED && outcome <= OUTCOME_ENCAP_OVERFLOW)
		insert_options(ctx, p);
}

/* Whether each packet needs options of its own, with a number: an offloaded frame cannot have them. */
static __always_inline int is_numbered(const struct encapsulation *e)
{
	return (NODE.inserts_proofs && e->has_proof) || (NODE.inserts_e2e && e->e2e_options);
}

/* Whether the rule may not act on the packet: it carries IOAM already. */
static __always_inline int is_taken(const struct packet *p, const struct encapsulation *e)
{
	return NODE.nests && p->nested && !e->nested;
}

/* Whether the options go into the packet's first header, of a type, which the packet had before. */
static __always_inline int merges(const struct encapsulation *e, const struct growth *g, __u8 first)
{
	return !g->tunnel && (first == NEXT_HBH ||
			      (NODE.inserts_e2e && first == NEXT_DESTINATION && e->e2e_options));
}

/*
 * Whether options in this packet can be removed again (docs/data-plane/encapsulation.md#removable).
 * Not inlined: the stack is small.
 */
__noinline int is_removable(context *ctx, __u32 l3, __u32 tables_index, __u32 inserts_e2e)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	const struct ipv6 *ip6;
	const __u8 *header;
	__u32 before = 0;
	__u8 next;

	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return 0;
	next = ip6->next_header;
	if (next == NEXT_HBH) {
		header = at(p, IPV6_HEADER, 8);
		if (!header)
			return 0;
		before = ((__u32)header[1] + 1) << 3;
		next = header[0];
		if (next == NEXT_HBH)
			return 0;
	}
	if (next != NEXT_DESTINATION)
		return 1;
	if (E2E_ERROR(read_destination(ctx, p->l3, before, next, tables_index | READ_FOR_OTHERS)))
		return 0;
	packet_load(ctx, p);
	header = at(p, IPV6_HEADER + before, 8);
	return !inserts_e2e || !header || header[0] != NEXT_HBH;
}

/* Whether options that are inserted inline would stay in the packet where they are to be removed. */
static __always_inline int is_unremovable(context *ctx, struct packet *p,
					  const struct encapsulation *e, __u8 first)
{
	int removable;

	/* what is forwarded here has no such header, or IOAM in it */
	if (COMPLETES || !NODE.inserts_inline)
		return 0;
	if (p->faulty)
		return 1;
	if (first != NEXT_HBH && first != NEXT_DESTINATION)
		return 0;
	removable = is_removable(ctx, p->l3, p->on->tables_index, e->e2e_options);
	packet_load(ctx, p);
	return !removable;
}

/* Writes the options into the room that was made for them. */
static __always_inline enum outcome
put_options(context *ctx, struct packet *p, const struct encapsulation *e, const struct merging *m,
	    const struct departure *departure, const struct growth *g, __u32 payload)
{
	if (m)
		put_merged(ctx, e, departure, p->l3, payload);
	else if (COMPLETES)
		write_header(ctx, e, departure, p->l3);
	else
		put_header(ctx, e, departure, p->l3);
	packet_load(ctx, p);
	return m ? e->inserted : put_outer(p, e, g, payload);
}

/* Whether a rule puts a tunnel around the packet: not inline, and with `auto` not past its segments. */
static __always_inline int makes_tunnel(const struct packet *p, const struct encapsulation *e,
					const struct headers *h)
{
	return e->mode == MODE_ENCAP || (e->mode == MODE_AUTO && p->arrived && !h->has_segments);
}

/* Why no rule acts on a packet, whatever it inserts; OUTCOME_NO_IOAM: it may. */
static __always_inline enum outcome exclude(const struct packet *p, const struct ipv6 *ip6,
					    const struct headers *h, int tunnel)
{
	if (is_control(p, ip6, h, tunnel))
		return OUTCOME_ENCAP_SKIPPED_CONTROL;
	if (is_to_collector(p, ip6, h))
		return OUTCOME_ENCAP_SKIPPED_EXPORT;
	if (tunnel && h->has_segments) /* it would bypass those before its end */
		return OUTCOME_ENCAP_SKIPPED_SEGMENTS;
	return OUTCOME_NO_IOAM;
}

static __always_inline enum outcome encapsulate(context *ctx, struct packet *p)
{
	struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	struct growth g = {};
	const struct encapsulation *e;
	enum outcome outcome;
	struct headers h;
	struct departure departure;
	const struct merging *m = 0;
	__u32 payload, authenticated;

	if (!ip6)
		return OUTCOME_NO_IOAM;
	if (is_extension(ip6->next_header)) {
		packet_pull(ctx, p, u32_min(packet_length(ctx, p), UPPER_LAYER_REACH));
		ip6 = at(p, 0, IPV6_HEADER);
		if (!ip6)
			return OUTCOME_NO_IOAM;
	}
	find_headers(ctx, p, ip6->next_header, IPV6_HEADER, &h);
	e = find_encapsulation(ctx, p, ip6, &h);
	if (!e || is_taken(p, e))
		return OUTCOME_NO_IOAM;
	g.tunnel = makes_tunnel(p, e, &h);
	g.bytes = e->header_length + (g.tunnel ? IPV6_HEADER : 0);
	g.path_mtu = g.tunnel ? e->path_mtu : 0;
	outcome = exclude(p, ip6, &h, g.tunnel);
	if (outcome != OUTCOME_NO_IOAM)
		return outcome;
	if (e->flows_below && choice_of(ctx, p, e, ip6, &h) >= e->flows_below)
		return OUTCOME_ENCAP_NOT_SELECTED;
	authenticated = !g.tunnel && is_authenticated(&h);
	if (!authenticated && must_leave_to_stack(ctx, p, &g)) {
		p->left = 1;
		return OUTCOME_NO_IOAM;
	}
	if (!is_selected(e))
		return OUTCOME_ENCAP_NOT_SELECTED;
	if (authenticated)
		return OUTCOME_ENCAP_SKIPPED_AH;
	if (!g.tunnel && is_unremovable(ctx, p, e, ip6->next_header))
		return OUTCOME_ENCAP_SKIPPED_UNREMOVABLE;
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return OUTCOME_NO_IOAM;
	if (merges(e, &g, ip6->next_header)) {
		outcome = begin_merging(ctx, p, e, ip6->next_header, &m);
		ip6 = at(p, 0, IPV6_HEADER);
		if (!m || !ip6)
			return outcome;
		g.bytes = m->growth;
	}
	if (is_numbered(e) && packet_is_to_be_cut(ctx)) /* all segments would have one number */
		return OUTCOME_ENCAP_SKIPPED_GSO;
	outcome = may_grow(ctx, p, ip6, &h, &g);
	if (outcome != OUTCOME_NO_IOAM)
		return outcome;
	if (NODE.has_budgets && e->has_budget &&
	    !may_spend(e, OUT(p, slot), g.bytes, parts_of(ctx, p)))
		return OUTCOME_ENCAP_NOT_SELECTED;
	if (NODE.inserts_dex && e->has_dex && (!e->flows_below || e->flows_by_label))
		note_own_flow(ctx, p->l3, &h);
	if (NODE.inserts_growing && e->has_incremental)
		note_room(ctx, &g, p->mtu | (__u32)p->l3 << 16);
	departure = departure_of(ctx, p, e, ip6);
	payload = bpf_ntohs(ip6->payload_length) ?: packet_length(ctx, p) - IPV6_HEADER;
	outcome = packet_grow(ctx, p, &g, &h);
	if (outcome != OUTCOME_NO_IOAM)
		return outcome;
	outcome = put_options(ctx, p, e, m, &departure, &g, payload + g.bytes);
	if (NODE.inserts_dex || NODE.inserts_proofs || NODE.inserts_e2e || NODE.asks_loopback ||
	    NODE.inserts_growing)
		note_insertion(ctx, p, e, &departure.hop,
			       m && m->type == NEXT_HBH ? PLACED_IN_HEADER
			       : g.tunnel		? PLACED_IN_TUNNEL
							: PLACED_INLINE);
	packet_grown(ctx, p, &g);
	return outcome;
}

#endif
