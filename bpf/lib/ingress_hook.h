// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What both ingress hooks do around the core: count, drop, go on or leave to the stack. Included
 * behind forward(), which they do in their own ways.
 */
#ifndef WAYMARK_INGRESS_HOOK_H
#define WAYMARK_INGRESS_HOOK_H

#include "ingress.h"

static __always_inline int ingress_hook(context *ctx)
{
	struct packet p = {};
	struct path path = {};
	struct result result = ingress(ctx, &p, &path);
	int verdict;

	count(COUNTER_INGRESS + result.outcome);
	if (result.drop || p.broken)
		return VERDICT_DROP;
	if (!NODE.fast)
		return VERDICT_PASS;
	if (result.reason == STACK_UNDECIDED)
		result.reason = find_plain_path(ctx, &p, &path);
	verdict = result.reason ? -(int)result.reason : forward(ctx, &p, &result, &path);
	if (verdict > 0)
		return verdict;
	count(COUNTER_STACK - verdict);
	return VERDICT_PASS;
}

#endif
