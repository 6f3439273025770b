// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The table of flows: what postcards are added up to (docs/data-plane/direct-export.md#flows). */
#ifndef WAYMARK_FLOWTABLE_H
#define WAYMARK_FLOWTABLE_H

#include "flow.h"
#include "limits.h"
#include "sequence.h"

static __always_inline int same_key(const struct flow_key *a, const struct flow_key *b)
{
	const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4]) |
		 (x[5] ^ y[5]) | (x[6] ^ y[6]) | (x[7] ^ y[7]));
}

/* The keys are secret: an attacker cannot make flows that fall into one set. */
static __always_inline __u32 table_hash(const struct flow_key *key)
{
	const __u32 *word = (const __u32 *)key;
	__u64 h = 0;

#pragma clang loop unroll(full)
	for (int i = 0; i < 14; i++)
		h += word[i] * NODE.table_keys[i];
	return spread(h);
}

/* Whether the reader has all that the flow did. */
static __always_inline int is_collected(const struct flow *f, const struct flow_clock *clock)
{
	return !f->id || ((__s32)(f->totals[0].epoch - clock->collected) <= 0 &&
			  (__s32)(f->totals[1].epoch - clock->collected) <= 0);
}

static __always_inline __u32 last_seen(const struct flow *f)
{
	__u32 even = f->totals[0].last, odd = f->totals[1].last;

	return (__s32)(even - odd) > 0 ? even : odd;
}

/* The entry to replace: one that is free or has been read, else the one whose last packet is oldest. */
static __always_inline struct flow *find_victim_flow(struct flow_set *set,
						     const struct flow_clock *clock)
{
	struct flow *victim = &set->ways[0];

#pragma clang loop unroll(full)
	for (int i = 0; i < FLOW_WAYS; i++) {
		struct flow *f = &set->ways[i];

		if (is_collected(f, clock))
			return f;
		if ((__s32)(last_seen(f) - last_seen(victim)) < 0)
			victim = f;
	}
	return victim;
}

/* Hands a flow to the reader before the interval ends; zero when it must stay. */
static __always_inline int hand_over(struct draft *e, struct flow *f, __u32 collected)
{
	struct flow_sample *sample;
	void *ring = ring_here();

	if (!ring || !may_report(e->slot))
		return 0;
	sample = bpf_ringbuf_reserve(ring, sizeof(*sample), 0);
	if (!sample) {
		count(e->slot, COUNTER_RECORDS_LOST);
		return 0;
	}
	sample->kind = SAMPLE_FLOW;
	sample->flow = *f;
	sample->collected = collected;
	bpf_ringbuf_submit(sample, wake_flags(e));
	return 1;
}

/* The barrier lets a reader detect a change of flow: it reads the id before and after the rest. */
static __always_inline void free_entry(struct flow *f)
{
	__sync_lock_test_and_set(&f->id, 0);
}

/* A set of this CPU. */
static __always_inline __u32 index_of(__u32 set)
{
	return bpf_get_smp_processor_id() * NODE.flow_sets + set;
}

/*
 * The flow's entry for the postcard at hand, found or made; NULL when there is none to be had. Not
 * inlined: see scan_options().
 */
static __noinline struct flow *find_entry(const struct flow_clock *clock, __u32 now)
{
	struct draft *e = draft_here();
	struct tick *tick = tick_here();
	struct flow_key *key;
	struct flow_set *set;
	struct flow *f;
	__u32 index, hash, chosen;
	__u64 id;

	if (!e || !tick)
		return 0;
	key = &e->postcard.key;
	hash = table_hash(key);
	chosen = (__u64)hash * NODE.flow_sets >> 32;
	index = index_of(chosen);
	set = bpf_map_lookup_elem(&flows, &index);
	if (!set)
		return 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < FLOW_WAYS; i++) {
		f = &set->ways[i];
		if (f->hash == hash && f->id && same_key(&f->key, key)) {
			tick->flow = chosen * FLOW_WAYS + i;
			return f;
		}
	}
	f = find_victim_flow(set, clock);
	if (!is_collected(f, clock)) {
		if (!hand_over(e, f, clock->collected)) {
			/* Its packets were not counted: they are not missing. */
			set->ways[0].refused = now | 1;
			return 0;
		}
		count(e->slot, COUNTER_FLOWS_EVICTED);
	}
	free_entry(f);
	id = (__u64)now << 32 | ++e->flows;
	f->key = *key;
	f->hash = hash;
	f->index = index * FLOW_WAYS + ((void *)f - (void *)set) / sizeof(*f);
	f->numbered = 0;
	f->again = 0;
	f->totals[0].epoch = f->totals[1].epoch = clock->collected;
	__sync_lock_test_and_set(&f->id, id ? id : 1);
	return f;
}

