// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Counts the packets of flows by their Edge-to-Edge options (internal/edgetoedge does the same). */
#ifndef WAYMARK_OPTION_E2E_MEASURE_H
#define WAYMARK_OPTION_E2E_MEASURE_H

#include "option/e2e.h"

/* 2^32 seconds: timestamps of 32 bits begin anew after them. */
#define TIMESTAMP_ERA  (NS_PER_S << 32)
#define MOST_E2E_DELAY (1LL << 36)
#define NO_E2E_DELAY   (1LL << 62)

/*
 * How long a packet took from the encapsulating node, ns; negative where clocks differ by more.
 * NO_E2E_DELAY: not known. Both nodes have one timestamp format.
 */
static __always_inline __s64 e2e_delay(const struct e2e_note *note, __u64 tai)
{
	__u64 then, now = tai;
	__u32 zero = 0;
	struct clock_state *c = bpf_map_lookup_elem(&clock, &zero);
	__s64 delay;

	if (!c || note->seconds == UNAVAILABLE || note->fraction == UNAVAILABLE ||
	    !(note->seconds | note->fraction))
		return NO_E2E_DELAY;
	then = note->fraction;
	if (NODE.timestamp_format == TIMESTAMP_NTP)
		then = then * NS_PER_S >> 32;
	else if (NODE.timestamp_format == TIMESTAMP_POSIX)
		then *= 1000;
	then += note->seconds * NS_PER_S;
	if (NODE.timestamp_format != TIMESTAMP_PTP)
		now -= c->tai_offset;
	if (NODE.timestamp_format == TIMESTAMP_NTP)
		now += NTP_EPOCH * NS_PER_S;
	delay = now - then;
	if (delay > (__s64)(TIMESTAMP_ERA / 2))
		delay -= TIMESTAMP_ERA;
	else if (delay < -(__s64)(TIMESTAMP_ERA / 2))
		delay += TIMESTAMP_ERA;
	return delay > -MOST_E2E_DELAY && delay < MOST_E2E_DELAY ? delay : NO_E2E_DELAY;
}

/* Notes a number in the window; zero if it was there. */
static __always_inline int mark_e2e_number(struct e2e_flow *f, __u64 number)
{
	__u64 group = number >> E2E_GROUP_BITS, bit = 1ULL << (number & 63), index;
	__u32 tag = group;

	index = group & (E2E_GROUPS - 1);
	opaque(index);
	if (index >= E2E_GROUPS)
		return 0;
	if (f->tags[index] != tag) {
		f->tags[index] = tag;
		f->words[index] = 0;
	}
	if (f->words[index] & bit)
		return 0;
	f->words[index] |= bit;
	return 1;
}

/* Forgets the window. */
static __always_inline void clear_e2e_window(struct e2e_flow *f)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < E2E_GROUPS; i++)
		f->words[i] = 0;
}

/*
 * Counts a number. The window is the group of the highest number and the 15 before it. Two consecutive
 * numbers below it, or far ahead, one right after the other, mean that numbers began again; and so do 0
 * and 1, if both came before.
 */
static __always_inline void follow_e2e_number(struct e2e_flow *f, struct e2e_totals *t,
					      __u64 number)
{
	__s64 ahead = number - f->highest;
	int inside = ahead <= 0 &&
		     (f->highest >> E2E_GROUP_BITS) - (number >> E2E_GROUP_BITS) < E2E_GROUPS;

	if (!f->numbered) {
		f->numbered = 1;
		f->highest = f->lowest = number;
		mark_e2e_number(f, number);
		t->expected++;
		t->unique++;
	} else if (ahead > 0 && ahead <= E2E_MOST_AHEAD) {
		f->highest = number;
		f->strayed = 0;
		mark_e2e_number(f, number);
		t->expected += ahead;
		t->unique++;
	} else if (f->strayed && number == f->again && (!inside || (__u32)number == 1)) {
		clear_e2e_window(f);
		mark_e2e_number(f, number - 1);
		mark_e2e_number(f, number);
		f->highest = number;
		f->lowest = number - 1;
		f->strayed = 0;
		t->expected += 2;
		t->unique += 2;
		t->restarts++;
	} else if (inside) {
		f->strayed = 0;
		if (!mark_e2e_number(f, number)) {
			t->duplicates++;
			if (!(__u32)number && ahead <= -E2E_REPEATED) {
				f->again = number + 1;
				f->strayed = 1;
			}
			return;
		}
		t->unique++;
		t->reordered++;
		if ((__s64)(number - f->lowest) < 0) {
			t->expected += f->lowest - number;
			f->lowest = number;
		}
	} else {
		f->again = number + 1;
		f->strayed = 1;
		t->late++;
	}
}

