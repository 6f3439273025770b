// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The ends of tunnels: which packets are decapsulated here, and which the domain's edge drops
 * (docs/data-plane/tunnel-ends.md).
 */
#ifndef WAYMARK_TUNNEL_END_H
#define WAYMARK_TUNNEL_END_H

#include "boundary_policy.h"
#include "edit.h"
#include "headers.h"
#include "hook.h"
#include "options.h"

#define ECN_MASK bpf_htonl(0x00300000)
#define ECN_CE	 bpf_htonl(0x00300000)
#define ECN_ECT0 bpf_htonl(0x00200000)
#define ECN_ECT1 bpf_htonl(0x00100000)

/*
 * Cuts the outer headers off. What routers wrote into them is kept: congestion (RFC 6040 §4.2), and
 * the hop limit, so that loops end, traceroute counts as without the tunnel, and a packet from afar
 * does not seem to be a neighbour's (RFC 5082).
 */
static __always_inline int remove_tunnel(context *ctx, struct packet *p, __u32 length)
{
	const struct ipv6 *outer = at(p, 0, IPV6_HEADER);
	struct ipv6 *inner = at(p, length, IPV6_HEADER);
	__be32 ecn, own, *word;

	if (!outer || !inner)
		return -1;
	if (outer->hop_limit < inner->hop_limit) {
		word = (__be32 *)&inner->payload_length; /* the hop limit is its last byte */
		put32(p, word, (*word & bpf_htonl(0xffffff00)) | bpf_htonl(outer->hop_limit));
	}
	ecn = outer->class_label & ECN_MASK;
	own = inner->class_label & ECN_MASK;
	if (own && (ecn == ECN_CE || (ecn == ECN_ECT1 && own == ECN_ECT0)))
		put32(p, &inner->class_label, (inner->class_label & ~ECN_MASK) | ecn);
	packet_commit_sum(ctx, p);
	return packet_remove(ctx, p, 0, length);
}

/* Looks up one of several tunnel destinations. Not inlined: the stack is small. */
__noinline int find_end(__u64 high, __u64 low, __u32 tables_index, struct tunnel_end *end)
{
	struct destination_key key = {.address = {high, low}, .tables_index = tables_index};
	const struct tunnel_end *found = bpf_map_lookup_elem(&decapsulations, &key);

	if (!found || !end)
		return 0;
	*end = *found;
	return 1;
}

/* Whether a destination is one of several that are guarded. Not inlined: the stack is small. */
__noinline int is_guarded(__u64 high, __u64 low, __u32 tables_index)
{
	struct destination_key key = {.address = {high, low}, .tables_index = tables_index};

	return bpf_map_lookup_elem(&tunnel_destinations, &key) != 0;
}

/* Whether this node ends the tunnel that holds the packet, and what it takes there. */
static __always_inline int ends_here(const struct packet *p, const struct ipv6 *ip6, __u8 next,
				     __u32 offset, struct tunnel_end *end)
{
	const struct tables *t;
	const __u8 *inner;

	if (!NODE.has_decapsulations || !(p->on->roles & ROLE_INGRESS) || next != NEXT_IPV6)
		return 0;
	inner = at(p, offset, IPV6_HEADER);
	if (!inner || inner[0] >> 4 != 6)
		return 0;
	t = tables_of(p->on->tables_index);
	if (t->decapsulations == 1) {
		*end = t->end;
		return ip6->destination[0] == t->decapsulation[0] &&
		       ip6->destination[1] == t->decapsulation[1];
	}
	return find_end(ip6->destination[0], ip6->destination[1], p->on->tables_index, end);
}

/* Whether a tunnel's packet is there in full, and the packet in it, at an offset, is within it. */
static __always_inline int is_whole(context *ctx, const struct packet *p, const struct ipv6 *ip6,
				    __u32 offset)
{
	const struct ipv6 *inner = at(p, offset, IPV6_HEADER);
	__u32 payload = bpf_ntohs(ip6->payload_length), end;

	if (!inner)
		return 0;
	end = offset + IPV6_HEADER + bpf_ntohs(inner->payload_length);
	if (payload) {
		if (end > IPV6_HEADER + payload)
			return 0;
		end = IPV6_HEADER + payload;
	}
	return bytes_at_hand(p) >= end || packet_length(ctx, p) >= end;
}

/* Whether the outer source is in one of the prefixes. Not inlined: see scan_options(). */
__noinline int is_from_source(context *ctx, __u32 l3, __u32 first, __u32 sources)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	const struct ipv6 *ip6;

	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_TUNNEL_SOURCES && i < sources; i++) {
		__u32 index = first + i;
		struct source_prefix *prefix = bpf_map_lookup_elem(&tunnel_sources, &index);

		if (!prefix)
			return 0;
		if (!(((ip6->source[0] ^ prefix->address[0]) & prefix->mask[0]) |
		      ((ip6->source[1] ^ prefix->address[1]) & prefix->mask[1])))
			return 1;
	}
	return 0;
}

