// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The export of a common header's Direct Export (common_header.h): what report_options() does with it. */
#ifndef WAYMARK_COMMON_EXPORT_H
#define WAYMARK_COMMON_EXPORT_H

#include "common_header.h"
#include "option/dex.h"

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
	/* in an skb, ports and flags of TCP may have to be pulled */
	if (PACKET_HAS_SUM && !at(p, inside, 14) && packet_length(ctx, p) > bytes_at_hand(p))
		return 0;
	headers.upper = inside;
	note_flow(p, ip6, &headers, d, start);
	d->postcard.length = packet_length(ctx, p) - start;
	note_segments(ctx, d);
	return 1;
}

/*
 * Notes the option and what is known of the packet, and returns the part of the flow's key that has
 * the upper layer's protocol as well: a load of two stores would wait for both.
 */
static __always_inline __u64 note_common_option(const struct ipv6 *ip6,
						const struct common_header *h,
						const __be32 *extension, struct draft *d)
{
	__u32 header = bpf_ntohl(h->option.word), sequence = 0;
	__u64 word = header & 0xffff0000;

	if (header & EXTENSION_FLOW_ID)
		word |= (__u64)bpf_ntohl(*extension++) << 32;
	if (header & EXTENSION_SEQUENCE)
		sequence = bpf_ntohl(*extension);
	*(__u64 *)&d->postcard.key.type =
		(bpf_ntohl(h->option.type) & 0xffffff00) | (header & 0xff);
	d->postcard.sequence = sequence;
	d->postcard.buffer = UNAVAILABLE;
	d->postcard.flags = header >> 8;
	d->postcard.hop_limit = ip6->hop_limit - 1;
	d->postcard.time = 0;
	d->postcard.delay = UNAVAILABLE;
	d->postcard.queue = UNAVAILABLE;
	return word;
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
	struct draft *d = draft_here();
	const struct ipv6 *ip6;
	const __be32 *extension;
	__u64 word;

	if (!on || !d)
		return 0;
	d->slot = on->slot;
	d->tables_index = on->tables_index;
	*(__u64 *)&d->postcard.key.ingress = on->ifindex | (__u64)egress << 32;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	h = at(p, IPV6_HEADER, sizeof(*h));
	extension = at(p, IPV6_HEADER + sizeof(*h), 8);
	if (!ip6 || !h || !extension)
		return 0;
	word = note_common_option(ip6, h, extension, d) | (role & 0xff) << 8;
	if (!note_common_flow(ctx, p, ip6, h, d))
		return 0;
	*(__u64 *)&d->postcard.key.next_header = word | d->postcard.key.next_header;
	ns = find_namespace(tables_of(d->tables_index), (__u32)word >> 16);
	if (!ns || ns->export == EXPORT_NONE)
		return 1;
	if (ns->export == EXPORT_EVERY || aggregate(d, ns))
		send_postcard(d);
	return 1;
}

/* Reports a common header's Direct Export if anyone wants that; zero if report_options() has to. */
static __always_inline int export_common(context *ctx, const struct packet *p, __u32 egress,
					 __u32 role)
{
	if (!NODE.has_postcards || !are_exports_wanted())
		return 1;
	return report_common(ctx, p->on, egress, role);
}

#endif
