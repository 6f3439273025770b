// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The depth of the egress queue, and what waits in all of them. */
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

/* Queues of a device that are read for its occupancy: each costs a line of the cache. */
#define MAX_QUEUES 64

/*
 * Bytes that wait in all queues of the device, or all ones where a program cannot know. Where the queues
 * have one discipline, it counts once. Not inlined: see scan_options().
 */
__noinline int buffer_occupancy(context *ctx)
{
	__u32 queue_type = bpf_core_type_id_kernel(struct netdev_queue), bytes;
	struct sk_buff *skb = kernel_skb(ctx);
	struct Qdisc *first, *qdisc;
	struct net_device *device;
	struct netdev_queue *queue;
	void *queues;

	if (!skb)
		return UNAVAILABLE;
	device = device_of(skb);
	queues = device->_tx;
	first = device->_tx->qdisc;
	if (device->real_num_tx_queues > MAX_QUEUES || !first || first->flags & TCQ_F_CPUSTATS)
		return UNAVAILABLE;
	bytes = first->qstats.backlog;
#pragma clang loop unroll(disable)
	for (__u32 i = 1; i < MAX_QUEUES && i < device->real_num_tx_queues; i++) {
		queue = bpf_rdonly_cast(queues + i * bpf_core_type_size(struct netdev_queue),
					queue_type);
		qdisc = queue->qdisc;
		if (!qdisc || qdisc->flags & TCQ_F_CPUSTATS)
			return UNAVAILABLE;
		if (qdisc != first)
			bytes += qdisc->qstats.backlog;
	}
	return bytes;
}

#endif