/* Whether an option is one that this node treats, of a namespace that it knows. */
static __always_inline int is_known(const struct options *o, const struct option *option)
{
	return option->kind != KIND_OTHER && namespace_of(o, option);
}

/* Whether some option is. Not inlined: see scan_options(). */
__noinline int is_some_known(const struct options *o)
{
	if (!o)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		if (is_known(o, &o->options[i]))
			return 1;
	}
	return 0;
}

/*
 * Whether the inner packet, at an offset, has an upper layer that is of a link alone. Not inlined:
 * see scan_options().
 */
__noinline int has_link_message(context *ctx, __u32 l3, __u32 offset)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 inside = (offset & 0xfff) + IPV6_HEADER, whole, reach = inside + UPPER_LAYER_REACH;
	const struct ipv6 *inner;
	struct headers h;

	packet_load(ctx, p);
	whole = packet_length(ctx, p);
	packet_pull(ctx, p, whole < reach ? whole : reach);
	inner = at(p, offset & 0xfff, IPV6_HEADER);
	if (!inner)
		return 1;
	find_headers(ctx, p, inner->next_header, inside, &h);
	return is_link_message(p, &h);
}

/* Whether one of the options is known, of which there may be none. */
static __always_inline int has_known_option(const struct options *o)
{
	if (!o)
		return 0;
	return o->count == 1 ? is_known(o, &o->options[0]) : is_some_known(o);
}

/*
 * What becomes of a packet whose next header, after a Hop-by-Hop header of `length` bytes with the
 * options *o, is given: OUTCOME_NO_IOAM if it is in no tunnel that ends here. `known`: one of the
 * options is.
 */
static __always_inline enum outcome find_tunnel(context *ctx, struct packet *p, __u8 next,
						__u32 length, const struct options *o, int known)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER), *inner;
	__u32 offset = IPV6_HEADER + length;
	struct tunnel_end end;
	enum outcome outcome;

	if (!ip6 || !ends_here(p, ip6, next, offset, &end))
		return OUTCOME_NO_IOAM;
	if (!is_whole(ctx, p, ip6, offset))
		return OUTCOME_MALFORMED_TUNNEL;
	if (NODE.has_sources && end.sources &&
	    !is_from_source(ctx, p->l3, end.first_source, end.sources))
		return OUTCOME_DECAP_REFUSED_SOURCE;
	if (!end.bare && !known && !has_known_option(o))
		return OUTCOME_DECAP_REFUSED_BARE;
	inner = at(p, offset, IPV6_HEADER);
	if (!inner || has_local_address(inner))
		return OUTCOME_DECAP_REFUSED_INNER;
	if (inner->next_header != NEXT_ICMPV6 && !is_extension(inner->next_header))
		return OUTCOME_TUNNEL_DECAPSULATED;
	outcome = has_link_message(ctx, p->l3, offset) ? OUTCOME_DECAP_REFUSED_INNER
						       : OUTCOME_TUNNEL_DECAPSULATED;
	packet_load(ctx, p);
	return outcome;
}

/*
 * Whether an outsider's packet is, or may be, in a tunnel to one of the domain's ends. Other
 * packets to the same address pass.
 */
static __always_inline int is_guarded_tunnel(context *ctx, struct packet *p)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	const struct tables *t;
	__u32 whole;
	struct headers h;
	__u8 next;

	if (!drops_ioam(p, ROLE_INGRESS) || default_policy(p->on) != BOUNDARY_DROP || !ip6)
		return 0;
	next = ip6->next_header;
	if (next != NEXT_IPV6 && !is_extension(next))
		return 0;
	t = tables_of(p->on->tables_index);
	if (!t->tunnels_guarded)
		return 0;
	if (t->tunnels_guarded == 1) {
		if (ip6->destination[0] != t->guarded[0] || ip6->destination[1] != t->guarded[1])
			return 0;
	} else if (!is_guarded(ip6->destination[0], ip6->destination[1], p->on->tables_index)) {
		return 0;
	}
	if (next == NEXT_IPV6)
		return 1;
	whole = packet_length(ctx, p);
	packet_pull(ctx, p, whole < UPPER_LAYER_REACH ? whole : UPPER_LAYER_REACH);
	find_headers(ctx, p, next, IPV6_HEADER, &h);
	return h.next_header == NEXT_IPV6 || is_extension(h.next_header);
}

#endif
