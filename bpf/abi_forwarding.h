// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What crosses to the agent about fast forwarding: routes, next hops and neighbours. */
#ifndef WAYMARK_ABI_FORWARDING_H
#define WAYMARK_ABI_FORWARDING_H

#include <linux/types.h>

/* Which fields besides the destination decide about a route, according to routes and rules. */
enum forwarding_key {
	KEY_FLOW = 1,	       /* source, traffic class, flow label, next header */
	KEY_UNCACHED = 2,      /* ports as well: ask for each packet */
	KEY_STACK = 4,	       /* what a program cannot see: leave all to the stack */
	KEY_SEGMENTS = 8,      /* the behaviours of routes are known, */
	KEY_SECOND_TABLE = 16, /* in the second of two tables */
};

/* What the agent knows of the routes, kept up to date while it runs. */
struct forwarding {
	__u64 alive; /* when the agent last reported that it watches routes, CLOCK_MONOTONIC, ns */
	__u32 generation; /* counts changes: next hops of an older one are not used */
	__u16 key;	  /* enum forwarding_key */
	__u16 mtu;	  /* larger packets are the stack's: some route's MTU may be smaller */
};

/* A neighbour that packets are sent to past the stack, which is to keep it alive. */
struct neighbour {
	__u64 address[2];
	__u32 ifindex;
	__u32 pad;
};

/* What a CPU remembers: the neighbour it last reported, and the last flow of an export. */
struct tick {
	struct neighbour last;
	__u32 reported;	  /* when, in units of 2^20 ns */
	__u32 flow;	  /* its entry in the table, counted from the CPU's first one */
	__u32 unsampled;  /* packets since the last one whose delay was sampled */
	__u32 remembered; /* sampled packets whose departure is awaited */
	__u32 missed;	  /* packets that were none of them, since one was */
	__u32 pad;
};

/*
 * How long the agent's report is good for next hops found before, and for new ones; ns. It is not good
 * either if it is ahead by more than the latter.
 */
#define FORWARDING_CACHED_FOR 100000000ULL
#define FORWARDING_HELPED_FOR 5000000000ULL

/* How long a next hop may be used before the kernel is asked again, in units of 2^20 ns. */
#define NEXT_HOP_AGE 1000

/* Where packets to a destination go. */
struct next_hop {
	__u64 destination[2];
	__u64 source[2]; /* this and the next: compared if KEY_FLOW */
	__be32 class_label;
	__u32 tag;     /* generation and interface of arrival, see next_hop_tag() */
	__u32 checked; /* when, in units of 2^20 ns */
	__u32 ifindex;
	__u32 macs[3];	  /* destination and source, as in a frame; STACK_LWTUNNEL: behaviour + 1 */
	__u16 mtu;	  /* of the path as far as this node knows */
	__u8 next_header; /* compared if KEY_FLOW */
	__u8 reason;	  /* enum stack_reason: why the stack has to forward; or WAY_IS_PLAIN */
};

/* Nothing is inserted into packets on that way, nor taken out: only packets with IOAM need to know more of it. */
#define WAY_IS_PLAIN 0x80

#define NEXT_HOP_WAYS 4

struct next_hop_set {
	struct next_hop ways[NEXT_HOP_WAYS];
};

_Static_assert(sizeof(struct next_hop) == 64, "next_hop has holes");

#endif
