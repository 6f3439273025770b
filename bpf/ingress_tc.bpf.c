// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The ingress hook in tc (tcx or clsact), where the driver has no native XDP. Where the interface
 * forwards fast, packets go from here to the egress hook of the interface that they leave by.
 */
#include "ingress_hook.h"

SEC("tc")
int ingress_tc(struct __sk_buff *ctx)
{
	return ingress_hook(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
