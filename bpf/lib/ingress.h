// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ingress core: boundary, transit, decapsulation (docs/data-plane/ingress.md). */
#ifndef WAYMARK_INGRESS_H
#define WAYMARK_INGRESS_H

#include "bare.h"
#include "behaviour.h"
#include "boundary.h"
#include "common_removal.h"
#include "common_transit.h"
#include "pathmtu.h"
#include "probe.h"
#include "segments.h"
#include "tunnel_end.h"

/*
 * Removes the header, or the tunnel, as decided, and a Destination Options header that was found. Its
 * options are treated only if they are reported.
 */
static __always_inline enum outcome remove(context *ctx, struct packet *p, struct options *o,
					   struct hop *hop, enum disposition disposition, int found)
{
	__u32 length = o->length + E2E_LENGTH(found);
	struct recording rec = {};
	enum outcome outcome;
	int err;

	if (remove_options(ctx, p, o, hop, length,
			   disposition == LOSES_TUNNEL ? ABOUT_INNER : ABOUT_REST))
		record_begin(ctx, p, &rec, o->length);
	if (disposition == LOSES_TUNNEL) {
		outcome = OUTCOME_TUNNEL_DECAPSULATED;
		err = remove_tunnel(ctx, p, IPV6_HEADER + length);
	} else {
		outcome = OUTCOME_INLINE_REMOVED;
		err = remove_header(ctx, p, length, E2E_NEXT(found));
	}
	if (!err)
		measure_removed(ctx, p, disposition == LOSES_TUNNEL);
	if (!rec.held)
		return err ? OUTCOME_DECAP_FAILED : outcome;
	if (err) {
		bpf_ringbuf_discard(rec.record, BPF_RB_NO_WAKEUP);
		return OUTCOME_DECAP_FAILED;
	}
	record_end(ctx, p, &rec, outcome, hop->tai);
	return outcome;
}

static __always_inline int is_refused(enum outcome outcome)
{
	return (outcome >= OUTCOME_DECAP_REFUSED_SOURCE &&
		outcome <= OUTCOME_DECAP_REFUSED_INNER) ||
	       outcome == OUTCOME_MALFORMED_TUNNEL;
}

/*
 * Whether an interface may have to drop a packet, or to take IOAM out of it, given its first header after
 * the IPv6 header: only the egress hook does that, which packets meet after the stack, and in tc.
 */
static __always_inline int may_be_held(context *ctx, struct packet *p, const struct interface *out,
				       __u8 next, __u32 offset)
{
	return COMPLETES && out && filters_ioam(out, ROLE_EGRESS) && is_extension(next) &&
	       holds(ctx, out, p->l3, next, offset);
}

/* Whether a packet may get a header that marks it, and IOAM besides: only the egress hook does both. */
static __always_inline int must_meet_egress(const struct packet *p, __u8 next)
{
	return COMPLETES && may_get_mark(next) && p->out && p->out->insertion;
}

/* Whether a packet has a header that is read before a header is inserted: only the egress hook does that. */
static __always_inline int may_be_merged(const struct packet *p, __u8 next)
{
	return COMPLETES && NODE.inserts_inline && next == NEXT_DESTINATION && p->out &&
	       p->out->insertion;
}

/*
 * Finds the way out of a packet that is for a segment here, or gets segments, and makes it the packet
 * that leaves. Otherwise it is as it was.
 */
static __always_inline enum stack_reason find_segment_path(context *ctx, struct packet *p,
							   struct path *path)
{
	enum stack_reason reason = find_behaviour_path(ctx, p, path);
	const struct interface *out;
	__u32 offset;
	__u8 next;

	if (!reason)
		reason = find_out(p, path, &out);
	if (reason)
		return reason;
	next = departing_header(path, &offset);
	if (may_be_held(ctx, p, out, next, offset))
		return STACK_BOUNDARY;
	if (must_meet_egress(p, next))
		return STACK_MARKING;
	if (may_be_merged(p, next))
		return STACK_HEADERS;
	if (may_lack_room(ctx, p, path, may_get_mark(next)))
		return STACK_HEADROOM;
	reason = carry_out(ctx, path);
	packet_load(ctx, p);
	return reason;
}

/* Why a packet without IOAM, or with none any more, may not leave by an interface without its egress hook. */
static __always_inline enum stack_reason needs_egress(context *ctx, struct packet *p,
						      const struct interface *out, __u8 next)
{
	if (may_be_held(ctx, p, out, next, IPV6_HEADER))
		return STACK_BOUNDARY;
	if (must_meet_egress(p, next))
		return STACK_MARKING;
	return may_be_merged(p, next) ? STACK_HEADERS : STACK_NONE;
}

