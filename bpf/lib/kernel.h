// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel's own structures, as far as programs look at them; relocated when loaded. */
#ifndef WAYMARK_KERNEL_H
#define WAYMARK_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define TCQ_F_CPUSTATS	  0x20 /* a queue's counters are per CPU, out of a program's reach */
#define CHECKSUM_COMPLETE 2
#define CHECKSUM_PARTIAL  3

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
	__u8 encapsulation : 1;
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

/* The packet as the kernel has it; NULL before Linux 6.2. */
static __always_inline struct sk_buff *kernel_skb(struct __sk_buff *ctx)
{
	return bpf_cast_to_kern_ctx ? bpf_cast_to_kern_ctx(ctx) : 0;
}

#endif
