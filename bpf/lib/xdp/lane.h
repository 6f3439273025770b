// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The lane of most packets: forwarded without the stack, plain or with a common header. They are judged
 * by the rules of the general path, in one piece. Where a rule has a reason against it, the packet is
 * not touched, and the general path finds the reason again: to keep it would cost all packets more
 * than they need.
 */
#ifndef WAYMARK_LANE_H
#define WAYMARK_LANE_H

#include "common_transit.h"
#include "forward.h"
#include "ingress.h"
#include "tally.h"

/* Whether a plain packet's way out is known, and the interface there needs no egress hook. */
static __always_inline int is_plain_transit(context *ctx, struct packet *p, struct path *path,
					    __u8 next)
{
	const struct interface *out;

	if (may_concern_us(p, next) || find_path(ctx, p, path, SEARCH_REMEMBERED) ||
	    find_out(p, path, &out))
		return 0;
	return !needs_egress(ctx, p, out, next);
}

/* Finds what becomes of the packet: its outcome, and its way out. Zero: the general path does. */
static __always_inline int is_in_lane(context *ctx, struct packet *p, struct path *path,
				      struct result *result)
{
	const struct ipv6 *ip6;

	if (!begin(ctx, p) || !p->on->fast ||
	    open_packet(ctx, p, ROLE_INGRESS, &ip6) != OUTCOME_NO_IOAM || p->l3 != ETHERNET_HEADER)
		return 0;
	result->outcome = OUTCOME_NO_IOAM;
	result->completed = OUTCOME_NO_IOAM;
	if (ip6->next_header != NEXT_HBH)
		return is_plain_transit(ctx, p, path, ip6->next_header);
	return p->on->roles & ROLE_INGRESS && !filters_ioam(p->on, ROLE_INGRESS) &&
	       !drops_ioam(p, ROLE_INGRESS) && common_transit(ctx, p, path, result, 1);
}

/* Sends the packet on its way, and counts it. */
static __always_inline int leave_lane(context *ctx, struct packet *p, struct path *path,
				      struct result result, int inserts)
{
	struct tally *tally;
	int verdict;

	result.reason = forward_on(ctx, p, &result, path, inserts);
	verdict = result.reason ? VERDICT_PASS : VERDICT_REDIRECT;
	tally = find_tally(p->on->slot);
	if (tally)
		settle(tally, p->on, &result, verdict);
	return verdict;
}

/* Treats a packet; VERDICT_OTHER where the general path has to. Not inlined: see treat_packet(). */
__noinline int treat_in_lane(context *ctx)
{
	const struct result plain = {.outcome = OUTCOME_NO_IOAM, .completed = OUTCOME_NO_IOAM};
	const struct result trace = {.outcome = OUTCOME_TRACE_FILLED,
				     .completed = OUTCOME_TRACE_FILLED};
	struct packet p = {};
	struct path path = {};
	struct result result = {};

	/* Linux 6.1 verifies this function where it is not called, too */
	if (!NODE.fast || NODE.measures || !is_in_lane(ctx, &p, &path, &result))
		return VERDICT_OTHER;
	/* constants cost less: the two commonest outcomes have code of their own */
	if (may_insert(&p))
		return leave_lane(ctx, &p, &path, result, 1);
	if (result.outcome == OUTCOME_NO_IOAM)
		return leave_lane(ctx, &p, &path, plain, 0);
	if (result.outcome == OUTCOME_TRACE_FILLED)
		return leave_lane(ctx, &p, &path, trace, 0);
	return leave_lane(ctx, &p, &path, result, 0);
}

#endif
