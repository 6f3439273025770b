// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What fast forwarding asks of an XDP frame and its way out. */
#ifndef WAYMARK_FORWARD_XDP_H
#define WAYMARK_FORWARD_XDP_H

#include "kernel.h"
#include "packet_xdp.h"

/* A packet from a stack on this machine may wait for a device to compute its checksum. */
static __always_inline int lacks_checksum(context *ctx)
{
	struct sk_buff *skb;

	if (!NODE.is_veth)
		return 0;
	skb = veth_skb(ctx);
	return skb && BPF_CORE_READ_BITFIELD(skb, ip_summed) == CHECKSUM_PARTIAL;
}

/* Whether the frame is one packet as it was sent: at hand, nothing behind it, its sum in place. */
static __always_inline enum stack_reason is_forwardable(context *ctx, const struct packet *p,
							const struct ipv6 *ip6, __u32 *longest)
{
	*longest = (__u32)bpf_ntohs(ip6->payload_length) + IPV6_HEADER;
	if (bytes_at_hand(p) != *longest)
		return STACK_PACKET;
	return lacks_checksum(ctx) ? STACK_CHECKSUM : STACK_NONE;
}

static __always_inline int choose_device(__u32 ifindex)
{
	return bpf_redirect_map(&devices, ifindex, XDP_PASS) == XDP_REDIRECT;
}

#endif
