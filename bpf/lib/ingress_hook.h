// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What both ingress hooks do with what the core found: drop, forward or pass, and count. */
#ifndef WAYMARK_INGRESS_HOOK_H
#define WAYMARK_INGRESS_HOOK_H

#include "counters.h"
#include "forward.h"
#include "ingress.h"
#include "limits.h"
#include "marking.h"

static __always_inline int verdict_of(context *ctx, struct packet *p, struct result *result,
				      struct path *path)
{
	if (result->disposition == DROPPED || p->broken)
		return VERDICT_DROP;
	if (!NODE.fast || !p->on->fast)
		return VERDICT_PASS;
	if (!result->reason && !path->ifindex)
		result->reason = find_plain_path(ctx, p, path);
	if (!result->reason)
		result->reason = forward(ctx, p, result, path);
	return result->reason ? VERDICT_PASS : VERDICT_REDIRECT;
}

static __always_inline int ingress_hook(context *ctx)
{
	struct packet p = {};
	struct path path = {};
	struct result result;
	struct tally *tally;
	int verdict, counted = 0;

	if (!begin(ctx, &p))
		return VERDICT_PASS;
	if (NODE.measures && !is_outside(p.on, ROLE_INGRESS))
		counted = measure(ctx, DIRECTION_IN, 0);
	result = ingress(ctx, &p, &path);
	verdict = verdict_of(ctx, &p, &result, &path);
	if (NODE.may_take_back && counted && verdict == VERDICT_DROP)
		take_back();
	tally = find_tally(p.on->slot);
	if (!tally)
		return verdict;
	pay_debt(tally);
	if (ACTS_ON(TRACE_LOOPBACK))
		pay_loopback_debt(p.on->slot);
	add(tally, COUNTER_INGRESS + result.outcome);
	if (result.options && result.options != result.outcome)
		add(tally, COUNTER_INGRESS_OPTIONS + result.options);
	if (NODE.fast && p.on->fast && verdict == VERDICT_PASS)
		add(tally, COUNTER_STACK + result.reason);
	else if (COMPLETES && verdict == VERDICT_REDIRECT)
		add(tally, COUNTER_FORWARD + result.completed);
	return verdict;
}

#endif
