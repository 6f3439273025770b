// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ingress core: boundary, transit, decapsulation (docs/data-plane.md, "Ingress"). */
#ifndef WAYMARK_INGRESS_H
#define WAYMARK_INGRESS_H

#include "boundary.h"
#include "export.h"
#include "forward.h"

#define ECN_MASK bpf_htonl(0x00300000)
#define ECN_CE	 bpf_htonl(0x00300000)
#define ECN_ECT0 bpf_htonl(0x00200000)
#define ECN_ECT1 bpf_htonl(0x00100000)

enum removal {
	REMOVE_NOTHING,
	REMOVE_TUNNEL,
	REMOVE_INLINE,
};

/* Cuts the outer headers off; congestion noted on them is kept (RFC 6040 §4.2). */
static __always_inline int remove_tunnel(context *ctx, struct packet *p, __u32 length)
{
	const struct ipv6 *outer = at(p, 0, IPV6_HEADER);
	struct ipv6 *inner = at(p, length, IPV6_HEADER);
	__be32 ecn, own;

	if (!outer || !inner)
		return -1;
	ecn = outer->class_label & ECN_MASK;
	own = inner->class_label & ECN_MASK;
	if (own && (ecn == ECN_CE || (ecn == ECN_ECT1 && own == ECN_ECT0)))
		put32(p, &inner->class_label, (inner->class_label & ~ECN_MASK) | ecn);
	packet_commit_sum(ctx, p);
	return packet_remove(ctx, p, 0, length);
}

static __always_inline int ends_here(const struct packet *p, const struct ipv6 *ip6, __u8 next,
				     __u32 offset)
{
	const __u8 *inner;

	if (!NODE.has_decapsulations || !(NODE.roles & ROLE_INGRESS) || next != NEXT_IPV6)
		return 0;
	inner = at(p, offset, IPV6_HEADER);
	if (!inner || inner[0] >> 4 != 6)
		return 0;
	if (NODE.has_decapsulations == 1)
		return ip6->destination[0] == NODE.decapsulation[0] &&
		       ip6->destination[1] == NODE.decapsulation[1];
	__u64 address[2] = {ip6->destination[0], ip6->destination[1]};

	return bpf_map_lookup_elem(&decapsulations, address) != 0;
}

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

/* The interface of departure, if it is served; of a master, only the stack knows the member. */
static __always_inline enum stack_reason find_out(struct packet *p, const struct path *path)
{
	p->out = find_interface(path->ifindex);
	return p->out && p->out->is_master ? STACK_DEVICE : STACK_NONE;
}

/* The way out of a packet that has no IOAM, or none any more. */
static __always_inline enum stack_reason find_plain_path(context *ctx, struct packet *p,
							 struct path *path)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	enum stack_reason reason;

	if (!ip6 || ip6->next_header == NEXT_HBH)
		return STACK_HEADERS;
	reason = find_path(ctx, p, path);
	return reason ? reason : find_out(p, path);
}

static __always_inline void fill_options(context *ctx, struct packet *p, const struct scan *s,
					 __u32 hop_limit, int stays, __u64 tai,
					 struct result *result)
{
	enum outcome greatest = s->rest, completed = s->rest;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; s->traces && i < MAX_IOAM_OPTIONS && i < s->count; i++) {
		enum outcome outcome =
			fill_option(ctx, p->l3, s, i << 16 | stays << 8 | hop_limit, tai);

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
	enum stack_reason reason;

	if (s->untidy || s->foreign || s->count > MAX_STACK_OPTIONS)
		return STACK_HEADERS;
	reason = find_path(ctx, p, path);
	if (reason)
		return reason;
	reason = find_out(p, path);
	if (reason || !COMPLETES)
		return reason;
	if (!p->out || !(p->out->roles & ROLE_EGRESS))
		return STACK_BOUNDARY;
	s->leaving = 1;
	s->egress_id = p->out->interface_id;
	s->egress_id_wide = p->out->interface_id_wide;
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
	e = begin_export(ROLE_TRANSIT, NODE.ifindex, path->ifindex, hop_limit);
	if (!e || find_flow(ctx, p->l3, s->length, TOLD_EITHER))
		return;
	if (s->export_types & DELAYED) {
		e->postcard.time = tai_now();
		e->postcard.delay = delay_of(tai, e->postcard.time);
	}
	export_options(ctx, p->l3, s);
}

