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

/* Counts a packet that the stack gets for a reason, or that leaves here without one. */
static __always_inline int end_lane(const struct packet *p, struct result *result,
				    enum stack_reason reason)
{
	int verdict = reason ? VERDICT_PASS : VERDICT_REDIRECT;
	struct tally *tally = find_tally(p->on->slot);

	result->reason = reason;
	if (tally)
		count_result(tally, p->on, result, verdict, 1);
	return verdict;
}

/* Sends the packet on its way, and counts it. */
static __always_inline int leave_lane(context *ctx, struct packet *p, struct path *path,
				      struct result result, int inserts)
{
	enum stack_reason reason = forward_on(ctx, p, &result, path, inserts);

	return end_lane(p, &result, reason);
}

/* Whether a packet, which has no Hop-by-Hop header, may leave without its egress hook, and where. */
static __always_inline int finds_plain_way(context *ctx, struct packet *p, struct path *path,
					   __u8 next)
{
	const struct interface *out;

	if (find_path(ctx, p, path, SEARCH_REMEMBERED))
		return 0;
	return path->reason == WAY_IS_PLAIN ||
	       (!find_out(p, path, &out) && !needs_egress(ctx, p, out, next));
}

/* A packet without a Hop-by-Hop header. */
static __always_inline int plain_lane(context *ctx, struct packet *p, __u8 next)
{
	const struct result plain = {.outcome = OUTCOME_NO_IOAM, .completed = OUTCOME_NO_IOAM};
	struct path path = {}, inserting;

	if (may_concern_us(p, next) || !finds_plain_way(ctx, p, &path, next))
		return VERDICT_OTHER;
	if (path.reason == WAY_IS_PLAIN ||
	    !may_insert(p)) /* constants cost less: each kind has code of its own */
		return leave_lane(ctx, p, &path, plain, 0);
	inserting = path; /* only what a function gets has to be in memory */
	return leave_lane(ctx, p, &inserting, plain, 1);
}

/*
 * Whether a packet will be the same without its tunnel, but for a lower hop limit that a router may
 * still count: remove_tunnel() keeps what routers wrote into the outer header.
 */
static __always_inline int stays_same(const struct ipv6 *outer, const struct ipv6 *inner)
{
	return outer->hop_limit > 1 && !((outer->class_label ^ inner->class_label) & ECN_MASK);
}

/*
 * A packet in a tunnel that ends here, with a common header. Where it goes without them is found first,
 * because a packet that has lost its tunnel is no other path's any more.
 */
static __always_inline int removal_lane(context *ctx, struct packet *p)
{
	struct result result = {.outcome = OUTCOME_TUNNEL_DECAPSULATED,
				.completed = OUTCOME_NO_IOAM};
	const struct ipv6 *outer = at(p, 0, IPV6_HEADER), *ip6;
	struct packet inner = *p;
	struct path path = {};
	int found = judge_common(ctx, p->on);

	inner.ip6 = at(p, IPV6_HEADER + (found & 0xfff), IPV6_HEADER);
	ip6 = inner.ip6;
	if (!found || !outer || !ip6 || !stays_same(outer, ip6) || ip6->next_header == NEXT_IPV6 ||
	    is_extension(ip6->next_header) ||
	    !finds_plain_way(ctx, &inner, &path, ip6->next_header))
		return VERDICT_OTHER;
	if (found & COMMON_REPORTS) {
		if (!report_common(ctx, p->on, 0, NODE_DECAPSULATING))
			return VERDICT_OTHER;
		result.options = OUTCOME_DIRECT_EXPORT;
	}
	if (remove_common(ctx, found)) {
		result.outcome = OUTCOME_DECAP_FAILED;
		return end_lane(p, &result, STACK_HEADERS);
	}
	p->out = inner.out;
	packet_load(ctx, p);
	return may_insert(p) ? leave_lane(ctx, p, &path, result, 1)
			     : leave_lane(ctx, p, &path, result, 0);
}

/* A packet with a Hop-by-Hop header, which goes on if it is a common one. */
static __always_inline int common_lane(context *ctx, struct packet *p)
{
	const struct result trace = {.outcome = OUTCOME_TRACE_FILLED,
				     .completed = OUTCOME_TRACE_FILLED};
	const __u8 *hbh = at(p, IPV6_HEADER, 8);
	struct result result = {};
	struct path path = {};

	if (!(p->on->roles & ROLE_INGRESS) || filters_ioam(p->on, ROLE_INGRESS) ||
	    drops_ioam(p, ROLE_INGRESS) || !hbh)
		return VERDICT_OTHER;
	if (NODE.has_decapsulations && hbh[0] == NEXT_IPV6)
		return removal_lane(ctx, p);
	if (!common_transit(ctx, p, &path, &result, 1))
		return VERDICT_OTHER;
	/* it has IOAM, and gets no more, but counts for budgets of insertion */
	if (NODE.has_budgets && may_insert(p))
		return leave_lane(ctx, p, &path, result, 1);
	return result.outcome == OUTCOME_TRACE_FILLED ? leave_lane(ctx, p, &path, trace, 0)
						      : leave_lane(ctx, p, &path, result, 0);
}

/* Treats a packet; VERDICT_OTHER where the general path has to. Not inlined: see treat_packet(). */
__noinline int treat_in_lane(context *ctx)
{
	const struct ipv6 *ip6;
	struct packet p = {};

	/* Linux 6.1 verifies this function where it is not called, too */
	if (!NODE.fast || NODE.measures || !begin(ctx, &p) || !p.on->fast ||
	    open_packet(ctx, &p, ROLE_INGRESS, &ip6) != OUTCOME_NO_IOAM || p.l3 != ETHERNET_HEADER)
		return VERDICT_OTHER;
	return ip6->next_header == NEXT_HBH ? common_lane(ctx, &p)
					    : plain_lane(ctx, &p, ip6->next_header);
}

#endif
