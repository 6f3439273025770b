// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Fast forwarding: where a packet goes, found without the stack (docs/data-plane.md, "Fast
 * forwarding"). Whatever is not plainly a router's everyday packet is left to the stack. Included
 * behind forward_xdp.h or forward_skb.h.
 */
#ifndef WAYMARK_FORWARD_H
#define WAYMARK_FORWARD_H

#include "ipv6.h"
#include "lookup.h"

#define AF_INET6	     10
#define CLASS_LABEL_MASK     bpf_htonl(0x0fffffff)
#define ICMPV6_ECHO_REQUEST  128
#define ICMPV6_ECHO_REPLY    129
#define SECOND_MULTIPLIER    0xc2b2ae3d27d4eb4fULL
#define NEIGHBOUR_USED_EVERY 500 /* units of 2^20 ns */

/* The way out that was found for a packet. */
struct path {
	__u32 ifindex;
	__u32 mtu;
	__u32 macs[3];
};

/* What is looked for beside the packet's own fields. */
struct wanted {
	__u32 tag;
	__u32 from; /* the interface of arrival */
	__u32 now;  /* units of 2^20 ns */
	__u16 key;
	__u16 mtu; /* what the kernel says is true up to here */
};

/*
 * Generation and interface of arrival in one word: multiples of the golden ratio lie so far apart
 * that two interfaces' tags meet only after a million changes, and no next hop is used that long.
 */
static __always_inline __u32 next_hop_tag(__u32 generation, __u32 from)
{
	return generation + from * FIBONACCI_32;
}

static __always_inline struct next_hop_set *find_set(const struct ipv6 *ip6, const struct wanted *w)
{
	__u64 h = (ip6->destination[0] ^ NODE.hash_seed) * FIBONACCI;
	__u32 index;

	h = (h ^ h >> 32 ^ ip6->destination[1]) * SECOND_MULTIPLIER;
	if (w->key & KEY_FLOW) {
		h = (h ^ h >> 32 ^ ip6->source[0]) * FIBONACCI;
		h = (h ^ h >> 32 ^ ip6->source[1]) * SECOND_MULTIPLIER;
		h = (h ^ h >> 32 ^ ip6->class_label ^ ip6->next_header) * FIBONACCI;
	}
	/* only the highest bits of a product depend on all of its factors' */
	index = bpf_get_smp_processor_id() * NODE.next_hop_sets +
		(__u32)((h >> 32) * NODE.next_hop_sets >> 32);
	return bpf_map_lookup_elem(&next_hops, &index);
}

static __always_inline int is_wanted(const struct next_hop *n, const struct ipv6 *ip6,
				     const struct wanted *w)
{
	if (n->tag != w->tag || n->destination[1] != ip6->destination[1] ||
	    n->destination[0] != ip6->destination[0] || w->now - n->checked >= NEXT_HOP_AGE)
		return 0;
	return !(w->key & KEY_FLOW) ||
	       (n->source[0] == ip6->source[0] && n->source[1] == ip6->source[1] &&
		n->class_label == ip6->class_label && n->next_header == ip6->next_header);
}

static __always_inline enum stack_reason reason_of(long result)
{
	if (result == BPF_FIB_LKUP_RET_NO_NEIGH)
		return STACK_NEIGHBOUR;
	return result == BPF_FIB_LKUP_RET_FRAG_NEEDED ? STACK_MTU : STACK_ROUTE;
}

/* A question to the kernel; its answer makes room for the neighbour: the stack is small. */
union lookup {
	struct bpf_fib_lookup fib;
	struct neighbour neighbour;
};

/* Tells the agent that the neighbour is in use, though the stack sees nothing of it. */
static __always_inline void use_neighbour(union lookup *lookup, const __u32 *now)
{
	__u32 ifindex = lookup->fib.ifindex, *used;
	__u64 address[2];

	__builtin_memcpy(address, lookup->fib.ipv6_dst, 16);
	lookup->neighbour.address[0] = address[0];
	lookup->neighbour.address[1] = address[1];
	lookup->neighbour.ifindex = ifindex;
	lookup->neighbour.pad = 0;
	used = bpf_map_lookup_elem(&neighbours, &lookup->neighbour);
	if (!used)
		bpf_map_update_elem(&neighbours, &lookup->neighbour, now, BPF_ANY);
	else if (*now - *used > NEIGHBOUR_USED_EVERY)
		*used = *now;
}

