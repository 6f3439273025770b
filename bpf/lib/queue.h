// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Depth of the egress queue. Read through the kernel's own structures where it lets a program
 * see them (bpf_cast_to_kern_ctx, Linux 6.2), else "not available".
 */
#ifndef WAYMARK_QUEUE_H
#define WAYMARK_QUEUE_H

#include "clock.h"

#define TCQ_F_CPUSTATS 0x20 /* counters are per CPU, out of a program's reach */

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
};

struct sk_buff {
	struct net_device *dev;
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

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
