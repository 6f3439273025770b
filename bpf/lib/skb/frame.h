// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What fast forwarding needs to know about an skb, and how it chooses a device. */
#ifndef WAYMARK_FRAME_H
#define WAYMARK_FRAME_H

#include "ipv6.h"
#include "context.h"

#define TCP_HEADER 20

/* Whether the skb has the length that its header says. *longest is that of the longest segment. */
static __always_inline enum stack_reason is_forwardable(context *ctx, const struct packet *p,
							const struct ipv6 *ip6, __u32 *longest)
{
	const __u8 *tcp;

	if (ctx->vlan_present)
		return STACK_LINK;
	*longest = (__u32)bpf_ntohs(ip6->payload_length) + IPV6_HEADER;
	if (!ip6->payload_length || ctx->len - p->l3 != *longest)
		return STACK_PACKET;
	if (!ctx->gso_size)
		return STACK_NONE;
	tcp = at(p, IPV6_HEADER, TCP_HEADER);
	if (ip6->next_header != NEXT_TCP || !tcp)
		return STACK_PACKET;
	*longest = IPV6_HEADER + ((tcp[12] >> 4) << 2) + ctx->gso_size;
	return STACK_NONE;
}

static __always_inline int choose_device(__u32 ifindex)
{
	return bpf_redirect(ifindex, 0) == TC_ACT_REDIRECT;
}

#endif
