// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What crosses to the agent about Edge-to-Edge options (RFC 9197 §4.6). */
#ifndef WAYMARK_ABI_E2E_H
#define WAYMARK_ABI_E2E_H

#include <linux/bpf.h>
#include <linux/types.h>

enum e2e_bound {
	E2E_WAYS = 4,
	E2E_NUMBER_SETS = 4096, /* of flows that are numbered */
	E2E_FLOW_SETS = 2048,	/* of flows that are measured */
	E2E_GROUP_BITS = 6,
	E2E_GROUPS = 16,	  /* of 64 numbers each: the window in which a number is known */
	E2E_HEADER = 512,	  /* bytes of the longest Destination Options header that is read */
	E2E_MOST_AHEAD = 1 << 30, /* a number farther ahead is not the flow's next */
	E2E_OPTIONS = 9,	  /* of IOAM that are read in a header */
	E2E_REPEATED = 16,	  /* numbers at least that were given out before they begin again */
	E2E_KEYS = 11,
};

/* The packets that share numbers; addresses as in the packet. */
struct e2e_key {
	__u64 source[2];
	__u64 destination[2];
	__u64 tunnel; /* a hash of the outer addresses; 0 = inline */
	__be32 flow_label;
	__u32 header; /* Namespace-ID << 16 | E2E-Type */
};

_Static_assert(sizeof(struct e2e_key) == 48, "e2e_key has holes");

/* What entries of both tables begin with. */
struct e2e_entry {
	struct e2e_key key;
	__u32 used;  /* when, in units of 2^26 ns */
	__u32 taken; /* 0: the entry is free */
};

/* A flow that this node numbers. */
struct e2e_number {
	struct e2e_entry entry;
	__u64 begin; /* what is added to `next` */
	/* the next number; from bit 32 on how often `key` or `begin` has changed */
	__u64 next;
};

struct e2e_number_set {
	struct bpf_spin_lock lock;
	__u32 pad;
	struct e2e_number ways[E2E_WAYS];
};

/* What an interval has counted. */
struct e2e_totals {
	__u64 packets;
	__u64 expected; /* numbers from the lowest to the highest */
	__u64 unique;	/* of them that came */
	__u64 duplicates;
	__u64 reordered; /* unique ones below the highest */
	__u64 late; /* numbers below the window, or far ahead: whether they came before is not known */
	__u64 restarts;
	__u64 delays; /* packets whose delay is known */
	__s64 delay_sum;
	__s64 delay_min;
	__s64 delay_max;
	__u32 first; /* packet, in units of 2^20 ns of CLOCK_MONOTONIC */
	__u32 last;
	__u32 epoch;
	__u32 pad;
};

_Static_assert(sizeof(struct e2e_totals) == 104, "e2e_totals has holes");

/*
 * A flow whose numbers end here. A word of the window holds the 64 numbers of a group, a bit each; its
 * tag says of which group.
 */
struct e2e_flow {
	struct e2e_entry entry;
	__u64 highest; /* numbers of 32 bits go on beyond 2^32 */
	__u64 lowest;
	__u64 again; /* the next number would mean that numbers began again */
	__u32 numbered;
	__u32 strayed; /* `again` holds a number */
	__u32 tags[E2E_GROUPS];
	__u64 words[E2E_GROUPS];
	struct e2e_totals totals[2]; /* of even and of odd intervals */
};

_Static_assert(sizeof(struct e2e_flow) == 488, "e2e_flow has holes");

/* What an interval has counted of flows that have left the table since. */
struct e2e_left {
	__u64 packets;
	__u64 expected;
	__u64 unique;
	__u64 duplicates;
	__u64 reordered;
	__u64 late;
	__u64 restarts;
	__u32 epoch;
	__u32 pad;
};

_Static_assert(sizeof(struct e2e_left) == 64, "e2e_left has holes");

struct e2e_flow_set {
	struct bpf_spin_lock lock;
	__u32 pad;
	struct e2e_flow ways[E2E_WAYS];
	struct e2e_left left[2]; /* of even and of odd intervals */
};

/* An option as it was read. */
struct e2e_note {
	__u64 number;
	__u32 header; /* Namespace-ID << 16 | E2E-Type */
	__u32 seconds;
	__u32 fraction;
	__u16 offset; /* from the end of the IPv6 header */
	__u8 outcome; /* enum outcome */
	__u8 removed; /* where its header stays, too */
};

/* The packet whose options are read or written, of one CPU. */
struct e2e_packet {
	struct e2e_key key;
	__u64 tunnel; /* the hash of its addresses, before it lost its outer header */
	__u32 cursor;
	__u32 count; /* of notes[] */
	__u32 found; /* enum e2e_found */
	__u32 pad;
	struct e2e_note notes[E2E_OPTIONS];
};

/* What the agent says to the table of measured flows. */
struct e2e_clock {
	__u32 epoch; /* the interval that runs */
	__u32 pad;
	__u64 keys[E2E_KEYS]; /* of the hash, random and as old as the tables */
};

#endif