static __always_inline void add_e2e_delay(struct e2e_totals *t, __s64 delay)
{
	if (delay == NO_E2E_DELAY)
		return;
	if (!t->delays || delay < t->delay_min)
		t->delay_min = delay;
	if (!t->delays || delay > t->delay_max)
		t->delay_max = delay;
	t->delay_sum += delay;
	t->delays++;
}

/*
 * Keeps what was counted of a flow that leaves in this interval or the one before, which the reader may
 * not have read yet: it reads a set once for each interval, so what it has read is not read again.
 */
static __always_inline void keep_left(struct e2e_left *left, const struct e2e_totals *t,
				      __u32 epoch)
{
	if (!t->packets || (__s32)(epoch - t->epoch) > 1)
		return;
	if (left->epoch != t->epoch)
		*left = (struct e2e_left){.epoch = t->epoch};
	left->packets += t->packets;
	left->expected += t->expected;
	left->unique += t->unique;
	left->duplicates += t->duplicates;
	left->reordered += t->reordered;
	left->late += t->late;
	left->restarts += t->restarts;
}

/*
 * Counts an option of the packet at hand in its flow; whether the flow took the place of another. Not
 * inlined: see scan_options().
 */
__noinline int count_e2e(__u32 index)
{
	__u32 now = coarse_now() >> 20, used = time_of_use(), at, epoch, header;
	const struct e2e_clock *intervals = e2e_clock_here();
	struct e2e_packet *n = e2e_packet_here();
	struct e2e_flow_set *set;
	struct e2e_totals *t;
	struct e2e_place place;
	struct e2e_flow *f;
	__s64 delay;
	__u64 number;

	if (!n || !intervals || index >= E2E_OPTIONS)
		return 0;
	header = n->key.header = n->notes[index].header;
	number = n->notes[index].number;
	delay = e2e_delay(&n->notes[index], tai_now());
	epoch = *(volatile __u32 *)&intervals->epoch;
	at = e2e_hash(intervals, &n->key) & (E2E_FLOW_SETS - 1);
	set = bpf_map_lookup_elem(&e2e_flows, &at);
	if (!set)
		return 0;
	bpf_spin_lock(&set->lock);
	place = find_e2e_place(set->ways, sizeof(set->ways[0]), &n->key);
	f = &set->ways[place.way & (E2E_WAYS - 1)];
	if (!place.own) {
		if (place.evicted) {
			keep_left(&set->left[0], &f->totals[0], epoch);
			keep_left(&set->left[1], &f->totals[1], epoch);
		}
		f->entry.key = n->key;
		f->entry.taken = 1;
		f->numbered = 0;
		f->strayed = 0;
		f->totals[0] = f->totals[1] = (struct e2e_totals){};
		clear_e2e_window(f);
	}
	f->entry.used = used;
	t = epoch & 1 ? &f->totals[1] : &f->totals[0];
	if (t->epoch != epoch || !t->packets)
		*t = (struct e2e_totals){.epoch = epoch, .first = now};
	t->packets++;
	t->last = now;
	if (header & E2E_SEQUENCE_32) {
		/* where it is nearest to the highest one */
		if (f->numbered)
			number = f->highest + (__s32)((__u32)number - (__u32)f->highest);
		else
			number |= 1ULL << 32;
	}
	if (header & (E2E_SEQUENCE_32 | E2E_SEQUENCE_64))
		follow_e2e_number(f, t, number);
	add_e2e_delay(t, delay);
	bpf_spin_unlock(&set->lock);
	return place.evicted;
}

/*
 * Counts the options that read_destination() noted, once the packet has lost its header, or its tunnel. Not
 * inlined: the stack is small.
 */
__noinline int measure_e2e(context *ctx, __u32 l3, __u32 slot, __u32 tunneled)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct e2e_packet *n = e2e_packet_here();
	const struct ipv6 *ip6;

	if (!n)
		return 0;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return 0;
	note_e2e_flow(&n->key, ip6, tunneled ? n->tunnel : 0);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < E2E_OPTIONS && i < n->count; i++) {
		__u32 outcome = n->notes[i].outcome;

		if (NODE.has_e2e && outcome == OUTCOME_E2E_MEASURED && count_e2e(i))
			count(slot, COUNTER_E2E_FLOWS_EVICTED);
		if (outcome < NUM_OPTION_OUTCOMES)
			count(slot, COUNTER_INGRESS_OPTIONS + outcome);
	}
	return 0;
}

#endif
