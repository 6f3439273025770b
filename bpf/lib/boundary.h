// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The domain's edge (docs/data-plane.md, "The domain's edge"). */
#ifndef WAYMARK_BOUNDARY_H
#define WAYMARK_BOUNDARY_H

#include "boundary_strip.h"
#include "hbh.h"
#include "headers.h"
#include "hook.h"

/* Whether headers after the first Hop-by-Hop header may hide another: see may_hide_hbh(). */
static __always_inline int is_followed(context *ctx, struct packet *p, const struct options *o)
{
	const __u8 *hbh = at(p, IPV6_HEADER, 8);

	return !hbh || may_hide_hbh(ctx, p, hbh[0], IPV6_HEADER + o->length);
}

/* Whether a packet, as its header was opened, may hold IOAM that was not found. */
static __always_inline int is_unproven(context *ctx, struct packet *p, const struct options *o,
				       enum outcome opened)
{
	return opened != OUTCOME_NO_IOAM || (!o->count && is_followed(ctx, p, o));
}

static __always_inline struct result dropped(enum outcome outcome)
{
	struct result result = {
		.outcome = outcome, .disposition = DROPPED, .reason = STACK_BOUNDARY};

	return result;
}

/* Removes IOAM from a header that stays. */
static __always_inline struct result strip_shared(context *ctx, struct packet *p,
						  const struct options *o)
{
	struct result result = {.reason = STACK_BOUNDARY,
				.outcome = OUTCOME_BOUNDARY_STRIP_PARTIAL};
	int done;

	if (!NODE.strips)
		return result;
	done = strip_options(ctx, o, p->on);
	take_place(p, done);
	packet_load(ctx, p);
	result.outcome = done & 0xff;
	if (result.outcome == OUTCOME_BOUNDARY_STRIPPED)
		result.reason = STACK_HEADERS;
	return result;
}

/* IOAM where it must not pass (RFC 9197 §4.1: no leak from the domain). */
static __always_inline struct result at_boundary(context *ctx, struct packet *p,
						 const struct options *o)
{
	struct result result = {.reason = STACK_BOUNDARY};
	const __u8 *hbh;

	if (p->on->boundary == BOUNDARY_IGNORE) {
		result.outcome = OUTCOME_BOUNDARY_IGNORED;
	} else if (p->on->boundary == BOUNDARY_DROP) {
		return dropped(OUTCOME_BOUNDARY_DROPPED);
	} else if (is_followed(ctx, p, o)) {
		return dropped(OUTCOME_BOUNDARY_UNPROVEN_DROPPED);
	} else if (o->foreign) {
		return strip_shared(ctx, p, o);
	} else {
		hbh = at(p, IPV6_HEADER, 8);
		result.outcome = OUTCOME_DECAP_FAILED;
		if (hbh && !remove_header(ctx, p, o->length, hbh[0])) {
			result.outcome = OUTCOME_BOUNDARY_STRIPPED;
			result.reason = STACK_NONE;
		}
	}
	return result;
}

#endif
