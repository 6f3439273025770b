// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ingress hook in the driver: packets before the stack has an skb for them. */
#include "config.h"
#include "maps.h"
#include "lib/packet_xdp.h"
#include "lib/ingress.h"

SEC("xdp.frags")
int ingress_xdp(struct xdp_md *ctx)
{
	struct result result = ingress(ctx);

	count(COUNTER_INGRESS + result.outcome);
	return result.drop ? VERDICT_DROP : VERDICT_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
