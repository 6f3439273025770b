// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the ingress hooks count of a packet, once its verdict is known. */
#ifndef WAYMARK_TALLY_H
#define WAYMARK_TALLY_H

#include "counters.h"
#include "hook.h"
#include "limits.h"
#include "option/flags.h"

/* Counts what became of a packet. In the lane, its interface forwards fast. */
static __always_inline void count_result(struct tally *tally, const struct interface *on,
					 const struct result *result, int verdict, int in_lane)
{
	pay_debt(tally);
	if (ACTS_ON(TRACE_LOOPBACK))
		pay_loopback_debt(on->slot);
	add(tally, COUNTER_INGRESS + result->outcome);
	if (result->options && result->options != result->outcome)
		add(tally, COUNTER_INGRESS_OPTIONS + result->options);
	if (verdict == VERDICT_PASS && (in_lane || (NODE.fast && on->fast)))
		add(tally, COUNTER_STACK + result->reason);
	else if (COMPLETES && verdict == VERDICT_REDIRECT)
		add(tally, COUNTER_FORWARD + result->completed);
}

#endif
