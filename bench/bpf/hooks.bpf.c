// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that do nothing, in the places of those that are measured: what is left of the packet
 * rate with them is what the kernel takes for the hooks themselves.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("xdp.frags")
int empty_xdp(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_PASS;
}

SEC("tc")
int empty_tc(struct __sk_buff *ctx)
{
	(void)ctx;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
