// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Everything that crosses to the agent. Go's types are generated from here. */
#ifndef WAYMARK_ABI_H
#define WAYMARK_ABI_H

#include <linux/types.h>
#include "abi_marking.h"
#include "abi_postcard.h"

/* Keep in step with internal/model/outcome.go; a test compares names and numbers. */
enum outcome {
	OUTCOME_NOT_IPV6,
	OUTCOME_NO_IOAM,
	OUTCOME_UNTOUCHED,
	OUTCOME_OPTION_UNSUPPORTED,
	OUTCOME_NAMESPACE_UNKNOWN,
	OUTCOME_OVERFLOW_SET,
	OUTCOME_DIRECT_EXPORT,
	OUTCOME_TRACE_FILLED,
	OUTCOME_TRACE_OVERFLOW,
	OUTCOME_ENCAP_NOT_SELECTED,
	OUTCOME_ENCAP_SKIPPED_CONTROL,
	OUTCOME_ENCAP_SKIPPED_EXPORT,
	OUTCOME_ENCAP_SKIPPED_HBH,
	OUTCOME_ENCAP_SKIPPED_MTU,
	OUTCOME_ENCAP_SKIPPED_GSO,
	OUTCOME_ENCAP_SKIPPED_HEADROOM,
	OUTCOME_ENCAP_INSERTED,
	OUTCOME_ENCAP_TUNNELED,
	OUTCOME_ENCAP_UNFILLED,
	OUTCOME_ENCAP_OVERFLOW,
	OUTCOME_REMOVAL_PARTIAL,
	OUTCOME_DECAP_FAILED,
	OUTCOME_DECAP_REFUSED_SOURCE,
	OUTCOME_DECAP_REFUSED_BARE,
	OUTCOME_DECAP_REFUSED_INNER,
	OUTCOME_INLINE_REMOVED,
	OUTCOME_TUNNEL_DECAPSULATED,
	OUTCOME_BOUNDARY_IGNORED,
	OUTCOME_BOUNDARY_STRIP_PARTIAL,
	OUTCOME_BOUNDARY_STRIPPED,
	OUTCOME_BOUNDARY_DROPPED,
	OUTCOME_BOUNDARY_UNPROVEN_DROPPED,
	OUTCOME_BOUNDARY_TUNNEL_DROPPED,
	OUTCOME_MALFORMED_IPV6,
	OUTCOME_MALFORMED_HEADER,
	OUTCOME_MALFORMED_TOO_MANY_OPTIONS,
	OUTCOME_MALFORMED_TUNNEL,
	OUTCOME_MALFORMED_ALIGNMENT,
	OUTCOME_MALFORMED_OPTION_LENGTH,
	OUTCOME_MALFORMED_NODE_LENGTH,
	OUTCOME_MALFORMED_REMAINING_LENGTH,
	NUM_OUTCOMES,
};

/* Outcomes of options come first. */
#define NUM_OPTION_OUTCOMES (OUTCOME_TRACE_OVERFLOW + 1)

/* What a tally counts. */
enum counter {
	COUNTER_INGRESS = 0,   /* + outcome of a packet */
	COUNTER_EGRESS = 64,   /* + outcome of a packet */
	COUNTER_FORWARD = 128, /* + outcome at egress of a packet that was forwarded at ingress */
	COUNTER_STACK = 192,   /* + why fast forwarding left a packet to the stack */
	COUNTER_INGRESS_OPTIONS = 208, /* + outcome of an option, unless it is the packet's */
	COUNTER_EGRESS_OPTIONS = 224,
	COUNTER_RECORDS_WRITTEN = 240,
	COUNTER_RECORDS_LOST,
	COUNTER_POSTCARDS,
	COUNTER_POSTCARDS_SUPPRESSED, /* by their limits */
	COUNTER_FLOWS_EVICTED,
	COUNTER_SEQUENCES_EVICTED,
	COUNTER_SRH_MALFORMED,
	NUM_COUNTERS,
};

/* Why fast forwarding leaves a packet to the stack. */
enum stack_reason {
	STACK_NONE,    /* the packet is forwarded */
	STACK_AGENT,   /* no agent watches the routes */
	STACK_LINK,    /* another protocol, a VLAN, or not this interface's address */
	STACK_PACKET,  /* not a packet that any router forwards, or in pieces */
	STACK_HEADERS, /* a header or an outcome that needs the stack */
	STACK_CONTROL, /* ICMPv6 other than echo */
	STACK_HOP_LIMIT,
	STACK_CHECKSUM, /* the neighbour, on this machine, left its checksum to the device */
	STACK_ROUTE,	/* none to forward by: local, unreachable, or with an encapsulation */
	STACK_NEIGHBOUR,
	STACK_DEVICE, /* cannot send what XDP redirects, or is where the packet arrived */
	STACK_MTU,
	STACK_HEADROOM,
	STACK_BOUNDARY, /* leaves the domain, or by an interface that is not served */
	NUM_STACK_REASONS,
};

