// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When packets arrived, for those whose time in this node is asked for and whose data do not say it. */
#ifndef WAYMARK_ARRIVAL_H
#define WAYMARK_ARRIVAL_H

#include "clock.h"
#include "context.h"
#include "draft.h"
#include "ipv6.h"
#include "lookup.h"

static __always_inline __u32 delay_between(__u64 begin, __u64 end)
{
	__u64 delay = end - begin;

	return delay > DELAY_OVERFLOW ? DELAY_OVERFLOW : delay;
}

/*
 * The entry for the packet's arrival, found by the address of its buffer: between the hooks of a node,
 * a packet that is forwarded stays where it is; one that was moved is not found. The pointer becomes a
 * number on its way through a map.
 */
static __always_inline struct arrival *find_arrival(context *ctx, __u64 *buffer)
{
	struct draft *e = draft_here();
	__u32 index;

	if (!e)
		return 0;
	*(void *volatile *)&e->place = frame_start(ctx);
	*buffer = *(volatile __u64 *)&e->place;
	index = *buffer * FIBONACCI >> 56;
	return bpf_map_lookup_elem(&arrivals, &index);
}

/* Distinguishes a packet from a later one in the same buffer, mostly by its Sequence Number. */
static __always_inline __u64 mark_of(const struct packet *p, __u32 length)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	const __u64 *last = at(p, IPV6_HEADER + length - 8, 8);

	return ip6 && last ? *last ^ ip6->source[1] ^ (__u64)ip6->payload_length << 48 : 0;
}

/* Notes when a packet with a Hop-by-Hop header of a length arrived. */
static __always_inline void remember_arrival(context *ctx, const struct packet *p, __u32 length,
					     __u64 tai)
{
	__u64 buffer;
	struct arrival *a = find_arrival(ctx, &buffer);

	if (!a)
		return;
	a->buffer = buffer;
	a->mark = mark_of(p, length);
	a->time = tai;
}

/* When a packet that was noted arrived; 0 for others. It is noted no longer. */
static __always_inline __u64 take_arrival(context *ctx, const struct packet *p, __u32 length)
{
	__u64 buffer;
	struct arrival *a = find_arrival(ctx, &buffer);

	if (!a || a->buffer != buffer || a->mark != mark_of(p, length))
		return 0;
	a->buffer = 0;
	return a->time;
}

/* How long the packet took through this node, ns; all ones if that is not known. */
static __always_inline __u32 delay_since_arrival(context *ctx, const struct packet *p, __u32 length,
						 __u64 tai)
{
	__u64 arrived = take_arrival(ctx, p, length);

	return !arrived || tai - arrived > NS_PER_S ? UNAVAILABLE : delay_between(arrived, tai);
}

#endif
