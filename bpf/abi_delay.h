// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What crosses to the agent about histograms of delays (docs/data-plane/delays.md). */
#ifndef WAYMARK_ABI_DELAY_H
#define WAYMARK_ABI_DELAY_H

#include <linux/types.h>

enum delay_bound {
	DELAY_SERIES = 128, /* of a CPU, a power of two */
	DELAY_KINDS = 4,    /* and a series of each kind for what has none; the first is not used */
	DELAY_ROOM = 132,   /* of a CPU, these included */
	DELAY_WAYS = 4,	    /* places where a series may be */
	DELAY_BITS = 36,    /* of the longest delay that has a bucket, in ns: 68 s */
	/* 16 for each power of two from 2^-30 s, 0.93 ns, to 2^6 s, one below them, and two up to 2^36 ns */
	DELAY_BUCKETS = 579,
};

_Static_assert(DELAY_ROOM == DELAY_SERIES + DELAY_KINDS, "room for delays");
_Static_assert(DELAY_BUCKETS == 16 * DELAY_BITS + 3, "the buckets of delays");

/* What a delay is of. */
enum delay_kind {
	DELAY_NONE,
	DELAY_HELD,    /* from one interface to another, of this node */
	DELAY_SEGMENT, /* from one node of a trace to the next */
	DELAY_PATH,    /* from the first node of a trace to this one */
};

/* Parts of a series' label: the Namespace-ID is in the lowest 16 bits, the kind above. */
enum delay_label {
	DELAY_KIND_SHIFT = 16,
	DELAY_WIDE = 1 << 20,  /* the ids are wide ones */
	DELAY_TAKEN = 1 << 30, /* by a series: the label is not 0 */
};

/* The delays of one kind between two interfaces, or two nodes, on one CPU. */
struct delay_series {
	__u64 from; /* an interface's index, or a node's id */
	__u64 to;
	__u32 label; /* 0: the place is free */
	__u32 pad;
	__u64 sum;	  /* of the delays in buckets[], ns */
	__u64 zero;	  /* delays of 0 */
	__u64 negative;	  /* times that are before those that they follow: clocks differ */
	__u64 longer;	  /* delays beyond the last bucket */
	__u64 incomplete; /* traces without a time, or that a node had no room in */
	__u64 buckets[DELAY_BUCKETS]; /* see bucket_of_ns() */
};

/* A node of a trace. */
struct stop {
	__u64 id;
	__u64 time; /* ns, or all ones */
};

/* Where the fields are that a trace's nodes have, from the beginning of a node's data. */
struct stop_layout {
	__u32 time;
	__u32 id;
	__u32 wide; /* the id is, or else there is none */
	__u32 length;
};

/* The nodes of a trace, read one by one, on one CPU. Only programs use it. */
struct trace_walk {
	struct stop newer; /* what was read last */
	__u64 to;	   /* the node after that */
	__s64 delay;	   /* between the two, ns */
	struct stop_layout layout;
	__u32 type;
	__u32 segment; /* label */
	__u32 next;    /* offset of the next node's data */
	__u32 end;     /* and of the option's end */
	__u32 stops;   /* that were read */
	__u32 l3;      /* bytes before the IPv6 header */
};

_Static_assert(sizeof(struct delay_series) == 4696, "delay_series has holes");

#endif
