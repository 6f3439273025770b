// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Fast forwarding: where a packet goes, found without the stack (docs/data-plane/fast-forwarding.md).
 * A packet that is not an ordinary one for a router is left to the stack.
 */
#ifndef WAYMARK_ROUTE_H
#define WAYMARK_ROUTE_H

#include "clock.h"
#include "context.h"
#include "frame.h"
#include "ipv6.h"
#include "lookup.h"

#define AF_INET6	    10
#define CLASS_LABEL_MASK    bpf_htonl(0x0fffffff)
#define ICMPV6_ECHO_REQUEST 128
#define ICMPV6_ECHO_REPLY   129
#define TABLE_MAIN	    254
/* Flags of bpf_fib_lookup(), of which older headers lack one. */
#define FIB_LOOKUP_DIRECT 1
#define FIB_LOOKUP_TBID	  8
/* In units of 2^20 ns: how old a report may be, and how long a CPU need not look. */
#define NEIGHBOUR_USED_EVERY 500
#define NEIGHBOUR_KNOWN_FOR  50

/* The way out that was found for a packet. */
struct path {
	__u32 ifindex;
	__u16 mtu;
	__u8 reason; /* enum stack_reason: why there is none here; or WAY_IS_PLAIN */
	__u8 left;   /* an insertion on the way out is left to the stack */
	__u32 macs[3] __attribute__((aligned(8)));
	__u16 behaviour; /* what is done with the packet before, + 1; 0: nothing */
	__s16 growth;	 /* by how much it grows then */
};

/* What is looked for, besides the packet's own fields. */
struct wanted {
	__u32 tag;
	__u32 now; /* units of 2^20 ns */
	__u16 key;
	__u16 mtu;	/* what the kernel says is true up to here */
	__u32 table_id; /* only this table; 0: as rules say */
};

/*
 * What a next hop rests on, in one word: the generations of routes and of tables, the interface of
 * arrival, and the table of routes (at most SEGMENT_TABLES). Multiples of the golden ratio lie so far
 * apart that two tags meet only after a hundred thousand changes, and no next hop is used that long.
 */
static __always_inline __u32 next_hop_tag(__u32 generation, __u32 from, __u32 table)
{
	return generation + STATE.epoch + (from << 3 | table) * FIBONACCI_32;
}

static __always_inline __u64 hash_address(const __u64 *address, int first)
{
	const __u32 *words = (const __u32 *)address;

	return words[0] * NODE.hash_keys[first] + words[1] * NODE.hash_keys[first + 1] +
	       words[2] * NODE.hash_keys[first + 2] + words[3] * NODE.hash_keys[first + 3];
}

