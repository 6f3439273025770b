// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The egress core: boundary, completion, encapsulation (docs/data-plane/egress.md). */
#ifndef WAYMARK_EGRESS_H
#define WAYMARK_EGRESS_H

#include "boundary.h"
#include "common_completion.h"
#include "encapsulate.h"
#include "options.h"

/* Completes what the ingress hook wrote; the packet's outcome. */
static __always_inline enum outcome complete_options(context *ctx, struct packet *p,
						     struct options *o, const struct interface *in)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	struct hop hop = {
		.queue = UNAVAILABLE,
		.buffer = UNAVAILABLE,
		.ingress_id_wide = in->interface_id_wide,
		.egress_id_wide = p->on->interface_id_wide,
		.ingress_id = in->interface_id,
		.egress_id = p->on->interface_id,
		.hop_limit = ip6 ? ip6->hop_limit : 0,
		.unproven = in->is_unproven | NODE.has_decapsulations,
	};

	if (o->error)
		return o->error;
	egress_options(ctx, p, o, &hop);
	p->nested = 1;
	p->treated = 1;
	return o->outcome;
}

/* What the packet's Hop-by-Hop header asks for; nonzero: and that is all. */
static __always_inline int with_header(context *ctx, struct packet *p, struct result *result)
{
	struct interface *in = find_interface(tables_of(p->on->tables_index), p->arrived);
	struct options *o;

	if (p->on->roles & ROLE_EGRESS && in && in->roles & ROLE_INGRESS && !in->is_unproven &&
	    common_completion(ctx, p)) {
		result->outcome = OUTCOME_TRACE_FILLED;
		p->nested = 1;
		p->treated = 1;
		return 1;
	}
	o = begin_options();
	if (!o)
		return 1;
	result->outcome = open_header(ctx, p, o);
	if (result->outcome != OUTCOME_NO_IOAM) {
		if (drops_ioam(p, ROLE_EGRESS))
			*result = dropped(OUTCOME_BOUNDARY_UNPROVEN_DROPPED);
		return 1;
	}
	if (!(p->on->roles & ROLE_EGRESS)) {
		*result = at_edge_opened(ctx, p, o, ROLE_EGRESS);
		return result->outcome != OUTCOME_NO_IOAM;
	}
	if (!o->count)
		return 0;
	if (in && in->roles & ROLE_INGRESS) {
		result->outcome = complete_options(ctx, p, o, in);
		return 1;
	}
	/* one that was forwarded has its trace already; nested ones would be lost on the way */
	result->outcome = OUTCOME_UNTOUCHED;
	p->nested = p->arrived != 0;
	p->faulty = o->error != 0;
	return p->nested;
}

static __always_inline struct result egress(context *ctx, struct packet *p)
{
	struct result result = {};
	const struct ipv6 *ip6;
	enum outcome outcome;
	__u8 next;

	p->arrived = ctx->ingress_ifindex;
	result.outcome = open_packet(ctx, p, ROLE_EGRESS, &ip6);
	if (result.outcome == OUTCOME_BOUNDARY_UNPROVEN_DROPPED)
		result.disposition = DROPPED;
	if (result.outcome != OUTCOME_NO_IOAM)
		return result;
	next = ip6->next_header;
	if (next == NEXT_HBH && with_header(ctx, p, &result)) {
		if (!NODE.nests || !p->nested)
			return result;
		packet_load(ctx, p);
	}
	if (next != NEXT_HBH && filters_ioam(p->on, ROLE_EGRESS) && is_extension(next)) {
		result = at_edge(ctx, p, 0, ROLE_EGRESS);
		if (result.outcome != OUTCOME_NO_IOAM)
			return result;
	}
	if (!NODE.has_encapsulations || !p->on->insertion)
		return result;
	outcome = encapsulate(ctx, p);
	complete_insertion(ctx, p, outcome);
	if (outcome > result.outcome) {
		if (NODE.nests && p->treated)
			count(p->on->slot, COUNTER_EGRESS_OPTIONS + result.outcome);
		result.outcome = outcome;
	}
	return result;
}

#endif
