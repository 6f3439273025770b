// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What this host knows of the path that a packet is about to take. */
#ifndef WAYMARK_PATH_H
#define WAYMARK_PATH_H

#include "kernel.h"
#include "pathmtu.h"

#define SKB_DST_NOREF	  1UL
#define DST_METRICS_FLAGS 3UL
#define RTAX_MTU	  2 /* metrics are counted from 1 */

/*
 * The MTU of the route that the packet was sent by, as configured or as learned (RFC 8201); 0: it
 * has none of its own. bpf_fib_lookup() does not say it on a host that does not forward.
 */
static __always_inline __u32 route_mtu(struct __sk_buff *ctx)
{
	struct sk_buff *skb = kernel_skb(ctx);
	struct dst_metrics *metrics;
	struct dst_entry *dst;

	if (!skb) {
		dst = (void *)(PROBE((struct sk_buff *)ctx, _skb_refdst) & ~SKB_DST_NOREF);
		if (!dst)
			return 0;
		metrics = (void *)(PROBE(dst, _metrics) & ~DST_METRICS_FLAGS);
		return PROBE(metrics, metrics[RTAX_MTU - 1]);
	}
	dst = (void *)(skb->_skb_refdst & ~SKB_DST_NOREF);
	if (!dst)
		return 0;
	dst = bpf_rdonly_cast(dst, bpf_core_type_id_kernel(struct dst_entry));
	metrics = (void *)(dst->_metrics & ~DST_METRICS_FLAGS);
	metrics = bpf_rdonly_cast(metrics, bpf_core_type_id_kernel(struct dst_metrics));
	return metrics->metrics[RTAX_MTU - 1];
}

/* The MTU that IPv6 has on the link, which a router or the operator may have made smaller; 0: not known. */
static __always_inline __u32 link_mtu(struct __sk_buff *ctx)
{
	struct sk_buff *skb = kernel_skb(ctx);
	struct net_device *device;
	struct inet6_dev *ipv6;

	if (!bpf_core_field_exists(((struct inet6_dev *)0)->cnf.mtu6))
		return 0;
	if (skb) {
		ipv6 = device_of(skb)->ip6_ptr;
		return ipv6 ? ipv6->cnf.mtu6 : 0;
	}
	device = PROBE((struct sk_buff *)ctx, dev);
	ipv6 = PROBE(device, ip6_ptr);
	return ipv6 ? PROBE(ipv6, cnf.mtu6) : 0;
}

/* Whether the TCP connection that sent the packet has timed out and retransmits. */
static __always_inline int has_timed_out(struct __sk_buff *ctx)
{
	struct bpf_sock *socket = ctx->sk;
	struct bpf_tcp_sock *tcp;

	if (!socket)
		return 0;
	socket = bpf_sk_fullsock(socket);
	if (!socket)
		return 0;
	tcp = bpf_tcp_sock(socket);
	return tcp && tcp->icsk_retransmits;
}

/* The largest length for which path_carries(). */
static __always_inline __u32 path_carries_up_to(struct __sk_buff *ctx, const struct ipv6 *ip6,
						int tunnel)
{
	__u32 most = 0xffffffff, mtu = route_mtu(ctx);

	if (mtu)
		most = mtu;
	mtu = link_mtu(ctx);
	if (mtu && mtu < most)
		most = mtu;
	mtu = tunnel ? most : known_path_mtu(ip6);
	if (mtu < most)
		most = mtu;
	return most < MINIMUM_MTU || has_timed_out(ctx) ? MINIMUM_MTU : most;
}

/* Whether the path carries `length` bytes, as far as this host knows. */
static __always_inline int path_carries(struct __sk_buff *ctx, const struct ipv6 *ip6, __u32 length,
					int tunnel)
{
	__u32 mtu;

	if (length <= MINIMUM_MTU)
		return 1;
	mtu = route_mtu(ctx);
	if (mtu && mtu < length)
		return 0;
	mtu = link_mtu(ctx);
	if (mtu && mtu < length)
		return 0;
	if (!tunnel && is_known_too_big(ip6, length))
		return 0;
	return !has_timed_out(ctx);
}

#endif