_Static_assert((int)NUM_OUTCOMES <= (int)COUNTER_EGRESS, "the counters of the hooks overlap");
_Static_assert((int)COUNTER_STACK + NUM_STACK_REASONS <= (int)COUNTER_INGRESS_OPTIONS,
	       "the counters of the reasons overlap");
_Static_assert((int)COUNTER_INGRESS_OPTIONS + NUM_OPTION_OUTCOMES <= (int)COUNTER_EGRESS_OPTIONS &&
		       (int)COUNTER_EGRESS_OPTIONS + NUM_OPTION_OUTCOMES <=
			       (int)COUNTER_RECORDS_WRITTEN,
	       "the counters of the options overlap");

enum limit {
	MAX_IOAM_OPTIONS = 9,
	MAX_OPTIONS = 32,
	MAX_EXTENSION_HEADERS = 8,
	MAX_ENCAP_OVERLAP = 16,
	MAX_HEADER_INSERTION = 512,
	MAX_HBH = 2048,
	MAX_TUNNEL_SOURCES = 64,
	RECORD_PACKET = 80,
	NO_RULE = 0xffffffff,
};

enum role {
	ROLE_INGRESS = 1,
	ROLE_EGRESS = 2,
};

/* Where an interface drops IOAM: each is a role that it lacks, shifted. */
enum edge {
	EDGE_SHIFT = 2,
	EDGE_INGRESS = ROLE_INGRESS << EDGE_SHIFT,
	EDGE_EGRESS = ROLE_EGRESS << EDGE_SHIFT,
};

enum boundary {
	BOUNDARY_DROP,
	BOUNDARY_STRIP,
	BOUNDARY_IGNORE,
};

enum timestamp_format {
	TIMESTAMP_POSIX,
	TIMESTAMP_PTP,
	TIMESTAMP_NTP,
};

enum mode {
	MODE_INLINE,
	MODE_ENCAP,
	MODE_AUTO,
};

/* What a sample in a ring is: its first word. */
enum sample_kind {
	SAMPLE_RECORD,
	SAMPLE_FLOW,
};

/* A hash without collisions among the keys of a generation. */
struct perfect_hash {
	__u32 multiplier;
	__u32 shift;
};

/* What is taken out of the tunnels to one destination. */
struct tunnel_end {
	__u32 first_source; /* of its prefixes, in tunnel_sources */
	__u32 sources;	    /* how many there are; 0 = packets of any source */
	__u32 bare;	    /* packets without IOAM of a namespace of this node, too */
};

/* A prefix of outer sources, as in the packet. */
struct source_prefix {
	__u64 address[2];
	__u64 mask[2];
};

/*
 * Constants of a node, in read-only data of its programs: the verifier removes code that is off. A
 * change of them loads new programs.
 */
struct node_config {
	__u64 node_id_wide;
	__u64 fixed_time;    /* tests only: instead of the clock, ns; 0 = the clock */
	__u32 fixed_ifindex; /* tests only: instead of the packet's interface; 0 = that */
	__u32 node_id;
	__u8 timestamp_format;
	__u8 mainline;
	__u8 link_header;	 /* bytes before an untagged packet: 14 or 0 */
	__u8 fast;		 /* some interface of this program forwards here what can be */
	__u8 has_edges;		 /* some interface drops IOAM */
	__u8 has_decapsulations; /* tunnels end here */
	__u8 has_sources;	 /* some decapsulation takes packets of certain sources alone */
	__u8 has_removals;	 /* some namespace is marked `remove` */
	__u8 has_encapsulations;
	__u8 inserts_inline;  /* some encapsulation may */
	__u8 has_postcards;   /* some namespace exports */
	__u8 inserts_dex;     /* some encapsulation has a Direct Export */
	__u32 next_hop_sets;  /* of one CPU, a power of two */
	__u64 hash_keys[10];  /* of the next hops' hash */
	__u32 flow_sets;      /* of one CPU, a power of two */
	__u32 postcard_limit; /* packets that pay for a postcard */
	__u32 postcard_rate;  /* postcards, and flows reported early, in 2^27 ns */
	__u32 stack_options;  /* that the stack takes in one header: net.ipv6.max_hbh_opts_number */
	__u32 postcard_room;  /* postcards that may wait for a CPU's reader, a power of two */
	__u8 measures;	      /* SRv6 flows are measured */
	__u8 pad[3];
	__u64 flow_keys[11];  /* of the flow hash, the same in the domain */
	__u64 table_keys[14]; /* of the table of flows */
};

