// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Namespaces and interfaces by hashes that have no collisions: their multipliers are found when
 * a generation is compiled. Arrays, which the kernel looks up inline, cost a tenth of a hash map.
 */
#ifndef WAYMARK_LOOKUP_H
#define WAYMARK_LOOKUP_H

#include "compiler.h"
#include "config.h"
#include "maps.h"

/* 2^64 and 2^32 by the golden ratio, odd: multiples lie far apart. */
#define FIBONACCI    0x9e3779b97f4a7c15ULL
#define FIBONACCI_32 0x9e3779b1U

/*
 * The hash of a sum of words of 32 bits with random keys of 64 (multilinear hashing): what two packets
 * differ in gives them one hash by chance alone. Without the last step, addresses or flow labels that
 * follow each other would crowd in few sets with one in twenty keys.
 */
static __always_inline __u32 spread(__u64 sum)
{
	return (sum ^ sum >> 32) * FIBONACCI >> 32;
}

/* The tables of a run. Functions that are not inlined get their index as an argument. */
static __always_inline const struct tables *tables_of(__u32 tables_index)
{
	const struct tables *t;
	__u64 index = tables_index & 1;

	opaque(index);
	t = (const struct tables *)&STATE.tables[index];
	opaque(t);
	return t;
}

static __always_inline struct ioam_namespace *find_namespace(const struct tables *t, __u32 id)
{
	__u32 hash =
		t->namespace_base + (id * t->namespace_hash.multiplier >> t->namespace_hash.shift);
	__u32 *index = bpf_map_lookup_elem(&namespace_index, &hash);
	struct ioam_namespace *ns;

	if (!index)
		return 0;
	ns = bpf_map_lookup_elem(&namespaces, index);
	return ns && ns->id == id ? ns : 0;
}

/* A served interface, or a master; NULL for others, and for the packets that this node generated. */
static __always_inline struct interface *find_interface(const struct tables *t, __u32 ifindex)
{
	__u32 hash = t->interface_base +
		     (ifindex * t->interface_hash.multiplier >> t->interface_hash.shift);
	struct interface *i = bpf_map_lookup_elem(&interfaces, &hash);

	return ifindex && i && i->ifindex == ifindex ? i : 0;
}

#endif
