// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The ingress hook in tc (tcx or clsact), where the driver has no native XDP. Where the interface
 * forwards fast, packets go from here to the egress hook of the interface that they leave by.
 */
#include "config.h"
#include "maps.h"
#include "lib/packet_skb.h"
#include "lib/forward_skb.h"
#include "lib/ingress.h"

SEC("tc")
int ingress_tc(struct __sk_buff *ctx)
{
	struct packet p = {};
	struct path path = {};
	struct result result = ingress(ctx, &p, &path);
	struct ipv6 *ip6;

	count(COUNTER_INGRESS + result.outcome);
	if (result.drop)
		return VERDICT_DROP;
	if (!NODE.fast)
		return VERDICT_PASS;
	if (result.reason == STACK_UNDECIDED)
		result.reason = find_plain_path(ctx, &p, &path);
	ip6 = at(&p, 0, IPV6_HEADER);
	if (!result.reason && ip6) {
		ip6->hop_limit--;
		return leave(&p, &path);
	}
	count(COUNTER_STACK + result.reason);
	return VERDICT_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
