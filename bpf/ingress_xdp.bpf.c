// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The ingress hook in the driver, before the stack has an skb for the packet. Where the interface
 * forwards fast, packets also pass the core of the egress hook here, and leave.
 */
#include "ingress_hook.h"
#include "lane.h"

SEC("xdp.frags")
int ingress_xdp(struct xdp_md *ctx)
{
	int verdict = NODE.fast ? treat_in_lane(ctx) : VERDICT_OTHER;

	if (verdict != VERDICT_OTHER)
		return verdict;
	return ingress_hook(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
