// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The Hop-by-Hop header and its IOAM options (RFC 8200 §4.3, RFC 9486 §3, RFC 9197 §4.4). */
#ifndef WAYMARK_IOAM_H
#define WAYMARK_IOAM_H

#include "ipv6.h"

enum option {
	OPTION_PAD1 = 0,
	OPTION_PADN = 1,
	OPTION_IOAM_IMMUTABLE = 0x11,
	OPTION_IOAM = 0x31,
};

enum ioam_type {
	IOAM_PREALLOCATED_TRACE = 0,
	IOAM_E2E = 3,
	IOAM_DEX = 4,
};

#define TRACE_OFFSET	 12 /* node data, from the option's first byte */
#define TRACE_OPTION_MIN 10 /* option length of a trace without data */

/* The trace header's first word: Namespace-ID, NodeLen, flags, RemainingLen. */
#define TRACE_NAMESPACE(word) ((word) >> 16)
#define TRACE_NODELEN(word)   ((word) >> 11 & 0x1f)
#define TRACE_OVERFLOW	      0x400U
#define TRACE_REMAINING(word) ((word) & 0x7f)
#define TRACE_BIT(n)	      (1U << (31 - (n))) /* in the header's second word */
#define TRACE_WIDE_FIELDS     0x00e00000U
#define TRACE_FIELDS	      0xfffffc00U

/* NodeLen that a trace type asks for, in 4 bytes; the snapshot is not part of it. */
static __always_inline __u32 node_length(__u32 type)
{
	__u64 x = (type & TRACE_FIELDS) | (__u64)(type & TRACE_WIDE_FIELDS) << 32;

	x -= x >> 1 & 0x5555555555555555ULL;
	x = (x & 0x3333333333333333ULL) + (x >> 2 & 0x3333333333333333ULL);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return x * 0x0101010101010101ULL >> 56;
}

/* What a Hop-by-Hop header holds. */
struct scan {
	__u32 length;  /* bytes of the header */
	__u32 count;   /* IOAM options */
	__u32 foreign; /* whether anything else but padding is there */
	__u32 cursor;
	__u16 offset[MAX_IOAM_OPTIONS + 1]; /* of IOAM options, from the IPv6 header */
};

/* 0x11 has older users than RFC 9486: only what must be IOAM is taken for it. */
static __always_inline int is_ioam(const struct packet *p, __u32 offset, __u8 type, __u8 length)
{
	const __u8 *option;

	if (type == OPTION_IOAM)
		return 1;
	if (type != OPTION_IOAM_IMMUTABLE || offset & 3 || length < 6)
		return 0;
	option = at(p, offset, 4);
	if (!option || option[2])
		return 0;
	return option[3] == IOAM_E2E || (option[3] == IOAM_DEX && length >= TRACE_OPTION_MIN);
}

/*
 * Walks the header, whose length is set; anything but OUTCOME_NO_IOAM is a fault. Not inlined,
 * like all that loops over a packet: the verifier then looks at it once, not once per path that
 * leads there. The walk's state is in *s, where the verifier does not follow values: iterations
 * look alike to it.
 */
__noinline int scan_options(context *ctx, __u32 l3, struct scan *s)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 end;

	if (!s)
		return OUTCOME_MALFORMED_HEADER;
	packet_load(ctx, p);
	end = IPV6_HEADER + (s->length & 0xfff);
	s->cursor = IPV6_HEADER + 2;
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_OPTIONS; i++) {
		__u32 offset = s->cursor, type, length, slot;
		const __u8 *option;

		if (offset >= end)
			return OUTCOME_NO_IOAM;
		option = at(p, offset, 1);
		if (!option)
			return OUTCOME_MALFORMED_HEADER;
		type = option[0];
		if (type == OPTION_PAD1) {
			s->cursor = offset + 1;
			continue;
		}
		option = at(p, offset, 2);
		if (!option || offset + 2 > end)
			return OUTCOME_MALFORMED_HEADER;
		length = option[1];
		if (offset + 2 + length > end)
			return OUTCOME_MALFORMED_HEADER;
		s->cursor = offset + 2 + length;
		if (type == OPTION_PADN)
			continue;
		if (!is_ioam(p, offset, type, length)) {
			s->foreign = 1;
			continue;
		}
		slot = s->count;
		if (slot >= MAX_IOAM_OPTIONS)
			return OUTCOME_MALFORMED_TOO_MANY_OPTIONS;
		s->offset[slot] = offset;
		s->count = slot + 1;
	}
	return s->cursor < end ? OUTCOME_MALFORMED_TOO_MANY_OPTIONS : OUTCOME_NO_IOAM;
}

/* One pre-allocated trace option, its words in host order. */
struct trace {
	__u32 header; /* first word of the trace header */
	__u32 type;   /* second word */
	__u32 offset; /* of the trace header, from the IPv6 header */
	__u32 words;  /* of node data that the option has room for */
};

/*
 * Checks one option as the kernel does, in its order. OUTCOME_TRACE_FILLED: a sound trace, read
 * into t; OUTCOME_OPTION_UNSUPPORTED: sound as far as can be told; else the fault.
 */
static __always_inline enum outcome check_option(const struct packet *p, __u32 offset,
						 struct trace *t)
{
	const __u8 *option = at(p, offset, 4);
	const __be32 *header;
	__u32 length;

	if (!option)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	if (offset & 3)
		return OUTCOME_MALFORMED_ALIGNMENT;
	length = option[1];
	if (length < 2)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	if (option[0] != OPTION_IOAM || option[3] != IOAM_PREALLOCATED_TRACE)
		return OUTCOME_OPTION_UNSUPPORTED;
	if (length < TRACE_OPTION_MIN)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	header = at(p, offset + 4, 8);
	if (!header)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	t->header = bpf_ntohl(header[0]);
	t->type = bpf_ntohl(header[1]);
	t->offset = offset + 4;
	t->words = (length - TRACE_OPTION_MIN) >> 2;
	if (TRACE_REMAINING(t->header) > t->words)
		return OUTCOME_MALFORMED_REMAINING_LENGTH;
	if (TRACE_NODELEN(t->header) != node_length(t->type))
		return OUTCOME_MALFORMED_NODE_LENGTH;
	return OUTCOME_TRACE_FILLED;
}

#endif
