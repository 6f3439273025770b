// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Insertion of a prebuilt Hop-by-Hop header, inline or behind an outer IPv6 header. Included behind
 * grow_xdp.h or grow_skb.h, which make the room.
 */
#ifndef WAYMARK_ENCAP_H
#define WAYMARK_ENCAP_H

#include "export.h"
#include "match.h"
#include "trace.h"

static __always_inline __u32 u32_min(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

/* First k of every n, over all CPUs, each of which uses the numbers of a block before the next. */
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

/* Longer headers are written by the helper: its call costs as much as this many words. */
#define MAX_COPIED_WORDS 10

#define PATCH(field, bytes, action)                                              \
	do {                                                                     \
		if (patch->field) {                                              \
			__be32 *word = at(p, IPV6_HEADER + patch->field, bytes); \
			if (!word)                                               \
				return 0;                                        \
			action;                                                  \
		}                                                                \
	} while (0)

/* What of the node data is only known per packet. */
struct values {
	__u64 tai; /* 0 = the time is not to be told */
	struct timestamp time;
	__u32 queue;
	__u32 ingress_id_wide;
	__u16 ingress_id;
	__u8 hop_limit;
};

/*
 * Writes the prebuilt header behind the IPv6 header, word by word unless it is long, and patches
 * it. Not inlined: see scan_options().
 */
__noinline int put_header(context *ctx, const struct encapsulation *e, const struct values *v,
			  __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 words;

	if (!e || !v)
		return -1;
	words = e->header_length >> 3;
	if (words > MAX_COPIED_WORDS)
		store_bytes(ctx, p->l3 + IPV6_HEADER, e->header,
			    (e->header_length - 1 & (MAX_HEADER_INSERTION - 1)) + 1);
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; words <= MAX_COPIED_WORDS && i < MAX_COPIED_WORDS && i < words; i++) {
		__u64 *to = at(p, IPV6_HEADER + 8 * i, 8);

		if (!to)
			return -1;
		*to = e->header[i];
	}
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < e->options; i++) {
		const struct patch *patch = &e->patches[i];

		PATCH(hop_limit, 1, *(__u8 *)word = v->hop_limit);
		PATCH(ingress_id, 2, *(__be16 *)word = bpf_htons(v->ingress_id));
		if (v->tai) {
			PATCH(seconds, 4, *word = bpf_htonl(v->time.seconds));
			PATCH(fraction, 4, *word = bpf_htonl(v->time.fraction));
		}
		PATCH(queue, 4, *word = bpf_htonl(v->queue));
		PATCH(hop_limit_wide, 1, *(__u8 *)word = v->hop_limit);
		PATCH(ingress_id_wide, 4, *word = bpf_htonl(v->ingress_id_wide));
	}
	return 0;
}

static __always_inline void gather(context *ctx, const struct packet *p,
				   const struct encapsulation *e, struct values *v)
{
	const struct interface *in =
		COMPLETES ? p->on : find_interface(tables_of(p->on->half), p->arrived);

	v->queue = e->wants_queue ? queue_depth(ctx) : 0;
	v->ingress_id = in ? in->interface_id : 0xffff;
	v->ingress_id_wide = in ? in->interface_id_wide : UNAVAILABLE;
	/* the kernel does not stamp what this node generated */
	if (!e->wants_time || (NODE.mainline && !p->arrived))
		return;
	v->tai = tai_now();
	v->time = timestamp_of(v->tai);
}

/* Most packets' bit is not that of any collector. */
static __always_inline __u32 collector_bit(const __u64 *address)
{
	return (address[0] ^ address[1]) * FIBONACCI >> 58;
}

/*
 * A packet to a collector of exports: it would cause more of them (RFC 9326 §3.1.2). Later
 * fragments have no port; collectors are there with port 0, too.
 */
