// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The Hop-by-Hop header: opening it, and removing headers. */
#ifndef WAYMARK_HBH_H
#define WAYMARK_HBH_H

#include "context.h"
#include "options.h"

/* Finds the Hop-by-Hop header and its options; anything but OUTCOME_NO_IOAM is an error. */
static __always_inline enum outcome open_header(context *ctx, struct packet *p, struct options *o)
{
	const struct ipv6 *ip6;
	const __u8 *hbh;
	__u32 payload;

	packet_pull(ctx, p, IPV6_HEADER + 8);
	ip6 = at(p, 0, IPV6_HEADER);
	hbh = at(p, IPV6_HEADER, 8);
	if (!ip6 || !hbh)
		return OUTCOME_MALFORMED_HEADER;
	o->length = ((__u32)hbh[1] + 1) << 3;
	o->tables_index = p->on->tables_index;
	o->l3 = p->l3;
	payload = bpf_ntohs(ip6->payload_length);
	if (payload && o->length > payload)
		return OUTCOME_MALFORMED_HEADER;
	packet_pull(ctx, p, IPV6_HEADER + o->length);
	if (p->ip6 + IPV6_HEADER + (o->length & 0xfff) > p->end)
		return OUTCOME_MALFORMED_HEADER;
	if (is_common(p, o)) {
		/* the first, said as a constant: Linux 6.1 loses sight of numbers that are spilled */
		note_option(ctx, p, o, 0, IPV6_HEADER + 4);
		return OUTCOME_NO_IOAM;
	}
	return scan_traces(ctx, p->l3, o) ? OUTCOME_NO_IOAM : scan_options(ctx, p->l3, o);
}

/*
 * Cuts `length` bytes of headers after the IPv6 header out, before one of a given type; the IPv6 header
 * is made to say so.
 */
static __always_inline int remove_header(context *ctx, struct packet *p, __u32 length, __u32 next)
{
	struct ipv6 *ip6;
	__u32 payload;

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

#endif
