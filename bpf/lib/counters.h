// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Included by every hook. A tally belongs to one interface and one CPU, so a plain add will do. */
#ifndef WAYMARK_COUNTERS_H
#define WAYMARK_COUNTERS_H

#include "../maps.h"
#include "lookup.h"

static __always_inline struct tally *find_tally(__u32 slot)
{
	__u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&tallies, &slot);

	return inner ? bpf_map_lookup_elem(inner, &zero) : 0;
}

static __always_inline void add(struct tally *tally, __u32 counter)
{
	opaque(counter); /* the verifier has to see the very number that is checked */
	if (counter < NUM_COUNTERS)
		tally->counters[counter]++;
}

/* One more for an interface; for what is seldom counted. Not inlined: the stack is small. */
__noinline int count(__u32 slot, __u32 counter)
{
	struct tally *tally = find_tally(slot);

	if (tally)
		add(tally, counter);
	return 0;
}

#endif
