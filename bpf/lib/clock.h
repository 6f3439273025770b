// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Time: one reading of TAI per packet, converted as the node's timestamp format says. */
#ifndef WAYMARK_CLOCK_H
#define WAYMARK_CLOCK_H

#include "compiler.h"
#include "config.h"
#include "maps.h"

#define NS_PER_S  1000000000ULL
#define NTP_EPOCH 2208988800ULL /* 1900-01-01 to 1970-01-01, s */

struct timestamp {
	__u32 seconds;
	__u32 fraction;
};

static __always_inline __u64 tai_now(void)
{
	return NODE.fixed_time ? NODE.fixed_time : bpf_ktime_get_tai_ns();
}

/* UTC is what clocks of nodes agree on: many hosts do not set how far TAI is from it. */
static __always_inline __u64 utc_now(void)
{
	__u32 zero = 0;
	const struct clock_state *c = bpf_map_lookup_elem(&clock, &zero);

	return tai_now() - (c ? c->tai_offset : 0);
}

/* What this CPU remembers. */
static __always_inline struct tick *tick_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&ticks, &zero);
}

/* The coarse clock, as a CPU has read it in a tick. */
struct coarse_clock {
	__u64 jiffies;
	__u64 now; /* CLOCK_MONOTONIC, ns */
};

/* Further CPUs share these clocks, which does no harm. */
#define MAX_CLOCKS 1024

volatile struct coarse_clock CLOCKS[MAX_CLOCKS] SEC(".data.clocks") = {};

/*
 * The time by the coarse clock, which is read once in a tick: a helper costs as much as a lookup. It may
 * be two ticks late, because the kernel counts a tick before it moves the clock on.
 */
static __always_inline __u64 coarse_now(void)
{
	volatile struct coarse_clock *clock;
	__u64 jiffies = bpf_jiffies64(), now;
	__u32 cpu = bpf_get_smp_processor_id() & (MAX_CLOCKS - 1);

	opaque(cpu);
	clock = &CLOCKS[cpu];
	if (clock->jiffies == jiffies)
		return clock->now;
	now = bpf_ktime_get_coarse_ns();
	clock->now = now;
	clock->jiffies = jiffies;
	return now;
}

/*
 * When an entry of a table is used, in units of 2^26 ns (67 ms): as precise as the least recently used
 * entry needs, and 32 bits of them begin again after nine years.
 */
static __always_inline __u32 time_of_use(void)
{
	return coarse_now() >> 26;
}

/* By the sign: another CPU may have read a clock that is one unit ahead. */
static __always_inline int is_used_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

/* RFC 9197 §5, RFC 8877 */
static __always_inline struct timestamp timestamp_of(__u64 tai)
{
	struct timestamp t = {};
	__u64 ns = tai, second, rest;
	__u32 zero = 0;
	struct clock_state *c = bpf_map_lookup_elem(&clock, &zero);

	if (!c)
		return t;
	if (NODE.timestamp_format != TIMESTAMP_PTP)
		ns -= c->tai_offset;
	/* the first packet in each second divides and caches the quotient; a stale value is harmless */
	second = *(volatile __u64 *)&c->second;
	rest = ns - second * NS_PER_S;
	if (rest >= NS_PER_S) {
		second = ns / NS_PER_S;
		rest = ns - second * NS_PER_S;
		*(volatile __u64 *)&c->second = second;
	}
	if (NODE.timestamp_format == TIMESTAMP_NTP) {
		second += NTP_EPOCH;
		rest = (rest << 32) / NS_PER_S;
	} else if (NODE.timestamp_format == TIMESTAMP_POSIX) {
		rest = rest * 274877907 >> 38; /* / 1000, exact below 2^32 */
	}
	t.seconds = second;
	t.fraction = rest;
	return t;
}

/*
 * The transit delay field between ingress and egress: time of arrival in units of 4 ns under the
 * overflow bit, so that a reader of an incomplete trace sees "overflow" (RFC 9197 §4.4.2.5).
 */
#define DELAY_OVERFLOW 0x80000000U
#define UNAVAILABLE    0xffffffffU

static __always_inline __u32 delay_begin(__u64 tai)
{
	__u32 value = DELAY_OVERFLOW | (tai >> 2 & 0x7fffffff);

	return value == UNAVAILABLE ? UNAVAILABLE - 1 : value;
}

static __always_inline __u32 delay_end(__u32 begun, __u64 tai)
{
	__u64 delay = (__u64)(((__u32)(tai >> 2) - begun) & 0x7fffffff) << 2;

	return delay >= DELAY_OVERFLOW ? DELAY_OVERFLOW : delay;
}

#endif
