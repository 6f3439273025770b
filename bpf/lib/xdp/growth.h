// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Room for a header in a frame that is forwarded here: an Ethernet header, no tag, one buffer. */
#ifndef WAYMARK_GROWTH_H
#define WAYMARK_GROWTH_H

#include "clock.h"
#include "headers.h"
#include "kernel.h"
#include "pathmtu.h"

/* What is to be inserted. */
struct growth {
	__u32 bytes;
	__u32 path_mtu; /* of the tunnel; 0 = none, or not known */
	int tunnel;	/* before the IPv6 header, else after it */
};

/* Bytes that may still be put in front of a frame; a guess before Linux 6.2. */
static __always_inline __u32 headroom(context *ctx)
{
	struct xdp_buff *xdp = kernel_xdp(ctx);
	__u64 room, meta, own = bpf_core_type_size(struct xdp_frame);

	if (!xdp)
		return 192;
	/* the kernel keeps struct xdp_frame there when it redirects, and metadata move with the frame */
	room = (__u64)xdp->data - (__u64)xdp->data_hard_start;
	meta = (__u64)xdp->data - (__u64)xdp->data_meta;
	opaque(room);
	opaque(meta);
	if ((__s64)meta > 0)
		own += meta;
	return room > own ? room - own : 0;
}

static __always_inline int path_is_narrow(const struct packet *p, const struct growth *g)
{
	return g->path_mtu && bytes_at_hand(p) + g->bytes > g->path_mtu;
}

/* Whether only the stack can make the packet grow, or knows that it must not. */
static __always_inline int must_leave_to_stack(context *ctx, const struct packet *p,
					       const struct growth *g)
{
	if (path_is_narrow(p, g))
		return 0; /* it will not grow */
	return bytes_at_hand(p) + g->bytes > p->mtu || g->bytes > headroom(ctx);
}

static __always_inline enum outcome may_grow(context *ctx, const struct packet *p,
					     const struct ipv6 *ip6, const struct headers *h,
					     const struct growth *g)
{
	(void)ctx;
	(void)h;
	if (path_is_narrow(p, g) ||
	    (!g->tunnel && is_known_too_big(ip6, bytes_at_hand(p) + g->bytes)))
		return OUTCOME_ENCAP_SKIPPED_MTU;
	return OUTCOME_NO_IOAM;
}

/* The length of the largest packet that may_grow() and the path let pass with an insertion. */
static __always_inline __u32 path_room(context *ctx, const struct packet *p, const struct ipv6 *ip6,
				       const struct growth *g)
{
	__u32 most = p->mtu, known;

	(void)ctx;
	if (g->path_mtu && g->path_mtu < most)
		most = g->path_mtu;
	if (g->tunnel)
		return most;
	known = known_path_mtu(ip6);
	if (known < MINIMUM_MTU)
		known = MINIMUM_MTU;
	return known < most ? known : most;
}

/* Whether the packet may grow by the header that marks it, for which find_plain_path() saw room on the link. */
static __always_inline __u32 may_carry_mark(context *ctx, const struct packet *p,
					    const struct ipv6 *ip6)
{
	__u32 payload = bpf_ntohs(ip6->payload_length) + MARK_HEADER;

	(void)ctx;
	(void)p;
	return payload > MARK_HEADER && payload <= 0xffff ? MAY_CARRY_MARK : UNMARKED_MTU;
}

/* Makes the room; anything but OUTCOME_NO_IOAM: there is none, and nothing changed. */
static __always_inline enum outcome packet_grow(context *ctx, struct packet *p,
						const struct growth *g, const struct headers *h)
{
	__u64 *to;
	const __u64 *from;

	(void)h;
	if (bpf_xdp_adjust_head(ctx, -(int)g->bytes))
		return OUTCOME_ENCAP_SKIPPED_HEADROOM;
	packet_load(ctx, p);
	if (g->tunnel)
		return OUTCOME_NO_IOAM;
	/* the IPv6 header moves to the front, lowest word first: source and destination may overlap */
	to = at(p, 0, IPV6_HEADER);
	from = at(p, g->bytes, IPV6_HEADER);
	if (!to || !from)
		return OUTCOME_ENCAP_SKIPPED_HEADROOM;
#pragma clang loop unroll(full)
	for (int i = 0; i < IPV6_HEADER / 8; i++) {
		to[i] = from[i];
		forget_memory();
	}
	return OUTCOME_NO_IOAM;
}

static __always_inline void packet_grown(context *ctx, struct packet *p, const struct growth *g)
{
	(void)ctx;
	(void)p;
	(void)g;
}

#endif
