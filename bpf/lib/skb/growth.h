// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Room for a header in an skb, which may be many packets still to be cut. */
#ifndef WAYMARK_GROWTH_H
#define WAYMARK_GROWTH_H

#include "headers.h"
#include "device.h"
#include "path.h"

/* What is to be inserted. */
struct growth {
	struct tag tag;
	__u32 bytes;
	__u32 path_mtu; /* of the tunnel; 0 = none, or not known */
	int tunnel;	/* before the IPv6 header, else after it */
};

static __always_inline int must_leave_to_stack(context *ctx, const struct packet *p,
					       const struct growth *g)
{
	(void)ctx;
	(void)p;
	(void)g;
	return 0;
}

/* Bytes of a TCP header; as many as there can be where it is out of reach. */
static __always_inline __u32 tcp_header_length(const struct packet *p, const struct headers *h)
{
	const __u8 *data_offset = at(p, h->upper + 12, 1);

	return data_offset ? *data_offset >> 4 << 2 : 60;
}

/* Whether the packet, and each of its segments, may grow; OUTCOME_NO_IOAM = yes. */
static __always_inline enum outcome may_grow(context *ctx, const struct packet *p,
					     const struct ipv6 *ip6, const struct headers *h,
					     const struct growth *g)
{
	__u32 length = packet_length(ctx, p), mtu;
	__u32 payload = bpf_ntohs(ip6->payload_length);

	if (ctx->gso_size) {
		/* BIG TCP: its jumbo option is cut off with the headers that move */
		if (!h->upper || !payload)
			return OUTCOME_ENCAP_SKIPPED_GSO;
		if (h->next_header == NEXT_TCP) {
			if (ctx->gso_size <= 2 * g->bytes)
				return OUTCOME_ENCAP_SKIPPED_GSO;
			/* cut smaller by the growth, segments become as long as they were */
			length = h->upper + tcp_header_length(p, h) + ctx->gso_size;
			return g->path_mtu && length > g->path_mtu ? OUTCOME_ENCAP_SKIPPED_MTU
								   : OUTCOME_NO_IOAM;
		}
		if (h->next_header != NEXT_UDP || !is_cuttable(ctx))
			return OUTCOME_ENCAP_SKIPPED_GSO;
		length = h->upper + 8 + ctx->gso_size;
	} else if (!payload || payload + g->bytes > 0xffff) {
		return OUTCOME_ENCAP_SKIPPED_MTU;
	}
	mtu = device_mtu(ctx);
	if (g->path_mtu && g->path_mtu < mtu)
		mtu = g->path_mtu;
	length += g->bytes;
	return length > mtu || !path_carries(ctx, ip6, length, g->tunnel)
		       ? OUTCOME_ENCAP_SKIPPED_MTU
		       : OUTCOME_NO_IOAM;
}

/* The length of the largest packet that may_grow() lets pass with an insertion, if it is not to be cut. */
static __always_inline __u32 path_room(context *ctx, const struct packet *p, const struct ipv6 *ip6,
				       const struct growth *g)
{
	__u32 most = device_mtu(ctx), known;

	(void)p;
	if (g->path_mtu && g->path_mtu < most)
		most = g->path_mtu;
	known = path_carries_up_to(ctx, ip6, g->tunnel);
	return known < most ? known : most;
}

/*
 * Whether the packet may grow by the header that marks it, and if not, why (enum unmarked). Of TCP,
 * smaller segments are cut; the kernel refuses for other offloaded packets.
 */
static __always_inline __u32 may_carry_mark(context *ctx, const struct packet *p,
					    const struct ipv6 *ip6)
{
	__u32 payload = bpf_ntohs(ip6->payload_length) + MARK_HEADER, mtu, length;

	if (ctx->gso_size)
		return payload > MARK_HEADER && payload <= 0xffff && ctx->gso_size > 2 * MARK_HEADER
			       ? MAY_CARRY_MARK
			       : UNMARKED_GSO;
	mtu = device_mtu(ctx);
	length = packet_length(ctx, p) + MARK_HEADER;
	return payload > MARK_HEADER && payload <= 0xffff && length <= mtu &&
			       path_carries(ctx, ip6, length, 1)
		       ? MAY_CARRY_MARK
		       : UNMARKED_MTU;
}

/*
 * Whether the head has to be replaced by a larger one while a socket is charged for the packet. The
 * kernel then leaves the bytes that it accounts for (truesize) as they were: on this machine a
 * receiver that joined the packet with others would account for less than it gets.
 */
static __always_inline int outgrows_account(context *ctx, __u32 bytes)
{
	return ctx->sk && ctx->len > ctx->data_end - ctx->data && headroom(ctx) < bytes;
}

/* Makes the room; anything but OUTCOME_NO_IOAM: there is none, and nothing changed. */
static __always_inline enum outcome packet_grow(context *ctx, struct packet *p, struct growth *g,
						const struct headers *h)
{
	__u64 flags = BPF_F_ADJ_ROOM_NO_CSUM_RESET;
	int err, outgrown;

	if (tag_take(ctx, p, &g->tag))
		return OUTCOME_ENCAP_SKIPPED_HEADROOM;
	if (ctx->gso_size && h->next_header == NEXT_UDP)
		flags |= BPF_F_ADJ_ROOM_FIXED_GSO;
	if (g->tunnel && ctx->gso_size)
		flags |= BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
	outgrown = outgrows_account(ctx, g->bytes);
	if (g->tunnel)
		err = bpf_skb_adjust_room(ctx, g->bytes, BPF_ADJ_ROOM_MAC, flags);
	else
		err = bpf_skb_adjust_room(ctx, g->bytes, BPF_ADJ_ROOM_NET, flags);
	/* packets with data in their head are not joined */
	if (!err && outgrown)
		bpf_skb_pull_data(ctx, ctx->data_end - ctx->data + 1);
	if (!err)
		return OUTCOME_NO_IOAM;
	tag_put_back(ctx, p, &g->tag);
	return ctx->gso_size ? OUTCOME_ENCAP_SKIPPED_GSO : OUTCOME_ENCAP_SKIPPED_HEADROOM;
}

/* Puts the VLAN tag back. */
static __always_inline void packet_grown(context *ctx, struct packet *p, const struct growth *g)
{
	tag_put_back(ctx, p, &g->tag);
}

#endif
