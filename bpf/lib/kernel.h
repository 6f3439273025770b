// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The parts of the kernel's structures that programs read; relocated when loaded. */
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

struct ipv6_devconf {
	__s32 mtu6;
};

struct inet6_dev {
	struct ipv6_devconf cnf;
};

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
	struct netdev_queue *_tx;
	unsigned int real_num_tx_queues;
	unsigned int mtu;
	struct inet6_dev *ip6_ptr;
};

struct dst_metrics {
	__u32 metrics[2];
};

struct dst_entry {
	unsigned long _metrics;
};

struct sk_buff {
	struct net_device *dev;
	unsigned long _skb_refdst;
	unsigned char *head;
	unsigned char *data;
	unsigned int end;
	__s64 tstamp;
	__u16 tc_index;
	__u8 ip_summed : 2;
	__u8 encapsulation : 1;
	__u32 vlan_all;
};

struct skb_shared_info {
	unsigned short gso_segs;
};

struct sk_buff_head {
	struct sk_buff *next;
};

struct xdp_buff {
	void *data;
	void *data_meta;
	void *data_hard_start;
	__u32 flags;
};

struct xdp_frame {
	void *data;
};

enum xdp_buff_flags {
	XDP_FLAGS_HAS_FRAGS = 1,
};
#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

/* Reads a field of a kernel structure before Linux 6.2, where programs cannot look themselves. */
#define PROBE(object, field)                                                              \
	({                                                                                \
		typeof((object)->field) value = 0;                                        \
		bpf_probe_read_kernel(&value, sizeof(value),                              \
				      __builtin_preserve_access_index(&(object)->field)); \
		value;                                                                    \
	})

/* The packet as the kernel has it; NULL before Linux 6.2. */
static __always_inline struct sk_buff *kernel_skb(struct __sk_buff *ctx)
{
	return bpf_cast_to_kern_ctx ? bpf_cast_to_kern_ctx(ctx) : 0;
}

/*
 * The device that a packet leaves or came by. The verifier searches the kernel's types by name each
 * time it meets a pointer read from a trusted structure, and again on every path; the cast saves that.
 */
static __always_inline struct net_device *device_of(struct sk_buff *skb)
{
	skb = bpf_rdonly_cast(skb, bpf_core_type_id_kernel(struct sk_buff));
	return skb->dev;
}

/* The frame as the kernel has it; NULL before Linux 6.2. */
static __always_inline struct xdp_buff *kernel_xdp(struct xdp_md *ctx)
{
	return bpf_cast_to_kern_ctx ? bpf_cast_to_kern_ctx(ctx) : 0;
}

/*
 * The skb that a frame on a veth still is, or NULL. The driver keeps the pointer after its struct
 * xdp_buff, in a structure of a module; a list's head, which begins with one, lends its type.
 */
static __always_inline struct sk_buff *veth_skb(struct xdp_md *ctx)
{
	struct xdp_buff *xdp = kernel_xdp(ctx);
	struct sk_buff_head *after;

	if (!xdp)
		return 0;
	after = bpf_rdonly_cast((void *)xdp + bpf_core_type_size(struct xdp_buff),
				bpf_core_type_id_kernel(struct sk_buff_head));
	return after->next;
}

#endif
