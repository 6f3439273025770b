// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The Hop-by-Hop header and its IOAM options (RFC 8200 §4.3, RFC 9486 §3, RFC 9197 §4.4). */
#ifndef WAYMARK_IOAM_H
#define WAYMARK_IOAM_H

#include "ipv6.h"
#include "lookup.h"

enum option_type {
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

#define OPTION_DISCARDS	 0xc0 /* who does not know the type: 00 = skips the option (RFC 8200 §4.2) */
#define TRACE_OFFSET	 12   /* node data, from the option's first byte */
#define DEX_OFFSET	 12   /* what Extension-Flags announce */
#define TRACE_OPTION_MIN 10   /* option length of a trace without data */

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

/* An IOAM option as it was found, its words in host order. */
struct option {
	__u32 header; /* first word of a trace header, or of a Direct Export */
	__u32 type;   /* second word */
	__u16 offset; /* of the option, from the IPv6 header */
	__u8 words;   /* of node data that a trace has room for */
	/* TRACE_FILLED: a sound trace; else what is to be said of it */
	__u8 outcome;
};

/* What a Hop-by-Hop header holds. */
struct scan {
	__u32 types;	      /* the trace types, or-ed */
	__u32 export_types;   /* those of Direct Exports that are exported here, or-ed, and bit 0 */
	__u32 egress_id_wide; /* or all ones */
	__u16 egress_id;      /* or all ones */
	__u16 length;	      /* bytes of the header */
	__u16 cursor;
	__u8 l3;	  /* of the packet */
	__u8 count;	  /* IOAM options */
	__u8 traces;	  /* sound pre-allocated traces among them */
	__u8 rest;	  /* the greatest outcome of the others */
	__u8 foreign;	  /* whether anything else but padding is there */
	__u8 discards;	  /* whether that says: who does not know me discards the packet */
	__u8 fault;	  /* the first IOAM option's that is not sound, or 0 */
	__u8 removable;	  /* options whose namespace is to be removed here */
	__u8 half : 1;	  /* of the tables */
	__u8 leaving : 1; /* the way out is known, and with it the interface's ids */
	__u8 untidy : 1;  /* not laid out as encapsulating nodes do: a stack may object to it */
	struct option options[MAX_IOAM_OPTIONS];
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

/* Octets that Extension-Flags announce (RFC 9326 §3.2). */
static __always_inline __u32 extension_octets(__u32 header)
{
	__u32 flags = header & 0xff;

	flags -= flags >> 1 & 0x55;
	flags = (flags & 0x33) + (flags >> 2 & 0x33);
	return ((flags + (flags >> 4)) & 0x0f) << 2;
}

/*
 * Checks one IOAM option as the kernel does, in its order. OUTCOME_TRACE_FILLED: a sound trace;
 * OUTCOME_DIRECT_EXPORT: a sound one; OUTCOME_OPTION_UNSUPPORTED: sound as far as can be told;
 * else the fault.
 */
static __always_inline enum outcome check_option(const struct packet *p, __u32 offset,
						 struct option *o)
{
	/* too short a Direct Export is, to Linux, like any option-type that it does not know */
	const enum outcome short_export =
		NODE.mainline ? OUTCOME_OPTION_UNSUPPORTED : OUTCOME_MALFORMED_OPTION_LENGTH;
	const __u8 *option = at(p, offset, 4);
	const __be32 *header;
	__u32 length;

