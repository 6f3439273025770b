// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* An edge that strips IOAM from headers which hold more (docs/data-plane/edge.md). */
#ifndef WAYMARK_BOUNDARY_STRIP_H
#define WAYMARK_BOUNDARY_STRIP_H

#include "boundary_destination.h"
#include "extract.h"

/*
 * Removes options from a Hop-by-Hop header in which others stay: in the copy from which it is put together
 * anew, they are padding, wherever they lie and whatever is wrong with them. Bytes before the IPv6 header
 * are from bit 8 of the result on, packet.broken is bit 16. Not inlined: the stack is small.
 */
__noinline int strip_options(context *ctx, const struct options *o, const struct interface *on)
{
	struct packet packet = {.on = on}, *p = &packet;
	enum outcome outcome = OUTCOME_BOUNDARY_STRIP_PARTIAL;
	const struct ipv6 *ip6;
	struct extraction *x;
	int type;

	if (!o || !on)
		return outcome;
	p->l3 = o->l3;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	/* a jumbogram says its length in an option (RFC 2675) */
	if (!ip6 || !ip6->payload_length || o->length > EXTRACTED_HEADER)
		return outcome | (__u32)p->l3 << 8;
	x = begin_extraction(ctx, p, o->length);
	if (!x)
		return outcome | (__u32)p->l3 << 8;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++)
		if (o->stripped >> i & 1)
			x->header.bytes[(o->options[i].offset - IPV6_HEADER) & EXTRACTED_MASK] =
				OPTION_PADN;
	type = arrange_kept(x, o->length, 0);
	outcome = OUTCOME_BOUNDARY_STRIPPED;
	if (replace_headers(ctx, p, x, type))
		outcome = OUTCOME_DECAP_FAILED;
	return with_place(p, outcome);
}

/* Removes what was noted from the Destination Options header after `before` bytes of headers, if it can. */
static __always_inline int strip_destination(context *ctx, struct packet *p,
					     const struct edge_headers *e, __u32 before)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	__u32 payload, length = before + e->length;
	struct extraction *x;

	if (!ip6)
		return 0;
	payload = bpf_ntohs(ip6->payload_length);
	if (payload && length > payload)
		return 0;
	if (!before && !e->shared)
		return remove_header(ctx, p, length, e->next_header);
	if (!payload || length > EXTRACTED_HEADER)
		return 0;
	x = begin_extraction(ctx, p, length);
	if (!x)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < e->count; i++)
		x->header.bytes[(before + e->offsets[i]) & EXTRACTED_MASK] = OPTION_PADN;
	return replace_headers(ctx, p, x, arrange_kept(x, before, 1));
}

/*
 * Removes options from the Destination Options header that is the first header, or right after the
 * Hop-by-Hop header. The result is that of strip_options(). Not inlined: the stack is small.
 */
__noinline int strip_destinations(context *ctx, const struct interface *on, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff, .on = on}, *p = &packet;
	struct edge_headers *e = edge_headers_here();
	__u32 begin;
	int found;

	if (!on || !e || !NODE.strips)
		return with_place(p, OUTCOME_BOUNDARY_STRIP_PARTIAL);
	packet_load(ctx, p);
	if (find_behind(p, &begin) != NEXT_DESTINATION)
		return with_place(p, OUTCOME_BOUNDARY_STRIP_PARTIAL);
	found = scan_destination(ctx, on, l3, begin);
	packet_load(ctx, p);
	if (!(found & UNREADABLE) && found & FOUND_STRIP &&
	    strip_destination(ctx, p, e, begin - IPV6_HEADER))
		return with_place(p, OUTCOME_DECAP_FAILED);
	return with_place(p, OUTCOME_BOUNDARY_STRIPPED);
}

/* Whether options that are to be stripped are left in Destination Options headers. Not inlined: see there. */
__noinline int has_more_to_strip(context *ctx, const struct interface *on, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 first, begin;

	packet_load(ctx, p);
	first = find_behind(p, &begin);
	return read_destinations(ctx, on, l3, first, begin) & FOUND_STRIP;
}

#endif