_Static_assert(sizeof(struct node_config) == 344, "node_config has holes");

/* An interface of the node: of a hook, of arrival, or of departure. */
struct interface {
	__u32 ifindex; /* 0: none */
	__u32 interface_id_wide;
	__u32 first_rule; /* of its encapsulations; with has_trie, its number in the trie */
	__u32 mac_head;	  /* its address, as in a frame */
	__u16 mac_tail;
	__u16 interface_id;
	__u16 slot; /* of its counters */
	__u8 roles; /* enum role, and enum edge */
	__u8 boundary;
	__u8 insertion; /* the most that its encapsulations add, in units of 8 bytes; 0: none */
	__u8 has_trie;
	__u8 needs_upper; /* some rule asks for the upper layer */
	__u8 is_master;	  /* of served interfaces: others may be its members, too */
	__u8 fast;	  /* forward here what can be */
	__u8 is_veth; /* frames may be another stack's packets, their checksums not computed yet */
	__u8 half;    /* of the tables that this entry belongs to */
	__u8 pad;
};

_Static_assert(sizeof(struct interface) == 32, "interface has holes");

/* What an interface has counted, on one CPU. */
struct tally {
	__u64 counters[NUM_COUNTERS]; /* by enum counter */
	__s64 debt;		      /* packets that are still to pay for postcards */
};

/*
 * One generation of the tables: where they begin in maps that hold two, and what every packet
 * needs.
 */
struct tables {
	__u64 decapsulation[2]; /* the only tunnel destination, if there is but one */
	__u64 guarded[2];	/* the only tunnel destination that is guarded */
	__u64 collector_bits; /* of addresses that may be collectors', whose packets get no header */
	struct perfect_hash namespace_hash;
	struct perfect_hash interface_hash;
	__u32 namespace_base;
	__u32 interface_base;
	struct tunnel_end end; /* which packets are taken at the only tunnel destination */
	__u32 decapsulations;  /* 2: more than one */
	__u32 tunnels_guarded; /* tunnel destinations that the edge keeps outsiders from; 2: more than one */
	__u32 half;	       /* 0 or 1: which of the two these tables are */
};

_Static_assert(sizeof(struct tables) == 88, "tables has holes");

/* The tables that packets use, and those that the agent fills next. */
struct state {
	__u32 current;
	__u32 pad;
	struct tables tables[2];
};

/* A tunnel destination in one generation of the tables. */
struct destination_key {
	__u64 address[2];
	__u32 half;
	__u32 pad;
};

/* Which fields besides the destination decide about a route, according to routes and rules. */
enum forwarding_key {
	KEY_FLOW = 1,	  /* source, traffic class, flow label, next header */
	KEY_UNCACHED = 2, /* ports as well: ask for each packet */
	KEY_STACK = 4,	  /* what a program cannot see: leave all to the stack */
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

/*
 * What a CPU remembers: the coarse clock, as read in a tick, the neighbour it last reported, and the
 * last flow of an export.
 */
struct tick {
	__u64 jiffies;
	__u64 now; /* CLOCK_MONOTONIC, ns */
	struct neighbour last;
	__u32 reported; /* when, in units of 2^20 ns */
	__u32 flow;	/* its entry in the table, counted from the CPU's first one */
};

/* How long the agent's report is good for next hops found before, and for new ones; ns. */
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
	__u32 macs[3];	  /* destination and source, as in a frame */
	__u16 mtu;	  /* of the path as far as this node knows */
	__u8 next_header; /* compared if KEY_FLOW */
	__u8 reason;	  /* enum stack_reason: why the stack has to forward */
};

#define NEXT_HOP_WAYS 4

struct next_hop_set {
	struct next_hop ways[NEXT_HOP_WAYS];
};

_Static_assert(sizeof(struct next_hop) == 64, "next_hop has holes");

struct ioam_namespace {
	__be64 data_wide;
	__u32 id; /* beyond 16 bits: none */
	__be32 data;
	__u8 remove;
	__u8 snapshot_words; /* of snapshot[], its header included: at least 1 */
	__u8 export;	     /* enum export_mode */
	__u8 pad;
	__be32 snapshot[64];
	__u32 sample; /* EXPORT_SAMPLE: one postcard in this number of packets */
};

