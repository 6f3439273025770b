// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Histograms of delays (docs/data-plane/delays.md): each CPU has its own series, so that it counts without
 * a lock. Series stay where they are; what finds no place is counted together.
 */
#ifndef WAYMARK_DELAYS_H
#define WAYMARK_DELAYS_H

#include "clock.h"
#include "histogram.h"
#include "lookup.h"
#include "maps.h"

/* The series of a CPU. The label is written last: a reader takes it for the sign that the rest is there. */
static __always_inline struct delay_series *find_series(__u64 from, __u64 to, __u32 label)
{
	__u32 first = bpf_get_smp_processor_id() * DELAY_ROOM;
	__u32 hash = spread(from * FIBONACCI + (to ^ (__u64)label << 32) * 0xff51afd7ed558ccdULL);
	__u32 index;
	struct delay_series *s;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < DELAY_WAYS; i++) {
		index = first + DELAY_KINDS + (hash + i) % DELAY_SERIES;
		s = bpf_map_lookup_elem(&delays, &index);
		if (!s)
			return 0;
		if (s->from == from && s->to == to && s->label == label)
			return s;
		if (s->label)
			continue;
		s->from = from;
		s->to = to;
		__sync_lock_test_and_set(&s->label, label);
		return s;
	}
	index = first + (label >> DELAY_KIND_SHIFT) % DELAY_KINDS;
	return bpf_map_lookup_elem(&delays, &index);
}

static __always_inline __u32 label_of(enum delay_kind kind, __u32 namespace)
{
	return DELAY_TAKEN | (__u32)kind << DELAY_KIND_SHIFT | namespace;
}

/* Counts a delay. Not inlined: see scan_options(). */
__noinline int note_delay(__u64 from, __u64 to, __u32 label, __s64 delay)
{
	struct delay_series *s = find_series(from, to, label);
	__u32 bucket;

	if (!s)
		return 0;
	if (delay <= 0) {
		if (delay)
			s->negative++;
		else
			s->zero++;
		return 0;
	}
	if (delay >> DELAY_BITS) {
		s->longer++;
		return 0;
	}
	bucket = bucket_of_ns(delay);
	opaque(bucket);
	if (bucket >= DELAY_BUCKETS)
		return 0;
	s->sum += delay;
	s->buckets[bucket]++;
	return 0;
}

/* Counts a trace whose whole delay is not known. Not inlined: few are. */
__noinline int note_incomplete(__u64 from, __u64 to, __u32 label)
{
	struct delay_series *s = find_series(from, to, label);

	if (s)
		s->incomplete++;
	return 0;
}

/* Counts how long this node held a packet. */
static __always_inline void note_held(__u32 ingress, __u32 egress, __u64 delay)
{
	note_delay(ingress, egress, label_of(DELAY_HELD, 0), delay);
}

/* Whether one more packet whose departure has no time is among those of which one is taken. */
static __always_inline int is_delay_sampled(void)
{
	struct tick *tick = tick_here();

	if (!NODE.delay_sample || !tick || ++tick->unsampled < NODE.delay_sample)
		return 0;
	tick->unsampled = 0;
	return 1;
}

#endif
