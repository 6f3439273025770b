// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ingress core: boundary, transit, decapsulation (docs/data-plane.md, "Ingress"). */
#ifndef WAYMARK_INGRESS_H
#define WAYMARK_INGRESS_H

#include "boundary.h"
#include "export.h"
#include "forward.h"
#include "pathmtu.h"
#include "tunnel_end.h"

enum removal {
	REMOVE_NOTHING,
	REMOVE_TUNNEL,
	REMOVE_INLINE,
};

/* Removes as decided, with a record of the header if anybody asks for one. */
static __always_inline enum outcome remove(context *ctx, struct packet *p, __u32 length,
					   enum removal removal, int wanted, __u64 tai)
{
	struct recording rec = {};
	enum outcome outcome;
	int err;

	if (wanted)
		record_begin(ctx, p, &rec, length);
	if (removal == REMOVE_TUNNEL) {
		outcome = OUTCOME_TUNNEL_DECAPSULATED;
		err = remove_tunnel(ctx, p, IPV6_HEADER + length);
	} else {
		outcome = OUTCOME_INLINE_REMOVED;
		err = remove_header(ctx, p, length);
	}
	if (!rec.held)
		return err ? OUTCOME_DECAP_FAILED : outcome;
	if (err) {
		bpf_ringbuf_discard(rec.record, BPF_RB_NO_WAKEUP);
		return OUTCOME_DECAP_FAILED;
	}
	record_end(ctx, p, &rec, outcome, tai);
	return outcome;
}

/* What Linux takes in one header unless told otherwise: net.ipv6.max_hbh_opts_number. */
#define MAX_STACK_OPTIONS 8

static __always_inline int is_removed(enum outcome outcome)
{
	return outcome == OUTCOME_TUNNEL_DECAPSULATED || outcome == OUTCOME_INLINE_REMOVED;
}

static __always_inline int is_refused(enum outcome outcome)
{
	return (outcome >= OUTCOME_DECAP_REFUSED_SOURCE &&
		outcome <= OUTCOME_DECAP_REFUSED_INNER) ||
	       outcome == OUTCOME_MALFORMED_TUNNEL;
}

/* The interface of departure, if it is served; of a master, only the stack knows the member. */
static __always_inline enum stack_reason find_out(struct packet *p, const struct path *path,
						  const struct interface **out)
{
	const struct interface *o = find_interface(tables_of(p->on->half), path->ifindex);

	*out = o;
	if (!o)
		return STACK_NONE;
	p->insertion = o->insertion;
	return o->is_master ? STACK_DEVICE : STACK_NONE;
}

/* The way out of a packet that has no IOAM, or none any more. */
static __always_inline enum stack_reason find_plain_path(context *ctx, struct packet *p,
							 struct path *path)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	const struct interface *out;
	enum stack_reason reason;
	__u8 next;

	if (!ip6 || ip6->next_header == NEXT_HBH)
		return STACK_HEADERS;
	next = ip6->next_header;
	reason = find_path(ctx, p, path);
	if (reason)
		return reason;
	reason = find_out(p, path, &out);
	/* the hook that looks what other headers hide comes after the stack */
	if (!reason && is_extension(next) && out && !(out->roles & ROLE_EGRESS))
		return STACK_BOUNDARY;
	return reason;
}

static __always_inline void fill_options(context *ctx, struct packet *p, const struct scan *s,
					 __u32 hop_limit, int stays, __u64 tai,
					 struct result *result)
{
	enum outcome greatest = s->rest, completed = s->rest;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; s->traces && i < MAX_IOAM_OPTIONS && i < s->count; i++) {
		enum outcome outcome =
			fill_option(ctx, s, p->on, i << 16 | stays << 8 | hop_limit, tai);

		if (outcome > greatest)
			greatest = outcome;
		/* no room at ingress is a flag that was set at egress */
		if (outcome == OUTCOME_TRACE_OVERFLOW)
			outcome = OUTCOME_OVERFLOW_SET;
		if (outcome > completed)
			completed = outcome;
	}
	result->outcome = greatest;
	if (s->leaving)
		result->completed = completed;
}