static __always_inline void export_arrival(context *ctx, const struct packet *p,
					   const struct scan *s, __u32 hop_limit, __u64 tai,
					   enum removal removal)
{
	struct exporting *e = begin_export(ROLE_DECAPSULATING, NODE.ifindex, 0, hop_limit);

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
	int partial, removed, wanted, exported;
	__u32 hop_limit;
	__u64 tai = 0;

	if (!(NODE.roles & ROLE_INGRESS))
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
	if (ends_here(p, ip6, hbh[0], IPV6_HEADER + s->length))
		removal = REMOVE_TUNNEL;
	else if (s->removable)
		removal = REMOVE_INLINE;
	if (NODE.fast && removal == REMOVE_NOTHING)
		result.reason = find_transit_path(ctx, p, s, path);
	partial = removal == REMOVE_INLINE && (s->foreign || s->removable != s->count);
	removed = removal != REMOVE_NOTHING && !partial;
	exported = NODE.has_exports && s->export_types && are_records_wanted();
	wanted = removed && s->traces && are_records_wanted();
	hop_limit = (ip6->hop_limit - 1) & 0xff;
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
static __always_inline enum outcome bare_tunnel(context *ctx, struct packet *p, __u32 length)
{
	const struct ipv6 *ip6;
	const __u8 *hbh;

	if (!NODE.has_decapsulations)
		return OUTCOME_NO_IOAM;
	packet_pull(ctx, p, 2 * IPV6_HEADER + length);
	ip6 = at(p, 0, IPV6_HEADER);
	hbh = at(p, IPV6_HEADER, 8);
	if (!ip6 || !hbh ||
	    !ends_here(p, ip6, length ? hbh[0] : ip6->next_header, IPV6_HEADER + length))
		return OUTCOME_NO_IOAM;
	return remove_tunnel(ctx, p, IPV6_HEADER + length) ? OUTCOME_DECAP_FAILED
							   : OUTCOME_TUNNEL_DECAPSULATED;
}

static __always_inline struct result with_header(context *ctx, struct packet *p, struct path *path)
{
	struct result result = {.reason = STACK_HEADERS};
	struct scan s = {.egress_id = 0xffff, .egress_id_wide = UNAVAILABLE};

	result.outcome = open_header(ctx, p, &s);
	if (result.outcome != OUTCOME_NO_IOAM)
		return result;
	if (s.count)
		return with_options(ctx, p, &s, path);
	result.outcome = bare_tunnel(ctx, p, s.length);
	if (is_removed(result.outcome))
		result.reason = STACK_UNDECIDED;
	return result;
}

static __always_inline struct result ingress(context *ctx, struct packet *p, struct path *path)
{
	struct result result = {.reason = STACK_LINK};
	const struct ipv6 *ip6;

	if (packet_open(ctx, p))
		return result;
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6 || (bpf_ntohl(ip6->class_label) >> 28) != 6) {
		result.outcome = OUTCOME_MALFORMED_IPV6;
		return result;
	}
	if (ip6->next_header == NEXT_HBH)
		return with_header(ctx, p, path);
	result.outcome = ip6->next_header == NEXT_IPV6 ? bare_tunnel(ctx, p, 0) : OUTCOME_NO_IOAM;
	if (result.outcome != OUTCOME_DECAP_FAILED)
		result.reason = STACK_UNDECIDED;
	return result;
}

#endif
