// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Ingress of a packet with a common header (common_header.h): what with_options() does with it. */
#ifndef WAYMARK_COMMON_TRANSIT_H
#define WAYMARK_COMMON_TRANSIT_H

#include "common_export.h"
#include "common_header.h"
#include "common_traces.h"
#include "held.h"
#include "hook.h"
#include "transit_path.h"

/* Whether the packet goes on with its Direct Export, whose export needs no time of arrival. */
static __always_inline int is_export_in_transit(const struct packet *p, const struct ipv6 *ip6,
						const struct common_header *h)
{
	const struct ioam_namespace *ns;

	if (!is_common_export(p, ip6, h))
		return 0;
	ns = find_namespace(tables_of(p->on->tables_index), bpf_ntohl(h->option.word) >> 16);
	if (!stays_common(ns))
		return 0;
	return !(NODE.has_postcards && ns->export && bpf_ntohl(h->option.type) & TRACE_BIT(4));
}

/* Whether it does with its trace. */
static __always_inline int is_trace_in_transit(const struct packet *p, const struct ipv6 *ip6,
					       const struct common_header *h)
{
	return is_common_trace(p, ip6, h) &&
	       is_filled_here(p, tables_of(p->on->tables_index), COMMON_OPTION, &h->option);
}

/*
 * Whether it does with several traces: what judge_filled() says. Samples of delays are taken of packets with
 * one option alone.
 */
static __always_inline __u32 are_traces_in_transit(context *ctx, const struct packet *p,
						   const struct common_header *h)
{
	__u32 several;

	if (!begins_with_trace(h) || ends_with_first(p, h))
		return 0;
	several = judge_filled(ctx, p->on, p->l3);
	return NODE.has_delays && several & SEVERAL_TIMES ? 0 : several;
}

/* Writes this node's data into the only trace. The time is read if it is 0. */
static __always_inline int fill_only(struct packet *p, const struct ipv6 *ip6,
				     struct common_header *h, __u32 egress, __u64 tai)
{
	struct own_data own = {.hop_limit = (__u8)(ip6->hop_limit - 1),
			       .ids = (__u32)p->on->interface_id << 16 | egress};
	__u32 type = bpf_ntohl(h->option.type);

	if (!(FIELDS_OF(type) & 3))
		return fill_common(p, COMMON_OPTION, &h->option.word, type, &own);
	own.tai = tai ? tai : tai_now();
	return fill_common(p, COMMON_OPTION, &h->option.word, type, &own);
}

/* Whether this packet, with times, is among those whose time in this node is counted. */
static __always_inline int is_common_sampled(const struct common_header *h)
{
	return NODE.has_delays && bpf_ntohl(h->option.type) & TIMES &&
	       (h->option.ioam_type != IOAM_DEX || NODE.has_postcards) && is_delay_sampled();
}

/*
 * Notes the arrival of a packet that is left to the stack, if it is chosen: in XDP, it was before its way was
 * looked for, at a time that is not 0. Not inlined: the stack is small.
 */
__noinline int remember_common(context *ctx, __u32 l3, __u64 tai)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	const struct common_header *h;

	opaque(tai); /* where it is not used, the compiler would not pass it */
	packet_load(ctx, p);
	h = at(p, IPV6_HEADER, sizeof(*h));
	if (!h || (COMPLETES ? !tai : !is_common_sampled(h)))
		return 0;
	remember_sampled(ctx, p, ((__u32)h->length + 1) << 3, COMPLETES ? tai : tai_now());
	return 0;
}

/*
 * Treats the packet's option, and finds its way out; zero where with_options() has to. In the lane, also
 * zero, with nothing changed, where the packet is not simply forwarded.
 */
static __always_inline int common_transit(context *ctx, struct packet *p, struct path *path,
					  struct result *result, int in_lane)
{
	enum outcome outcome = OUTCOME_TRACE_FILLED;
	enum stack_reason reason = STACK_HEADERS;
	const struct interface *out = 0;
	struct common_header *h = at(p, IPV6_HEADER, sizeof(*h));
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	__u32 egress = 0xffff, leaves, several = 0;
	__u64 tai = 0;

	if (!ip6 || !h || (NODE.has_decapsulations && h->next_header == NEXT_IPV6) ||
	    (READS_E2E && h->next_header == NEXT_DESTINATION))
		return 0;
	if (!is_trace_in_transit(p, ip6, h) && !is_export_in_transit(p, ip6, h)) {
		several = are_traces_in_transit(ctx, p, h);
		if (!several)
			return 0;
	}
	/* who is chosen is decided once */
	if (in_lane && NODE.has_delays && bpf_ntohl(h->option.type) & TIMES)
		return 0;
	if (COMPLETES && !in_lane && is_common_sampled(h))
		tai = tai_now();
	join_ways(ctx, p);
	if (NODE.fast && p->on->fast && NODE.stack_options &&
	    (several & SEVERAL_COUNT) <= NODE.stack_options)
		reason = find_transit_path(ctx, p, path, &out,
					   in_lane ? SEARCH_REMEMBERED : SEARCH_ELSEWHERE);
	if (in_lane && (reason || !out))
		return 0;
	leaves = COMPLETES && !reason && out;
	if (leaves)
		egress = out->interface_id;
	if (several) {
		if (!fill_several(ctx, p->on, p->l3, egress))
			return 0;
		packet_load(ctx, p);
	} else if (h->option.ioam_type == IOAM_DEX) {
		outcome = OUTCOME_DIRECT_EXPORT;
		if (leaves && !export_common(ctx, p, path->ifindex, NODE_TRANSIT))
			return 0;
		packet_load(ctx, p);
	} else if (!fill_only(p, ip6, h, egress, tai)) {
		return 0;
	}
	packet_commit_sum(ctx, p);
	if (COMPLETES && tai && leaves)
		note_held(p->on->ifindex, path->ifindex, tai_now() - tai);
	else if (NODE.has_delays && !in_lane)
		remember_common(ctx, p->l3, tai);
	result->outcome = outcome;
	result->completed = leaves ? outcome : OUTCOME_NOT_IPV6;
	result->reason = reason;
	return 1;
}

#endif
