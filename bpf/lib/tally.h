// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the ingress hooks count of a packet, once its verdict is known. */
#ifndef WAYMARK_TALLY_H
#define WAYMARK_TALLY_H

#include "counters.h"
#include "hook.h"
#include "limits.h"
#include "option/flags.h"

/* Counts, and returns the verdict. */
static __always_inline int settle(const struct packet *p, const struct result *result, int verdict)
{
	struct tally *tally = find_tally(p->on->slot);

	if (!tally)
		return verdict;
	pay_debt(tally);
	if (ACTS_ON(TRACE_LOOPBACK))
		pay_loopback_debt(p->on->slot);
	add(tally, COUNTER_INGRESS + result->outcome);
	if (result->options && result->options != result->outcome)
		add(tally, COUNTER_INGRESS_OPTIONS + result->options);
	if (NODE.fast && p->on->fast && verdict == VERDICT_PASS)
		add(tally, COUNTER_STACK + result->reason);
	else if (COMPLETES && verdict == VERDICT_REDIRECT)
		add(tally, COUNTER_FORWARD + result->completed);
	return verdict;
}

#endif
