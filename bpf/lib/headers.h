// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The headers between the IPv6 header and the upper layer (RFC 8200 §4): one walk for all purposes. */
#ifndef WAYMARK_HEADERS_H
#define WAYMARK_HEADERS_H

#include "context.h"
#include "ipv6.h"

/* What a walk over extension headers found. */
struct headers {
	__u16 upper;	  /* offset of the upper layer, from the IPv6 header; 0: not reached */
	__u8 next_header; /* of the upper layer, else of the last header that was reached */
	__u8 has_hbh : 1; /* one of the headers is a Hop-by-Hop header */
	__u8 later_fragment : 1;  /* not the first one: no header follows, only data */
	__u8 has_ah : 1;	  /* one of the headers is an Authentication header */
	__u8 has_segments : 1;	  /* a Routing header has segments left (RFC 8200 §4.4) */
	__u8 has_destination : 1; /* one of the headers is a Destination Options header */
};

/* How far into a packet extension headers are followed when they are not at hand. */
#define UPPER_LAYER_REACH 512

/*
 * Walks on from the header *h, whose type and offset are in next_header and upper. Not inlined: see
 * scan_options().
 */
__noinline int walk_headers(context *ctx, __u32 l3, struct headers *h)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 offset, next;

	if (!h)
		return 0;
	offset = h->upper & 0xfff;
	next = h->next_header;
	h->upper = 0;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_EXTENSION_HEADERS; i++) {
		const __u8 *header;

		h->next_header = next;
		if (!is_extension(next))
			break;
		if (next == NEXT_HBH)
			h->has_hbh = 1;
		else if (next == NEXT_AH)
			h->has_ah = 1;
		else if (next == NEXT_DESTINATION)
			h->has_destination = 1;
		header = at(p, offset, 8);
		if (!header)
			return 0;
		if (next == NEXT_ROUTING && header[3])
			h->has_segments = 1;
		if (next == NEXT_FRAGMENT && *(const __be16 *)(header + 2) & bpf_htons(0xfff8)) {
			h->next_header = header[0];
			h->later_fragment = 1;
			return 0;
		}
		offset += extension_length(next, header[1]);
		next = header[0];
	}
	h->next_header = next;
	if (!is_extension(next))
		h->upper = offset;
	return 0;
}

/*
 * The headers from an offset on, where the type of the first one is given. The result is
 * written into *h and not returned: copying it would stall on the stores of its parts.
 */
static __always_inline void find_headers(context *ctx, const struct packet *p, __u8 first,
					 __u32 begin, struct headers *h)
{
	h->upper = begin;
	h->next_header = first;
	h->has_hbh = 0;
	h->later_fragment = 0;
	h->has_ah = 0;
	h->has_segments = 0;
	h->has_destination = 0;
	if (is_extension(first))
		walk_headers(ctx, p->l3, h);
}

/* Whether a sum over the packet, and over the headers that it has, is in an Authentication header (RFC 4302). */
static __always_inline int is_authenticated(const struct headers *h)
{
	return h->has_ah || h->next_header == NEXT_AH;
}

static __always_inline int has_ports(__u8 next_header)
{
	return next_header == NEXT_TCP || next_header == NEXT_UDP || next_header == NEXT_SCTP ||
	       next_header == NEXT_DCCP || next_header == NEXT_UDPLITE;
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
 * Whether the upper layer is such a message, or may be one because it was not reached. Later
 * fragments do not matter: without the first one they are not reassembled.
 */
static __always_inline int is_link_message(const struct packet *p, const struct headers *h)
{
	const __u8 *type;

	if (h->next_header != NEXT_ICMPV6 || !h->upper)
		return is_extension(h->next_header);
	type = at(p, h->upper, 1);
	return !type || is_link_type(*type);
}

#endif