_Static_assert(sizeof(struct ioam_namespace) == 280, "ioam_namespace has holes");

/* One encapsulation's criteria; address words in network order. */
struct rule {
	__u64 destination[2];
	__u64 destination_mask[2];
	__u64 source[2];
	__u64 source_mask[2];
	__be32 class_label; /* traffic class and flow label, as in the header's first word */
	__be32 class_label_mask;
	__u16 source_port_from; /* host order */
	__u16 source_port_to;
	__u16 destination_port_from;
	__u16 destination_port_to;
	__u8 next_header;
	__u8 has_next_header;
	__u8 has_ports;
	__u8 pad;
	__u32 encapsulation;
	__u32 next; /* the rule to try after this one, or NO_RULE */
	__u32 pad2;
};

_Static_assert(sizeof(struct rule) == 96, "rule has holes");

/* The modules of option-types. */
enum option_kind {
	KIND_OTHER, /* no module, or not sound */
	KIND_TRACE,
	KIND_DEX,
};

/*
 * Where an inserted option needs a value of its packet: offsets from the start of the header, 0 =
 * nowhere.
 */
struct patch {
	__u16 hop_limit;
	__u16 ingress_id;
	__u16 seconds;
	__u16 fraction;
	__u16 queue;
	__u16 hop_limit_wide;
	__u16 ingress_id_wide;
	__u16 dex; /* the first word after the option-type */
	__u16 flow_id;
	__u16 sequence;
	__u32 flow_id_source;
	__u32 fixed_flow_id;
	__u8 kind; /* enum option_kind */
	__u8 pad[3];
};

struct encapsulation {
	__u32 mode;
	__u32 header_length; /* bytes of header[], a multiple of 8 */
	__u32 frequency_k;
	__u32 frequency_n;
	__u32 frequency_slot;
	__u32 options;
	__u8 wants_time;
	__u8 wants_queue;
	__u8 has_dex;
	__u8 flows_by_label; /* flows_below is of the hash of the flow label alone */
	__u32 path_mtu;	     /* of the tunnel's path, 0 = not known; changes while this runs */
	__u64 source[2];
	__u64 destination[2];
	__u32 flows_below; /* hashes from here on are not selected; 0 = all are */
	__u32 index;	   /* of this one */
	__u8 inserted;	   /* enum outcome of an insertion inline */
	__u8 tunneled;	   /* and in a tunnel */
	__u8 pad[6];
	struct patch patches[MAX_IOAM_OPTIONS];
	__u64 header[MAX_HEADER_INSERTION / 8]; /* as in the packet */
};

_Static_assert(sizeof(struct encapsulation) == 80 + 32 * 9 + 512, "encapsulation has holes");

/* Numbers of packets that a CPU takes at once, so that CPUs seldom write what they share. */
enum frequency_bound {
	FREQUENCY_BLOCK = 64,
};

/* The numbers of an encapsulation's packets that no CPU has taken; outlives a generation. */
struct frequency {
	__u64 next;
	__u8 name[56]; /* of the encapsulation that owns the slot; empty = free */
};

/* Those that a CPU has taken and not used. */
struct frequency_block {
	__u64 next;
	__u64 end;
};

/* What the path to a destination carries, as a Packet Too Big message said. */
struct path_mtu {
	__u32 mtu;
	__u32 learned; /* when, in units of 2^30 ns */
};

enum path_mtu_bound {
	PATH_MTUS = 16384,
	PATH_MTU_AGE = 559, /* ten minutes (RFC 8201 §4), in units of 2^30 ns */
};

struct rule_key {
	__u32 prefix_length; /* 32 + that of the address */
	__u32 tree;	     /* of an interface in a generation */
	__u8 destination[16];
};

struct clock_state {
	__s64 tai_offset; /* TAI - UTC, ns */
	__u64 second;	  /* of the last timestamp, in its own scale: saves a division */
};

/* What a removal reports to user space; header_length bytes of the removed header follow. */
struct record {
	__u32 kind; /* SAMPLE_RECORD */
	__u32 ifindex;
	__u64 time;   /* TAI, ns */
	__u32 length; /* bytes of the IPv6 packet that goes on */
	__u16 header_length;
	__u8 outcome;
	__u8 packet_length; /* bytes of packet[] in use */
	__u8 packet[RECORD_PACKET];
};

_Static_assert(sizeof(struct record) == 104, "record has holes");

#endif
