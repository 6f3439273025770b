// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The postcard that is being made. */
#ifndef WAYMARK_DRAFT_H
#define WAYMARK_DRAFT_H

#include "maps.h"

/* Of this CPU: hooks do not interrupt each other. */
static __always_inline struct draft *draft_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&drafts, &zero);
}

#endif
