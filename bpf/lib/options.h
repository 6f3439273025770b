// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The options of a Hop-by-Hop header (RFC 8200 §4.3, RFC 9486 §3): finding those of IOAM. */
#ifndef WAYMARK_OPTIONS_H
#define WAYMARK_OPTIONS_H

#include "context.h"
#include "ipv6.h"
#include "modules.h"

#define PADN_2 bpf_htonl(0x00000100) /* after a header's first two bytes */
#define PADN_4 bpf_htonl(0x01020000)

/* The header that encapsulating nodes write: padding, one IOAM option, padding. No walk is needed. */
static __always_inline int is_common(const struct packet *p, const struct options *o)
{
	const __be32 *words = at(p, IPV6_HEADER, 8), *rest;
	__u32 end;

	if (!words || (words[0] & bpf_htonl(0xffff)) != PADN_2 ||
	    !is_ioam(p, IPV6_HEADER + 4, ((const __u8 *)words)[4], ((const __u8 *)words)[5]))
		return 0;
	end = 6 + ((const __u8 *)words)[5];
	if (end == o->length)
		return 1;
	rest = at(p, IPV6_HEADER + end, 4);
	return rest && end + 4 == o->length && *rest == PADN_4;
}

/* Whether padding is where, and what, encapsulating nodes put: at either end of the header. */
static __always_inline int is_tidy(const struct packet *p, const struct options *o, __u32 offset,
				   __u32 length)
{
	const __be32 *padding;

	if (!length)
		return offset == IPV6_HEADER + 2;
	padding = at(p, offset + 2, 4);
	if (length == 4) /* where a trace has grown */
		return offset == IPV6_HEADER + 2 && padding && !*padding;
	padding = at(p, offset, 4);
	return length == 2 && offset + 4 == IPV6_HEADER + o->length && padding &&
	       *padding == PADN_4;
}

/*
 * Walks a header as encapsulating nodes write it, with several common traces and nothing else; zero
 * where scan_options() has to, which forgets what was noted. Not inlined: see there.
 */
__noinline int scan_traces(context *ctx, __u32 l3, struct options *o)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	/* not in *o: the next option can only be found once this is known */
	__u32 end, offset = IPV6_HEADER + 4, count, next;
	const __be32 *padding;

	if (!o)
		return 0;
	packet_load(ctx, p);
	end = IPV6_HEADER + (o->length & 0xfff);
	padding = at(p, IPV6_HEADER, 4);
	if (!padding || (*padding & bpf_htonl(0xffff)) != PADN_2)
		return 0;
#pragma clang loop unroll(disable)
	for (count = 0; count < MAX_IOAM_OPTIONS; count++) {
		next = note_common_trace(p, o, count, offset, end);
		if (!next)
			break;
		offset = next;
	}
	o->count = count;
	if (offset == end)
		return 1;
	padding = at(p, offset, 4);
	return offset + 4 == end && padding && *padding == PADN_4;
}

/* A walk through the options of a header. */
struct walk {
	context *ctx;
	struct options *options;
	__u32 l3, end;
	enum outcome outcome;
};

/*
 * Goes past the option at the cursor. One of IOAM is not noted: its place is in *ioam, which is zero
 * otherwise. Anything but OUTCOME_NO_IOAM is an error of the header.
 */
static __always_inline enum outcome pass_option(const struct packet *p, struct options *o,
						__u32 end, __u32 *ioam)
{
	__u32 offset = o->cursor, type, length;
	const __u8 *option;

	*ioam = 0;
	option = at(p, offset, 1);
	if (!option)
		return OUTCOME_MALFORMED_HEADER;
	type = option[0];
	if (type == OPTION_PAD1) {
		o->cursor = offset + 1;
		o->untidy = 1;
		return OUTCOME_NO_IOAM;
	}
	option = at(p, offset, 2);
	if (!option || offset + 2 > end)
		return OUTCOME_MALFORMED_HEADER;
	length = option[1];
	if (offset + 2 + length > end)
		return OUTCOME_MALFORMED_HEADER;
	o->cursor = offset + 2 + length;
	if (type == OPTION_PADN) {
		if (!is_tidy(p, o, offset, length))
			o->untidy = 1;
		return OUTCOME_NO_IOAM;
	}
	if (is_ioam(p, offset, type, length)) {
		*ioam = offset;
		return OUTCOME_NO_IOAM;
	}
	o->foreign = 1;
	if (type & OPTION_DISCARDS)
		o->discards = 1;
	return OUTCOME_NO_IOAM;
}

