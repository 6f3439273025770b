// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The core's packet over an skb. The programs in tc are compiled with -I lib/skb. */
#ifndef WAYMARK_CONTEXT_H
#define WAYMARK_CONTEXT_H

#include <linux/pkt_cls.h>
#include "ipv6.h"
#include "kernel.h"
#include "packet.h"

typedef struct __sk_buff context;

/* "next": programs of others on the same hook still run. */
#define VERDICT_PASS	 TC_ACT_UNSPEC
#define VERDICT_DROP	 TC_ACT_SHOT
#define VERDICT_REDIRECT TC_ACT_REDIRECT
#define PACKET_HAS_SUM	 1

/* Every packet that leaves passes the egress hook. */
#define COMPLETES 0

/* Of the interface that a packet leaves by: the hook's. */
#define OUT(p, field) ((p)->on->field)

/* The index of the hook's interface. */
static __always_inline __u32 ifindex_here(const context *ctx)
{
	return NODE.fixed_ifindex ? NODE.fixed_ifindex : ctx->ifindex;
}

/* Linux 5.13; absent from older headers. */
#define ADJ_ROOM_FLAGS (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET)

/* The link layer's header. */
static __always_inline void *frame_start(const context *ctx)
{
	return (void *)(long)ctx->data;
}

static __always_inline void packet_load(context *ctx, struct packet *p)
{
	p->end = (void *)(long)ctx->data_end;
	p->ip6 = frame_start(ctx) + p->l3;
}

/* Makes `length` bytes from the IPv6 header on directly accessible, if the packet has them. */
static __always_inline void packet_pull(context *ctx, struct packet *p, __u32 length)
{
	/* nothing is left to pull when all of it is accessible */
	if (p->ip6 + (length & 0xfff) <= p->end || ctx->len <= ctx->data_end - ctx->data)
		return;
	bpf_skb_pull_data(ctx, p->l3 + length);
	packet_load(ctx, p);
}

/* Finds the IPv6 header; nonzero when there is none. */
static __always_inline int packet_open(context *ctx, struct packet *p)
{
	__u32 l3;

	p->end = (void *)(long)ctx->data_end;
	if (frame_start(ctx) + NODE.link_header + 2 * VLAN_TAG + IPV6_HEADER > p->end) {
		__u32 most = NODE.link_header + 2 * VLAN_TAG + IPV6_HEADER;

		bpf_skb_pull_data(ctx, ctx->len < most ? ctx->len : most);
		p->end = (void *)(long)ctx->data_end;
	}
	l3 = find_ipv6(frame_start(ctx), p->end);
	if (l3 > ETHERNET_HEADER + 2 * VLAN_TAG)
		return -1;
	p->l3 = l3;
	p->ip6 = frame_start(ctx) + p->l3;
	return 0;
}

/* Bytes of the frame from the IPv6 header on. */
static __always_inline __u32 packet_length(context *ctx, const struct packet *p)
{
	return ctx->len - p->l3;
}

/*
 * Number of packets that an offloaded one will be cut into, given the bytes after its headers; 0: it is
 * only one. Growing a packet clears the number, so it is computed here.
 */
static __always_inline __u32 packet_segments(context *ctx, __u32 payload)
{
	__u32 size = ctx->gso_size;

	if (!size || ctx->gso_segs)
		return ctx->gso_segs;
	/* a header length beyond the packet is wrong */
	return (__s32)payload <= 0 ? 1 : (payload + size - 1) / size;
}

/* Whether this is an offloaded packet, which is cut into several. */
static __always_inline int packet_is_to_be_cut(const context *ctx)
{
	return ctx->gso_size != 0;
}

/* Whether the stack says into how many packets an offloaded one will be cut. */
static __always_inline int packet_is_counted(const context *ctx)
{
	return ctx->gso_segs != 0;
}

static __always_inline int load_bytes(context *ctx, __u32 offset, void *to, __u32 length)
{
	return bpf_skb_load_bytes(ctx, offset, to, length);
}

static __always_inline int store_bytes(context *ctx, __u32 offset, const void *from, __u32 length)
{
	return bpf_skb_store_bytes(ctx, offset, from, length, 0);
}

/* The same where bytes were: the sum that the stack may keep over them is kept right. */
static __always_inline int rewrite_bytes(context *ctx, __u32 offset, const void *from, __u32 length)
{
	return bpf_skb_store_bytes(ctx, offset, from, length, BPF_F_RECOMPUTE_CSUM);
}

/* Whether the stack keeps a sum over the packet's bytes; to look is cheaper than the helper. */
static __always_inline int has_sum(context *ctx)
{
	struct sk_buff *skb = kernel_skb(ctx);

	return !skb || BPF_CORE_READ_BITFIELD(skb, ip_summed) == CHECKSUM_COMPLETE;
}

/* The stack keeps a sum over received bytes: adds what changed, before bytes are removed. */
static __always_inline void packet_commit_sum(context *ctx, struct packet *p)
{
	if (!p->sum || !has_sum(ctx))
		return;
	bpf_csum_update(ctx, fold32(p->sum)); /* refused unless the skb has such a sum */
	p->sum = 0;
}

/*
 * bpf_skb_adjust_room wants an untagged packet. With tags in the data, taking the outermost off
 * moves the next one out of the data; it is put back afterwards.
 */
struct tag {
	__u16 protocol;
	__u16 tci;
	__u32 taken;
};

static __always_inline int tag_take(context *ctx, struct packet *p, struct tag *tag)
{
	tag->taken = 0;
	if (p->l3 == NODE.link_header)
		return 0;
	if (ctx->vlan_present) {
		tag->protocol = ctx->vlan_proto;
		tag->tci = ctx->vlan_tci;
	} else {
		if (frame_start(ctx) + ETHERNET_HEADER + VLAN_TAG > p->end)
			return -1;
		tag->protocol = *(__u16 *)(frame_start(ctx) + 12);
		tag->tci = bpf_ntohs(*(__be16 *)(frame_start(ctx) + 14));
	}
	if (bpf_skb_vlan_pop(ctx))
		return -1;
	tag->taken = 1;
	p->l3 = NODE.link_header;
	return 0;
}

static __always_inline void tag_put_back(context *ctx, struct packet *p, const struct tag *tag)
{
	__u32 l3;

	if (!tag->taken)
		return;
	if (bpf_skb_vlan_push(ctx, tag->protocol, tag->tci))
		p->broken = 1;
	p->end = (void *)(long)ctx->data_end;
	l3 = find_ipv6(frame_start(ctx), p->end);
	p->l3 = l3 > ETHERNET_HEADER + 2 * VLAN_TAG ? NODE.link_header : l3;
	p->ip6 = frame_start(ctx) + p->l3;
}

/* Removes `length` bytes after the first `keep` (0 or 40) bytes of the IPv6 packet. */
static __always_inline int packet_remove(context *ctx, struct packet *p, __u32 keep, __u32 length)
{
	struct tag tag;
	int err = tag_take(ctx, p, &tag);

	if (!err)
		err = bpf_skb_adjust_room(ctx, -(__s32)length,
					  keep ? BPF_ADJ_ROOM_NET : BPF_ADJ_ROOM_MAC,
					  ADJ_ROOM_FLAGS);
	tag_put_back(ctx, p, &tag);
	packet_load(ctx, p);
	return err;
}

#endif
