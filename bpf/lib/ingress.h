// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ingress core: boundary, transit, decapsulation (docs/data-plane.md, "Ingress"). */
#ifndef WAYMARK_INGRESS_H
#define WAYMARK_INGRESS_H

#include "boundary.h"
#include "common_removal.h"
#include "common_transit.h"
#include "pathmtu.h"
#include "record.h"
#include "tunnel_end.h"

/* Removes the header, or the tunnel, as decided. Its options are treated only if they are reported. */
static __always_inline enum outcome remove(context *ctx, struct packet *p, struct options *o,
					   struct hop *hop, enum disposition disposition)
{
	struct recording rec = {};
	enum outcome outcome;
	int err;

	if (remove_options(ctx, p, o, hop, disposition == LOSES_TUNNEL ? ABOUT_INNER : ABOUT_REST))
		record_begin(ctx, p, &rec, o->length);
	if (disposition == LOSES_TUNNEL) {
		outcome = OUTCOME_TUNNEL_DECAPSULATED;
		err = remove_tunnel(ctx, p, IPV6_HEADER + o->length);
	} else {
		outcome = OUTCOME_INLINE_REMOVED;
		err = remove_header(ctx, p, o->length);
	}
	if (!rec.held)
		return err ? OUTCOME_DECAP_FAILED : outcome;
	if (err) {
		bpf_ringbuf_discard(rec.record, BPF_RB_NO_WAKEUP);
		return OUTCOME_DECAP_FAILED;
	}
	record_end(ctx, p, &rec, outcome, hop->tai);
	return outcome;
}

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

/* Finds the way out of a packet that has no IOAM, or none any more. */
static __always_inline enum stack_reason find_plain_path(context *ctx, struct packet *p,
							 struct path *path)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	const struct interface *out;
	enum stack_reason reason;

	if (!ip6 || ip6->next_header == NEXT_HBH)
		return STACK_HEADERS;
	reason = find_path(ctx, p, path, 1);
	if (reason)
		return reason;
	reason = find_out(p, path, &out);
	if (reason || !out || out->roles & ROLE_EGRESS)
		return reason;
	/* only the egress hook, after the stack, looks for IOAM that other headers hide */
	ip6 = at(p, 0, IPV6_HEADER);
	return ip6 && !is_extension(ip6->next_header) ? STACK_NONE : STACK_BOUNDARY;
}

/* What this node can say of a packet that it receives. */
static __always_inline struct hop hop_at_ingress(const struct interface *on, const struct ipv6 *ip6)
{
	struct hop hop = {
		.queue = UNAVAILABLE,
		.ingress_id_wide = on->interface_id_wide,
		.egress_id_wide = UNAVAILABLE,
		.ingress_id = on->interface_id,
		.egress_id = 0xffff,
		.hop_limit = ip6->hop_limit - 1, /* as when it leaves (RFC 9197 §4.4.2.1) */
	};

	return hop;
}

/* Whether a packet with this header may go on without the stack; then its way out is found. */
static __always_inline enum stack_reason find_way_on(context *ctx, struct packet *p,
						     const struct options *o, struct hop *hop,
						     struct path *path)
{
	const struct interface *out;
	enum stack_reason reason;

	if (o->untidy || o->foreign || o->count > NODE.stack_options)
		return STACK_HEADERS;
	reason = find_transit_path(ctx, p, path, &out, 0);
	if (!reason && COMPLETES && out) {
		hop->leaves = 1;
		hop->egress_id = out->interface_id;
		hop->egress_id_wide = out->interface_id_wide;
	}
	return reason;
}

/*
 * Whether the header must stay: it holds an option whose namespace stays, or one that a node on the
 * way must know, or a second header would take its place.
 */
static __always_inline int is_shared(const struct options *o, enum disposition disposition,
				     __u8 next_header)
{
	if (disposition == LOSES_TUNNEL)
		return o->discards;
	return o->foreign || next_header == NEXT_HBH || o->removable != o->count;
}

static __always_inline struct result with_options(context *ctx, struct packet *p, struct options *o,
						  struct path *path)
{
	struct result result = {.reason = STACK_HEADERS};
	enum disposition disposition = GOES_ON;
	const struct ipv6 *ip6;
	enum outcome tunnel;
	const __u8 *hbh;
	__u8 next_header;
	struct hop hop;

