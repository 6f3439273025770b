// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every map of the data plane. Those of a generation (namespaces and their index, interfaces,
 * boundary_policies, decapsulations, tunnel sources and destinations, rules, rule_trie, encapsulations, collectors)
 * hold two: the one that packets use, and the one that the agent fills next. The agent sizes them
 * to the configuration, and replaces them together with the programs when they become too small. It
 * keeps the others.
 */
#ifndef WAYMARK_MAPS_H
#define WAYMARK_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "abi.h"

/* What an interface has counted. Kept: counters never go back. */
struct interface_tally {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct tally));
};

/* Slot -> tally of an interface. Generation; at most 1024. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct interface_tally);
} tallies SEC(".maps");

/* Hash of an IOAM namespace id -> index of its data. Generation; at most 65536, in 8 bytes each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} namespace_index SEC(".maps");

/* Data of IOAM namespaces. Generation; at most 1024. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ioam_namespace);
} namespaces SEC(".maps");

/*
 * Hash of the index of a served interface, or of its master -> it. Generation; about as many entries
 * as indexes if these are consecutive numbers, else more, at most 131072. An entry has 32 bytes.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct interface);
} interfaces SEC(".maps");

/*
 * Interface and IOAM namespace id -> the policy there, enum boundary, where it is not that of all others.
 * Generation; at most 4096.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct policy_key);
	__type(value, __u32);
} boundary_policies SEC(".maps");

/*
 * Next hops that the kernel's routes gave, each CPU's own. Generation; of a size that the
 * configuration says, one set where no interface forwards fast.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct next_hop_set);
} next_hops SEC(".maps");

/* Behaviours of the kernel's routes, of two tables: one in use, one for the agent. Kept; 272 KiB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * BEHAVIOURS);
	__type(key, __u32);
	__type(value, struct behaviour);
} behaviours SEC(".maps");

/* Table and prefix of a route with a behaviour -> the behaviour. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 2 * SEGMENT_ROUTES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct segment_route);
	__type(value, __u32);
} segment_routes SEC(".maps");

/* One entry for each CPU: the packet whose behaviour is being carried out. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct routed);
} routed SEC(".maps");

/* One entry for each CPU: the last neighbour, the last flow. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tick);
} ticks SEC(".maps");

/*
 * Interface index -> interfaces that can send what XDP redirects. The kernel takes out those that
 * vanish. Kept; at most 1024.
 */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

