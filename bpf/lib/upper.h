// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The upper layer behind extension headers (RFC 8200 §4). Included behind packet_*.h. */
#ifndef WAYMARK_UPPER_H
#define WAYMARK_UPPER_H

#include "ipv6.h"

struct upper {
	__u32 offset;	   /* of its header, from the IPv6 header; 0 = not reached */
	__u32 next_header; /* the last one reached */
};

/* How far into a packet extension headers are followed when they are not at hand. */
#define UPPER_LAYER_REACH 512

#define WALK_LATER_FRAGMENT (1U << 24) /* not the first: the rest of its data is no header */
#define WALK_HBH	    (1U << 25) /* one of the headers is a Hop-by-Hop header */

/*
 * Walks extension headers, the first of which is at an offset: next header << 16 | offset, and the
 * flags above. The offset is 0 if the upper layer was not reached. Not inlined: see scan_options().
 */
__noinline int walk_extensions(context *ctx, __u32 l3, __u32 first, __u32 begin)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 offset = begin & 0xfff, next = first & 0xff, found = 0;

	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_EXTENSION_HEADERS; i++) {
		const __u8 *h;

		if (!is_extension(next))
			break;
		if (next == NEXT_HBH)
			found = WALK_HBH;
		h = at(p, offset, 8);
		if (!h)
			return found | next << 16;
		if (next == NEXT_FRAGMENT && *(const __be16 *)(h + 2) & bpf_htons(0xfff8))
			return found | WALK_LATER_FRAGMENT | (__u32)h[0] << 16;
		offset += extension_length(next, h[1]);
		next = h[0];
	}
	return found | (is_extension(next) ? next << 16 : next << 16 | offset);
}

/*
 * Whether the headers from an offset on, the first of which is given, hold a Hop-by-Hop header or
 * were not read to their end. A later fragment is harmless: without the first one it goes nowhere.
 */
static __always_inline int may_hide_hbh(context *ctx, struct packet *p, __u8 first, __u32 begin)
{
	__u32 whole, reach = begin + UPPER_LAYER_REACH, found;

	if (!is_extension(first))
		return 0;
	whole = packet_length(ctx, p);
	packet_pull(ctx, p, whole < reach ? whole : reach);
	found = walk_extensions(ctx, p->l3, first, begin);
	return found & WALK_HBH || !(found & (WALK_LATER_FRAGMENT | 0xffff));
}

/* The upper layer behind the header at an offset, whose type is given. */
static __always_inline struct upper find_upper(context *ctx, const struct packet *p, __u8 first,
					       __u32 begin)
{
	struct upper u = {.offset = begin, .next_header = first};

	if (is_extension(first)) {
		__u32 found = walk_extensions(ctx, p->l3, first, begin);

		u.offset = found & 0xffff;
		u.next_header = found >> 16 & 0xff;
	}
	return u;
}

/*
 * ICMPv6 messages that no router forwards (RFC 4890 §4.3.3): MLD, neighbour discovery with its
 * inverse, SEND, multicast router discovery. Bit 0 is type 128.
 */
#define LINK_MESSAGES 0x03b0e3fcU

static __always_inline int is_link_type(__u8 type)
{
	return type >> 5 == 4 && LINK_MESSAGES >> (type & 31) & 1;
}

/*
 * Whether an upper layer is such a message, or may be one because it was not reached. It does not
 * matter in fragments other than the first: without the first one they are not reassembled.
 */
static __always_inline int is_link_message(const struct packet *p, const struct upper *u)
{
	const __u8 *type;

	if (u->next_header != NEXT_ICMPV6 || !u->offset)
		return is_extension(u->next_header);
	type = at(p, u->offset, 1);
	return !type || is_link_type(*type);
}

#endif
