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

/*
 * Whether an insertion may make the packet larger than its route allows. The stack's packets carry
 * their route to the egress hook, redirected ones do not: that hook sees the link's MTU alone.
 */
static __always_inline int may_outgrow_route(context *ctx, const struct packet *p,
					     const struct ipv6 *ip6, const struct path *path)
{
	__u32 length = packet_length(ctx, p) + ((__u32)p->insertion << 3), mtu = 0;

	if (ip6->next_header == NEXT_HBH) /* has IOAM, and gets no more here */
		return 0;
	if (length <= path->mtu || ctx->gso_size) /* TCP's segments are cut no larger than before */
		return 0;
	return bpf_check_mtu(ctx, path->ifindex, &mtu, 0, 0) < 0 || path->mtu < mtu;
}

/*
 * A router's step; the egress hook does the rest. Where the kernel keeps a sum over the packet's
 * bytes, it has to be told; an insertion's bytes it would not be told.
 */
static __always_inline int forward(context *ctx, struct packet *p, struct result *result,
				   const struct path *path)
{
	struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	__be32 *word;

	(void)result;
	if (!ip6)
		return -STACK_PACKET;
	if (p->insertion) {
		if (has_sum(ctx))
			return -STACK_CHECKSUM;
		if (may_outgrow_route(ctx, p, ip6, path))
			return -STACK_MTU;
	}
	word = (__be32 *)&ip6->payload_length; /* with next header and hop limit behind it */
	put32(p, word, bpf_htonl(bpf_ntohl(*word) - 1));
	packet_commit_sum(ctx, p);
	packet_load(ctx, p);
	return leave(p, path);
}

#include "lib/ingress_hook.h"

SEC("tc")
int ingress_tc(struct __sk_buff *ctx)
{
	return ingress_hook(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
