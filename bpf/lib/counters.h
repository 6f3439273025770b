// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Included by every hook. Counters belong to one interface and one CPU, so a plain add will do. */
#ifndef WAYMARK_COUNTERS_H
#define WAYMARK_COUNTERS_H

#include "../maps.h"

static __always_inline void count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &counter);

	if (value)
		(*value)++;
}

#endif
