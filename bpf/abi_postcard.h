// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The part of abi.h that Direct Export needs. */
#ifndef WAYMARK_ABI_POSTCARD_H
#define WAYMARK_ABI_POSTCARD_H

#include <linux/types.h>

/* What becomes of a Direct Export of a namespace. */
enum export_mode {
	EXPORT_NONE,
	EXPORT_EVERY,
	EXPORT_AGGREGATE,
	EXPORT_SAMPLE,
};

/* What a node that reports about a packet did with it. */
enum node_role {
	NODE_NONE,
	NODE_ENCAPSULATING,
	NODE_TRANSIT,
	NODE_DECAPSULATING,
};

enum extension_flag {
	EXTENSION_FLOW_ID = 0x80,
	EXTENSION_SEQUENCE = 0x40,
};

/* Where the Flow-ID of an inserted option comes from. */
enum flow_id_source {
	FLOW_ID_HASH,
	FLOW_ID_LABEL,
	FLOW_ID_FIXED,
};

enum postcard_bound {
	FLOW_WAYS = 4,	     /* entries of a set of flows */
	POSTCARD_BURST = 64, /* postcards that an interface can save credit for */
	MOST_LATE = 1000,    /* a number that is further back is not merely late */
	ARRIVALS = 256,	     /* that a CPU remembers */
	SEQUENCE_SETS = 65536,
	SEQUENCE_WAYS = 2,
	POSTCARD_HEAD = 2, /* entries in front of a CPU's postcards */
};

/* What packets of one flow have in common at a node (docs/data-plane/direct-export.md#flows). */
struct flow_key {
	__u64 source[2];
	__u64 destination[2];
	__be32 flow_label;
	__be16 source_port;
	__be16 destination_port;
	__u8 next_header;
	__u8 role; /* enum node_role */
	__u16 namespace_id;
	__u32 flow_id; /* 0 = the option has none */
	__u32 ingress;
	__u32 egress;
	__u32 type; /* Trace-Type << 8 | Extension-Flags */
	__u32 pad;
};

_Static_assert(sizeof(struct flow_key) == 64, "flow_key has holes");

/* A report about one packet. */
struct postcard {
	__u32 sequence;
	__u32 buffer;
	struct flow_key key;
	__u64 time; /* TAI, ns */
	__u32 length;
	__u32 delay;
	__u32 queue;
	__u8 hop_limit;
	__u8 flags;
	__u16 segments; /* packets that this one is still to be cut into; 0 and 1: none */
};

_Static_assert(sizeof(struct postcard) == 96, "postcard has holes");

/*
 * In front of a CPU's postcards: how many were written, and how many were read. The reader's word
 * has a cache line of its own.
 */
struct postcard_head {
	__u64 written;
	__u64 look_at; /* programs look how many are read when they have written this many */
	__u64 pad[6];
	__u64 read;
	__u64 pad2[3];
};

_Static_assert(sizeof(struct postcard_head) == sizeof(struct postcard), "a head is an entry");

/* What a flow did in one interval; times in units of 2^20 ns of CLOCK_MONOTONIC. */
struct flow_totals {
	__u64 packets;
	__u64 bytes;
	__u64 delay_sum;
	__u32 delay_count;
	__u32 delay_min;
	__u32 delay_max;
	__u32 first;
	__u32 last;
	__u32 numbers; /* Sequence Numbers that came, the same again not counted */
	__u32 lowest;  /* of them */
	__u32 highest;
	__u32 late;  /* packets that came after one with a later number */
	__u32 epoch; /* the interval; totals older than the reader's interval count no more */
	__u8 hop_limit_min;
	__u8 hop_limit_max;
	__u8 ended;	/* TCP's FIN or RST was seen */
	__u8 restarted; /* numbers began again; those before are not counted */
	__u32 strays;	/* numbers from far back, which are not counted */
};

_Static_assert(sizeof(struct flow_totals) == 72, "flow_totals has holes");

/* Where a header was inserted. */
enum placement {
	PLACED_INLINE,
	PLACED_IN_TUNNEL,
	PLACED_IN_HEADER, /* its options, in a Hop-by-Hop header that was there */
};

/* A postcard while it is made, of one CPU. */
struct draft {
	struct postcard postcard;
	__u32 hash;	    /* of the flow, for encapsulations that want it */
	__u32 ends;	    /* TCP's FIN or RST is in this packet */
	__u32 inserted;	    /* index of the encapsulation whose options are to be completed */
	__u32 repeated;	    /* bytes of headers that each segment of an offloaded packet has */
	__u32 written;	    /* flows handed over, to wake the reader by */
	__u32 flows;	    /* that came, to number entries */
	__u64 place;	    /* where the packet is, as a number */
	__u32 delay;	    /* of the packet; options may not ask for it */
	__u32 queue;	    /* the same */
	__u32 buffer;	    /* the same */
	__u32 slot;	    /* of the interface's counters */
	__u32 tables_index; /* which of the two in struct state */
	__u32 window;	    /* of the export rate */
	__u32 granted;	    /* postcards that this CPU may still send in it */
	__u32 placed;	    /* enum placement, of the header that was inserted last */
	__u32 room;	    /* bytes that the path carries besides */
	__u32 shift; /* PLACED_IN_HEADER: of Edge-to-Edge options, from their place in what is prebuilt */
};

_Static_assert(sizeof(struct draft) == 168, "draft has holes");

/*
 * A flow of one CPU. The reader takes the totals of an interval when the next one has begun, and
 * no program writes there any more.
 */
struct flow {
	struct flow_key key;
	__u64 id;	/* of this use of the entry; 0 = free, or being written */
	__u32 hash;	/* of the key */
	__u32 sequence; /* the latest one */
	/* with numbers: the next one would mean that they began again; without: packets of the flow */
	__u32 again;
	__u32 numbered; /* there was a Sequence Number */
	__u32 index;	/* of the entry, over all CPUs */
	__u32 refused;	/* in a set's first entry: when a packet last found no place; 0 = never */
	struct flow_totals totals[2]; /* of even and of odd intervals */
};

_Static_assert(sizeof(struct flow) == 240, "flow has holes");

struct flow_set {
	struct flow ways[FLOW_WAYS];
};

/* A flow that ended, or gave way to another. */
struct flow_sample {
	__u32 kind;	 /* SAMPLE_FLOW */
	__u32 collected; /* the last interval that had been read then */
	struct flow flow;
};

_Static_assert(sizeof(struct flow_sample) == 248, "flow_sample has holes");

/* What the agent says to the table of flows. */
struct flow_clock {
	__u32 epoch;	 /* the interval that runs */
	__u32 collected; /* the last one that was read */
};

/* A packet's arrival, remembered where its buffer is. */
struct arrival {
	__u64 buffer;
	__u64 mark; /* what no node changes of a packet */
	__u64 time; /* TAI, ns */
};

/* A flow's next Sequence Number, and its Flow-ID: high and low half. */
struct sequence_slot {
	__u64 word;
	__u32 used; /* when, in units of 2^26 ns */
	__u32 pad;
};

struct sequence_set {
	struct sequence_slot ways[SEQUENCE_WAYS];
};

/* Where this node sends what it exports. */
struct collector {
	__u64 address[2];
	__be16 port;
	__u8 protocol;
	__u8 tables_index; /* which of the two in struct state */
	__u8 pad[4];
};

#endif
