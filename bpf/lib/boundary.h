// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What both hooks share: opening packet and Hop-by-Hop header, removing it, the domain's edge. */
#ifndef WAYMARK_BOUNDARY_H
#define WAYMARK_BOUNDARY_H

#include "counters.h"
#include "trace.h"
#include "upper.h"

/* Without IOAM, or without it by now: the way out has not been looked for yet. */
#define STACK_UNDECIDED NUM_STACK_REASONS

struct result {
	enum outcome outcome;
	int drop;
	/* of the options, where the way out was known when they were filled: as completed */
	enum outcome completed;
	/* STACK_NONE: the packet may be forwarded here; else why not */
	enum stack_reason reason;
};

/* Whether this hook is an edge that drops: what it passes is proven to be free of IOAM. */
#define DROPS_IOAM(p, role) (NODE.has_edges && (p)->on->roles & (role) << EDGE_SHIFT)

/*
 * Begins a run: it keeps to the tables that it finds now. Zero where the interface is not served, or
 * not yet.
 */
static __always_inline int begin(context *ctx, struct packet *p)
{
	p->on = find_interface(tables_of(STATE.current), ifindex_here(ctx));
	return p->on && !p->on->is_master;
}

/* Finds the IPv6 header; anything but OUTCOME_NO_IOAM ends the packet's treatment. */
static __always_inline enum outcome open_packet(context *ctx, struct packet *p, enum role role,
						const struct ipv6 **found)
{
	const struct ipv6 *ip6;

	if (packet_open(ctx, p))
		return DROPS_IOAM(p, role) && is_buried(p) ? OUTCOME_BOUNDARY_UNPROVEN_DROPPED
							   : OUTCOME_NOT_IPV6;
	ip6 = at(p, 0, IPV6_HEADER);
	*found = ip6;
	if (ip6 && (bpf_ntohl(ip6->class_label) >> 28) == 6)
		return OUTCOME_NO_IOAM;
	/* out of reach, but there */
	if (DROPS_IOAM(p, role) && !ip6 && packet_length(ctx, p) >= IPV6_HEADER)
		return OUTCOME_BOUNDARY_UNPROVEN_DROPPED;
	return OUTCOME_MALFORMED_IPV6;
}

/* Finds the Hop-by-Hop header and its options; anything but OUTCOME_NO_IOAM is a fault. */
static __always_inline enum outcome open_header(context *ctx, struct packet *p, struct scan *s)
{
	const struct ipv6 *ip6;
	const __u8 *hbh;
	__u32 payload;

	packet_pull(ctx, p, IPV6_HEADER + 8);
	ip6 = at(p, 0, IPV6_HEADER);
	hbh = at(p, IPV6_HEADER, 8);
	if (!ip6 || !hbh)
		return OUTCOME_MALFORMED_HEADER;
	s->length = ((__u32)hbh[1] + 1) << 3;
	s->half = p->on->half;
	s->l3 = p->l3;
	payload = bpf_ntohs(ip6->payload_length);
	if (payload && s->length > payload)
		return OUTCOME_MALFORMED_HEADER;
	packet_pull(ctx, p, IPV6_HEADER + s->length);
	if (p->ip6 + IPV6_HEADER + (s->length & 0xfff) > p->end)
		return OUTCOME_MALFORMED_HEADER;
	if (is_common(p, s)) {
		note_option(p, s, IPV6_HEADER + 4);
		return OUTCOME_NO_IOAM;
	}
	return scan_options(ctx, p->l3, s);
}

/* Cuts the Hop-by-Hop header out; the IPv6 header is made to say so. */
static __always_inline int remove_header(context *ctx, struct packet *p, __u32 length)
{
	struct ipv6 *ip6;
	const __u8 *hbh = at(p, IPV6_HEADER, 8);
	__u32 next, payload;

	if (!hbh)
		return -1;
	next = hbh[0];
	packet_commit_sum(ctx, p);
	if (packet_remove(ctx, p, IPV6_HEADER, length))
		return -1;
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return -1;
	payload = bpf_ntohs(ip6->payload_length);
	if (payload) {
		payload -= length;
	} else {
		payload = packet_length(ctx, p) - IPV6_HEADER;
		if (payload > 0xffff)
			payload = 0;
	}
	put32(p, (__be32 *)&ip6->payload_length,
	      bpf_htonl(payload << 16 | next << 8 | ip6->hop_limit));
	packet_commit_sum(ctx, p);
	return 0;
}

/* Whether headers after the first Hop-by-Hop header may hide another: see may_hide_hbh(). */
static __always_inline int is_followed(context *ctx, struct packet *p, const struct scan *s)
{
	const __u8 *hbh = at(p, IPV6_HEADER, 8);

	return !hbh || may_hide_hbh(ctx, p, hbh[0], IPV6_HEADER + s->length);
}

/* Whether a packet, as its header was opened, may hold IOAM that was not found. */
static __always_inline int is_unproven(context *ctx, struct packet *p, const struct scan *s,
				       enum outcome opened)
{
	return opened != OUTCOME_NO_IOAM || (!s->count && is_followed(ctx, p, s));
}

static __always_inline struct result drop_unproven(void)
{
	struct result result = {
		.outcome = OUTCOME_BOUNDARY_UNPROVEN_DROPPED, .drop = 1, .reason = STACK_BOUNDARY};

	return result;
}

/* IOAM where it must not pass (RFC 9197 §4.1: no leak from the domain). */
static __always_inline struct result at_boundary(context *ctx, struct packet *p,
						 const struct scan *s)
{
	struct result result = {.reason = STACK_BOUNDARY};

	if (p->on->boundary == BOUNDARY_IGNORE) {
		result.outcome = OUTCOME_BOUNDARY_IGNORED;
	} else if (p->on->boundary == BOUNDARY_DROP) {
		result.outcome = OUTCOME_BOUNDARY_DROPPED;
		result.drop = 1;
	} else if (is_followed(ctx, p, s)) {
		return drop_unproven();
	} else if (s->foreign) {
		result.outcome = OUTCOME_BOUNDARY_STRIP_PARTIAL;
	} else if (remove_header(ctx, p, s->length)) {
		result.outcome = OUTCOME_DECAP_FAILED;
	} else {
		result.outcome = OUTCOME_BOUNDARY_STRIPPED;
		result.reason = STACK_UNDECIDED;
	}
	return result;
}

#endif
