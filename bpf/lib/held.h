// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long this node held packets (docs/data-plane/delays.md). Where an option asks for the transit delay,
 * both times are read anyway. Of other packets with times, one of several is noted on arrival.
 */
#ifndef WAYMARK_HELD_H
#define WAYMARK_HELD_H

#include "arrival.h"
#include "delays.h"
#include "option/option.h"
#include "option/trace.h"

#define TIMES (TRACE_BIT(2) | TRACE_BIT(3) | TRACE_BIT(4))

/* After this many packets that match no noted time, the noted packets count as lost. */
#define MOST_MISSED 512

/* Whether the options of a packet carry times. */
static __always_inline int carries_times(const struct options *o)
{
	return (o->trace_types | o->dex_types | o->growing_types) & TIMES;
}

/* Notes the arrival of a packet that was chosen. */
static __always_inline void remember_sampled(context *ctx, const struct packet *p, __u32 length,
					     __u64 tai)
{
	struct tick *tick = tick_here();

	if (!tick)
		return;
	remember_arrival(ctx, p, length, tai);
	tick->remembered++;
	tick->missed = 0;
}

/*
 * Counts how long a packet was held, if it was chosen on arrival. Not inlined: it is called only while the
 * departure of such packets is awaited.
 */
__noinline int count_sampled(context *ctx, __u32 place, __u32 ingress, __u32 egress)
{
	struct packet packet = {.l3 = place & 0xff}, *p = &packet;
	struct tick *tick = tick_here();
	__u64 arrived;

	if (!tick)
		return 0;
	packet_load(ctx, p);
	arrived = take_arrival(ctx, p, place >> 8 & 0xfff);
	if (arrived) {
		tick->remembered--;
		tick->missed = 0;
		note_held(ingress, egress, tai_now() - arrived);
	} else if (++tick->missed > MOST_MISSED) {
		tick->remembered = 0;
	}
	return 0;
}

/* The same of a packet with times, at egress, whose Hop-by-Hop header has a length. */
static __always_inline void leave_sampled(context *ctx, const struct packet *p, __u32 length)
{
	struct tick *tick = tick_here();

	if (tick && tick->remembered)
		count_sampled(ctx, p->l3 | length << 8, p->arrived, p->on->ifindex);
}

#endif
