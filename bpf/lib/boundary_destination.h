// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What an edge finds behind the first header of a packet: IOAM in Destination Options headers. */
#ifndef WAYMARK_BOUNDARY_DESTINATION_H
#define WAYMARK_BOUNDARY_DESTINATION_H

#include "boundary_policy.h"
#include "headers.h"

/* The headers of the packet at hand that an edge reads, of one CPU. */
struct edge_headers {
	__u32 cursor; /* the next option, from the IPv6 header */
	__u32 begin;  /* the next header */
	__u32 next;   /* its type */
	__u32 found;  /* enum edge_found, of one header */
	__u32 ioam;   /* its IOAM options */
	__u32 count;  /* of offsets[] */
	__u32 length;
	__u8 next_header;
	__u8 shared; /* it has other options than those that are to be stripped */
	/* of what is to be stripped, from the header's first byte */
	__u16 offsets[MAX_IOAM_OPTIONS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct edge_headers);
} edge_headers_at_hand SEC(".maps");

static __always_inline struct edge_headers *edge_headers_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&edge_headers_at_hand, &zero);
}

/* Notes an option; nonzero when there are too many. */
static __always_inline int note_edge_option(const struct packet *p, struct edge_headers *e,
					    __u32 offset, __u32 begin)
{
	__u32 policy = policy_at(p, offset), slot = e->count;

	if (e->ioam >= MAX_IOAM_OPTIONS)
		return -1;
	e->ioam++;
	e->found |= 1U << policy;
	if (policy != BOUNDARY_STRIP) {
		e->shared = 1;
		return 0;
	}
	if (slot >= MAX_IOAM_OPTIONS)
		return -1;
	e->offsets[slot] = offset - begin;
	e->count = slot + 1;
	return 0;
}

/*
 * Reads a Destination Options header at an offset: the policies of its IOAM options, or UNREADABLE. Not
 * inlined: see scan_options(), which reads a Hop-by-Hop header in the same way.
 */
__noinline int scan_destination(context *ctx, const struct interface *on, __u32 l3, __u32 begin)
{
	struct packet packet = {.l3 = l3 & 0xff, .on = on}, *p = &packet;
	struct edge_headers *e = edge_headers_here();
	const __u8 *header;
	__u32 end;

	if (!on || !e)
		return UNREADABLE;
	packet_load(ctx, p);
	begin &= 0xfff;
	header = at(p, begin, 8);
	if (!header)
		return UNREADABLE;
	e->next_header = header[0];
	e->length = ((__u32)header[1] + 1) << 3;
	e->cursor = begin + 2;
	e->found = 0;
	e->ioam = 0;
	e->count = 0;
	e->shared = 0;
	end = begin + e->length;
	if (!at(p, end - 8, 8))
		return UNREADABLE;
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_OPTIONS; i++) {
		__u32 offset = e->cursor, type, length;
		const __u8 *option;

		if (offset >= end)
			return e->found;
		option = at(p, offset, 1);
		if (!option)
			return UNREADABLE;
		type = option[0];
		if (type == OPTION_PAD1) {
			e->cursor = offset + 1;
			continue;
		}
		option = at(p, offset, 2);
		if (!option || offset + 2 > end)
			return UNREADABLE;
		length = option[1];
		if (offset + 2 + length > end)
			return UNREADABLE;
		e->cursor = offset + 2 + length;
		if (type == OPTION_PADN)
			continue;
		if (!is_ioam(p, offset, type, length))
			e->shared = 1;
		else if (note_edge_option(p, e, offset, begin))
			return UNREADABLE;
	}
	return e->cursor < end ? UNREADABLE : e->found;
}

/*
 * Reads the Destination Options headers from a header on, as far as walk_headers() goes. Not inlined: see
 * scan_options().
 */
__noinline int read_destinations(context *ctx, const struct interface *on, __u32 l3, __u32 first,
				 __u32 begin)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct edge_headers *e = edge_headers_here();
	__u32 found = 0;

	if (!on || !e)
		return UNREADABLE;
	e->next = first & 0xff;
	e->begin = begin & 0xfff;
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_EXTENSION_HEADERS; i++) {
		__u32 next = e->next, offset = e->begin;
		const __u8 *header;

		if (!is_extension(next))
			break;
		if (next == NEXT_DESTINATION)
			found |= scan_destination(ctx, on, l3, offset);
		packet_load(ctx, p);
		header = at(p, offset, 8);
		if (!header ||
		    (next == NEXT_FRAGMENT && *(const __be16 *)(header + 2) & bpf_htons(0xfff8)))
			break;
		e->begin = offset + extension_length(next, header[1]);
		e->next = header[0];
	}
	return found;
}

/*
 * The header after the IPv6 header and its Hop-by-Hop header, if there is one: its type, and where it is.
 * What cannot be read may hide another Hop-by-Hop header.
 */
static __always_inline __u32 find_behind(const struct packet *p, __u32 *begin)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	const __u8 *hbh = at(p, IPV6_HEADER, 8);

	*begin = IPV6_HEADER;
	if (!ip6)
		return NEXT_HBH;
	if (ip6->next_header != NEXT_HBH || !hbh)
		return ip6->next_header;
	*begin += ((__u32)hbh[1] + 1) << 3;
	return hbh[0];
}

/* Walks the headers from an offset on, where the type of the first one is given: enum edge_found. */
static __always_inline __u32 find_ioam_behind(context *ctx, struct packet *p,
					      const struct interface *on, __u32 first, __u32 begin)
{
	__u32 whole = packet_length(ctx, p), reach = begin + UPPER_LAYER_REACH, found = 0;
	struct headers h;

	packet_pull(ctx, p, whole < reach ? whole : reach);
	find_headers(ctx, p, first, begin, &h);
	/* a later fragment is harmless: without the first one it is not reassembled */
	if (h.has_hbh || !(h.later_fragment || h.upper))
		found = HIDES_HBH;
	if (h.has_destination) {
		found |= read_destinations(ctx, on, p->l3, first, begin);
		packet_load(ctx, p);
	}
	return found;
}

#endif
