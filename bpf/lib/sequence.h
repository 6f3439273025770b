// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sequence Numbers of Direct Export (RFC 9326 §3.2): by one for each packet of a flow, over all
 * CPUs, in a table whose size does not grow.
 */
#ifndef WAYMARK_SEQUENCE_H
#define WAYMARK_SEQUENCE_H

#include "clock.h"
#include "counters.h"
#include "draft.h"
#include "lookup.h"

#define SEQUENCE_TRIES	  64
#define NEXT_SEQUENCE	  (1ULL << 32)
#define SEQUENCE_SET_MASK (SEQUENCE_SETS - 1)

static __always_inline int is_flow_word(__u64 word, __u32 flow_id)
{
	return (__u32)word == flow_id;
}

/*
 * The number of the flow's way of its set: its own, else an empty one, else the one that has not been
 * used for longer. An empty word serves as that of flow 0. Not inlined: the ways that the verifier
 * follows would multiply with each try.
 */
__noinline __u32 find_way(const struct sequence_set *set, __u32 flow_id)
{
	const struct sequence_slot *a, *b;

	if (!set)
		return 0;
	a = &set->ways[0];
	b = &set->ways[1];
	if (is_flow_word(a->word, flow_id))
		return 0;
	if (is_flow_word(b->word, flow_id))
		return 1;
	if (!a->word)
		return 0;
	if (!b->word)
		return 1;
	return is_used_before(b->used, a->used);
}

/* The flow's way, within bounds that the verifier knows. */
static __always_inline __u32 way_of(const struct sequence_set *set, __u32 flow_id)
{
	__u32 way = find_way(set, flow_id);

	opaque(way);
	return way & 1;
}

static __always_inline void count_eviction(void)
{
	struct draft *e = draft_here();

	if (e)
		count(e->slot, COUNTER_SEQUENCES_EVICTED);
}

/*
 * Takes the next number. Set and Flow-ID together identify the namespace: for one Flow-ID,
 * different namespaces have different sets. So a word need not hold it, and one exchange
 * suffices. Not inlined: see scan_options().
 */
__noinline __u32 take_sequence(__u32 namespace_id, __u32 flow_id)
{
	__u32 index = (flow_id * FIBONACCI_32 >> 16 ^ namespace_id) & SEQUENCE_SET_MASK;
	struct sequence_set *set = bpf_map_lookup_elem(&sequences, &index);
	struct sequence_slot *way, *other;
	__u32 number, now;

	if (!set)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < SEQUENCE_TRIES; i++) {
		__u64 old, next = flow_id | NEXT_SEQUENCE;
		int own;

		number = way_of(set, flow_id);
		way = &set->ways[number];
		old = *(volatile __u64 *)&way->word;
		own = is_flow_word(old, flow_id);
		if (own)
			next = old + NEXT_SEQUENCE;
		if (__sync_val_compare_and_swap(&way->word, old, next) != old)
			continue;
		now = time_of_use();
		if (way->used != now) /* other CPUs have this line, too */
			way->used = now;
		if (own)
			return old >> 32;
		if (old)
			count_eviction();
		/* a CPU that came at the same time may have taken the other way: both give theirs up,
		 * unless a number was taken there meanwhile */
		other = &set->ways[number ^ 1];
		if (!is_flow_word(*(volatile __u64 *)&other->word, flow_id) ||
		    __sync_val_compare_and_swap(&way->word, next, 0) != next)
			return 0;
	}
	way = &set->ways[way_of(set, flow_id)];
	/* as many CPUs as tries were faster: the number is right, unless the flow was evicted now */
	return __sync_fetch_and_add(&way->word, NEXT_SEQUENCE) >> 32;
}

#endif