/*
 * What rules and hashes that look at ports get from the kernel's dissector: the upper layer, here
 * behind a Hop-by-Hop header at most. Nonzero: behind another header, where only the stack looks.
 */
static __always_inline int add_ports(const struct packet *p, struct bpf_fib_lookup *fib)
{
	__u32 offset = IPV6_HEADER;
	const __be16 *ports;
	const __u8 *hbh;

	if (fib->l4_protocol == NEXT_HBH) {
		hbh = at(p, offset, 8);
		if (!hbh)
			return -1;
		fib->l4_protocol = hbh[0];
		offset += ((__u32)hbh[1] + 1) << 3;
	}
	switch (fib->l4_protocol) {
	case NEXT_TCP:
	case NEXT_UDP:
	case NEXT_DCCP:
	case NEXT_ESP:
	case NEXT_SCTP:
	case NEXT_UDPLITE:
		break;
	default:
		return is_extension(fib->l4_protocol);
	}
	ports = at(p, offset, 4);
	if (!ports)
		return 0;
	fib->sport = ports[0];
	fib->dport = ports[1];
	return 0;
}

/* The set's first next hop that is of no use any more, else any. */
static __always_inline struct next_hop *find_victim(struct next_hop_set *set,
						    const struct wanted *w)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < NEXT_HOP_WAYS; i++) {
		struct next_hop *n = &set->ways[i];

		if (n->tag != w->tag || w->now - n->checked >= NEXT_HOP_AGE)
			return n;
	}
	return &set->ways[w->now & (NEXT_HOP_WAYS - 1)];
}

/* Asks the kernel, and keeps the answer in the set, if there is one. */
static __always_inline enum stack_reason ask_kernel(context *ctx, const struct packet *p,
						    const struct ipv6 *ip6, const struct wanted *w,
						    struct next_hop_set *set, struct path *path)
{
	union lookup lookup = {.fib = {.family = AF_INET6}};
	struct bpf_fib_lookup *fib = &lookup.fib;
	struct next_hop *n;
	long result;

	fib->ifindex = w->from;
	fib->tot_len = 1; /* fits; but for tc only a length brings back the path's MTU */
	fib->l4_protocol = ip6->next_header;
	fib->flowinfo = ip6->class_label & CLASS_LABEL_MASK;
	__builtin_memcpy(fib->ipv6_src, ip6->source, 16);
	__builtin_memcpy(fib->ipv6_dst, ip6->destination, 16);
	if (w->key & KEY_UNCACHED && add_ports(p, fib))
		return STACK_ROUTE;
	result = bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
	if (result < 0)
		return STACK_ROUTE;
	path->ifindex = result ? 0 : fib->ifindex;
	path->mtu = fib->mtu_result < w->mtu ? fib->mtu_result : w->mtu;
	if (result)
		path->mtu = reason_of(result);
	__builtin_memcpy(path->macs, fib->dmac, 6);
	__builtin_memcpy((void *)path->macs + 6, fib->smac, 6);
	if (!result)
		use_neighbour(&lookup, &w->now);
	if (!set)
		return STACK_NONE;
	n = find_victim(set, w);
	n->destination[0] = ip6->destination[0];
	n->destination[1] = ip6->destination[1];
	n->source[0] = ip6->source[0];
	n->source[1] = ip6->source[1];
	n->class_label = ip6->class_label;
	n->next_header = ip6->next_header;
	n->tag = w->tag;
	n->checked = w->now;
	n->ifindex = path->ifindex;
	n->mtu = path->mtu;
	n->macs[0] = path->macs[0];
	n->macs[1] = path->macs[1];
	n->macs[2] = path->macs[2];
	return STACK_NONE;
}

