// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Counting. A tally belongs to one interface and one CPU, so a plain add suffices. */
#ifndef WAYMARK_COUNTERS_H
#define WAYMARK_COUNTERS_H

#include "compiler.h"
#include "maps.h"

static __always_inline struct tally *find_tally(__u32 slot)
{
	__u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&tallies, &slot);

	return inner ? bpf_map_lookup_elem(inner, &zero) : 0;
}

static __always_inline void add_several(struct tally *tally, __u32 counter, __u32 n)
{
	if (!__builtin_constant_p(counter))
		opaque(counter); /* the verifier has to see the very number that is checked */
	if (counter < NUM_COUNTERS)
		tally->counters[counter] += n;
}

static __always_inline void add(struct tally *tally, __u32 counter)
{
	add_several(tally, counter, 1);
}

/* Counts one for an interface, where that is rare. Not inlined: the stack is small. */
__noinline int count(__u32 slot, __u32 counter)
{
	struct tally *tally = find_tally(slot);

	if (tally)
		add(tally, counter);
	return 0;
}

#endif
