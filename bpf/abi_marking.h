// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Alternate marking of SRv6 flows (RFC 9341): what crosses to the agent. */
#ifndef WAYMARK_ABI_MARKING_H
#define WAYMARK_ABI_MARKING_H

#include <linux/types.h>

enum marking_bound {
	MARKING_SLOTS = 4,	/* blocks that a flow's counters are kept for */
	MEASURED_GROUP = 8,	/* places of the table of keys that are looked at together */
	MEASURED_PROBES = 4,	/* groups that a key may be in, one after the other */
	MARKING_SELECTIONS = 8, /* ways to select flows, of one direction */
	MAX_SEGMENTS = 17,	/* of a segment routing header: 16, and an original destination */
	LEAVES_UNMARKED = 0xffffffff, /* in place of a flow's number */
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
	SELECT_INLINE = 16,  /* of the segments all but the last one, a packet's own destination */
	SELECT_MONITOR = 32, /* the FlowMonID of the option */
};

enum carrier {
	CARRIER_NONE,	  /* no flow is measured */
	CARRIER_CLASS,	  /* bits of the traffic class */
	CARRIER_ARGUMENT, /* bits of an octet of the last SID */
	CARRIER_OPTION,	  /* the AltMark option (RFC 9343) */
};

/* The header with the AltMark option, and no other, that packets get (RFC 9343 §3.1). */
enum mark_header {
	MARK_HEADER = 8, /* its octets */
	MARK_DATA = 4,	 /* where the option's data begin */
	MARK_LENGTH = 4, /* of them */
	MARK_TYPE = 0x12,
};

/* How flows are marked and counted at this node. One entry. */
struct marking {
	__u64 length; /* of a block, ns */
	__u64 guard;  /* how far from its block a packet may be counted without a note, ns */
	__u64 seeds[2];
	__u64 argument[2]; /* the bits of the last SID that are no part of it, as in the packet */
	__be32 class_mask; /* what of the header's first word is compared for SELECT_CLASS */
	__u32 room;	   /* flows */
	__u32 places;	   /* of their keys; a power of two */
	__u8 carrier;
	__u8 mask;	/* the bits of the octet that carry the mark */
	__u8 octet;	/* of the last SID, or of the option's data */
	__u8 unmarked;	/* their value in packets that no flow has */
	__u8 values[4]; /* of the colours, and of the colours with a delay mark */
	__u8 marks_delay;
	__u8 clears; /* packets of a flow's source that are of no flow get `unmarked` */
	__u8 selected[NUM_DIRECTIONS];
	__u8 selections[NUM_DIRECTIONS * MARKING_SELECTIONS]; /* of one direction after the other */
	__u8 sums;   /* the sums of times are asked for: the clock is read for each packet */
	__u8 header; /* CARRIER_OPTION: which header packets get, as the next header before it */
	__u8 pad[2];
	__u32 served; /* for the next agent: a digest of the interfaces at which packets are counted */
};

_Static_assert(sizeof(struct marking) == 96, "marking has holes");

/*
 * What an octet of a group says of its place. Other values are fingerprints: some bits of the hash of the
 * key that is there.
 */
enum place_state {
	PLACE_FREE, /* no key is there, and none after this group because of it */
	PLACE_LEFT, /* no key is there any more, but there may be after this group */
	FINGERPRINTS,
};

/*
 * A place of the table of keys: a hash of what a flow is selected by. Programs look while the agent
 * writes: a key before its fingerprint.
 */
struct measured_key {
	__u64 head;
	__u32 tail;
	__u32 number; /* of the flow */
};

/* What the agent says of a flow. */
struct flow_state {
	__u64 since;   /* when counting began, ns of UTC; for the next agent */
	__u32 monitor; /* its FlowMonID */
	__u32 reported; /* low bits of the last block whose loss an agent reported; for the next agent */
};

/* A flow that was found. */
struct measured_flow {
	__u32 number;
	__u32 place; /* of the key that it was found by */
};

