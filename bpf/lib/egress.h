// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The egress core: boundary, completion, encapsulation (docs/data-plane.md, "Egress"). */
#ifndef WAYMARK_EGRESS_H
#define WAYMARK_EGRESS_H

#include "boundary.h"
#include "grow_skb.h"
#include "encap.h"
#include "export.h"

/* Transit of Direct Exports: the way out is this one. */
static __always_inline void export_departure(context *ctx, const struct packet *p,
					     const struct scan *s, __u64 tai, __u32 queue)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	struct exporting *e;

	if (!ip6)
		return;
	e = begin_export(p, ROLE_TRANSIT, p->arrived, p->on->ifindex, ip6->hop_limit);
	if (!e)
		return;
	e->postcard.time = tai;
	e->queue = queue;
	if (s->export_types & DELAYED)
		e->delay = delay_since_arrival(p, s, tai);
	if (!find_flow(ctx, p->l3, s->length, TOLD_EITHER))
		export_options(ctx, p->l3, s);
}

static __always_inline enum outcome complete_options(context *ctx, struct packet *p,
						     const struct scan *s, __u32 by_master)
{
	enum outcome greatest = s->rest, outcome;
	__u32 queue;
	__u64 tai;
	int exported;

	if (s->fault)
		return s->fault;
	exported = NODE.has_exports && s->export_types && are_records_wanted();
	tai = (s->types & TRACE_BIT(4) && !NODE.mainline) || (exported && s->export_types & DELAYED)
		      ? tai_now()
		      : 0;
	queue = (s->types | s->export_types) & TRACE_BIT(6) ? queue_depth(ctx) : UNAVAILABLE;
	if (exported)
		export_departure(ctx, p, s, tai, queue);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; s->traces && i < MAX_IOAM_OPTIONS && i < s->count; i++) {
		outcome = complete_option(ctx, s, by_master << 16 | i << 8 | p->l3, tai, queue);
		if (outcome > greatest)
			greatest = outcome;
	}
	return greatest;
}

/* What the packet's Hop-by-Hop header asks for; nonzero: and that is all. */
static __always_inline int with_header(context *ctx, struct packet *p, struct result *result)
{
	struct interface *in;
	struct scan s = {};

	result->outcome = open_header(ctx, p, &s);
	if (DROPS_IOAM(p, ROLE_EGRESS) && is_unproven(ctx, p, &s, result->outcome)) {
		*result = drop_unproven();
		return 1;
	}
	if (result->outcome != OUTCOME_NO_IOAM)
		return 1;
	if (!s.count)
		return 0;
	if (!(p->on->roles & ROLE_EGRESS)) {
		*result = at_boundary(ctx, p, &s);
		return 1;
	}
	s.egress_id = p->on->interface_id;
	s.egress_id_wide = p->on->interface_id_wide;
	in = find_interface(tables_of(p->on->half), p->arrived);
	if (in && in->roles & ROLE_INGRESS) {
		result->outcome = complete_options(ctx, p, &s, in->is_master);
		return 1;
	}
	/* one that was forwarded has its trace already; nested ones would be lost on the way */
	result->outcome = OUTCOME_UNTOUCHED;
	return p->arrived != 0;
}

static __always_inline struct result egress(context *ctx, struct packet *p)
{
	struct result result = {};
	const struct ipv6 *ip6;
	__u8 next;

	p->arrived = ctx->ingress_ifindex;
	result.outcome = open_packet(ctx, p, ROLE_EGRESS, &ip6);
	result.drop = result.outcome == OUTCOME_BOUNDARY_UNPROVEN_DROPPED;
	if (result.outcome != OUTCOME_NO_IOAM)
		return result;
	next = ip6->next_header;
	if (next == NEXT_HBH && with_header(ctx, p, &result)) {
		result.drop |= p->broken;
		return result;
	}
	if (DROPS_IOAM(p, ROLE_EGRESS) && next != NEXT_HBH &&
	    may_hide_hbh(ctx, p, next, IPV6_HEADER))
		return drop_unproven();
	if (NODE.has_encapsulations && p->on->insertion) {
		enum outcome outcome = encapsulate(ctx, p);

		complete_insertion(ctx, p, outcome);
		if (outcome > result.outcome)
			result.outcome = outcome;
	}
	result.drop |= p->broken;
	return result;
}

#endif