/* Notes the option at the cursor: anything but OUTCOME_NO_IOAM is an error of the header. */
static __always_inline enum outcome scan_option(context *ctx, struct options *o, __u32 l3,
						__u32 end)
{
	struct packet packet = {.l3 = l3}, *p = &packet;
	enum outcome outcome;
	__u32 ioam;

	packet_load(ctx, p);
	outcome = pass_option(p, o, end, &ioam);
	if (outcome == OUTCOME_NO_IOAM && ioam && note_option(ctx, p, o, o->count, ioam))
		return OUTCOME_MALFORMED_TOO_MANY_OPTIONS;
	return outcome;
}

/* One turn of the walk; nonzero ends it. */
static int walk_on(__u32 turn, struct walk *w)
{
	(void)turn;
	if (w->options->cursor >= w->end)
		return 1;
	w->outcome = scan_option(w->ctx, w->options, w->l3 & 0xff, w->end);
	return w->outcome != OUTCOME_NO_IOAM;
}

/* Options that scan_options() passes before it needs the calls of a walk. */
#define FIRST_OPTIONS 3

/*
 * Goes past the first options as long as they are none of IOAM, and counts them. So a header of
 * others, such as one with a Router Alert, needs no walk.
 */
static __always_inline enum outcome pass_first(context *ctx, struct options *o, __u32 l3, __u32 end,
					       __u32 *passed)
{
	struct packet packet = {.l3 = l3}, *p = &packet;
	enum outcome outcome;
	__u32 turn, ioam;

	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (turn = 0; turn < FIRST_OPTIONS && o->cursor < end; turn++) {
		outcome = pass_option(p, o, end, &ioam);
		if (outcome != OUTCOME_NO_IOAM)
			return outcome;
		if (ioam) {
			o->cursor = ioam;
			break;
		}
	}
	*passed = turn;
	return OUTCOME_NO_IOAM;
}

/*
 * Walks the options of the header, whose length is set; anything but OUTCOME_NO_IOAM is an error of
 * the header. Not inlined, like everything that loops over a packet: the verifier then follows the
 * loop once, and not once for each path that leads there. The state of the walk is in memory, where
 * the verifier does not follow values: turns look alike to it, and it follows one of them.
 */
__noinline int scan_options(context *ctx, __u32 l3, struct options *o)
{
	struct walk w = {.ctx = ctx, .options = o, .l3 = l3, .outcome = OUTCOME_NO_IOAM};
	__u32 passed = 0;

	if (!o)
		return OUTCOME_MALFORMED_HEADER;
	w.end = IPV6_HEADER + (o->length & 0xfff);
	o->cursor = IPV6_HEADER + 2;
	o->trace_types = 0;
	o->trace_flags = 0;
	o->has_trace = 0;
	o->removable = 0;
	o->count = 0;
	w.outcome = pass_first(ctx, o, l3 & 0xff, w.end, &passed);
	if (w.outcome != OUTCOME_NO_IOAM)
		return w.outcome;
	if (o->cursor < w.end)
		bpf_loop(MAX_OPTIONS - passed, walk_on, &w, 0);
	if (w.outcome != OUTCOME_NO_IOAM)
		return w.outcome;
	return o->cursor < w.end ? OUTCOME_MALFORMED_TOO_MANY_OPTIONS : OUTCOME_NO_IOAM;
}

#endif
