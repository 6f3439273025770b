// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The depth of the egress queue. */
#ifndef WAYMARK_QUEUE_H
#define WAYMARK_QUEUE_H

#include "clock.h"
#include "context.h"
#include "kernel.h"

/* Packets in the queue (mainline: bytes), or all ones where a program cannot know. */
static __always_inline __u32 queue_depth(context *ctx)
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