/* Where the way out of the packet is remembered, if it is. */
static __always_inline struct next_hop_set *find_set(const struct ipv6 *ip6, const struct wanted *w)
{
	__u64 h = hash_address(ip6->destination, 0);
	__u32 index;

	if (w->key & KEY_FLOW)
		h += hash_address(ip6->source, 4) + ip6->class_label * NODE.hash_keys[8] +
		     ip6->next_header * NODE.hash_keys[9];
	index = bpf_get_smp_processor_id() * NODE.next_hop_sets +
		(__u32)((__u64)spread(h) * NODE.next_hop_sets >> 32);
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

/* Copies the addresses of a link header. */
static __always_inline void copy_macs(__u32 *to, const __u32 *from)
{
	*(__u64 *)to = *(const __u64 *)from;
	to[2] = from[2];
}

static __always_inline enum stack_reason reason_of(long result)
{
	if (result == BPF_FIB_LKUP_RET_NO_NEIGH)
		return STACK_NEIGHBOUR;
	if (result == BPF_FIB_LKUP_RET_UNSUPP_LWT)
		return STACK_LWTUNNEL;
	return result == BPF_FIB_LKUP_RET_FRAG_NEEDED ? STACK_MTU : STACK_ROUTE;
}

/* Lookups that follow one another share this memory, because the stack is small. */
union lookup {
	struct bpf_fib_lookup fib;
	struct neighbour neighbour;
	struct segment_route route;
};

/*
 * The behaviour of the route that the kernel has for a destination, + 1. The kernel says only that the
 * route has one; all such routes are of one table, so it is the longest of them that matches.
 */
static __always_inline __u32 find_behaviour(union lookup *lookup, const struct ipv6 *ip6,
					    const struct wanted *w)
{
	__u32 *number;

	if (!COMPLETES || !(w->key & KEY_SEGMENTS) || w->table_id)
		return 0;
	lookup->route.prefix_length = 32 + 128;
	lookup->route.table = (w->key & KEY_SECOND_TABLE) != 0;
	__builtin_memcpy(lookup->route.destination, ip6->destination, 16);
	number = bpf_map_lookup_elem(&segment_routes, &lookup->route);
	return number ? *number + 1 : 0;
}

static __always_inline int same_neighbour(const struct neighbour *a, const struct neighbour *b)
{
	return a->address[0] == b->address[0] && a->address[1] == b->address[1] &&
	       a->ifindex == b->ifindex;
}

/* Reports to the agent that the neighbour is in use, because the stack does not see its packets. */
static __always_inline void use_neighbour(union lookup *lookup, const __u32 *now)
{
	__u32 ifindex = lookup->fib.ifindex, *used;
	struct tick *tick;

	/* the address lies behind what is written here */
	__builtin_memcpy(lookup->neighbour.address, lookup->fib.ipv6_dst, 16);
	lookup->neighbour.ifindex = ifindex;
	lookup->neighbour.pad = 0;
	/* the stack has no room for one more key of 0 */
	tick = bpf_map_lookup_elem(&ticks, &lookup->neighbour.pad);
	if (tick) {
		if (*now - tick->reported < NEIGHBOUR_KNOWN_FOR &&
		    same_neighbour(&tick->last, &lookup->neighbour))
			return;
		tick->last = lookup->neighbour;
		tick->reported = *now;
	}
	used = bpf_map_lookup_elem(&neighbours, &lookup->neighbour);
	if (!used)
		bpf_map_update_elem(&neighbours, &lookup->neighbour, now, BPF_ANY);
	else if (*now - *used > NEIGHBOUR_USED_EVERY)
		*used = *now;
}

/*
 * What rules and hashes that look at ports get from the kernel's dissector: the upper layer, here
 * after a Hop-by-Hop header at most. Nonzero: after another header, where only the stack looks.
 */
static __always_inline int add_ports(context *ctx, const struct packet *p,
				     struct bpf_fib_lookup *fib)
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
	if (!ports) /* the packet has none, or they are out of a program's reach in tc */
		return packet_length(ctx, p) >= offset + 4 ? -1 : 0;
	fib->sport = ports[0];
	fib->dport = ports[1];
	return 0;
}

/* The next hop to replace: the first that is outdated, else any. */
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

/*
 * Whether packets without IOAM may leave by an interface, which may not be served, just as they are. Not
 * while the tables change: the tag may be of the next ones already.
 */
static __always_inline int is_plain_way(__u32 tables_index, __u32 ifindex)
{
	const struct interface *out = find_interface(tables_of(tables_index), ifindex);

	if (STATE.current != tables_index)
		return 0;
	return !out || (out->upper != UPPER_MASTER && !out->insertion &&
			!(out->roles & ROLE_EGRESS << FILTER_SHIFT));
}

/* Asks the kernel, and keeps the answer in the set, if there is one. */
static __always_inline enum stack_reason ask_kernel(context *ctx, const struct packet *p,
						    const struct interface *on,
						    const struct ipv6 *ip6, const struct wanted *w,
						    struct next_hop_set *set, struct path *path)
{
	union lookup lookup = {.fib = {.family = AF_INET6}};
	struct bpf_fib_lookup *fib = &lookup.fib;
	struct next_hop *n;
	__u32 flags = 0;
	long result;

