// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The core's packet over an XDP frame. The programs in XDP are compiled with -I lib/xdp. */
#ifndef WAYMARK_CONTEXT_H
#define WAYMARK_CONTEXT_H

#include "ipv6.h"
#include "kernel.h"
#include "packet.h"

typedef struct xdp_md context;

#define VERDICT_PASS	 XDP_PASS
#define VERDICT_DROP	 XDP_DROP
#define VERDICT_REDIRECT XDP_REDIRECT
#define PACKET_HAS_SUM	 0

/* A packet that is forwarded here does not meet the egress hook any more. */
#define COMPLETES 1

/* Of the interface that a packet leaves by. */
#define OUT(p, field) ((p)->out->field)

/* The index of the hook's interface. */
static __always_inline __u32 ifindex_here(const context *ctx)
{
	return NODE.fixed_ifindex ? NODE.fixed_ifindex : ctx->ingress_ifindex;
}

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

/* Finds the IPv6 header; nonzero when there is none. */
static __always_inline int packet_open(context *ctx, struct packet *p)
{
	__u32 l3;

	p->end = (void *)(long)ctx->data_end;
	l3 = find_ipv6(frame_start(ctx), p->end);
	if (l3 > ETHERNET_HEADER + 2 * VLAN_TAG)
		return -1;
	p->l3 = l3;
	p->ip6 = frame_start(ctx) + p->l3;
	return 0;
}

/* Whether the frame is in several buffers; a guess before Linux 6.2: it may be. */
static __always_inline int may_have_fragments(context *ctx)
{
	struct xdp_buff *xdp = kernel_xdp(ctx);

	return !xdp || xdp->flags & bpf_core_enum_value(enum xdp_buff_flags, XDP_FLAGS_HAS_FRAGS);
}

/* Bytes of the frame from the IPv6 header on; to look is cheaper than the helper. */
static __always_inline __u32 packet_length(context *ctx, const struct packet *p)
{
	return may_have_fragments(ctx) ? bpf_xdp_get_buff_len(ctx) - p->l3 : bytes_at_hand(p);
}

/* Drivers put headers into the first buffer; nothing can be pulled there. */
static __always_inline void packet_pull(context *ctx, struct packet *p, __u32 length)
{
	(void)ctx;
	(void)p;
	(void)length;
}

/* A frame is only one packet. */
static __always_inline __u32 packet_segments(context *ctx, __u32 payload)
{
	(void)ctx;
	(void)payload;
	return 0;
}

static __always_inline int packet_is_to_be_cut(const context *ctx)
{
	(void)ctx;
	return 0;
}

static __always_inline int packet_is_counted(const context *ctx)
{
	(void)ctx;
	return 1;
}

static __always_inline int load_bytes(context *ctx, __u32 offset, void *to, __u32 length)
{
	return bpf_xdp_load_bytes(ctx, offset, to, length);
}

static __always_inline int store_bytes(context *ctx, __u32 offset, const void *from, __u32 length)
{
	return bpf_xdp_store_bytes(ctx, offset, (void *)from, length);
}

/* The same where bytes were: nothing keeps a sum over them. */
static __always_inline int rewrite_bytes(context *ctx, __u32 offset, const void *from, __u32 length)
{
	return store_bytes(ctx, offset, from, length);
}

/* Moves the frame's first `size` bytes, a constant, forward over `length` bytes. */
static __always_inline int move_head(context *ctx, __u32 size, __u32 length)
{
	__u64 saved[8];
	__u8 *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 words = size / 8, i;

	if ((void *)data + size > end)
		return -1;
#pragma clang loop unroll(full)
	for (i = 0; i < words; i++)
		saved[i] = ((__u64 *)data)[i];
	__u32 tail4 = size & 4 ? *(__u32 *)(data + words * 8) : 0;
	__u16 tail2 = size & 2 ? *(__u16 *)(data + size - 2) : 0;

	if (bpf_xdp_adjust_head(ctx, length))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if ((void *)data + size > end)
		return -1;
#pragma clang loop unroll(full)
	for (i = 0; i < words; i++)
		((__u64 *)data)[i] = saved[i];
	if (size & 4)
		*(__u32 *)(data + words * 8) = tail4;
	if (size & 2)
		*(__u16 *)(data + size - 2) = tail2;
	return 0;
}

/*
 * Removes `length` bytes after the first `keep` (0 or 40) bytes of the IPv6 packet. Not inlined:
 * the bytes that move take much of the stack.
 */
__noinline int cut_frame(context *ctx, __u32 l3, __u32 keep, __u32 length)
{
	switch (l3) {
	case 0:
		return keep ? move_head(ctx, IPV6_HEADER, length)
			    : (int)bpf_xdp_adjust_head(ctx, length);
	case ETHERNET_HEADER:
		return keep ? move_head(ctx, ETHERNET_HEADER + IPV6_HEADER, length)
			    : move_head(ctx, ETHERNET_HEADER, length);
	case ETHERNET_HEADER + VLAN_TAG:
		return keep ? move_head(ctx, ETHERNET_HEADER + VLAN_TAG + IPV6_HEADER, length)
			    : move_head(ctx, ETHERNET_HEADER + VLAN_TAG, length);
	}
	return keep ? move_head(ctx, ETHERNET_HEADER + 2 * VLAN_TAG + IPV6_HEADER, length)
		    : move_head(ctx, ETHERNET_HEADER + 2 * VLAN_TAG, length);
}

static __always_inline int packet_remove(context *ctx, struct packet *p, __u32 keep, __u32 length)
{
	int err;

	/* most packets: without a call */
	if (p->l3 == ETHERNET_HEADER && !keep)
		err = move_head(ctx, ETHERNET_HEADER, length);
	else
		err = cut_frame(ctx, p->l3, keep, length);
	packet_load(ctx, p);
	return err;
}

static __always_inline void packet_commit_sum(context *ctx, struct packet *p)
{
	(void)ctx;
	(void)p;
}

#endif