/* Finds the way out of a packet that has no IOAM, or none any more. */
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
	reason = find_path(ctx, p, path, SEARCH_ELSEWHERE);
	if (reason == STACK_LWTUNNEL)
		return find_segment_path(ctx, p, path);
	if (!reason)
		reason = find_out(p, path, &out);
	if (!reason)
		reason = needs_egress(ctx, p, out, next);
	if (reason)
		return reason;
	return NODE.measures && may_lack_room(ctx, p, path, may_get_mark(next)) ? STACK_HEADROOM
										: STACK_NONE;
}

/* What this node can say of a packet that it receives. */
static __always_inline struct hop hop_at_ingress(const struct interface *on, const struct ipv6 *ip6)
{
	struct hop hop = {
		.queue = UNAVAILABLE,
		.buffer = UNAVAILABLE,
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
	reason = find_transit_path(ctx, p, path, &out, SEARCH_CALLED);
	if (!reason && incremental_grows(o))
		reason = needs_stack_to_grow(ctx, p, o, path);
	if (!reason && COMPLETES && out) {
		hop->leaves = 1;
		hop->egress_id = out->interface_id;
		hop->egress_id_wide = out->interface_id_wide;
	}
	return reason;
}

/*
 * Whether the header must stay: it, or a Destination Options header that was found, holds an option
 * whose namespace stays, or one that a node on the way must know; or a second header would take its
 * place.
 */
static __always_inline int is_shared(const struct options *o, enum disposition disposition,
				     int found)
{
	if (disposition == LOSES_TUNNEL)
		return o->discards || found & E2E_DISCARDS;
	return o->foreign || E2E_NEXT(found) == NEXT_HBH || o->removable != o->count ||
	       found & E2E_SHARED;
}

/* Treats the proofs of a packet. Nonzero: it is dropped for them. */
static __always_inline int refuses_proofs(context *ctx, struct packet *p, struct options *o)
{
	if (!NODE.has_proofs || !o->has_proof)
		return 0;
	pot_ingress(ctx, o);
	packet_load(ctx, p);
	return o->refused;
}

static __always_inline struct result with_options(context *ctx, struct packet *p, struct options *o,
						  struct hop *hop, struct path *path)
{
	struct result result = {.reason = STACK_HEADERS};
	enum disposition disposition = GOES_ON;
	const struct ipv6 *ip6;
	enum outcome tunnel;
	const __u8 *hbh;
	__u8 next_header;
	int found;

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
	found = next_header;
	if (READS_E2E) {
		found = read_destination(ctx, p->l3, o->length, next_header, o->tables_index);
		packet_load(ctx, p);
		if (E2E_ERROR(found)) {
			result.outcome = E2E_ERROR(found);
			return result;
		}
		packet_pull(ctx, p, 2 * IPV6_HEADER + o->length + E2E_LENGTH(found));
		ip6 = at(p, 0, IPV6_HEADER);
		if (!ip6)
			return result;
	}
	*hop = hop_at_ingress(p->on, ip6);
	tunnel = find_tunnel(ctx, p, E2E_NEXT(found), o->length + E2E_LENGTH(found), o,
			     found & E2E_KNOWN);
	if (is_refused(tunnel)) {
		result.outcome = tunnel;
		return result;
	}
	o->in_tunnel = tunnel == OUTCOME_TUNNEL_DECAPSULATED;
	if (tunnel == OUTCOME_TUNNEL_DECAPSULATED)
		disposition = LOSES_TUNNEL;
	else if (o->removable || found & E2E_MARKED)
		disposition = LOSES_HEADER;
	else
		hop->stays = 1;
	if (READS_E2E && disposition == LOSES_HEADER && !(found & E2E_MARKED)) {
		forget_e2e(); /* that header stays */
		found = next_header;
	}
	if (refuses_proofs(ctx, p, o))
		disposition = DROPPED; /* its options are counted as if it went on */
	else if (NODE.fast && p->on->fast && hop->stays)
		result.reason = find_way_on(ctx, p, o, hop, path);
	join_ways(ctx, p);
	if (disposition != GOES_ON && disposition != DROPPED && !is_shared(o, disposition, found)) {
		result.outcome = remove(ctx, p, o, hop, disposition, found);
		if (is_removed(result.outcome))
			result.reason = STACK_NONE;
		return result;
	}
	if (disposition == LOSES_HEADER && is_extractable(p, o, found)) {
		result.outcome = extract(ctx, p, o, hop, found);
		return result;
	}
	ingress_options(ctx, p, o, hop, path);
	if (disposition == DROPPED)
		return dropped(OUTCOME_POT_DROPPED);
	result.outcome = o->outcome;
	if (hop->leaves)
		result.completed = o->completed;
	if (disposition != GOES_ON)
		result.outcome = OUTCOME_REMOVAL_PARTIAL;
	return result;
}

static __always_inline struct result with_other_header(context *ctx, struct packet *p,
						       struct options *o, struct path *path)
{
	struct result result = {.reason = STACK_HEADERS};
	struct hop hop = {};

	result.outcome = open_header(ctx, p, o);
	if (result.outcome != OUTCOME_NO_IOAM)
		return drops_ioam(p, ROLE_INGRESS) ? dropped(OUTCOME_BOUNDARY_UNPROVEN_DROPPED)
						   : result;
	if (!(p->on->roles & ROLE_INGRESS)) {
		result = at_edge_opened(ctx, p, o, ROLE_INGRESS);
		if (result.outcome != OUTCOME_NO_IOAM)
			return result;
	}
	if (o->count) {
		if (may_be_copy(o) && take_copy(ctx, o, p->on)) {
			result.outcome = OUTCOME_LOOPBACK_RECEIVED;
			result.disposition = DROPPED;
			return result;
		}
		result = with_options(ctx, p, o, &hop, path);
		result.options = o->outcome;
		if (may_be_probe(o) && ends_probe(o, result.outcome)) {
			report_probe(ctx, o, p->on, &hop, result.outcome);
			result.outcome = OUTCOME_ACTIVE_TERMINATED;
			result.disposition = DROPPED;
		}
		return result;
	}
	result.reason = STACK_HEADERS;
	result.outcome = without_options(ctx, p, o, o->length, NEXT_HBH);
	if (is_removed(result.outcome))
		result.reason = STACK_NONE;
	return result;
}

_Static_assert(NUM_STACK_REASONS <= WAY_IS_PLAIN, "next hops have seven bits for a reason");
_Static_assert(NUM_OUTCOMES <= 256 && NUM_STACK_REASONS <= 256, "forget_way() has a byte for each");

/*
 * Keeps the verifier from going through all that follows once for each way to the result: it assumes
 * that a value read from a map may be any value.
 */
static __always_inline void forget_way(context *ctx, struct packet *p, struct options *o,
				       struct result *result)
{
	volatile __u64 *found = &o->found;
	__u64 word;

	*found = result->outcome | result->options << 8 | result->completed << 16 |
		 (__u64)result->disposition << 24 | (__u64)result->reason << 32 |
		 (__u64)p->l3 << 40 | (__u64)p->broken << 48;
	word = *found;
	result->outcome = word & 0xff;
	result->options = word >> 8 & 0xff;
	result->completed = word >> 16 & 0xff;
	result->disposition = word >> 24 & 0xff;
	result->reason = word >> 32 & 0xff;
	p->l3 = word >> 40;
	p->broken = word >> 48;
	packet_load(ctx, p);
}

static __always_inline struct result with_header(context *ctx, struct packet *p, struct path *path)
{
	struct result result = {.reason = STACK_HEADERS};
	struct options *o;

	if (p->on->roles & ROLE_INGRESS &&
	    (common_transit(ctx, p, path, &result, 0) || common_removal(ctx, p, &result)))
		return result;
	join_ways(ctx, p);
	o = begin_options();
	if (!o)
		return result;
	result = with_other_header(ctx, p, o, path);
	forget_way(ctx, p, o, &result);
	return result;
}

/* Whether a packet without a Hop-by-Hop header may have more to it than a router looks at. */
static __always_inline int may_concern_us(const struct packet *p, __u8 next)
{
	if (!is_among(next, EXTENSIONS | 1ULL << NEXT_ICMPV6 | 1ULL << NEXT_IPV6))
		return 0;
	if ((filters_ioam(p->on, ROLE_INGRESS) || drops_ioam(p, ROLE_INGRESS)) &&
	    is_extension(next))
		return 1;
	if (NODE.inserts_inline && next == NEXT_ICMPV6)
		return 1;
	return next == NEXT_IPV6 || (READS_E2E && next == NEXT_DESTINATION);
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
	if (filters_ioam(p->on, ROLE_INGRESS) && is_extension(next)) {
		result = at_edge(ctx, p, 0, ROLE_INGRESS);
		if (result.outcome != OUTCOME_NO_IOAM)
			return result;
	}
	if (NODE.inserts_inline && next == NEXT_ICMPV6) {
		learn_too_big(ctx, p->l3);
		packet_load(ctx, p);
	}
	result.reason = STACK_HEADERS;
	if (next == NEXT_IPV6 || (READS_E2E && next == NEXT_DESTINATION))
		result.outcome = without_options(ctx, p, 0, 0, next);
	if (result.outcome == OUTCOME_NO_IOAM || is_removed(result.outcome) ||
	    result.outcome == OUTCOME_OPTIONS_REMOVED)
		result.reason = STACK_NONE;
	return result;
}

#endif