/* Whether the packet is one that a router forwards without looking twice (RFC 4291 §2.5, 2.7). */
static __always_inline enum stack_reason is_everyday(const struct packet *p, const struct ipv6 *ip6)
{
	const __u8 *ethernet = p->data, *type;

	if (p->data + ETHERNET_HEADER > p->end)
		return STACK_LINK;
	if (*(const __u32 *)ethernet != p->on->mac_head ||
	    *(const __u16 *)(ethernet + 4) != p->on->mac_tail)
		return STACK_LINK;
	if (ip6->hop_limit <= 1)
		return STACK_HOP_LIMIT;
	if (has_local_address(ip6))
		return STACK_PACKET;
	if (ip6->next_header == NEXT_ICMPV6) {
		type = at(p, IPV6_HEADER, 1);
		if (!type || (*type != ICMPV6_ECHO_REQUEST && *type != ICMPV6_ECHO_REPLY))
			return STACK_CONTROL;
	}
	return STACK_NONE;
}

/*
 * Where an untagged packet goes: the reason, if that is to the stack; else *path, whose interface
 * is 0 where its mtu is the reason. Not inlined: see scan_options().
 */
__noinline int find_next_hop(context *ctx, struct path *path, __u32 from)
{
	struct packet packet = {.l3 = ETHERNET_HEADER}, *p = &packet;
	__u64 now = bpf_ktime_get_coarse_ns();
	struct next_hop_set *set = 0;
	const struct forwarding *f;
	const struct ipv6 *ip6;
	struct wanted w = {};
	__u32 zero = 0;
	__s64 silent;

	f = bpf_map_lookup_elem(&forwarding, &zero);
	if (!f || !path)
		return STACK_AGENT;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return STACK_PACKET;
	/* the agent's clock may be ahead of this one by a tick */
	silent = now - f->alive;
	if (!f->alive || silent > (__s64)FORWARDING_HELPED_FOR || f->key & KEY_STACK)
		return STACK_AGENT;
	w.from = from;
	w.now = now >> 20;
	w.key = f->key;
	w.mtu = f->mtu;
	w.tag = next_hop_tag(f->generation, from);
	/* what was found before is of use only while the agent sees changes */
	if (silent <= (__s64)FORWARDING_CACHED_FOR && !(w.key & KEY_UNCACHED)) {
		set = find_set(ip6, &w);
		if (!set)
			return STACK_AGENT;
#pragma clang loop unroll(full)
		for (int i = 0; i < NEXT_HOP_WAYS; i++) {
			const struct next_hop *n = &set->ways[i];

			if (!is_wanted(n, ip6, &w))
				continue;
			path->ifindex = n->ifindex;
			path->mtu = n->mtu;
			path->macs[0] = n->macs[0];
			path->macs[1] = n->macs[1];
			path->macs[2] = n->macs[2];
			return STACK_NONE;
		}
	}
	forget_memory();
	return ask_kernel(ctx, p, ip6, &w, set, path);
}

/*
 * Finds the way out of a packet as it is now; anything but STACK_NONE leaves it to the stack. The
 * device is chosen at once: the program has but to say VERDICT_REDIRECT in the end.
 */
static __always_inline enum stack_reason find_path(context *ctx, const struct packet *p,
						   struct path *path)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	enum stack_reason reason;
	__u32 longest;

	if (!ip6 || p->l3 != ETHERNET_HEADER)
		return STACK_LINK;
	reason = is_everyday(p, ip6);
	if (reason)
		return reason;
	reason = is_forwardable(ctx, p, ip6, &longest);
	if (reason)
		return reason;
	reason = find_next_hop(ctx, path, p->on->ifindex);
	if (reason)
		return reason;
	if (!path->ifindex)
		return path->mtu;
	if (longest > path->mtu)
		return STACK_MTU;
	return path->ifindex != p->on->ifindex && choose_device(path->ifindex) ? STACK_NONE
									       : STACK_DEVICE;
}

/* Gives the frame its new link header; the packet is on its way then. */
static __always_inline int leave(const struct packet *p, const struct path *path)
{
	__u8 *ethernet = p->data;

	if (p->data + ETHERNET_HEADER > p->end)
		return VERDICT_DROP;
	*(__u32 *)ethernet = path->macs[0];
	*(__u32 *)(ethernet + 4) = path->macs[1];
	*(__u32 *)(ethernet + 8) = path->macs[2];
	*(__be16 *)(ethernet + 12) = bpf_htons(ETHERTYPE_IPV6);
	return VERDICT_REDIRECT;
}

#endif
