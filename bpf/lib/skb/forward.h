// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A router's step for an skb, on its way to the egress hook of the interface that it leaves by. */
#ifndef WAYMARK_FORWARD_H
#define WAYMARK_FORWARD_H

#include "edit.h"
#include "hook.h"
#include "route.h"
#include "segments.h"

/*
 * Whether an insertion may make the packet larger than its route allows. The stack's packets carry
 * their route to the egress hook, redirected ones do not: that hook sees the link's MTU alone.
 */
static __always_inline int may_outgrow_route(context *ctx, const struct packet *p,
					     const struct ipv6 *ip6, const struct path *path)
{
	__u32 length = packet_length(ctx, p) + ((__u32)p->out->insertion << 3), mtu = 0;

	if (may_get_mark(ip6->next_header))
		length += MARK_HEADER;
	if (ip6->next_header == NEXT_HBH) /* has IOAM, and gets no more here */
		return 0;
	if (length <= path->mtu || ctx->gso_size) /* TCP's segments are cut no larger than before */
		return 0;
	return bpf_check_mtu(ctx, path->ifindex, &mtu, 0, 0) < 0 || path->mtu < mtu;
}

/*
 * Counts the hop; the egress hook does the rest. Where the kernel keeps a sum over the packet's bytes,
 * the sum changes with the hop limit; nothing would add the bytes of an insertion to it.
 */
static __always_inline enum stack_reason forward(context *ctx, struct packet *p,
						 struct result *result, const struct path *path)
{
	struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	__be32 *word;

	(void)result;
	if (!ip6)
		return STACK_PACKET;
	if (p->out && (p->out->insertion || may_get_mark(ip6->next_header))) {
		if (has_sum(ctx))
			return STACK_CHECKSUM;
		if (may_outgrow_route(ctx, p, ip6, path))
			return STACK_MTU;
	}
	word = (__be32 *)&ip6->payload_length; /* and next header, hop limit */
	put32(p, word, bpf_htonl(bpf_ntohl(*word) - 1));
	packet_commit_sum(ctx, p);
	packet_load(ctx, p);
	return leave(ctx, p, path);
}

#endif
