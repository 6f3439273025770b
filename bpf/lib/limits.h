// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* How many postcards a node sends (RFC 9326 §3.1.2; docs/data-plane/direct-export.md#limits). */
#ifndef WAYMARK_LIMITS_H
#define WAYMARK_LIMITS_H

#include "clock.h"
#include "config.h"
#include "counters.h"
#include "draft.h"

/* The reader is woken once for this many flows; otherwise it polls. */
#define WAKE_EVERY 512

/* What a CPU takes at most from the rate that all share. */
#define MOST_GRANTED 64

/* What an interface may owe at most. */
#define MOST_DEBT ((__s64)NODE.postcard_limit * POSTCARD_BURST)

/* Each packet that a hook sees pays a little for postcards. */
static __always_inline void pay_debt(struct tally *tally)
{
	if (!NODE.has_postcards || tally->debt <= 0)
		return;
	/* the limit may have been larger when the debt was made */
	if (tally->debt > MOST_DEBT)
		tally->debt = MOST_DEBT;
	tally->debt--;
}

/* How many postcards a CPU takes at once: few of a low rate, so that all CPUs can send. */
static __always_inline __u32 grant_size(void)
{
	__u32 n = NODE.postcard_rate >> 10;

	return n < 1 ? 1 : n > MOST_GRANTED ? MOST_GRANTED : n;
}

/*
 * Takes postcards for this CPU out of what the node may send in a window. All CPUs share that word,
 * so they seldom touch it.
 */
static __always_inline int take_grant(struct draft *e, __u32 window)
{
	__u64 old, *word;
	__u32 zero = 0, n = grant_size(), before;
	int newer;

	word = bpf_map_lookup_elem(&postcard_rates, &zero);
	if (!word)
		return 0;
	e->granted = 0;
	old = *(volatile __u64 *)word;
	newer = (__s32)(window - (__u32)(old >> 32)) > 0;
	if (!newer || __sync_val_compare_and_swap(word, old, (__u64)window << 32 | n) != old) {
		/* nothing is added beyond the rate, so the count cannot wrap */
		if (!newer && (__u32)old >= NODE.postcard_rate)
			return 0;
		old = __sync_fetch_and_add(word, n); /* in whichever window it is now */
		before = old;
		if (before >= NODE.postcard_rate)
			return 0;
		if (NODE.postcard_rate - before < n)
			n = NODE.postcard_rate - before;
		window = old >> 32;
	}
	e->window = window;
	e->granted = n - 1;
	return 1;
}

/* Whether the node may send one more in this window. */
static __always_inline int is_within_rate(void)
{
	__u32 window = coarse_now() >> 27;
	struct draft *e = draft_here();

	if (!e)
		return 0;
	if (e->window == window && e->granted) {
		e->granted--;
		return 1;
	}
	return take_grant(e, window);
}

/* Whether a postcard may be sent: each interface has a debt, and all share a rate. */
static __always_inline int may_send(struct tally *tally)
{
	if (tally->debt > MOST_DEBT - NODE.postcard_limit || !is_within_rate()) {
		add(tally, COUNTER_POSTCARDS_SUPPRESSED);
		return 0;
	}
	tally->debt += NODE.postcard_limit;
	return 1;
}

/* The same, of an interface's slot. Not inlined: the stack is small. */
__noinline int may_report(__u32 slot)
{
	struct tally *tally = find_tally(slot);

	return tally && may_send(tally);
}

static __always_inline void *ring_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&records, &cpu);
}

static __always_inline __u64 wake_flags(struct draft *e)
{
	return ++e->written % WAKE_EVERY ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP;
}

#endif
