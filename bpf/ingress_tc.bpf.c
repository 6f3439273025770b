// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ingress hook in tc (tcx or clsact), where the driver has no native XDP. */
#include "config.h"
#include "maps.h"
#include "lib/packet_skb.h"
#include "lib/ingress.h"

SEC("tc")
int ingress_tc(struct __sk_buff *ctx)
{
	struct result result = ingress(ctx);

	count(COUNTER_INGRESS + result.outcome);
	return result.drop ? VERDICT_DROP : VERDICT_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
