// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The device that a packet leaves by: its MTU and the depth of its queue. Read from the kernel's
 * own structures where it lets a program see them (bpf_cast_to_kern_ctx, Linux 6.2).
 */
#ifndef WAYMARK_DEVICE_H
#define WAYMARK_DEVICE_H

#include <bpf/bpf_core_read.h>
#include "clock.h"

#define CHECKSUM_PARTIAL 3
#define TCQ_F_CPUSTATS	 0x20 /* counters are per CPU, out of a program's reach */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct qdisc_skb_head {
	__u32 qlen;
};

struct gnet_stats_queue {
	__u32 backlog;
};

struct Qdisc {
	unsigned int flags;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct netdev_queue {
	struct Qdisc *qdisc;
};

struct net_device {
	struct netdev_queue *_tx;
	unsigned int real_num_tx_queues;
	unsigned int mtu;
};

struct sk_buff {
	struct net_device *dev;
	__u8 ip_summed : 2;
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

/* MTU of the device; 0 when the kernel does not say. */
static __always_inline __u32 device_mtu(struct __sk_buff *ctx)
{
	__u32 mtu = 0;

	if (bpf_cast_to_kern_ctx)
		return ((struct sk_buff *)bpf_cast_to_kern_ctx(ctx))->dev->mtu;
	return bpf_check_mtu(ctx, 0, &mtu, 0, 0) < 0 ? 0 : mtu;
}

/*
 * Whether the kernel would fail to cut a large UDP packet that has grown: a socket on a device
 * without checksums leaves the place of the sum behind as headers move.
 */
static __always_inline int is_uncuttable(struct __sk_buff *ctx)
{
	struct sk_buff *skb;

	if (!bpf_cast_to_kern_ctx)
		return 0;
	skb = bpf_cast_to_kern_ctx(ctx);
	return BPF_CORE_READ_BITFIELD(skb, ip_summed) != CHECKSUM_PARTIAL;
}

/* Packets in its queue (mainline: bytes), or all-ones where a program cannot tell. */
static __always_inline __u32 queue_depth(struct __sk_buff *ctx)
{
	struct sk_buff *skb;
	struct Qdisc *qdisc;

	if (!bpf_cast_to_kern_ctx)
		return UNAVAILABLE;
	skb = bpf_cast_to_kern_ctx(ctx);
	/* of several queues, the packet's own is chosen only behind this hook */
	if (skb->dev->real_num_tx_queues != 1)
		return UNAVAILABLE;
	qdisc = skb->dev->_tx->qdisc;
	if (!qdisc || qdisc->flags & TCQ_F_CPUSTATS)
		return UNAVAILABLE;
	return NODE.mainline ? qdisc->qstats.backlog : qdisc->q.qlen;
}

#endif
