// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The egress hook in tc (tcx or clsact): the last look before the queue. */
#include "egress.h"
#include "marking.h"

SEC("tc")
int egress_tc(struct __sk_buff *ctx)
{
	struct packet p = {};
	struct result result;
	struct tally *tally;

	if (NODE.measures)
		measure(ctx, DIRECTION_OUT);
	if (!begin(ctx, &p))
		return VERDICT_PASS;
	result = egress(ctx, &p);

	tally = find_tally(p.on->slot);
	if (tally) {
		pay_debt(tally);
		add(tally, COUNTER_EGRESS + result.outcome);
	}
	return result.disposition == DROPPED || p.broken ? VERDICT_DROP : VERDICT_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