	fib->ifindex = on->ifindex;
	fib->tot_len = 1; /* fits; but for tc only a length brings back the path's MTU */
	fib->l4_protocol = ip6->next_header;
	fib->flowinfo = ip6->class_label & CLASS_LABEL_MASK;
	__builtin_memcpy(fib->ipv6_src, ip6->source, 16);
	__builtin_memcpy(fib->ipv6_dst, ip6->destination, 16);
	if (w->key & KEY_UNCACHED && add_ports(ctx, p, fib))
		return STACK_ROUTE;
	if (w->table_id && w->table_id != TABLE_MAIN) { /* Linux 6.5; earlier ones refuse */
		fib->tbid = w->table_id;
		flags = FIB_LOOKUP_DIRECT | FIB_LOOKUP_TBID;
	} else if (w->table_id) {
		flags = FIB_LOOKUP_DIRECT;
	}
	result = bpf_fib_lookup(ctx, fib, sizeof(*fib), flags);
	if (result < 0)
		return STACK_ROUTE;
	path->ifindex = fib->ifindex;
	path->mtu = fib->mtu_result < w->mtu ? fib->mtu_result : w->mtu;
	path->reason = result ? reason_of(result) : STACK_NONE;
	__builtin_memcpy(path->macs, fib->dmac, 6);
	__builtin_memcpy((void *)path->macs + 6, fib->smac, 6);
	if (!result)
		use_neighbour(&lookup, &w->now);
	else if (result == BPF_FIB_LKUP_RET_UNSUPP_LWT)
		path->macs[0] = find_behaviour(&lookup, ip6, w);
	opaque(set); /* the verifier has to see the very pointer that is checked */
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
	n->reason = path->reason;
	if (COMPLETES && !result && is_plain_way(on->tables_index, path->ifindex))
		n->reason = WAY_IS_PLAIN;
	n->macs[0] = path->macs[0];
	n->macs[1] = path->macs[1];
	n->macs[2] = path->macs[2];
	return STACK_NONE;
}

/* Whether the packet is one that a router simply forwards (RFC 4291 §2.5, 2.7). */
static __always_inline enum stack_reason is_ordinary(context *ctx, const struct packet *p,
						     const struct ipv6 *ip6)
{
	const __u8 *ethernet = frame_start(ctx), *type;

	if (ethernet + ETHERNET_HEADER > (__u8 *)p->end)
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

/* A report that is far ahead is of another clock, and would never become old. */
static __always_inline int is_within(__s64 silent, __u64 most)
{
	return (__u64)silent + FORWARDING_HELPED_FOR <= FORWARDING_HELPED_FOR + most;
}

/* What is looked for, and where it may be remembered: *set, or NULL if the kernel has to be asked. */
static __always_inline enum stack_reason find_wanted(const struct ipv6 *ip6,
						     const struct interface *on, __u32 table,
						     struct wanted *w, struct next_hop_set **set)
{
	__u64 now, state, alive = FORWARDING.alive;
	__s64 silent;

	*set = 0;
	now = coarse_now();
	/* the agent's clock may be ahead of this one by two ticks */
	silent = now - alive;
	state = *(const volatile __u64 *)&FORWARDING
			 .generation; /* key and mtu: of the same report */
	w->now = now >> 20;
	w->key = state >> 32;
	w->mtu = state >> 48;
	w->tag = next_hop_tag(state, on->ifindex, table);
	/* what was found before is of use only while the agent sees changes */
	if (alive && is_within(silent, FORWARDING_CACHED_FOR) &&
	    !(w->key & (KEY_STACK | KEY_UNCACHED))) {
		*set = find_set(ip6, w);
		return *set ? STACK_NONE : STACK_AGENT;
	}
	return alive && is_within(silent, FORWARDING_HELPED_FOR) && !(w->key & KEY_STACK)
		       ? STACK_NONE
		       : STACK_AGENT;
}

/* Whether the set remembers the way: then it is in *path. */
static __always_inline int is_remembered(const struct next_hop_set *set, const struct ipv6 *ip6,
					 const struct wanted *w, struct path *path)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < NEXT_HOP_WAYS; i++) {
		const struct next_hop *n = &set->ways[i];

		if (!is_wanted(n, ip6, w))
			continue;
		path->ifindex = n->ifindex;
		path->mtu = n->mtu;
		path->reason = n->reason;
		/* copied: the verifier would follow what comes next once for each way */
		copy_macs(path->macs, n->macs);
		return 1;
	}
	return 0;
}