	if (offset & 3)
		return OUTCOME_MALFORMED_ALIGNMENT;
	if (!option)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	length = option[1];
	if (length < 2)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	if (option[3] != IOAM_DEX &&
	    (option[0] != OPTION_IOAM || option[3] != IOAM_PREALLOCATED_TRACE))
		return OUTCOME_OPTION_UNSUPPORTED;
	if (length < TRACE_OPTION_MIN)
		return option[3] == IOAM_DEX ? short_export : OUTCOME_MALFORMED_OPTION_LENGTH;
	header = at(p, offset + 4, 8);
	if (!header)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	o->header = bpf_ntohl(header[0]);
	o->type = bpf_ntohl(header[1]);
	if (option[3] == IOAM_DEX)
		return length < TRACE_OPTION_MIN + extension_octets(o->header)
			       ? short_export
			       : OUTCOME_DIRECT_EXPORT;
	o->words = (length - TRACE_OPTION_MIN) >> 2;
	if (TRACE_REMAINING(o->header) > o->words)
		return OUTCOME_MALFORMED_REMAINING_LENGTH;
	if (TRACE_NODELEN(o->header) != node_length(o->type))
		return OUTCOME_MALFORMED_NODE_LENGTH;
	return OUTCOME_TRACE_FILLED;
}

/* Notes what the namespace of a Direct Export, or of a trace, wants of it. */
static __always_inline void note_namespace(struct scan *s, struct option *o)
{
	struct ioam_namespace *ns = find_namespace(tables_of(s->half), o->header >> 16);

	if (!ns) {
		if (o->outcome == OUTCOME_DIRECT_EXPORT)
			o->outcome = OUTCOME_NAMESPACE_UNKNOWN;
		return;
	}
	if (NODE.has_removals && ns->remove)
		s->removable++;
	if (NODE.has_exports && ns->export && o->outcome == OUTCOME_DIRECT_EXPORT)
		s->export_types |= (o->type & 0xffffff00) | 1;
}

/* Notes an IOAM option; nonzero when there are too many. */
static __always_inline int note_option(const struct packet *p, struct scan *s, __u32 offset)
{
	__u32 slot = s->count;
	struct option *o;

	if (slot >= MAX_IOAM_OPTIONS)
		return -1;
	o = &s->options[slot];
	s->count = slot + 1;
	o->offset = offset;
	o->outcome = check_option(p, offset, o);
	if (o->outcome >= OUTCOME_MALFORMED_IPV6) {
		if (!s->fault)
			s->fault = o->outcome;
		return 0;
	}
	if (o->outcome == OUTCOME_TRACE_FILLED) {
		s->types |= o->type;
		s->traces++;
		if (NODE.has_removals)
			note_namespace(s, o);
		return 0;
	}
	if (o->outcome == OUTCOME_DIRECT_EXPORT)
		note_namespace(s, o);
	if (o->outcome > s->rest)
		s->rest = o->outcome;
	return 0;
}

#define PADN_2 bpf_htonl(0x00000100) /* behind a header's first two bytes */
#define PADN_4 bpf_htonl(0x01020000)

/* The header that encapsulating nodes write: padding, one IOAM option, padding. No walk is needed. */
static __always_inline int is_common(const struct packet *p, const struct scan *s)
{
	const __be32 *words = at(p, IPV6_HEADER, 8), *rest;
	__u32 end;

	if (!words || (words[0] & bpf_htonl(0xffff)) != PADN_2 ||
	    !is_ioam(p, IPV6_HEADER + 4, ((const __u8 *)words)[4], ((const __u8 *)words)[5]))
		return 0;
	end = 6 + ((const __u8 *)words)[5];
	if (end == s->length)
		return 1;
	rest = at(p, IPV6_HEADER + end, 4);
	return rest && end + 4 == s->length && *rest == PADN_4;
}

/* Whether padding is where, and what, encapsulating nodes put: at either end of the header. */
static __always_inline int is_tidy(const struct packet *p, const struct scan *s, __u32 offset,
				   __u32 length)
{
	const __be32 *padding;

	if (!length)
		return offset == IPV6_HEADER + 2;
	padding = at(p, offset, 4);
	return length == 2 && offset + 4 == IPV6_HEADER + s->length && padding &&
	       *padding == PADN_4;
}

/*
 * Walks the header, whose length is set; anything but OUTCOME_NO_IOAM is a fault of the header.
 * Not inlined, like all that loops over a packet: the verifier then looks at it once, not once
 * per path that leads there. The walk's state is in *s, where the verifier does not follow
 * values: iterations look alike to it.
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
		__u32 offset = s->cursor, type, length;
		const __u8 *option;

		if (offset >= end)
			return OUTCOME_NO_IOAM;
		option = at(p, offset, 1);
		if (!option)
			return OUTCOME_MALFORMED_HEADER;
		type = option[0];
		if (type == OPTION_PAD1) {
			s->cursor = offset + 1;
			s->untidy = 1;
			continue;
		}
		option = at(p, offset, 2);
		if (!option || offset + 2 > end)
			return OUTCOME_MALFORMED_HEADER;
		length = option[1];
		if (offset + 2 + length > end)
			return OUTCOME_MALFORMED_HEADER;
		s->cursor = offset + 2 + length;
		if (type == OPTION_PADN) {
			s->untidy |= !is_tidy(p, s, offset, length);
			continue;
		}
		if (!is_ioam(p, offset, type, length)) {
			s->foreign = 1;
			s->discards |= type & OPTION_DISCARDS;
			continue;
		}
		if (note_option(p, s, offset))
			return OUTCOME_MALFORMED_TOO_MANY_OPTIONS;
	}
	return s->cursor < end ? OUTCOME_MALFORMED_TOO_MANY_OPTIONS : OUTCOME_NO_IOAM;
}

#endif