static __always_inline int is_export_packet(const struct packet *p, const struct ipv6 *ip6,
					    const struct upper *u)
{
	struct collector to = {};
	const __be16 *ports;

	if (!(tables_of(p->on->half)->collector_bits >> collector_bit(ip6->destination) & 1) ||
	    !has_ports(u->next_header))
		return 0;
	ports = u->offset ? at(p, u->offset, 4) : 0;
	to.address[0] = ip6->destination[0];
	to.address[1] = ip6->destination[1];
	to.port = ports ? ports[1] : 0;
	to.protocol = u->next_header;
	to.half = p->on->half;
	return bpf_map_lookup_elem(&collectors, &to) != 0;
}

/* Notes the flow of a packet that is to be encapsulated; its hash. */
static __always_inline __u32 note_own_flow(context *ctx, const struct packet *p,
					   const struct ipv6 *ip6, const struct upper *u)
{
	struct exporting *x = export_here();

	if (!x)
		return 0;
	note_flow(p, ip6, u, x, 0);
	x->postcard.length = packet_length(ctx, p);
	x->hash = flow_hash(&x->postcard.key);
	return x->hash;
}

/* What decides whether the packet's flow is one of those that the encapsulation takes. */
static __always_inline __u32 choice_of(context *ctx, const struct packet *p,
				       const struct encapsulation *e, const struct ipv6 *ip6,
				       const struct upper *u)
{
	return e->flows_by_label ? label_hash(ip6) : note_own_flow(ctx, p, ip6, u);
}

static __always_inline __u32 flow_id_of(const struct exporting *x, const struct patch *patch)
{
	switch (patch->flow_id_source) {
	case FLOW_ID_LABEL:
		return bpf_ntohl(x->postcard.key.flow_label);
	case FLOW_ID_FIXED:
		return patch->fixed_flow_id;
	}
	return x->hash;
}

/*
 * Completes the Direct Exports of the header that was inserted last, and exports for them. Not
 * inlined: see scan_options().
 */
__noinline int put_exports(context *ctx, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct exporting *x = export_here();
	const struct encapsulation *e;
	int wanted;

	if (!x)
		return -1;
	e = bpf_map_lookup_elem(&encapsulations, &x->inserted);
	if (!e)
		return -1;
	wanted = NODE.has_exports && are_records_wanted();
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < e->options; i++) {
		const struct patch *patch = &e->patches[i];
		__u32 header, type, flow_id, sequence = 0;
		__be32 *word;

		if (!patch->direct_export)
			continue;
		word = at(p, IPV6_HEADER + patch->direct_export, 8);
		if (!word)
			return -1;
		header = bpf_ntohl(word[0]);
		type = bpf_ntohl(word[1]);
		flow_id = flow_id_of(x, patch);
		if (patch->sequence)
			sequence = take_sequence(header >> 16, flow_id);
		PATCH(flow_id, 4, *word = bpf_htonl(flow_id));
		PATCH(sequence, 4, *word = bpf_htonl(sequence));
		if (wanted)
			export_option(header, type, flow_id, sequence);
	}
	return 0;
}

/*
 * Writes what the prebuilt header does not hold: the headers around it. In a tunnel, the packet's
 * own header is behind the room that was made.
 */
