// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Everything that crosses to the agent. Go's types are generated from here. */
#ifndef WAYMARK_ABI_H
#define WAYMARK_ABI_H

#include <linux/types.h>
#include "abi_boundary.h"
#include "abi_delay.h"
#include "abi_e2e.h"
#include "abi_forwarding.h"
#include "abi_frequency.h"
#include "abi_loopback.h"
#include "abi_marking.h"
#include "abi_patch.h"
#include "abi_pathmtu.h"
#include "abi_postcard.h"
#include "abi_proof.h"
#include "abi_segment.h"

/* Keep in step with internal/model/outcome.go; a test compares names and numbers. */
enum outcome {
	OUTCOME_NOT_IPV6,
	OUTCOME_NO_IOAM,
	OUTCOME_UNTOUCHED,
	OUTCOME_OPTION_UNSUPPORTED,
	OUTCOME_NAMESPACE_UNKNOWN,
	OUTCOME_OVERFLOW_SET,
	OUTCOME_DIRECT_EXPORT,
	OUTCOME_INCREMENTAL_TRACE,
	OUTCOME_E2E_MEASURED,
	OUTCOME_POT_UPDATED,
	OUTCOME_POT_ACCEPTED,
	OUTCOME_TRACE_FILLED,
	OUTCOME_TRACE_GROWN,
	OUTCOME_TRACE_OVERFLOW,
	OUTCOME_POT_TOO_OLD,
	OUTCOME_POT_AHEAD,
	OUTCOME_POT_REPLAYED,
	OUTCOME_POT_INVALID,
	OUTCOME_POT_REJECTED,
	OUTCOME_ENCAP_NOT_SELECTED,
	OUTCOME_ENCAP_SKIPPED_CONTROL,
	OUTCOME_ENCAP_SKIPPED_EXPORT,
	OUTCOME_ENCAP_SKIPPED_SEGMENTS,
	OUTCOME_ENCAP_SKIPPED_HBH,
	OUTCOME_ENCAP_SKIPPED_AH,
	OUTCOME_ENCAP_SKIPPED_ROUTER_ALERT,
	OUTCOME_ENCAP_SKIPPED_JUMBO,
	OUTCOME_ENCAP_SKIPPED_OPTIONS,
	OUTCOME_ENCAP_SKIPPED_UNREMOVABLE,
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
	OUTCOME_OPTIONS_REMOVED,
	OUTCOME_INLINE_REMOVED,
	OUTCOME_TUNNEL_DECAPSULATED,
	OUTCOME_ACTIVE_TERMINATED,
	OUTCOME_LOOPBACK_RECEIVED,
	OUTCOME_BOUNDARY_IGNORED,
	OUTCOME_BOUNDARY_STRIP_PARTIAL,
	OUTCOME_BOUNDARY_STRIPPED,
	OUTCOME_BOUNDARY_DROPPED,
	OUTCOME_BOUNDARY_UNPROVEN_DROPPED,
	OUTCOME_BOUNDARY_TUNNEL_DROPPED,
	OUTCOME_POT_DROPPED,
	OUTCOME_MALFORMED_IPV6,
	OUTCOME_MALFORMED_HEADER,
	OUTCOME_MALFORMED_TOO_MANY_OPTIONS,
	OUTCOME_MALFORMED_TUNNEL,
	OUTCOME_MALFORMED_ALIGNMENT,
	OUTCOME_MALFORMED_OPTION_LENGTH,
	OUTCOME_MALFORMED_NODE_LENGTH,
	OUTCOME_MALFORMED_REMAINING_LENGTH,
	OUTCOME_MALFORMED_SEQUENCES,
	OUTCOME_MALFORMED_NODE_DATA,
	NUM_OUTCOMES,
};

/* Outcomes of options come first. */
#define NUM_OPTION_OUTCOMES (OUTCOME_POT_REJECTED + 1)

