// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The end of a tunnel with a common header (common_header.h): what with_options() does with it. */
#ifndef WAYMARK_COMMON_REMOVAL_H
#define WAYMARK_COMMON_REMOVAL_H

#include "common_export.h"
#include "common_header.h"
#include "hook.h"
#include "tracedelays.h"
#include "tunnel_end.h"

/* What judge_common() found, besides the length of the header. */
#define COMMON_ENDS    0x10000 /* the packet's tunnel ends here */
#define COMMON_REPORTS 0x20000 /* and its Direct Export is reported */
#define COMMON_TIMES   0x40000 /* and its trace may have times */

/*
 * Judges the tunnel of an untagged packet; zero where with_options() has to. Not inlined: the stack is
 * small.
 */
__noinline int judge_common(context *ctx, const struct interface *on)
{
	struct packet packet = {.l3 = ETHERNET_HEADER, .on = on}, *p = &packet;
	const struct ioam_namespace *ns;
	const struct common_header *h;
	const struct ipv6 *ip6;
	__u32 length, found;

	if (!on)
		return 0;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	h = at(p, IPV6_HEADER, sizeof(*h));
	if (!ip6 || !h || (!is_common_trace(p, ip6, h) && !is_common_export(p, ip6, h)))
		return 0;
	ns = find_namespace(tables_of(on->tables_index), bpf_ntohl(h->option.word) >> 16);
	if (!ns)
		return 0;
	length = ((__u32)h->length + 1) << 3;
	found = COMMON_ENDS | length;
	if (h->option.ioam_type != IOAM_DEX) {
		if (are_records_wanted())
			return 0;
	} else if (NODE.has_postcards && ns->export && are_exports_wanted()) {
		found |= COMMON_REPORTS;
	}
	if (NODE.has_delays && h->option.ioam_type != IOAM_DEX && bpf_ntohl(h->option.type) & TIMES)
		found |= COMMON_TIMES;
	return find_tunnel(ctx, p, NEXT_IPV6, length, 0, 1) == OUTCOME_TUNNEL_DECAPSULATED ? found
											   : 0;
}

/*
 * Cuts off the tunnel with a header of a length, as judge_common() found it, and counts its delays. Not
 * inlined: the stack is small.
 */
__noinline int remove_common(context *ctx, __u32 length)
{
	struct packet packet = {.l3 = ETHERNET_HEADER}, *p = &packet;

	if (NODE.has_delays && length & COMMON_TIMES)
		note_trace(ctx, TRACE_AT(ETHERNET_HEADER, IPV6_HEADER + 4), tai_now());
	packet_load(ctx, p);
	return remove_tunnel(ctx, p, IPV6_HEADER + (length & 0xfff));
}

/* Takes a packet with a common header out of the tunnel that ends here; zero where with_options() has to. */
static __always_inline int common_removal(context *ctx, struct packet *p, struct result *result)
{
	const __u8 *hbh = at(p, IPV6_HEADER, 8);
	int found;

	if (!NODE.has_decapsulations || !hbh || hbh[0] != NEXT_IPV6 || p->l3 != ETHERNET_HEADER)
		return 0;
	found = judge_common(ctx, p->on);
	if (found & COMMON_REPORTS && !report_common(ctx, p->on, 0, NODE_DECAPSULATING))
		found = 0;
	if (found) {
		result->outcome = OUTCOME_DECAP_FAILED;
		if (found & COMMON_REPORTS)
			result->options = OUTCOME_DIRECT_EXPORT;
		if (!remove_common(ctx, found)) {
			result->outcome = OUTCOME_TUNNEL_DECAPSULATED;
			result->reason = STACK_NONE;
		}
	}
	packet_load(ctx, p);
	return found;
}

#endif