/* The entry of this CPU's last flow, if it is that of the postcard at hand: packets often come in trains. */
static __always_inline struct flow *find_last_entry(const struct draft *e, __u32 last)
{
	__u32 index = index_of(last / FLOW_WAYS & (NODE.flow_sets - 1));
	struct flow_set *set = bpf_map_lookup_elem(&flows, &index);
	struct flow *f;

	if (!set)
		return 0;
	f = &set->ways[last & (FLOW_WAYS - 1)];
	return f->id && same_key(&f->key, &e->postcard.key) ? f : 0;
}

/*
 * Notes a Sequence Number; the reader computes from all CPUs' notes what is missing. Two consecutive
 * numbers from far back mean that numbers began again.
 */
static __always_inline void follow_sequence(struct flow *f, struct flow_totals *t, __u32 sequence)
{
	__s32 ahead = sequence - f->sequence;

	if (!f->numbered || ahead > 0) {
		f->sequence = sequence;
	} else if (!ahead) {
		return; /* segments of one packet share a number */
	} else if (ahead >= -MOST_LATE) {
		t->late++;
	} else if (f->again == sequence) {
		f->sequence = sequence;
		t->restarted = 1;
		t->numbers = t->strays ? 1 : 0; /* the one before is of the new ones */
		t->lowest = t->highest = sequence - 1;
		t->strays = 0;
	} else {
		f->again = sequence + 1;
		t->late++;
		t->strays++;
		return;
	}
	f->numbered = 1;
	if (!t->numbers++) {
		t->lowest = sequence;
		t->highest = sequence;
	} else if ((__s32)(sequence - t->highest) > 0) {
		t->highest = sequence;
	} else if ((__s32)(sequence - t->lowest) < 0) {
		t->lowest = sequence;
	}
}

static __always_inline void add_delay(struct flow_totals *t, __u32 delay)
{
	if (delay == UNAVAILABLE)
		return;
	t->delay_sum += delay;
	t->delay_count++;
	if (delay < t->delay_min)
		t->delay_min = delay;
	if (delay > t->delay_max)
		t->delay_max = delay;
}

/* Adds the postcard at hand to its flow; nonzero when it is one of the sample. */
static __always_inline int aggregate(struct draft *e, const struct ioam_namespace *ns)
{
	const struct postcard *c = &e->postcard;
	struct flow_totals *t;
	struct flow_clock *clock;
	struct flow *f;
	struct tick *tick = tick_here();
	__u32 zero = 0, now = coarse_now() >> 20, epoch, chosen_by, further;

	clock = bpf_map_lookup_elem(&flow_clock, &zero);
	if (!clock || !tick)
		return 0;
	f = find_last_entry(e, tick->flow);
	if (!f)
		f = find_entry(clock, now);
	if (!f)
		return 0;
	epoch = *(volatile __u32 *)&clock->epoch; /* it may change at any time */
	t = epoch & 1 ? &f->totals[1] : &f->totals[0];
	if (t->epoch != epoch) {
		*t = (struct flow_totals){.first = now,
					  .epoch = epoch,
					  .delay_min = UNAVAILABLE,
					  .hop_limit_min = 0xff};
	}
	further = c->segments > 1 ? c->segments - 1 : 0;
	t->packets += 1 + further;
	t->bytes += c->length + further * e->repeated;
	t->last = now;
	t->ended |= e->ends;
	if (c->hop_limit < t->hop_limit_min)
		t->hop_limit_min = c->hop_limit;
	if (c->hop_limit > t->hop_limit_max)
		t->hop_limit_max = c->hop_limit;
	add_delay(t, c->delay);
	if (c->key.type & EXTENSION_SEQUENCE) {
		chosen_by = c->sequence;
		follow_sequence(f, t, c->sequence);
	} else {
		chosen_by = f->again++;
	}
	if (e->ends && hand_over(e, f, clock->collected))
		free_entry(f);
	return ns->export == EXPORT_SAMPLE && ns->sample && chosen_by % ns->sample == 0;
}

#endif