static __always_inline enum outcome put_outer(struct packet *p, const struct encapsulation *e,
					      const struct growth *g, __u32 payload)
{
	struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	__u8 *hbh = at(p, IPV6_HEADER, 8);
	const struct ipv6 *inner = ip6;

	if (g->tunnel)
		inner = at(p, g->bytes, IPV6_HEADER);
	if (!ip6 || !hbh || !inner)
		return OUTCOME_ENCAP_SKIPPED_HEADROOM;
	hbh[0] = g->tunnel ? NEXT_IPV6 : inner->next_header;
	ip6->next_header = NEXT_HBH;
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

/* What is to be told of the insertion, once it is done. */
static __always_inline void note_insertion(context *ctx, const struct packet *p,
					   const struct encapsulation *e, const struct values *v)
{
	struct exporting *x =
		begin_export(p, ROLE_ENCAPSULATING, p->arrived, OUT(p, ifindex), v->hop_limit);

	if (!x)
		return;
	x->postcard.time = v->tai;
	x->queue = e->wants_queue ? v->queue : UNAVAILABLE;
	note_segments(ctx, x);
	x->inserted = e->has_exports ? e->index : NO_RULE;
}

/*
 * What is left to do for a packet that may have been encapsulated. Apart from encapsulate(),
 * because the stack is small.
 */
static __always_inline void complete_insertion(context *ctx, const struct packet *p,
					       enum outcome outcome)
{
	struct exporting *x;

	if (!NODE.inserts_exports || outcome < OUTCOME_ENCAP_INSERTED ||
	    outcome > OUTCOME_ENCAP_OVERFLOW)
		return;
	x = export_here();
	if (x && x->inserted != NO_RULE)
		put_exports(ctx, p->l3);
}

static __always_inline enum outcome encapsulate(context *ctx, struct packet *p)
{
	struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	struct growth g = {};
	const struct encapsulation *e;
	enum outcome outcome;
	struct values v = {};
	struct upper u;
	__u32 payload;

	if (!ip6)
		return OUTCOME_NO_IOAM;
	if (is_extension(ip6->next_header)) {
		packet_pull(ctx, p, u32_min(packet_length(ctx, p), UPPER_LAYER_REACH));
		ip6 = at(p, 0, IPV6_HEADER);
		if (!ip6)
			return OUTCOME_NO_IOAM;
	}
	u = find_upper(ctx, p, ip6->next_header, IPV6_HEADER);
	e = find_encapsulation(ctx, p, ip6, &u);
	if (!e)
		return OUTCOME_NO_IOAM;
	g.tunnel = e->mode == MODE_ENCAP || (e->mode == MODE_AUTO && p->arrived);
	g.bytes = e->header_length + (g.tunnel ? IPV6_HEADER : 0);
	g.path_mtu = g.tunnel ? e->path_mtu : 0;
	if (is_control(p, ip6, &u, g.tunnel))
		return OUTCOME_ENCAP_SKIPPED_CONTROL;
	if (is_export_packet(p, ip6, &u))
		return OUTCOME_ENCAP_SKIPPED_EXPORT;
	if (e->flows_below && choice_of(ctx, p, e, ip6, &u) >= e->flows_below)
		return OUTCOME_ENCAP_NOT_SELECTED;
	if (is_stacks_business(ctx, p, &g))
		return OUTCOME_LEFT_TO_STACK;
	if (!is_selected(e))
		return OUTCOME_ENCAP_NOT_SELECTED;
	if (!g.tunnel && ip6->next_header == NEXT_HBH)
		return OUTCOME_ENCAP_SKIPPED_HBH;
	outcome = may_grow(ctx, p, ip6, &u, &g);
	if (outcome != OUTCOME_NO_IOAM)
		return outcome;
	if (NODE.inserts_exports && e->has_exports && (!e->flows_below || e->flows_by_label))
		note_own_flow(ctx, p, ip6, &u);
	gather(ctx, p, e, &v);
	v.hop_limit = ip6->hop_limit;
	payload = bpf_ntohs(ip6->payload_length);
	if (!payload)
		payload = packet_length(ctx, p) - IPV6_HEADER;
	outcome = packet_grow(ctx, p, &g, &u);
	if (outcome != OUTCOME_NO_IOAM)
		return outcome;
	put_header(ctx, e, &v, p->l3);
	packet_load(ctx, p);
	outcome = put_outer(p, e, &g, payload + g.bytes);
	if (NODE.inserts_exports)
		note_insertion(ctx, p, e, &v);
	packet_grown(ctx, p, &g);
	return outcome;
}

#endif
