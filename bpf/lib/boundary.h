// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The domain's edge (docs/data-plane/edge.md). */
#ifndef WAYMARK_BOUNDARY_H
#define WAYMARK_BOUNDARY_H

#include "boundary_policy.h"
#include "boundary_strip.h"
#include "hbh.h"
#include "hook.h"

static __always_inline struct result dropped(enum outcome outcome)
{
	struct result result = {
		.outcome = outcome, .disposition = DROPPED, .reason = STACK_BOUNDARY};

	return result;
}

/* Removes from the Hop-by-Hop header what was noted. */
static __always_inline enum outcome strip_first(context *ctx, struct packet *p,
						const struct options *o)
{
	const __u8 *hbh;
	int done;

	if (!o->foreign && o->stripped + 1U == 1U << o->count) {
		hbh = at(p, IPV6_HEADER, 8);
		return hbh && !remove_header(ctx, p, o->length, hbh[0]) ? OUTCOME_BOUNDARY_STRIPPED
									: OUTCOME_DECAP_FAILED;
	}
	done = strip_options(ctx, o, p->on);
	take_place(p, done);
	packet_load(ctx, p);
	return done & 0xff;
}

/* Removes what the policies say, first from the Hop-by-Hop header, if there is one. */
static __always_inline enum outcome strip_ioam(context *ctx, struct packet *p,
					       const struct options *o, __u32 behind)
{
	enum outcome outcome = OUTCOME_BOUNDARY_STRIPPED;
	int done;

	if (!NODE.strips)
		return OUTCOME_BOUNDARY_STRIP_PARTIAL;
	if (o && o->stripped)
		outcome = strip_first(ctx, p, o);
	if (!(behind & FOUND_STRIP) || outcome == OUTCOME_DECAP_FAILED)
		return outcome;
	done = strip_destinations(ctx, p->on, p->l3);
	take_place(p, done | (__u32)p->broken << 16);
	if ((done & 0xff) == OUTCOME_DECAP_FAILED)
		return OUTCOME_DECAP_FAILED;
	return has_more_to_strip(ctx, p->on, p->l3) ? OUTCOME_BOUNDARY_STRIP_PARTIAL : outcome;
}

/*
 * Finds the outcome of a packet at an edge: OUTCOME_NO_IOAM if no IOAM is in it. The options of its
 * Hop-by-Hop header, if it has one, are known. The rest of the result is that of with_place(). Not
 * inlined: the stack is small.
 */
__noinline int judge_edge(context *ctx, const struct interface *on, struct options *o, __u32 l3,
			  __u32 role)
{
	struct packet packet = {.l3 = l3 & 0xff, .on = on}, *p = &packet;
	__u32 first, begin, found = 0, behind = 0;
	enum outcome outcome = OUTCOME_NO_IOAM;

	if (!on)
		return outcome;
	packet_load(ctx, p);
	if (o && o->count)
		found = policies_of(ctx, p, o);
	if (found & FOUND_DROP)
		return with_place(p, OUTCOME_BOUNDARY_DROPPED);
	first = find_behind(p, &begin);
	if (filters_ioam(on, role) && is_extension(first))
		behind = find_ioam_behind(ctx, p, on, first, begin);
	found |= behind;
	if (drops_ioam(p, role) && behind & (HIDES_HBH | UNREADABLE))
		outcome = OUTCOME_BOUNDARY_UNPROVEN_DROPPED;
	else if (found & FOUND_DROP)
		outcome = OUTCOME_BOUNDARY_DROPPED;
	else if (found & FOUND_STRIP && behind & HIDES_HBH)
		outcome = OUTCOME_BOUNDARY_UNPROVEN_DROPPED;
	else if (found & FOUND_STRIP)
		outcome = strip_ioam(ctx, p, o, behind);
	else if (found & FOUND_IGNORE)
		outcome = OUTCOME_BOUNDARY_IGNORED;
	return with_place(p, outcome);
}

/* IOAM where it must not pass (RFC 9197 §4.1: no leak from the domain): OUTCOME_NO_IOAM if there is none. */
static __always_inline struct result at_edge(context *ctx, struct packet *p, struct options *o,
					     enum role role)
{
	int done = judge_edge(ctx, p->on, o, p->l3, role);
	struct result result = {.outcome = done & 0xff, .reason = STACK_BOUNDARY};

	take_place(p, done);
	packet_load(ctx, p);
	if (result.outcome == OUTCOME_BOUNDARY_STRIPPED)
		result.reason = STACK_NONE;
	else if (result.outcome >= OUTCOME_BOUNDARY_DROPPED)
		result.disposition = DROPPED;
	return result;
}

/* The same of a packet with a Hop-by-Hop header that was opened. Most need no call. */
static __always_inline struct result at_edge_opened(context *ctx, struct packet *p,
						    struct options *o, enum role role)
{
	if (o->count && !(p->on->boundary & BOUNDARY_NAMESPACES)) {
		if (default_policy(p->on) == BOUNDARY_DROP)
			return dropped(OUTCOME_BOUNDARY_DROPPED);
		if (default_policy(p->on) == BOUNDARY_IGNORE)
			return (struct result){.outcome = OUTCOME_BOUNDARY_IGNORED,
					       .reason = STACK_BOUNDARY};
	}
	return at_edge(ctx, p, o, role);
}

/*
 * Whether an edge may hold a packet that leaves by it, whose headers begin with one of a type. Not inlined:
 * the stack is small.
 */
__noinline int holds(context *ctx, const struct interface *out, __u32 l3, __u32 first, __u32 begin)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 found;

	if (!out)
		return 1;
	packet_load(ctx, p);
	found = find_ioam_behind(ctx, p, out, first & 0xff, begin & 0xfff);
	return found & FOUND_POLICIES || (out->roles & EDGE_EGRESS && found);
}

#endif
