// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The core's packet in a socket's filter, which may only copy bytes of it. The packet begins with its
 * IPv6 header, because the socket wants no link layer. Compiled with -I lib/tap.
 */
#ifndef WAYMARK_CONTEXT_H
#define WAYMARK_CONTEXT_H

#define PACKET_IN_MEMORY
#include "ipv6.h"
#include "packet.h"
#include "maps.h"

typedef struct __sk_buff context;

#define COMPLETES 0

/* The packet's head on this CPU, or NULL. */
static __always_inline struct tap_head *head_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tap_heads, &zero);
}

static __always_inline void packet_load(context *ctx, struct packet *p)
{
	struct tap_head *head = head_here();

	opaque(ctx); /* where it is not used, the compiler would not pass it */
	p->ip6 = head ? head->bytes : 0;
}

/*
 * Bytes at an offset from the IPv6 header; NULL when they are out of reach. What is beyond the packet is
 * zero: no segment of a flow is. Without a comparison with its length, the verifier finds fewer states.
 */
static __always_inline void *at(const struct packet *p, __u32 offset, __u32 size)
{
	(void)size;
	if (!p->ip6 || offset >= TAP_REACH)
		return 0;
	opaque(offset);
	return p->ip6 + (offset & (TAP_REACH - 1));
}

static __always_inline int packet_open(context *ctx, struct packet *p)
{
	p->l3 = 0;
	packet_load(ctx, p);
	return p->ip6 ? 0 : -1;
}

static __always_inline __u32 packet_length(context *ctx, const struct packet *p)
{
	(void)p;
	return ctx->len;
}

/* All that is looked at was copied before. */
static __always_inline void packet_pull(context *ctx, struct packet *p, __u32 length)
{
	(void)ctx;
	(void)p;
	(void)length;
}

static __always_inline __u32 packet_segments(context *ctx, __u32 payload)
{
	(void)ctx;
	(void)payload;
	return 0;
}

#endif
