// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What both ingress hooks do with what the core found: drop, forward or pass, and count. */
#ifndef WAYMARK_INGRESS_HOOK_H
#define WAYMARK_INGRESS_HOOK_H

#include "forward.h"
#include "ingress.h"
#include "marking.h"
#include "tally.h"

/* Not a verdict: a tunnel was removed, and what was inside is treated next. */
#define VERDICT_NEXT 0x100

/* Packets, one in the tunnel of another, that are treated here, at most. */
#define MAX_LAYERS 4

/* Whether the packet that was in a tunnel has headers that are treated here, too. */
static __always_inline int is_layered(const struct packet *p, const struct result *result)
{
	const struct ipv6 *ip6;

	if (!NODE.has_decapsulations || result->outcome != OUTCOME_TUNNEL_DECAPSULATED)
		return 0;
	ip6 = at(p, 0, IPV6_HEADER);
	return ip6 && (ip6->next_header == NEXT_HBH || ip6->next_header == NEXT_IPV6 ||
		       ip6->next_header == NEXT_DESTINATION);
}

static __always_inline int verdict_of(context *ctx, struct packet *p, struct result *result,
				      struct path *path)
{
	if (result->disposition == DROPPED || p->broken)
		return VERDICT_DROP;
	if (COMPLETES && is_layered(p, result)) /* in tc, see treat_packet() */
		return VERDICT_NEXT;
	if (!NODE.fast || !p->on->fast)
		return VERDICT_PASS;
	if (!result->reason && !path->ifindex)
		result->reason = find_plain_path(ctx, p, path);
	if (!result->reason)
		result->reason = forward(ctx, p, result, path);
	return result->reason ? VERDICT_PASS : VERDICT_REDIRECT;
}

/* Treats a packet. Not inlined: the verifier then follows it once, and not once for each tunnel. */
__noinline int treat_packet(context *ctx)
{
	struct packet p = {};
	struct path path = {};
	struct result result;
	struct tally *tally;
	int verdict;

	if (!begin(ctx, &p))
		return VERDICT_PASS;
	result = ingress(ctx, &p, &path);
	/* in tc, this place costs less stack than that in verdict_of(), and in XDP more */
	if (!COMPLETES && !p.broken && is_layered(&p, &result))
		verdict = VERDICT_NEXT;
	else
		verdict = verdict_of(ctx, &p, &result, &path);
	tally = find_tally(p.on->slot);
	if (tally)
		count_result(tally, p.on, &result, verdict, 0);
	return verdict;
}

/* Nonzero: the packet was counted in its flow. What outsiders send is of none. */
static __always_inline int measure_arrival(context *ctx)
{
	struct packet p = {};

	if (!begin(ctx, &p) || is_outside(p.on, ROLE_INGRESS))
		return 0;
	return measure(ctx, DIRECTION_IN, 0);
}

static __always_inline int ingress_hook(context *ctx)
{
	int verdict, counted = 0;

	if (NODE.measures)
		counted = measure_arrival(ctx);
	verdict = treat_packet(ctx);
#pragma clang loop unroll(disable)
	for (int i = 1; NODE.has_decapsulations && i < MAX_LAYERS; i++) {
		if (verdict != VERDICT_NEXT)
			break;
		verdict = treat_packet(ctx);
	}
	if (NODE.may_take_back && counted && verdict == VERDICT_DROP)
		take_back();
	return verdict == VERDICT_NEXT ? VERDICT_PASS : verdict;
}

#endif