/* Whether a packet with this header may go on without the stack; then its way out is found. */
static __always_inline enum stack_reason find_transit_path(context *ctx, struct packet *p,
							   struct scan *s, struct path *path)
{
	const struct interface *out;
	enum stack_reason reason;

	if (s->untidy || s->foreign || s->count > MAX_STACK_OPTIONS)
		return STACK_HEADERS;
	reason = find_path(ctx, p, path);
	if (reason)
		return reason;
	reason = find_out(p, path, &out);
	if (reason || !COMPLETES)
		return reason;
	if (!out || !(out->roles & ROLE_EGRESS))
		return STACK_BOUNDARY;
	s->leaving = 1;
	s->egress_id = out->interface_id;
	s->egress_id_wide = out->interface_id_wide;
	return STACK_NONE;
}

/*
 * Transit of Direct Exports: where the way out is known, they are made; else the egress hook will,
 * and may want to know when the packet came.
 */
static __always_inline void export_transit(context *ctx, const struct packet *p,
					   const struct scan *s, const struct path *path,
					   __u32 hop_limit, __u64 tai, enum stack_reason reason)
{
	struct exporting *e;

	if (!(COMPLETES && NODE.fast) || reason) {
		if (s->export_types & DELAYED)
			remember_arrival(p, s, tai);
		return;
	}
	e = begin_export(p, ROLE_TRANSIT, p->on->ifindex, path->ifindex, hop_limit);
	if (!e || find_flow(ctx, p->l3, s->length, TOLD_EITHER))
		return;
	if (s->export_types & DELAYED) {
		e->postcard.time = tai_now();
		e->delay = delay_of(tai, e->postcard.time);
	}
	export_options(ctx, p->l3, s);
}

static __always_inline void export_arrival(context *ctx, const struct packet *p,
					   const struct scan *s, __u32 hop_limit, __u64 tai,
					   enum removal removal)
{
	struct exporting *e = begin_export(p, ROLE_DECAPSULATING, p->on->ifindex, 0, hop_limit);

	if (!e ||
	    find_flow(ctx, p->l3, s->length, removal == REMOVE_TUNNEL ? TOLD_EITHER : TOLD_REST))
		return;
	e->postcard.time = tai;
	export_options(ctx, p->l3, s);
}

static __always_inline struct result with_options(context *ctx, struct packet *p, struct scan *s,
						  struct path *path)
{
	enum removal removal = REMOVE_NOTHING;
	struct result result = {.reason = STACK_HEADERS};
	const struct ipv6 *ip6;
	const __u8 *hbh;
	enum outcome tunnel;
	int partial, removed, wanted, exported, followed;
	__u32 hop_limit;
	__u64 tai = 0;

	if (!(p->on->roles & ROLE_INGRESS))
		return at_boundary(ctx, p, s);
	if (s->fault) {
		result.outcome = s->fault;
		result.drop = NODE.mainline;
		return result;
	}
	packet_pull(ctx, p, 2 * IPV6_HEADER + s->length);
	ip6 = at(p, 0, IPV6_HEADER);
	hbh = at(p, IPV6_HEADER, 8);
	if (!ip6 || !hbh)
		return result;
	followed = hbh[0] == NEXT_HBH;
	hop_limit = (ip6->hop_limit - 1) & 0xff;
	tunnel = find_tunnel(ctx, p, hbh[0], s->length, s);
	if (is_refused(tunnel)) {
		result.outcome = tunnel;
		return result;
	}
	if (tunnel == OUTCOME_TUNNEL_DECAPSULATED)
		removal = REMOVE_TUNNEL;
	else if (s->removable)
		removal = REMOVE_INLINE;
	if (NODE.fast && p->on->fast && removal == REMOVE_NOTHING)
		result.reason = find_transit_path(ctx, p, s, path);
	partial = removal == REMOVE_TUNNEL ? s->discards
					   : removal == REMOVE_INLINE && (s->foreign || followed ||
									  s->removable != s->count);
	removed = removal != REMOVE_NOTHING && !partial;
	exported = NODE.has_exports && s->export_types && are_records_wanted();
	wanted = removed && s->traces && are_records_wanted();
	/* one reading of the clock serves all options and the record */
	if (wanted || (!removed && s->types & TIMED_AT_INGRESS) ||
	    (exported && !removed && s->export_types & DELAYED))
		tai = tai_now();
	if (exported && removed) {
		export_arrival(ctx, p, s, hop_limit, tai, removal);
		packet_load(ctx, p);
	}
	/* a header that goes, and that nobody will see, is left as it is */
	if (!removed || wanted)
		fill_options(ctx, p, s, hop_limit, removal == REMOVE_NOTHING, tai, &result);
	/* behind the fill: an arrival is known again by the header that the egress hook will see */
	if (exported && !removed) {
		export_transit(ctx, p, s, path, hop_limit, tai, result.reason);
		packet_load(ctx, p);
	}
	if (partial)
		result.outcome = OUTCOME_REMOVAL_PARTIAL;
	else if (removed)
		result.outcome = remove(ctx, p, s->length, removal, wanted, tai);
	if (is_removed(result.outcome))
		result.reason = STACK_UNDECIDED;
	return result;
}

