// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long packets wait in the queue of a device. The last program of its tcx egress hook notes the time
 * in the packet, before the queue; the driver's tracepoint, after the queue, counts the time since then.
 *
 * The time stands in skb->tstamp, the time at which a packet may leave: now is at once. A packet that has
 * one, such as TCP's own, keeps it and is not timed. What says that the time is ours is in tc_index: a
 * packet may still have that of an earlier device, in front of a tunnel or in another namespace.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "queuebucket.h"
#include "kernel.h"

/* tc_index of a packet that has our time: this bit, and bits of the time. */
#define TIMED 0x8000

/* The agent's network namespace: a tracepoint fires in all of them. */
const volatile __u64 network_namespace;

/* Index of a device -> what packets waited there. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct queue_waits);
} queue_delays SEC(".maps");

static __always_inline __u16 mark_of(__u64 time)
{
	return TIMED | (time & (TIMED - 1));
}

SEC("tc")
int queue_begin(struct __sk_buff *ctx)
{
	__u64 begun = ctx->tstamp, now;
	__u32 mark = ctx->tc_index;

	if (begun ? mark != mark_of(begun) : mark && !(mark & TIMED))
		return TC_ACT_UNSPEC; /* a sender paces it, or another program uses tc_index */
	now = bpf_ktime_get_ns();
	if (!bpf_skb_set_tstamp(ctx, now, BPF_SKB_TSTAMP_DELIVERY_MONO))
		ctx->tc_index = mark_of(now);
	return TC_ACT_UNSPEC;
}

/* A packet with segments is several. */
static __always_inline __u32 packets_of(struct sk_buff *skb)
{
	struct skb_shared_info *shared = (void *)skb->head + skb->end;
	__u32 segments = PROBE(shared, gso_segs);

	return segments ? segments : 1;
}

SEC("tp_btf/net_dev_start_xmit")
int queue_end(__u64 *ctx)
{
	struct sk_buff *skb = (void *)ctx[0];
	struct net_device *device = (void *)ctx[1];
	__u32 index = device->ifindex, packets;
	struct queue_waits *delays;
	__u64 begun, waited;

	if (device->nd_net.net->net_cookie != network_namespace)
		return 0;
	delays = bpf_map_lookup_elem(&queue_delays, &index);
	if (!delays)
		return 0;
	packets = packets_of(skb);
	begun = skb->tstamp;
	waited = bpf_ktime_get_ns() - begun;
	if (!begun || skb->tc_index != mark_of(begun) || (__s64)waited < 0) {
		delays->untimed += packets;
		return 0;
	}
	delays->total += waited * packets;
	delays->buckets[queue_bucket(waited)] += packets;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
