// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The export of a common header's Direct Export (common_header.h): what report_options() does with it. */
#ifndef WAYMARK_COMMON_EXPORT_H
#define WAYMARK_COMMON_EXPORT_H

#include "common_header.h"
#include "option/dex.h"

/* A common header's Direct Export, and what Extension-Flags announce. */
struct common_values {
	__u32 header;
	__u32 type;
	__u32 flow_id;
	__u32 sequence;
};

static __always_inline struct common_values values_of(const struct common_header *h,
						      const __be32 *extension)
{
	struct common_values v = {.header = bpf_ntohl(h->word), .type = bpf_ntohl(h->type)};

	if (v.header & EXTENSION_FLOW_ID)
		v.flow_id = bpf_ntohl(*extension++);
	if (v.header & EXTENSION_SEQUENCE)
		v.sequence = bpf_ntohl(*extension);
	return v;
}

/*
 * Notes the flow as find_flow() does, and its length; zero where other headers come before the upper
 * layer.
 */
static __always_inline int note_common_flow(context *ctx, const struct packet *p,
					    const struct ipv6 *ip6, const struct common_header *h,
					    struct draft *d)
{
	__u32 start = ((__u32)h->length + 1) << 3, inside = IPV6_HEADER + start;
	const struct ipv6 *inner = at(p, inside, IPV6_HEADER);
	struct headers headers = {.next_header = h->next_header};

	if (h->next_header == NEXT_IPV6 && inner && bpf_ntohl(inner->class_label) >> 28 == 6) {
		headers.next_header = inner->next_header;
		ip6 = inner;
		start = inside;
		inside += IPV6_HEADER;
	}
	if (is_extension(headers.next_header))
		return 0;
	headers.upper = inside;
	note_flow(p, ip6, &headers, d, start);
	d->postcard.length = packet_length(ctx, p) - start;
	note_segments(ctx, d);
	return 1;
}

/*
 * Reports the Direct Export of an untagged packet, with no delay; zero if report_options() has to.
 * Not inlined: see scan_options().
 */
__noinline int report_common(context *ctx, const struct interface *on, __u32 egress, __u32 role)
{
	struct packet packet = {.l3 = ETHERNET_HEADER}, *p = &packet;
	const struct common_header *h;
	const struct ioam_namespace *ns;
	struct common_values v;
	struct draft *d = draft_here();
	const struct ipv6 *ip6;
	const __be32 *extension;
	__u64 *key;

	if (!on || !d)
		return 0;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	h = at(p, IPV6_HEADER, sizeof(*h));
	extension = at(p, IPV6_HEADER + sizeof(*h), 8);
	if (!ip6 || !h || !extension || !note_common_flow(ctx, p, ip6, h, d))
		return 0;
	v = values_of(h, extension);
	ns = find_namespace(tables_of(on->half), v.header >> 16);
	if (!ns || ns->export == EXPORT_NONE)
		return 1;
	key = (__u64 *)&d->postcard.key;
	key[5] = d->postcard.key.next_header | role << 8 | (v.header & 0xffff0000) |
		 (__u64)v.flow_id << 32;
	key[6] = on->ifindex | (__u64)egress << 32;
	key[7] = (v.type & 0xffffff00) | (v.header & 0xff);
	d->slot = on->slot;
	d->half = on->half;
	d->postcard.sequence = v.sequence;
	d->postcard.time = 0;
	d->postcard.hop_limit = ip6->hop_limit - 1;
	d->postcard.flags = v.header >> 8;
	d->postcard.delay = UNAVAILABLE;
	d->postcard.queue = UNAVAILABLE;
	if (ns->export == EXPORT_EVERY || aggregate(d, ns))
		send_postcard(d);
	return 1;
}

/* Reports a common header's Direct Export if anyone wants that; zero if report_options() has to. */
static __always_inline int export_common(context *ctx, const struct packet *p, __u32 egress,
					 __u32 role)
{
	if (!NODE.has_postcards || !are_records_wanted())
		return 1;
	return report_common(ctx, p->on, egress, role);
}

#endif
