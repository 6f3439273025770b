// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What every hook begins with, and what it decides. */
#ifndef WAYMARK_HOOK_H
#define WAYMARK_HOOK_H

#include "context.h"
#include "ipv6.h"
#include "lookup.h"

/* Not a verdict: another path has to find it. */
#define VERDICT_OTHER 0x101

/* What becomes of a packet, whatever its options came to. */
enum disposition {
	GOES_ON,
	DROPPED,
	LOSES_HEADER, /* goes on without its Hop-by-Hop header */
	LOSES_TUNNEL, /* goes on without its outer IPv6 header and Hop-by-Hop header */
};

struct result {
	enum outcome outcome;
	enum outcome options;	/* the greatest of the options', if there are any */
	enum outcome completed; /* at egress, where that was done here, too */
	enum disposition disposition;
	/* Why only the stack may forward the packet. STACK_NONE: its path is known or may be looked for. */
	enum stack_reason reason;
};

/* Whether this hook is an edge that drops: what it passes is proven to be free of what it drops. */
static __always_inline int drops_ioam(const struct packet *p, enum role role)
{
	return NODE.has_edges && p->on->roles & role << EDGE_SHIFT;
}

/*
 * Whether an interface is no link of the domain in this direction: what arrives there comes from others,
 * whatever it looks like, and what leaves there is no longer on a measured path.
 */
static __always_inline int is_outside(const struct interface *on, enum role role)
{
	return on->roles & role << OUTSIDE_SHIFT;
}

/*
 * Begins a run, which uses the tables that are current now until its end. Zero where the interface is not
 * served, or not yet.
 */
static __always_inline int begin(context *ctx, struct packet *p)
{
	p->on = find_interface(tables_of(STATE.current), ifindex_here(ctx));
	return p->on && !p->on->upper;
}

/*
 * Keeps the verifier from going through what follows once for each way that leads here: it forgets how much of
 * the packet each of them has tested. In XDP, this does nothing: it would cost each packet.
 */
static __always_inline void join_ways(context *ctx, struct packet *p)
{
	if (!COMPLETES)
		packet_load(ctx, p);
}

/* Finds the IPv6 header; anything but OUTCOME_NO_IOAM ends the packet's treatment. */
static __always_inline enum outcome open_packet(context *ctx, struct packet *p, enum role role,
						const struct ipv6 **found)
{
	const struct ipv6 *ip6;

	if (packet_open(ctx, p))
		return drops_ioam(p, role) && is_buried(frame_start(ctx), p->end)
			       ? OUTCOME_BOUNDARY_UNPROVEN_DROPPED
			       : OUTCOME_NOT_IPV6;
	ip6 = at(p, 0, IPV6_HEADER);
	*found = ip6;
	if (ip6 && (bpf_ntohl(ip6->class_label) >> 28) == 6)
		return OUTCOME_NO_IOAM;
	/* the header is there, but out of reach */
	if (drops_ioam(p, role) && !ip6 && packet_length(ctx, p) >= IPV6_HEADER)
		return OUTCOME_BOUNDARY_UNPROVEN_DROPPED;
	return OUTCOME_MALFORMED_IPV6;
}

#endif
