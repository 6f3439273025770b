// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What both hooks share: opening the Hop-by-Hop header, removing it, the domain's edge. */
#ifndef WAYMARK_BOUNDARY_H
#define WAYMARK_BOUNDARY_H

#include "trace.h"

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

/* IOAM where it must not pass (RFC 9197 §4.1: no leak from the domain). */
static __always_inline struct result at_boundary(context *ctx, struct packet *p,
						 const struct scan *s)
{
	struct result result = {.reason = STACK_BOUNDARY};

	if (NODE.boundary == BOUNDARY_IGNORE) {
		result.outcome = OUTCOME_BOUNDARY_IGNORED;
	} else if (NODE.boundary == BOUNDARY_DROP) {
		result.outcome = OUTCOME_BOUNDARY_DROPPED;
		result.drop = 1;
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
