// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Module of Edge-to-Edge (RFC 9197 §4.6), whose options are in a Destination Options header: the
 * encapsulating node (e2e_insert.h) numbers packets, the decapsulating node (e2e_read.h, e2e_measure.h)
 * measures with the numbers what became of them (docs/data-plane/edge-to-edge.md).
 *
 * A set of a table has a lock, so that CPUs count exactly. No function is called while it is held.
 */
#ifndef WAYMARK_OPTION_E2E_H
#define WAYMARK_OPTION_E2E_H

#include "clock.h"
#include "counters.h"
#include "draft.h"
#include "edit.h"
#include "option/option.h"

#define E2E_OPTION 6 /* length of the shortest option: up to the E2E-Type */
#define E2E_DATA   8 /* of its fields, from the option's first byte */

enum e2e_type {
	E2E_SEQUENCE_64 = 0x8000,
	E2E_SEQUENCE_32 = 0x4000,
	E2E_SECONDS = 0x2000,
	E2E_FRACTION = 0x1000,
	E2E_TYPES = 0xf000, /* receivers ignore the others */
};

/*
 * What read_destination() found: the next header, the length of the header in units of 8 bytes from bit 8 on,
 * these, and an error's outcome from bit 24 on.
 */
enum e2e_found {
	E2E_THERE = 0x10000,	 /* options of IOAM */
	E2E_KNOWN = 0x20000,	 /* one is Edge-to-Edge, of a namespace that this node knows */
	E2E_MARKED = 0x40000,	 /* and one of a namespace that is to be removed here */
	E2E_SHARED = 0x80000,	 /* there is something else, too */
	E2E_DISCARDS = 0x100000, /* that a node discards the packet for which does not know it */
};

#define E2E_ERROR(found)  ((found) >> 24 & 0x3f)
#define E2E_NEXT(found)	  ((found) & 0xff)
#define E2E_LENGTH(found) (((found) >> 8 & 0xff) << 3)

/* Whether this node reads Destination Options headers: it may have to remove some. */
#define READS_E2E (NODE.has_decapsulations || NODE.has_removals)

/* Of this CPU: hooks do not interrupt each other. */
static __always_inline struct e2e_packet *e2e_packet_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&e2e_packets, &zero);
}

/* Tells tunnels apart. The same at both ends, which therefore number and measure the same packets. */
static __always_inline __u64 tunnel_hash(const struct ipv6 *ip6)
{
	__u64 h = ip6->source[0] * 0x9e3779b97f4a7c15ULL + ip6->source[1] * 0xbf58476d1ce4e5b9ULL +
		  ip6->destination[0] * 0x94d049bb133111ebULL +
		  ip6->destination[1] * 0xd6e8feb86659fd93ULL;

	return h ? h : 1;
}

/* Notes the packets that share numbers with one that has this IPv6 header. */
static __always_inline void note_e2e_flow(struct e2e_key *key, const struct ipv6 *ip6, __u64 tunnel)
{
	key->source[0] = ip6->source[0];
	key->source[1] = ip6->source[1];
	key->destination[0] = ip6->destination[0];
	key->destination[1] = ip6->destination[1];
	key->tunnel = tunnel;
	key->flow_label = ip6->class_label & FLOW_LABEL_MASK;
}

static __always_inline struct e2e_clock *e2e_clock_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&e2e_clock, &zero);
}

/*
 * Where a key is in a table: there it also is for the next programs, so that numbers continue. The keys
 * of the hash are secret: a sender cannot make flows that fall into one set.
 */
static __always_inline __u32 e2e_hash(const struct e2e_clock *c, const struct e2e_key *key)
{
	const __u32 *word = (const __u32 *)key; /* of addresses and tunnel */
	__u64 h = key->header * c->keys[9] + key->flow_label * c->keys[10];

#pragma clang loop unroll(full)
	for (int i = 0; i < 9; i++)
		h += word[i] * c->keys[i];
	return spread(h);
}

static __always_inline int same_e2e_key(const struct e2e_key *a, const struct e2e_key *b)
{
	const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4]) |
		 (x[5] ^ y[5]));
}

/* The entry of a set that a key gets. */
struct e2e_place {
	__u32 way;
	__u32 own;     /* the key has it */
	__u32 evicted; /* another key has it: the least recently used one */
};

/* Finds the key's entry, else a free one, else the least recently used, in entries of some size. */
static __always_inline struct e2e_place find_e2e_place(const void *ways, __u32 size,
						       const struct e2e_key *key)
{
	const struct e2e_entry *oldest = ways;
	struct e2e_place place = {};

#pragma clang loop unroll(full)
	for (__u32 i = 0; i < E2E_WAYS; i++) {
		const struct e2e_entry *e = ways + i * size;

		if (e->taken && same_e2e_key(&e->key, key)) {
			place.way = i;
			place.own = 1;
			return place;
		}
	}
#pragma clang loop unroll(full)
	for (__u32 i = 1; i < E2E_WAYS; i++) {
		const struct e2e_entry *e = ways + i * size;

		if (oldest->taken && (!e->taken || is_used_before(e->used, oldest->used))) {
			oldest = e;
			place.way = i;
		}
	}
	place.evicted = oldest->taken;
	return place;
}

#endif
