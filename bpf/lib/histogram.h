// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The buckets of a histogram of nanoseconds: those of an OTLP exponential histogram of scale 4. Bucket i
 * there has the values that are above 2^(i/16) and not above 2^((i+1)/16). Ours are numbered from 0: one
 * more than that.
 */
#ifndef WAYMARK_HISTOGRAM_H
#define WAYMARK_HISTOGRAM_H

#include <linux/types.h>

/*
 * The mantissa of a value, its highest bit at 63, lies in one of 32 cells. These are narrower than the
 * buckets, so each has one bound at most: it, rounded down, or all ones; and how many bounds are below.
 */
static const struct {
	__u64 bound;
	__u64 below;
} HISTOGRAM_CELLS[32] = {
	{0x8000000000000000ULL, 0},
	{0x85aac367cc487b14ULL, 1},
	{0x8b95c1e3ea8bd6e6ULL, 2},
	{~0ULL, 3},
	{0x91c3d373ab11c336ULL, 3},
	{~0ULL, 4},
	{0x9837f0518db8a96fULL, 4},
	{0x9ef5326091a111adULL, 5},
	{~0ULL, 6},
	{0xa5fed6a9b15138eaULL, 6},
	{~0ULL, 7},
	{0xad583eea42a14ac6ULL, 7},
	{~0ULL, 8},
	{0xb504f333f9de6484ULL, 8},
	{~0ULL, 9},
	{0xbd08a39f580c36beULL, 9},
	{~0ULL, 10},
	{0xc5672a115506daddULL, 10},
	{~0ULL, 11},
	{0xce248c151f8480e3ULL, 11},
	{~0ULL, 12},
	{0xd744fccad69d6af4ULL, 12},
	{~0ULL, 13},
	{~0ULL, 13},
	{0xe0ccdeec2a94e111ULL, 13},
	{~0ULL, 14},
	{0xeac0c6e7dd24392eULL, 14},
	{~0ULL, 15},
	{~0ULL, 15},
	{0xf5257d152486cc2cULL, 15},
	{~0ULL, 16},
	{~0ULL, 16},
};

/* The highest bit of an octet. */
#define HIGHEST_2(n)  n, n
#define HIGHEST_4(n)  HIGHEST_2(n), HIGHEST_2(n)
#define HIGHEST_8(n)  HIGHEST_4(n), HIGHEST_4(n)
#define HIGHEST_16(n) HIGHEST_8(n), HIGHEST_8(n)
#define HIGHEST_32(n) HIGHEST_16(n), HIGHEST_16(n)
#define HIGHEST_64(n) HIGHEST_32(n), HIGHEST_32(n)

static const __u8 HIGHEST_BIT[256] = {
	0,
	0,
	HIGHEST_2(1),
	HIGHEST_4(2),
	HIGHEST_8(3),
	HIGHEST_16(4),
	HIGHEST_32(5),
	HIGHEST_64(6),
	HIGHEST_64(7),
	HIGHEST_64(7),
};

/* The bucket of a value above 0. */
static __always_inline __u32 bucket_of(__u64 value)
{
	__u64 rest = value, mantissa;
	__u32 highest = 0, cell;

	if (rest >> 32) {
		highest = 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		highest += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		highest += 8;
		rest >>= 8;
	}
	highest += HIGHEST_BIT[rest & 0xff];
	mantissa = value << ((63 - highest) & 63);
	cell = mantissa >> 58 & 31;
	return highest * 16 + HISTOGRAM_CELLS[cell].below +
	       (mantissa > HISTOGRAM_CELLS[cell].bound);
}

/*
 * Buckets of seconds need times in units that are a power of two of a second: 2^-30 s, 0.93 ns. Bucket 481
 * then begins at a second.
 */
#define UNITS_OF_NS 1152921505ULL /* 2^60 units are 10^9 times this */

/*
 * The same as bucket_of(units_of(ns)) for 1 ns to 2^36 ns, with 27 binary places, which make it exact, but for
 * times less than 6e-10 of themselves above a bound. Rounded down: a second is not above its bound.
 */
#define PARTS_OF_NS 144115188ULL /* 2^57 / 10^9 */
#define PARTS_BITS  27

static __always_inline __u32 bucket_of_ns(__u64 ns)
{
	return bucket_of(ns * PARTS_OF_NS) - 16 * PARTS_BITS;
}

static __always_inline __u64 units_of(__u64 ns)
{
	if (ns >> 45)
		return ~0ULL;
	if (ns >> 33)
		return (ns >> 12) * UNITS_OF_NS >> 18;
	return ns * UNITS_OF_NS >> 30;
}

#endif
