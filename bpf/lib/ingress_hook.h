// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What both ingress hooks do around the core: count, drop, go on or leave to the stack. Included
 * behind forward(), which they do in their own ways.
 */
#ifndef WAYMARK_INGRESS_HOOK_H
#define WAYMARK_INGRESS_HOOK_H

#include "ingress.h"

/* The verdict, or the reason, negative, to leave the packet to the stack; 0: nothing else was tried. */
static __always_inline int dispose(context *ctx, struct packet *p, struct result *result,
				   struct path *path)
{
	if (result->drop || p->broken)
		return VERDICT_DROP;
	if (!NODE.fast || !p->on->fast)
		return 0;
	if (result->reason == STACK_UNDECIDED)
		result->reason = find_plain_path(ctx, p, path);
	return result->reason ? -(int)result->reason : forward(ctx, p, result, path);
}

static __always_inline int ingress_hook(context *ctx)
{
	struct packet p = {};
	struct path path = {};
	struct result result;
	struct tally *tally;
	int disposed;

	if (!begin(ctx, &p))
		return VERDICT_PASS;
	result = ingress(ctx, &p, &path);
	disposed = dispose(ctx, &p, &result, &path);
	tally = find_tally(p.on->slot);
	if (tally) {
		pay_debt(tally);
		add(tally, COUNTER_INGRESS + result.outcome);
		if (disposed < 0)
			add(tally, COUNTER_STACK - disposed);
		else if (COMPLETES && disposed == VERDICT_REDIRECT)
			add(tally, COUNTER_FORWARD + result.completed);
	}
	return disposed > 0 ? disposed : VERDICT_PASS;
}

#endif
