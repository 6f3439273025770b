// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Namespaces by a hash that has no collisions: its multiplier is found when a generation is
 * compiled. Two arrays, which the kernel looks up inline, cost a tenth of a hash map.
 */
#ifndef WAYMARK_NAMESPACE_H
#define WAYMARK_NAMESPACE_H

#include "../config.h"
#include "../maps.h"

static __always_inline struct ioam_namespace *find_namespace(__u32 id)
{
	__u32 hash = (id * NODE.namespace_multiplier & 0xffff) >> NODE.namespace_shift;
	__u32 *index = bpf_map_lookup_elem(&namespace_index, &hash);
	struct ioam_namespace *ns;

	if (!index)
		return 0;
	ns = bpf_map_lookup_elem(&namespaces, index);
	return ns && ns->id == id ? ns : 0;
}

#endif
