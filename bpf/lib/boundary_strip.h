// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* An edge that strips a header in which others have options, too (docs/data-plane.md, "The domain's edge"). */
#ifndef WAYMARK_BOUNDARY_STRIP_H
#define WAYMARK_BOUNDARY_STRIP_H

#include "extract.h"

/*
 * Removes all IOAM options from such a header: in the copy from which it is put together anew, they are
 * padding, wherever they lie and whatever is wrong with them. Bytes before the IPv6 header are from bit 8 of
 * the result on, packet.broken is bit 16. Not inlined: the stack is small.
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
		x->header.bytes[(o->options[i].offset - IPV6_HEADER) & EXTRACTED_MASK] =
			OPTION_PADN;
	type = arrange_kept(x, o->length, 0);
	outcome = OUTCOME_BOUNDARY_STRIPPED;
	if (replace_headers(ctx, p, x, type))
		outcome = OUTCOME_DECAP_FAILED;
	return with_place(p, outcome);
}

#endif