/* Neighbours -> when they were sent to last, in units of 2^20 ns. Kept; at most 1024. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct neighbour);
	__type(value, __u32);
} neighbours SEC(".maps");

/* Destination of a tunnel that ends here -> which packets are taken there. Generation; at most 256. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct destination_key);
	__type(value, struct tunnel_end);
} decapsulations SEC(".maps");

/* Prefixes that tunnels may come from, by decapsulation. Generation; at most 256 times 64. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct source_prefix);
} tunnel_sources SEC(".maps");

/*
 * Tunnel destinations of the domain, as far as this node knows them, wherever they are. Generation;
 * at most 3328.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct destination_key);
	__type(value, __u32);
} tunnel_destinations SEC(".maps");

/* Criteria of encapsulations, in chains: longest destination first. Generation; at most 1024. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

/* Tree of an egress interface and destination prefix -> first rule of the chain. Generation; at most 1024. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rule_key);
	__type(value, __u32);
} rule_trie SEC(".maps");

/* What a rule inserts, prebuilt. Generation; at most 1024. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct encapsulation);
} encapsulations SEC(".maps");

/*
 * Slot -> numbers for the packets of an encapsulation with a frequency, in blocks that a CPU takes.
 * Kept: k/n stays exact over a reload.
 * Twice as many as encapsulations: while one generation replaces another, both have theirs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2048);
	__type(key, __u32);
	__type(value, struct frequency);
} frequencies SEC(".maps");

/* Slot -> numbers that this CPU has taken there, and not used. Kept as well. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2048);
	__type(key, __u32);
	__type(value, struct frequency_block);
} frequency_blocks SEC(".maps");

/* One entry: offset of the clock, written by the agent every second. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct clock_state);
} clock SEC(".maps");

/*
 * One entry: how many records are wanted, which programs count down, or RECORDS_ALL. Below 1, none are
 * made. Kept, written by the agent.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __s32);
} records_wanted SEC(".maps");

/* Per CPU sets of flows of exports. Kept; of a size that the configuration says. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_set);
} flows SEC(".maps");

/* One entry, written by the agent. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_clock);
} flow_clock SEC(".maps");

/* One entry for each CPU: the postcard that is being made. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct draft);
} drafts SEC(".maps");

/* One entry for each CPU: the trace whose delays are being counted. Each program has its own. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trace_walk);
} trace_walks SEC(".maps");

/*
 * Postcards of each CPU, behind a head: a ring in memory that the agent reads. Kept; up to 3 MiB for
 * each CPU, and 128 MiB for all, once a namespace exports postcards.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct postcard);
} postcards SEC(".maps");

/* One entry, of all CPUs and interfaces: a window of 2^27 ns << 32 | postcards granted in it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} postcard_rates SEC(".maps");

/* Where a packet's buffer is -> when it arrived, for packets whose delay is asked for. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ARRIVALS);
	__type(key, __u32);
	__type(value, struct arrival);
} arrivals SEC(".maps");

/* Namespace-ID and Flow-ID -> next Sequence Number. Kept; 2 MiB where an encapsulation has it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sequence_set);
} sequences SEC(".maps");

/*
 * Slot -> numbers of a proof's profile. Kept; 1 MiB where a namespace has a proof. A profile that is no
 * longer configured keeps its slot until another one needs it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct proof);
} proofs SEC(".maps");

/* Slot -> numbers that this CPU has taken there, and not used. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PROOF_SLOTS);
	__type(key, __u32);
	__type(value, struct proof_block);
} proof_blocks SEC(".maps");

/* Flow -> next number from edge to edge. Kept; 1.2 MiB where an encapsulation numbers flows. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct e2e_number_set);
} e2e_numbers SEC(".maps");

/* Flow -> what was measured from edge to edge. Kept; 4 MiB where a namespace measures. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct e2e_flow_set);
} e2e_flows SEC(".maps");

/* One entry, written by the agent. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct e2e_clock);
} e2e_clock SEC(".maps");

/* One entry for each CPU: the packet whose Edge-to-Edge options are read or written. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct e2e_packet);
} e2e_packets SEC(".maps");

/*
 * Histograms of delays, DELAY_ROOM for each CPU. Kept; 603 KiB for each CPU where a namespace is
 * configured and delays are counted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct delay_series);
} delays SEC(".maps");

/*
 * Of all CPUs and interfaces, copies that were returned, and packets that asked for some: a window of
 * 2^30 ns << 32 | how many in it. Kept.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOOPBACK_RATES);
	__type(key, __u32);
	__type(value, __u64);
} loopback_rates SEC(".maps");

/*
 * Destinations -> what their paths carry, where an inline header made a packet too large. The least
 * recently used gives way. Kept; 1.5 MiB where an encapsulation inserts inline.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__uint(key_size, 16);
	__type(value, struct path_mtu);
} path_mtus SEC(".maps");

/* Collectors of the domain: this node's and others'. Generation; at most 64. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct collector);
	__type(value, __u32);
} collectors SEC(".maps");

/* One entry, written by the agent: how SRv6 flows are measured. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct marking);
} markings SEC(".maps");

/*
 * Groups of the table of keys of measured flows: an octet says what is in a place. The agent alone
 * writes, in its memory. Small, so that it stays in a near cache: a packet of no flow needs no more of
 * the table. Kept; two places or more for each key.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} measured_groups SEC(".maps");

/* Places of the table -> keys. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct measured_key);
} measured_keys SEC(".maps");

/*
 * CPU, block and place of a key -> counters. With the place, they are known before the key is compared,
 * so that a processor fetches both at once. Kept; 128 bytes for each place and CPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct block_counts);
} measured_counts SEC(".maps");

/* CPU, block and number of a flow -> what else was counted. Kept; 128 bytes for each flow and CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct block_notes);
} measured_notes SEC(".maps");

/* Number of a flow -> what the agent says of it. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_state);
} measured_flows SEC(".maps");

/* One entry for each CPU. Kept. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct block_clock);
} block_clocks SEC(".maps");

/*
 * Where packets of measured flows passed uncounted -> how many, since the agent looked last. What does not
 * fit is of flows that are noted elsewhere again.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TAP_ENTRIES);
	__type(key, struct unserved_key);
	__type(value, __u64);
} unserved SEC(".maps");

/* One entry for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tap_head);
} tap_heads SEC(".maps");

/* CPU -> ring of records, 512 KiB each: about 2,000 records while the agent is scheduled. Kept. */
struct record_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 * 1024);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct record_ring);
} records SEC(".maps");

#endif
