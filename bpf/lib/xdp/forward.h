// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A router's step for a frame: what the egress hook would do as well, then out. */
#ifndef WAYMARK_FORWARD_H
#define WAYMARK_FORWARD_H

#include "encapsulate.h"
#include "hook.h"
#include "mark_insertion.h"
#include "marking.h"
#include "route.h"

/*
 * Encapsulates an untagged packet that is to leave by the path's interface, as the egress core does.
 * Not inlined: see scan_options().
 */
__noinline int encapsulate_here(context *ctx, struct path *path, const struct interface *on,
				const struct interface *out)
{
	struct packet packet = {.l3 = ETHERNET_HEADER}, *p = &packet;
	enum outcome outcome;

	if (!path || !on || !out)
		return OUTCOME_NO_IOAM;
	p->mtu = path->mtu;
	p->arrived = on->ifindex;
	p->on = on;
	p->out = out;
	packet_load(ctx, p);
	outcome = encapsulate(ctx, p);
	path->left = p->left;
	return outcome;
}

/* Whether headers may be inserted into packets that leave by the interface that was found. */
static __always_inline int may_insert(const struct packet *p)
{
	return p->out && p->out->insertion;
}

/* Sends the packet on its way; the caller knows whether something may be inserted on it. */
static __always_inline enum stack_reason
forward_on(context *ctx, struct packet *p, struct result *result, struct path *path, int inserts)
{
	enum outcome outcome = result->completed;
	struct ipv6 *ip6;

	if (NODE.has_budgets && inserts)
		count_sent(ctx, p->out->slot, 0);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return STACK_PACKET;
	ip6->hop_limit--;
	if (NODE.measures && p->out) {
		measure_leaving(ctx, p->out);
		packet_load(ctx, p);
	}
	if (outcome == OUTCOME_NOT_IPV6)
		outcome = OUTCOME_NO_IOAM;
	if (outcome == OUTCOME_NO_IOAM && inserts) {
		outcome = encapsulate_here(ctx, path, p->on, p->out);
		complete_insertion(ctx, p, outcome);
		packet_load(ctx, p);
		if (path->left) {
			if (NODE.has_budgets)
				count_sent(ctx, p->out->slot, 1);
			packet_load(ctx, p);
			ip6 = at(p, 0, IPV6_HEADER);
			if (ip6)
				ip6->hop_limit++;
			return STACK_HEADROOM;
		}
	}
	result->completed = outcome;
	return leave(ctx, p, path);
}

static __always_inline enum stack_reason forward(context *ctx, struct packet *p,
						 struct result *result, struct path *path)
{
	return forward_on(ctx, p, result, path, may_insert(p));
}

#endif
