// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which encapsulation a packet gets: chains of rules, the longest destination prefix first. */
#ifndef WAYMARK_MATCH_H
#define WAYMARK_MATCH_H

#include "headers.h"
#include "lookup.h"

/* What a rule asks of the upper layer, looked up once per packet. */
struct ports {
	__u16 source;
	__u16 destination;
	__u8 known;
};

static __always_inline int rule_matches(const struct ipv6 *ip6, const struct rule *r,
					const struct headers *h, const struct ports *ports)
{
	if (((ip6->destination[0] ^ r->destination[0]) & r->destination_mask[0]) |
	    ((ip6->destination[1] ^ r->destination[1]) & r->destination_mask[1]) |
	    ((ip6->source[0] ^ r->source[0]) & r->source_mask[0]) |
	    ((ip6->source[1] ^ r->source[1]) & r->source_mask[1]) |
	    ((ip6->class_label ^ r->class_label) & r->class_label_mask))
		return 0;
	if (!ports)
		return 1;
	if (r->has_next_header && r->next_header != h->next_header)
		return 0;
	return !r->has_ports || (ports->known && ports->source >= r->source_port_from &&
				 ports->source <= r->source_port_to &&
				 ports->destination >= r->destination_port_from &&
				 ports->destination <= r->destination_port_to);
}

static __always_inline __u32 first_rule(const struct packet *p, const struct ipv6 *ip6)
{
	struct rule_key key;
	__u32 *first;

	if (!OUT(p, has_trie))
		return OUT(p, first_rule);
	key.prefix_length = 32 + 128;
	key.tree = OUT(p, first_rule);
	__builtin_memcpy(key.destination, ip6->destination, 16);
	first = bpf_map_lookup_elem(&rule_trie, &key);
	return first ? *first : NO_RULE;
}

/* Walks a chain of rules: index of the encapsulation, or -1. Not inlined: see scan_options(). */
__noinline int find_rule(context *ctx, __u32 l3, __u32 index, const struct headers *h)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct ports ports = {};
	const struct ipv6 *ip6;
	const __be16 *word;

	if (!h)
		return -1;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return -1;
	if (h->upper && has_ports(h->next_header)) {
		word = at(p, h->upper, 4);
		if (word) {
			ports.source = bpf_ntohs(word[0]);
			ports.destination = bpf_ntohs(word[1]);
			ports.known = 1;
		}
	}
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_ENCAP_OVERLAP; i++) {
		struct rule *r = bpf_map_lookup_elem(&rules, &index);

		if (!r)
			return -1;
		if (rule_matches(ip6, r, h, &ports))
			return r->encapsulation;
		index = r->next;
	}
	return -1;
}

/* The encapsulation that acts on the packet, or NULL. Mostly it is the first rule's, and no call is made. */
static __always_inline struct encapsulation *find_encapsulation(context *ctx,
								const struct packet *p,
								const struct ipv6 *ip6,
								const struct headers *h)
{
	__u32 index = first_rule(p, ip6);

	if (!OUT(p, needs_upper)) {
		struct rule *r = bpf_map_lookup_elem(&rules, &index);

		if (!r)
			return 0;
		if (rule_matches(ip6, r, h, 0))
			return bpf_map_lookup_elem(&encapsulations, &r->encapsulation);
		index = r->next;
		if (index == NO_RULE)
			return 0;
	}
	index = find_rule(ctx, p->l3, index, h);
	return bpf_map_lookup_elem(&encapsulations, &index);
}

/*
 * Packets that a network's own working hangs on, which no operator means to tag; and those that the
 * end of a tunnel would refuse.
 */
static __always_inline int is_control(const struct packet *p, const struct ipv6 *ip6,
				      const struct headers *h, int tunnel)
{
	const __u8 *type;

	if (is_link_scoped(ip6) || !(ip6->source[0] | ip6->source[1]))
		return 1;
	if (tunnel && (!ip6->source[0] || !ip6->destination[0]))
		return 1;
	if (h->next_header != NEXT_ICMPV6 || !h->upper)
		return tunnel && is_extension(h->next_header);
	type = at(p, h->upper, 1);
	return type ? *type < 128 || is_link_type(*type) : tunnel;
}

#endif