/*
 * Finds where an untagged packet goes: *path, which may have a reason as well; or the reason why it
 * was not looked for. Not inlined: see scan_options().
 */
__noinline int find_next_hop(context *ctx, struct path *path, const struct interface *on)
{
	struct packet packet = {.l3 = ETHERNET_HEADER}, *p = &packet;
	struct next_hop_set *set;
	enum stack_reason reason;
	const struct ipv6 *ip6;
	struct wanted w = {};

	if (!path || !on)
		return STACK_AGENT;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return STACK_PACKET;
	reason = find_wanted(ip6, on, 0, &w, &set);
	if (reason)
		return reason;
	if (set && is_remembered(set, ip6, &w, path))
		return STACK_NONE;
	forget_memory();
	return ask_kernel(ctx, p, on, ip6, &w, set, path);
}

/* How a next hop is looked for: constants, so that each place gets the code that it needs. */
enum search {
	SEARCH_CALLED,	   /* in a call */
	SEARCH_INLINE,	   /* without one if the next hop is remembered */
	SEARCH_REMEMBERED, /* only among those; otherwise the packet is another path's */
};

/* On the general path: in XDP, most packets take the lane instead. */
#define SEARCH_ELSEWHERE (COMPLETES ? SEARCH_CALLED : SEARCH_INLINE)

static __always_inline enum stack_reason search_next_hop(context *ctx, const struct ipv6 *ip6,
							 struct path *path,
							 const struct interface *on,
							 enum search search)
{
	struct next_hop_set *set;
	struct wanted w = {};

	if (search != SEARCH_CALLED && !find_wanted(ip6, on, 0, &w, &set) && set &&
	    is_remembered(set, ip6, &w, path))
		return STACK_NONE;
	return search == SEARCH_REMEMBERED ? STACK_ROUTE : find_next_hop(ctx, path, on);
}

/*
 * Finds the way out of a packet as it is now; anything but STACK_NONE leaves it to the stack. The
 * device is chosen as well: the program only has to return VERDICT_REDIRECT in the end.
 */
static __always_inline enum stack_reason find_path(context *ctx, const struct packet *p,
						   struct path *path, enum search search)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	enum stack_reason reason;
	__u32 longest;

	if (!ip6 || p->l3 != ETHERNET_HEADER)
		return STACK_LINK;
	reason = is_ordinary(ctx, p, ip6);
	if (reason)
		return reason;
	reason = is_forwardable(ctx, p, ip6, &longest);
	if (reason)
		return reason;
	reason = search_next_hop(ctx, ip6, path, p->on, search);
	if (reason)
		return reason;
	if (path->reason & (WAY_IS_PLAIN - 1))
		return path->reason;
	if (longest > path->mtu)
		return STACK_MTU;
	return path->ifindex != p->on->ifindex && choose_device(path->ifindex) ? STACK_NONE
									       : STACK_DEVICE;
}

/* Gives the frame its new link header; it leaves by the path then. */
static __always_inline enum stack_reason leave(context *ctx, const struct packet *p,
					       const struct path *path)
{
	__u8 *ethernet = frame_start(ctx);

	if (ethernet + ETHERNET_HEADER > (__u8 *)p->end)
		return STACK_PACKET;
	copy_macs((__u32 *)ethernet, path->macs);
	*(__be16 *)(ethernet + 12) = bpf_htons(ETHERTYPE_IPV6);
	return STACK_NONE;
}

#endif
