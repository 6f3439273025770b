// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The device that a packet leaves by: its MTU, its queue, what it can cut. */
#ifndef WAYMARK_DEVICE_H
#define WAYMARK_DEVICE_H

#include "clock.h"
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
 * (VXLAN) is cut by the size of what is inside; a socket on a device without checksums leaves
 * the place of the sum behind as headers move. Where a program cannot look, none is.
 */
static __always_inline int is_cuttable(struct __sk_buff *ctx)
{
	struct sk_buff *skb = kernel_skb(ctx);

	return skb && !BPF_CORE_READ_BITFIELD(skb, encapsulation) &&
	       BPF_CORE_READ_BITFIELD(skb, ip_summed) == CHECKSUM_PARTIAL;
}

/* Packets in its queue (mainline: bytes), or all-ones where a program cannot tell. */
static __always_inline __u32 queue_depth(struct __sk_buff *ctx)
{
	struct sk_buff *skb = kernel_skb(ctx);
	struct net_device *device;
	struct Qdisc *qdisc;

	if (!skb)
		return UNAVAILABLE;
	device = device_of(skb);
	if (device->real_num_tx_queues != 1) /* the packet's own queue is chosen after this hook */
		return UNAVAILABLE;
	qdisc = device->_tx->qdisc;
	if (!qdisc || qdisc->flags & TCQ_F_CPUSTATS)
		return UNAVAILABLE;
	return NODE.mainline ? qdisc->qstats.backlog : qdisc->q.qlen;
}

#endif
