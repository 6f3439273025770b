// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The egress hook in tc (tcx or clsact): the last look before the queue. */
#include "egress.h"
#include "departure.h"
#include "mark_insertion.h"

SEC("tc")
int egress_tc(struct __sk_buff *ctx)
{
	struct packet p = {};
	struct result result;
	struct tally *tally;
	__u32 left = LEFT, size;

	if (!begin(ctx, &p))
		return VERDICT_PASS;
	left = measure_leaving(ctx, p.on);
	if (NODE.has_budgets && p.on->insertion)
		count_sent(ctx, p.on->slot, 0);
	size = ctx->gso_size;
	result = egress(ctx, &p);
	tally = find_tally(p.on->slot);
	if (tally) {
		pay_debt(tally);
		if (ACTS_ON(TRACE_LOOPBACK))
			pay_loopback_debt(p.on->slot);
		add(tally, COUNTER_EGRESS + result.outcome);
	}
	if (result.disposition == DROPPED || p.broken || (left & DEPARTED) == LEFT_BROKEN) {
		if (NODE.may_take_back && left & LEFT_COUNTED)
			take_back();
		return VERDICT_DROP;
	}
	if (NODE.measures && (left & DEPARTED) == LEFT_TO_BE_CUT && ctx->gso_size < size)
		recount_cut(ctx);
	return VERDICT_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