/* A tunnel that ends here and carries no IOAM any more: its headers go without a record. */
static __always_inline enum outcome bare_tunnel(context *ctx, struct packet *p, __u32 length,
						int discards)
{
	const struct ipv6 *ip6;
	enum outcome outcome;
	const __u8 *hbh;

	if (!NODE.has_decapsulations)
		return OUTCOME_NO_IOAM;
	packet_pull(ctx, p, 2 * IPV6_HEADER + length);
	ip6 = at(p, 0, IPV6_HEADER);
	hbh = at(p, IPV6_HEADER, 8);
	if (!ip6 || !hbh)
		return OUTCOME_NO_IOAM;
	outcome = find_tunnel(ctx, p, length ? hbh[0] : ip6->next_header, length, 0);
	if (outcome != OUTCOME_TUNNEL_DECAPSULATED)
		return outcome;
	if (discards)
		return OUTCOME_REMOVAL_PARTIAL;
	return remove_tunnel(ctx, p, IPV6_HEADER + length) ? OUTCOME_DECAP_FAILED : outcome;
}

static __always_inline struct result with_header(context *ctx, struct packet *p, struct path *path)
{
	struct result result = {.reason = STACK_HEADERS};
	struct scan s = {.egress_id = 0xffff, .egress_id_wide = UNAVAILABLE};

	result.outcome = open_header(ctx, p, &s);
	if (DROPS_IOAM(p, ROLE_INGRESS) && is_unproven(ctx, p, &s, result.outcome))
		return drop_unproven();
	if (result.outcome != OUTCOME_NO_IOAM)
		return result;
	if (s.count)
		return with_options(ctx, p, &s, path);
	result.outcome = bare_tunnel(ctx, p, s.length, s.discards);
	if (is_removed(result.outcome))
		result.reason = STACK_UNDECIDED;
	return result;
}

static __always_inline struct result ingress(context *ctx, struct packet *p, struct path *path)
{
	struct result result = {.reason = STACK_LINK};
	const struct ipv6 *ip6;
	__u8 next;

	result.outcome = open_packet(ctx, p, ROLE_INGRESS, &ip6);
	result.drop = result.outcome == OUTCOME_BOUNDARY_UNPROVEN_DROPPED;
	if (result.outcome != OUTCOME_NO_IOAM)
		return result;
	next = ip6->next_header;
	if (is_guarded_tunnel(ctx, p)) {
		result.outcome = OUTCOME_BOUNDARY_TUNNEL_DROPPED;
		result.drop = 1;
		return result;
	}
	if (next == NEXT_HBH)
		return with_header(ctx, p, path);
	if (DROPS_IOAM(p, ROLE_INGRESS) && may_hide_hbh(ctx, p, next, IPV6_HEADER))
		return drop_unproven();
	if (NODE.inserts_inline && next == NEXT_ICMPV6) {
		hear_too_big(ctx, p->l3);
		packet_load(ctx, p);
	}
	if (next == NEXT_IPV6)
		result.outcome = bare_tunnel(ctx, p, 0, 0);
	result.reason = STACK_HEADERS;
	if (result.outcome == OUTCOME_NO_IOAM || is_removed(result.outcome))
		result.reason = STACK_UNDECIDED;
	return result;
}

#endif
