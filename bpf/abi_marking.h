// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Alternate marking of SRv6 flows (RFC 9341): what crosses to the agent. */
#ifndef WAYMARK_ABI_MARKING_H
#define WAYMARK_ABI_MARKING_H

#include <linux/types.h>

enum marking_bound {
	MARKING_SLOTS = 4,	/* blocks that a flow's counters are kept for */
	MARKING_SELECTIONS = 8, /* ways to select flows, of one direction */
	MAX_SEGMENTS = 17,	/* of a segment routing header: 16, and an original destination */
	NO_FLOW = 0xffffffff,
	LEAVES_UNMARKED = 0xfffffffe,
};

enum direction {
	DIRECTION_IN,
	DIRECTION_OUT,
	NUM_DIRECTIONS,
};

/* What a flow is selected by, besides the outer source. */
enum selection {
	SELECT_SEGMENTS = 1,
	SELECT_DESTINATION = 2, /* as the packet has it at this node */
	SELECT_CLASS = 4,
	SELECT_LABEL = 8,
	SELECT_INLINE = 16, /* of the segments all but the last one, a packet's own destination */
};

enum carrier {
	CARRIER_NONE,	  /* no flow is measured */
	CARRIER_CLASS,	  /* bits of the traffic class */
	CARRIER_ARGUMENT, /* bits of an octet of the last SID */
};

/* How flows are marked and counted at this node. One entry. */
struct marking {
	__u64 length; /* of a block, ns */
	__u64 guard;  /* how far from its block a packet may be counted without a note, ns */
	__u64 seeds[2];
	__u64 argument[2]; /* the bits of the last SID that are no part of it, as in the packet */
	__be32 class_mask; /* what of the header's first word is compared for SELECT_CLASS */
	__u32 room;	   /* flows of one CPU */
	__u8 carrier;
	__u8 mask;	/* the bits of the octet that carry the mark */
	__u8 octet;	/* of the last SID */
	__u8 unmarked;	/* their value in packets that no flow has */
	__u8 values[4]; /* of the colours, and of the colours with a delay mark */
	__u8 marks_delay;
	__u8 clears; /* packets of a flow's source that are of no flow get `unmarked` */
	__u8 selected[NUM_DIRECTIONS];
	__u8 selections[NUM_DIRECTIONS * MARKING_SELECTIONS]; /* of one direction after the other */
	__u8 sums; /* the sums of times are asked for: the clock is read for each packet */
	__u8 pad[3];
};

_Static_assert(sizeof(struct marking) == 88, "marking has holes");

/* A hash of what flows are selected by. */
struct measured_key {
	__u64 head;
	__u64 tail;
};

struct measured_flow {
	__u32 number; /* of its counters */
	__u32 pad;
	__u64 since; /* when counting began, ns of UTC */
};

/* What one CPU counted of a flow in one block; times are from the block's start, modulo 2^64 ns. */
struct block_counts {
	__u64 block; /* its number: time / length */
	__u64 packets;
	__u64 octets;	  /* of IPv6 packets */
	__u64 time;	  /* sum over all packets, of use with `sums` */
	__u64 delay_time; /* sum over the packets with a delay mark */
	__u32 delay_packets;
	__u32 late;	 /* arrived later than the guard after the block's end */
	__u32 early;	 /* or before its begin */
	__u32 unmarked;	 /* arrived without a colour; not in `packets` */
	__u32 unsized;	 /* offloaded packets whose headers are not known, so octets are not */
	__u32 uncounted; /* of those, packets whose number is not known either */
};

_Static_assert(sizeof(struct block_counts) == 64, "block_counts has holes");

struct flow_blocks {
	struct block_counts slots[MARKING_SLOTS]; /* by the lowest bits of the block's number */
};

/* What a CPU read from the clock last, and when. */
struct block_clock {
	__u64 jiffies;
	__u64 length; /* for which the following is true */
	__u64 start;
	__u64 block;
	__u64 into;
};

#endif
