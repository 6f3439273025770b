// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Namespaces and interfaces by hashes that have no collisions: their multipliers are found when
 * a generation is compiled. Arrays, which the kernel looks up inline, cost a tenth of a hash map.
 */
#ifndef WAYMARK_LOOKUP_H
#define WAYMARK_LOOKUP_H

#include "../config.h"
#include "../maps.h"

/* 2^64 and 2^32 by the golden ratio, odd: multiples lie far apart. */
#define FIBONACCI    0x9e3779b97f4a7c15ULL
#define FIBONACCI_32 0x9e3779b1U

static __always_inline struct ioam_namespace *find_namespace(__u32 id)
{
	__u32 hash = id * NODE.namespace_hash.multiplier >> NODE.namespace_hash.shift;
	__u32 *index = bpf_map_lookup_elem(&namespace_index, &hash);
	struct ioam_namespace *ns;

	if (!index)
		return 0;
	ns = bpf_map_lookup_elem(&namespaces, index);
	return ns && ns->id == id ? ns : 0;
}

/* The interface where a packet arrived; NULL when it is not served, or the packet is our own. */
static __always_inline struct ingress_interface *find_interface(__u32 ifindex)
{
	__u32 hash = ifindex * NODE.interface_hash.multiplier >> NODE.interface_hash.shift;
	struct ingress_interface *in = bpf_map_lookup_elem(&interfaces, &hash);

	return ifindex && in && in->ifindex == ifindex ? in : 0;
}

#endif