/*
 * What one CPU counted in one block by one key. Times are from the block's start, modulo 2^64 ns. Small,
 * because many flows are in no near cache: what few packets need is apart.
 */
struct block_counts {
	__u64 block; /* its number: time / length */
	__u64 packets;
	__u64 octets; /* of IPv6 packets */
	__u64 time;   /* sum over all packets, of use with `sums` */
};

_Static_assert(sizeof(struct block_counts) == 32, "block_counts has holes");

/* What one CPU noted of a flow in one block besides. */
struct block_notes {
	__u64 delay_time; /* sum over the packets with a delay mark */
	__u32 block;	  /* the low bits of its number: they recur after 49 days or more */
	__u32 delay_packets;
	__u32 late;	/* arrived later than the guard after the block's end */
	__u32 early;	/* or before its begin */
	__u32 unmarked; /* arrived without a colour; not in `packets` */
	__u32 unsized; /* offloaded packets whose headers are not known, so octets are not; and UNCOUNTED */
};

#define UNCOUNTED 0x80000000U /* of those, for some the number of packets is not known either */

_Static_assert(sizeof(struct block_notes) == 32, "block_notes has holes");

/* An offloaded packet that a CPU counted as it left: IOAM may be inserted that makes its parts smaller. */
struct cut_packet {
	__u64 block;
	__u64 into;	/* the time that it was counted with */
	__u32 number;	/* of the flow */
	__u32 place;	/* of the key that it was found by */
	__u32 parts;	/* that were counted */
	__u32 payload;	/* octets that are spread over them; 0: not known */
	__u32 repeated; /* octets of headers that each has */
	__u32 delayed;	/* it has a delay mark */
};

/* How a CPU counted a packet. */
struct counted_packet {
	__u64 block;
	__u64 into;   /* its time */
	__u32 number; /* of the flow */
	__u32 place;  /* of the key that it was found by */
	__u32 parts;  /* that it was counted as */
	__u32 octets; /* 0: it was noted, and not counted */
	__u32 notes;  /* enum packet_note */
	__u32 pad;
};

/* What a CPU read from the clock last, and when; and what it counted last. */
struct block_clock {
	__u64 jiffies;
	__u64 length; /* for which the following is true */
	__u64 start;
	__u64 block;
	__u64 into;
	struct cut_packet cut;
	struct counted_packet counted; /* with node_config.may_take_back */
};

/* Where a packet of a measured flow passed that is not served. */
struct unserved_key {
	__u32 ifindex;
	__u32 number; /* of the flow */
};

enum tap_bound {
	TAP_REACH = 512, /* octets at which the head of a packet is looked at, a power of two */
	TAP_HEAD = TAP_REACH + 64,
	TAP_ENTRIES = 4096, /* flows that are noted, over all interfaces */
};

/* The head of a packet that is looked at, from its IPv6 header on. 8-aligned by the map. */
struct tap_head {
	__u8 bytes[TAP_HEAD]; /* those beyond the packet are 0 */
};

/* What is wrong with a Segment Routing Header (RFC 8754 §2, §2.1). */
enum srh_fault {
	SRH_TRUNCATED,	   /* the packet ends before its list */
	SRH_LAST_ENTRY,	   /* beyond the header */
	SRH_SEGMENTS_LEFT, /* beyond the list */
	SRH_TLV,	   /* beyond the header or the packet */
	NUM_SRH_FAULTS,
};

/* Why a packet of a measured flow leaves without the option that would mark it. */
enum unmarked {
	UNMARKED_HEADER, /* it has a Hop-by-Hop, Destination Options or Authentication header already */
	UNMARKED_MTU,
	UNMARKED_GSO, /* an offloaded packet that cannot grow */
	UNMARKED_HEADROOM,
	NUM_UNMARKED,
	MAY_CARRY_MARK = NUM_UNMARKED, /* it gets the option */
};

#endif
