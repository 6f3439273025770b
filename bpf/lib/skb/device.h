// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The device that a packet leaves by: its MTU, and what it can cut. */
#ifndef WAYMARK_DEVICE_H
#define WAYMARK_DEVICE_H

#include "kernel.h"

/* MTU of the device; 0 when the kernel does not say. */
static __always_inline __u32 device_mtu(struct __sk_buff *ctx)
{
	struct sk_buff *skb = kernel_skb(ctx);
	__u32 mtu = 0;

	if (skb)
		return device_of(skb)->mtu;
	return bpf_check_mtu(ctx, 0, &mtu, 0, 0) < 0 ? 0 : mtu;
}

/* Bytes before the frame in its head, which it can grow into. */
static __always_inline __u64 headroom(struct __sk_buff *ctx)
{
	struct sk_buff *skb = kernel_skb(ctx);

	return skb ? skb->data - skb->head
		   : PROBE((struct sk_buff *)ctx, data) - PROBE((struct sk_buff *)ctx, head);
}

/*
 * Whether a large UDP packet is one that the kernel can still cut when it has grown. A tunnel's
 * (VXLAN) is cut by the size of the inner packet; on a device without checksums, a socket's checksum
 * offset does not move with the headers. Where a program cannot look, no packet counts as cuttable.
 */
static __always_inline int is_cuttable(struct __sk_buff *ctx)
{
	struct sk_buff *skb = kernel_skb(ctx);

	return skb && !BPF_CORE_READ_BITFIELD(skb, encapsulation) &&
	       BPF_CORE_READ_BITFIELD(skb, ip_summed) == CHECKSUM_PARTIAL;
}

#endif