	if (!(p->on->roles & ROLE_INGRESS))
		return at_boundary(ctx, p, o);
	if (o->error) {
		result.outcome = o->error;
		if (NODE.mainline)
			result.disposition = DROPPED;
		return result;
	}
	packet_pull(ctx, p, 2 * IPV6_HEADER + o->length);
	ip6 = at(p, 0, IPV6_HEADER);
	hbh = at(p, IPV6_HEADER, 8);
	if (!ip6 || !hbh)
		return result;
	next_header = hbh[0];
	hop = hop_at_ingress(p->on, ip6);
	tunnel = find_tunnel(ctx, p, next_header, o->length, o, 0);
	if (is_refused(tunnel)) {
		result.outcome = tunnel;
		return result;
	}
	if (tunnel == OUTCOME_TUNNEL_DECAPSULATED)
		disposition = LOSES_TUNNEL;
	else if (o->removable)
		disposition = LOSES_HEADER;
	else
		hop.stays = 1;
	if (NODE.fast && p->on->fast && hop.stays)
		result.reason = find_way_on(ctx, p, o, &hop, path);
	if (disposition != GOES_ON && !is_shared(o, disposition, next_header)) {
		result.outcome = remove(ctx, p, o, &hop, disposition);
		if (is_removed(result.outcome))
			result.reason = STACK_NONE;
		return result;
	}
	ingress_options(ctx, p, o, &hop, path->ifindex);
	result.outcome = o->outcome;
	if (hop.leaves)
		result.completed = o->completed;
	if (disposition != GOES_ON)
		result.outcome = OUTCOME_REMOVAL_PARTIAL;
	return result;
}

/* Takes a packet without IOAM out of the tunnel that ends here, if one does; without a record. */
static __always_inline enum outcome bare_tunnel(context *ctx, struct packet *p,
						const struct options *o, __u32 length)
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
	outcome = find_tunnel(ctx, p, length ? hbh[0] : ip6->next_header, length, o, 0);
	if (outcome != OUTCOME_TUNNEL_DECAPSULATED)
		return outcome;
	if (o && o->discards)
		return OUTCOME_REMOVAL_PARTIAL;
	return remove_tunnel(ctx, p, IPV6_HEADER + length) ? OUTCOME_DECAP_FAILED : outcome;
}

static __always_inline struct result with_header(context *ctx, struct packet *p, struct path *path)
{
	struct result result = {.reason = STACK_HEADERS};
	struct options o = {};

	if (p->on->roles & ROLE_INGRESS &&
	    (common_transit(ctx, p, path, &result) || common_removal(ctx, p, &result)))
		return result;
	result.outcome = open_header(ctx, p, &o);
	if (drops_ioam(p, ROLE_INGRESS) && is_unproven(ctx, p, &o, result.outcome))
		return dropped(OUTCOME_BOUNDARY_UNPROVEN_DROPPED);
	if (result.outcome != OUTCOME_NO_IOAM)
		return result;
	if (o.count) {
		result = with_options(ctx, p, &o, path);
		result.options = o.outcome;
		return result;
	}
	result.outcome = bare_tunnel(ctx, p, &o, o.length);
	if (is_removed(result.outcome))
		result.reason = STACK_NONE;
	return result;
}

/* Treats a packet. Its way out is in *path if it is known. */
static __always_inline struct result ingress(context *ctx, struct packet *p, struct path *path)
{
	struct result result = {.reason = STACK_LINK};
	const struct ipv6 *ip6;
	__u8 next;

	result.outcome = open_packet(ctx, p, ROLE_INGRESS, &ip6);
	if (result.outcome == OUTCOME_BOUNDARY_UNPROVEN_DROPPED)
		result.disposition = DROPPED;
	if (result.outcome != OUTCOME_NO_IOAM)
		return result;
	next = ip6->next_header;
	if (is_guarded_tunnel(ctx, p))
		return dropped(OUTCOME_BOUNDARY_TUNNEL_DROPPED);
	if (next == NEXT_HBH)
		return with_header(ctx, p, path);
	if (drops_ioam(p, ROLE_INGRESS) && may_hide_hbh(ctx, p, next, IPV6_HEADER))
		return dropped(OUTCOME_BOUNDARY_UNPROVEN_DROPPED);
	if (NODE.inserts_inline && next == NEXT_ICMPV6) {
		learn_too_big(ctx, p->l3);
		packet_load(ctx, p);
	}
	result.reason = STACK_HEADERS;
	if (next == NEXT_IPV6)
		result.outcome = bare_tunnel(ctx, p, 0, 0);
	if (result.outcome == OUTCOME_NO_IOAM || is_removed(result.outcome))
		result.reason = STACK_NONE;
	return result;
}

#endif
