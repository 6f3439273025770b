// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What fast forwarding needs to know about an XDP frame, and how it chooses a device. */
#ifndef WAYMARK_FRAME_H
#define WAYMARK_FRAME_H

#include "kernel.h"
#include "maps.h"
#include "context.h"

/*
 * Whether a stack on this machine left work to a device: the packet's checksum, or its VLAN tag, which
 * is not in the data then.
 */
static __always_inline enum stack_reason is_left_to_device(context *ctx, const struct packet *p)
{
	struct sk_buff *skb;

	if (!p->on->is_veth)
		return STACK_NONE;
	skb = veth_skb(ctx);
	if (!skb)
		return STACK_NONE;
	if (skb->vlan_all)
		return STACK_LINK;
	return BPF_CORE_READ_BITFIELD(skb, ip_summed) == CHECKSUM_PARTIAL ? STACK_CHECKSUM
									  : STACK_NONE;
}

/* Whether the frame is one packet as it was sent: in one buffer, with nothing after it. */
static __always_inline enum stack_reason is_forwardable(context *ctx, const struct packet *p,
							const struct ipv6 *ip6, __u32 *longest)
{
	*longest = (__u32)bpf_ntohs(ip6->payload_length) + IPV6_HEADER;
	if (!ip6->payload_length || bytes_at_hand(p) != *longest ||
	    (may_have_fragments(ctx) && packet_length(ctx, p) != *longest))
		return STACK_PACKET;
	return is_left_to_device(ctx, p);
}

static __always_inline int choose_device(__u32 ifindex)
{
	return bpf_redirect_map(&devices, ifindex, XDP_PASS) == XDP_REDIRECT;
}

#endif