/* What a tally counts. */
enum counter {
	COUNTER_INGRESS = 0,   /* + outcome of a packet */
	COUNTER_EGRESS = 64,   /* + outcome of a packet */
	COUNTER_FORWARD = 128, /* + outcome at egress of a packet that was forwarded at ingress */
	COUNTER_STACK = 192,   /* + why fast forwarding left a packet to the stack */
	COUNTER_INGRESS_OPTIONS = 224, /* + outcome of an option, unless it is the packet's */
	COUNTER_EGRESS_OPTIONS = 256,
	COUNTER_RECORDS_WRITTEN = 288,
	COUNTER_RECORDS_LOST,
	COUNTER_POSTCARDS,
	COUNTER_POSTCARDS_SUPPRESSED, /* by their limits */
	COUNTER_FLOWS_EVICTED,
	COUNTER_SEQUENCES_EVICTED,
	COUNTER_SRH_MALFORMED, /* + enum srh_fault, while flows are measured */
	COUNTER_SRH_MALFORMED_END = COUNTER_SRH_MALFORMED + NUM_SRH_FAULTS - 1,
	COUNTER_E2E_NUMBERS_EVICTED,
	COUNTER_E2E_FLOWS_EVICTED,
	COUNTER_UNMARKED, /* + why packets of measured flows left without the option */
	COUNTER_UNMARKED_END = COUNTER_UNMARKED + NUM_UNMARKED - 1,
	COUNTER_LOOPBACK, /* + enum loopback_count */
	COUNTER_LOOPBACK_END = COUNTER_LOOPBACK + NUM_LOOPBACK_COUNTS - 1,
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
	STACK_ROUTE,	/* none to forward by: local or unreachable */
	STACK_NEIGHBOUR,
	STACK_DEVICE, /* cannot send what XDP redirects, or is where the packet arrived */
	STACK_MTU,
	STACK_HEADROOM,
	STACK_BOUNDARY, /* leaves the domain, or by an interface that is not served */
	STACK_MARKING,	/* may get a header that marks it, and IOAM as well */
	/* The route has `encap`, and: */
	STACK_ENCAP,		 /* it is neither seg6 nor seg6local */
	STACK_SEGMENT_TC,	 /* only XDP carries out behaviours */
	STACK_SEGMENT_SUSPENDED, /* the agent does not say that behaviours are as programs know them */
	STACK_SEGMENT_AMBIGUOUS, /* the kernel may choose another route, or way */
	STACK_SEGMENT_SETTING,	 /* a setting leaves it to the kernel what packets get in front */
	STACK_SEGMENT_BEHAVIOUR, /* programs do not have its behaviour, */
	STACK_SEGMENT_FLAVOUR,	 /* or that in its flavour */
	STACK_SEGMENT_HMAC,	 /* it adds an HMAC, or the packet has one */
	STACK_SEGMENT_TLV,	 /* the packet's SRH has other TLVs */
	STACK_SEGMENT_MALFORMED, /* the packet's SRH is malformed */
	STACK_SEGMENT_MISMATCH,	 /* the packet is not as the behaviour needs it */
	STACK_SEGMENT_CHAINED,	 /* so has the route of what the packet becomes */
	NUM_STACK_REASONS,
	STACK_LWTUNNEL = NUM_STACK_REASONS, /* of a route, never counted: it has `encap` */
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

/* What a device is by which packets appear to arrive after a served interface below it. */
enum upper {
	UPPER_NONE,
	UPPER_MASTER, /* a bridge, a VRF, a bond */
	UPPER_VLAN,
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

/* How many records are wanted. */
enum record_bound {
	RECORDS_ALL = 1 << 30, /* no number is so great */
};

/* What a sample in a ring is: its first word. */
enum sample_kind {
	SAMPLE_RECORD,
	SAMPLE_FLOW,
	SAMPLE_LOOPBACK, /* a struct record of a packet that goes on with its header */
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
	__u8 has_edges;		 /* some interface drops some IOAM */
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
	__u8 has_budgets;     /* some encapsulation has one */
	__u8 has_proofs;      /* some namespace has a proof of transit */
	__u8 inserts_proofs;  /* some encapsulation has one */
	__u8 inserts_mark;    /* packets of SRv6 flows may get the option that marks them */
	__u8 has_e2e;	      /* some namespace measures flows from edge to edge */
	__u8 inserts_e2e;     /* some encapsulation numbers them */
	__u8 trace_flags;     /* flags of traces that some namespace acts on: TRACE_..., shifted */
	__u8 asks_loopback;   /* some encapsulation sets the Loopback flag */
	__u8 nests;	      /* some encapsulation takes packets that carry IOAM already */
	__u8 grows;	      /* some namespace lets incremental traces grow */
	__u8 inserts_growing; /* some encapsulation has an incremental trace */
	__u8 strips;	      /* some interface strips some IOAM */
	__u8 may_take_back;   /* packets of measured flows may be dropped after they were counted */
	__u8 has_policies;    /* some interface has policies of namespaces */
	__u8 has_delays;      /* delays are counted in histograms */
	__u8 pad[4];
	__u32 loopback_limit; /* packets that pay for a copy */
	__u32 loopback_rate;  /* copies, and packets that ask for some, in 2^30 ns */
	__u32 delay_sample; /* of packets whose departure has no time, one in this number is timed; 0: none */
	__u32 pad2;
	__u64 flow_keys[11];  /* of the flow hash, the same in the domain */
	__u64 table_keys[14]; /* of the table of flows */
};

_Static_assert(sizeof(struct node_config) == 376, "node_config has holes");

/* An interface of the node: of a hook, of arrival, or of departure. */
struct interface {
	__u32 ifindex; /* 0: none */
	__u32 interface_id_wide;
	__u32 first_rule; /* of its encapsulations; with has_trie, its number in the trie */
	__u32 mac_head;	  /* its address, as in a frame */
	__u16 mac_tail;
	__u16 interface_id;
	__u16 slot;	/* of its counters */
	__u8 roles;	/* enum role, enum edge, enum outside, and enum filter */
	__u8 boundary;	/* enum boundary_bits */
	__u8 insertion; /* the most that its encapsulations add, in units of 8 bytes; 0: none */
	__u8 has_trie;
	__u8 needs_upper; /* some rule asks for the upper layer */
	__u8 upper;	  /* enum upper: it is above served interfaces, and has no hook */
	__u8 fast;	  /* forward here what can be */
	__u8 is_veth; /* frames may be another stack's packets, their checksums not computed yet */
	__u8 tables_index; /* of the generation that this entry belongs to */
	__u8 is_unproven;  /* an upper one, some of whose packets no hook may have seen */
};

_Static_assert(sizeof(struct interface) == 32, "interface has holes");

/* What an interface has counted, on one CPU. */
struct tally {
	__u64 counters[NUM_COUNTERS]; /* by enum counter */
	__s64 debt;		      /* packets that are still to pay for postcards */
	__s64 loopback_debt;	      /* packets that are still to pay for copies */
	struct traffic sent;	      /* what left by it; only where budgets ask */
	struct traffic added;	      /* of that, to the total */
	__u64 pad[7];		      /* the total has a cache line of its own */
	struct total total;	      /* of all CPUs, in the tally of CPU 0 */
	__u64 pad_end[5];
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
	__u32 index;	       /* 0 or 1: which of the two these tables are */
	__u32 removes; /* headers, or tunnels, of some packets */
	__u32 pad;
};

_Static_assert(sizeof(struct tables) == 96, "tables has holes");

/* The tables that packets use, and those that the agent fills next. */
struct state {
	__u32 current;
	__u32 epoch; /* raised before and after each change of current: see next_hop_tag() */
	struct tables tables[2];
};

/* A tunnel destination in one generation of the tables. */
struct destination_key {
	__u64 address[2];
	__u32 tables_index;
	__u32 pad;
};

struct ioam_namespace {
	__be64 data_wide;
	__u32 id; /* beyond 16 bits: none */
	__be32 data;
	__u8 remove;
	__u8 snapshot_words; /* of snapshot[], its header included: at least 1 */
	__u8 export;	     /* enum export_mode */
	__u8 probing;	     /* enum probing */
	__be32 snapshot[64];
	__u32 sample;	     /* EXPORT_SAMPLE: one postcard in this number of packets */
	__u64 proof_factor;  /* this node adds factor times number and summand; secret */
	__u64 proof_summand; /* secret */
	__u64 proof_secret;  /* what all nodes add, without the number; of a verifying node */
	__u64 proof_ahead;   /* ns that a number may be ahead of the clock */
	__u32 proof_slot;    /* of the profile's numbers */
	__u8 proof;	     /* enum proof_role */
	__u8 proof_drops;    /* packets whose proof is refused */
	__u8 e2e;	     /* measure flows from edge to edge */
	__u8 incremental;    /* incremental traces may grow */
};

_Static_assert(sizeof(struct ioam_namespace) == 320, "ioam_namespace has holes");

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
	KIND_POT,
	KIND_E2E, /* in Destination Options headers alone */
	KIND_INCREMENTAL,
};

struct encapsulation {
	__u32 mode;
	__u32 header_length; /* bytes of header[], a multiple of 8 */
	__u32 frequency_k;
	__u32 frequency_n;
	__u32 frequency_slot;
	__u8 options;
	__u8 whole;  /* header[] without padding at the end, in units of 4 bytes */
	__u8 nested; /* takes packets that carry IOAM already */
	__u8 has_incremental;
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
	__u8 has_budget;
	__u8 has_proof;
	__u32 loopback;	   /* N: the first of every N packets gets the Loopback flag; 0 = none */
	__u16 loopback_at; /* of the first word after the option-type, from the start of the header */
	__u8 wants_buffer;
	__u8 e2e_options; /* of all, in a Destination Options header at the end */
	__u8 wants_e2e_time;
	__u8 first_header; /* the next header value that announces header[] */
	__u8 last_header;  /* where its last extension header begins, in units of 8 bytes */
	__u8 content; /* its Hop-by-Hop header without padding at the end, in units of 4 bytes */
	__u64 packet_share; /* of the interface's packets, in 2^-32; 0 = no limit */
	__u64 octet_share;
	__u32 packet_price; /* packets of the interface that earn one, rounded up */
	__u32 octet_price;
	struct patch patches[MAX_IOAM_OPTIONS];
	__u64 header[MAX_HEADER_INSERTION / 8]; /* as in the packet */
};

_Static_assert(sizeof(struct encapsulation) == 112 + 40 * 9 + 512, "encapsulation has holes");

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
