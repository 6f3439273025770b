// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Histograms of times, with the buckets of an OTLP exponential histogram of seconds and of scale 4: the
 * bounds are 2^(i/16) s, and a bound belongs to the bucket below it. So that these are bounds of whole
 * numbers too, times are counted in units of 2^-30 s, 0.93 ns.
 */
#ifndef WAYMARK_HISTOGRAM_H
#define WAYMARK_HISTOGRAM_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include "abi_histogram.h"

/* floor(2^(63 + i/16)): no other whole number lies between a bound and this. */
static const __u64 histogram_bounds[16] = {
	0x8000000000000000, 0x85aac367cc487b14, 0x8b95c1e3ea8bd6e6, 0x91c3d373ab11c336,
	0x9837f0518db8a96f, 0x9ef5326091a111ad, 0xa5fed6a9b15138ea, 0xad583eea42a14ac6,
	0xb504f333f9de6484, 0xbd08a39f580c36be, 0xc5672a115506dadd, 0xce248c151f8480e3,
	0xd744fccad69d6af4, 0xe0ccdeec2a94e111, 0xeac0c6e7dd24392e, 0xf5257d152486cc2c,
};

#define HISTOGRAM_UNITS 1152921505ULL /* 2^60 units in 10^9 ns */

static __always_inline __u64 histogram_units(__u64 ns)
{
	if (ns >> 45)
		return ~0ULL;
	if (ns >> 33)
		return (ns >> 12) * HISTOGRAM_UNITS >> 18;
	return ns * HISTOGRAM_UNITS >> 30;
}

/* The bucket of a time: 0 up to one unit, else 481 more than OTLP's index. The last has all beyond. */
static __always_inline __u32 histogram_bucket(__u64 ns)
{
	__u64 units = histogram_units(ns);
	__u32 power = 63, i, bucket;

	if (!units)
		return 0;
#pragma unroll
	for (i = 32; i; i >>= 1) {
		if (!(units >> (64 - i))) {
			units <<= i;
			power -= i;
		}
	}
	bucket = units > histogram_bounds[8] ? 8 : 0;
	bucket += units > histogram_bounds[(bucket + 4) & 15] ? 4 : 0;
	bucket += units > histogram_bounds[(bucket + 2) & 15] ? 2 : 0;
	bucket += units > histogram_bounds[(bucket + 1) & 15] ? 1 : 0;
	bucket += units > histogram_bounds[bucket & 15] ? 1 : 0;
	bucket += 16 * power;
	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

#endif
