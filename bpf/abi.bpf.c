// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Never loaded: carries the types of abi.h to the generator of Go's. */
#include "abi.h"

const volatile struct {
	enum outcome outcome;
	enum counter counter;
	enum limit limit;
	enum stack_reason stack_reason;
	enum forwarding_key forwarding_key;
	struct node_config node_config;
	struct interface interface;
	struct tally tally;
	struct state state;
	struct destination_key destination_key;
	enum edge edge;
	struct ioam_namespace ioam_namespace;
	enum option_kind option_kind;
	struct rule rule;
	struct rule_key rule_key;
	struct encapsulation encapsulation;
	struct frequency frequency;
	struct frequency_block frequency_block;
	enum frequency_bound frequency_bound;
	struct clock_state clock_state;
	struct path_mtu path_mtu;
	enum path_mtu_bound path_mtu_bound;
	struct record record;
	struct forwarding forwarding;
	struct next_hop_set next_hop_set;
	struct neighbour neighbour;
	enum sample_kind sample_kind;
	enum flow_id_source flow_id_source;
	enum marking_bound marking_bound;
	enum direction direction;
	enum selection selection;
	enum carrier carrier;
	struct marking marking;
	struct measured_key measured_key;
	struct measured_flow measured_flow;
	struct flow_blocks flow_blocks;
	struct block_clock block_clock;
	enum postcard_bound postcard_bound;
	struct postcard postcard;
	struct postcard_head postcard_head;
	struct flow_set flow_set;
	struct flow_sample flow_sample;
	struct flow_clock flow_clock;
	struct sequence_set sequence_set;
	struct collector collector;
	struct arrival arrival;
	struct tunnel_end tunnel_end;
	struct source_prefix source_prefix;
} abi = {};
