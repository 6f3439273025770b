// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Segment lists of packets (RFC 8754), in any form that routers give them. */
#ifndef WAYMARK_SEGMENTS_H
#define WAYMARK_SEGMENTS_H

#include "context.h"
#include "headers.h"
#include "lookup.h"

#define ROUTING_SEGMENTS 4  /* Routing Type (RFC 8754 §2) */
#define SRH_FIXED	 8  /* bytes before the segment list */
#define SEGMENT		 16 /* bytes of a SID */
#define NEXT_IPV4	 4
#define NEXT_ETHERNET	 143
#define LEADING_HEADERS	 2 /* Hop-by-Hop and Destination Options before the SRH */

/* Where a packet's segment list is: offsets from the first IPv6 header. */
struct segments {
	__u16 ip6;	  /* the header whose list it is: the first one, or one in a tunnel */
	__u16 list;	  /* the first entry of the SRH, which is the last segment */
	__u16 last;	  /* the last segment, wherever it is */
	__u16 upper;	  /* the header after the list */
	__u16 mark;	  /* the data of the AltMark option; 0: there is none */
	__u8 count;	  /* entries of the SRH */
	__u8 active;	  /* the destination is a segment that is not among them */
	__u8 next_header; /* of the header after the list */
	__u8 l3;	  /* bytes before the IPv6 header */
};

enum segments_found {
	SEGMENTS_FOUND,
	NO_SEGMENTS,
	SEGMENTS_BEYOND, /* of what is at hand */
	BAD_SEGMENTS,	 /* + enum srh_fault */
};

/* As far as a segment list may reach: behind two small headers, and with all entries. */
#define SEGMENTS_REACH 384

/*
 * Finds the segment list, also that of one SID that only the destination has. Not inlined: the stack is
 * small.
 */
__noinline int find_segments(context *ctx, struct segments *s)
{
	struct packet packet = {}, *p = &packet;
	__u32 offset, next, length, count;
	const struct ipv6 *ip6;
	const __u8 *header;

	if (!s || packet_open(ctx, p))
		return NO_SEGMENTS;
	s->l3 = p->l3;
	offset = s->ip6;
	ip6 = at(p, offset, IPV6_HEADER);
	if (!ip6)
		return SEGMENTS_BEYOND;
	if (bpf_ntohl(ip6->class_label) >> 28 != 6)
		return NO_SEGMENTS;
	next = ip6->next_header;
	offset += IPV6_HEADER;
	s->mark = 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < LEADING_HEADERS; i++) {
		if (next != NEXT_HBH && next != NEXT_DESTINATION)
			break;
		header = at(p, offset, 8);
		if (!header)
			return SEGMENTS_BEYOND;
		if (header[2] == MARK_TYPE && header[3] == MARK_LENGTH && !s->mark)
			s->mark = offset + MARK_DATA;
		next = header[0];
		offset += (header[1] + 1) << 3;
	}
	s->last = s->ip6 + 24; /* the destination */
	s->count = 0;
	s->active = 1;
	s->upper = offset;
	s->next_header = next;
	if (next != NEXT_ROUTING)
		return next == NEXT_IPV6 || next == NEXT_IPV4 || next == NEXT_ETHERNET
			       ? SEGMENTS_FOUND
			       : NO_SEGMENTS;
	header = at(p, offset, SRH_FIXED);
	if (!header)
		return SEGMENTS_BEYOND;
	if (header[2] != ROUTING_SEGMENTS)
		return NO_SEGMENTS;
	length = (header[1] + 1) << 3;
	count = header[4] + 1;
	if (SRH_FIXED + count * SEGMENT > length)
		return BAD_SEGMENTS + SRH_LAST_ENTRY;
	if (header[3] > count)
		return BAD_SEGMENTS + SRH_SEGMENTS_LEFT;
	if (count > MAX_SEGMENTS)
		return NO_SEGMENTS;
	s->list = offset + SRH_FIXED;
	s->last = s->list;
	s->count = count;
	s->active = header[3] == count; /* reduced, and not at its first endpoint yet */
	s->upper = offset + length;
	s->next_header = header[0];
	return at(p, s->list + (count - 1) * SEGMENT, SEGMENT) ? SEGMENTS_FOUND : SEGMENTS_BEYOND;
}

/* Options that are looked at in the headers before the list. */
#define MARK_REACH 16

/*
 * Finds the AltMark option where it is not the first of its header (RFC 9343 §3.1, RFC 8200 §4.2). Not
 * inlined: the stack is small.
 */
__noinline int find_mark(context *ctx, struct segments *s)
{
	struct packet packet = {}, *p = &packet;
	__u32 offset, end, next, length;
	const struct ipv6 *ip6;
	const __u8 *o;

	if (!s)
		return 0;
	p->l3 = s->l3;
	packet_load(ctx, p);
	ip6 = at(p, s->ip6, IPV6_HEADER);
	if (!ip6)
		return 0;
	next = ip6->next_header;
	end = s->ip6 + IPV6_HEADER;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LEADING_HEADERS; i++) {
		offset = end;
		o = at(p, offset, 2);
		if (!o || (next != NEXT_HBH && next != NEXT_DESTINATION))
			return 0;
		next = o[0];
		end = offset + ((o[1] + 1) << 3);
		offset += 2;
#pragma clang loop unroll(disable)
		for (__u32 j = 0; j < MARK_REACH; j++) {
			if (offset >= end || offset > 0xfff)
				break;
			opaque(offset);
			offset &= 0xfff; /* else the verifier tells each sum of lengths apart */
			o = at(p, offset, 2);
			if (!o)
				break;
			length = o[0] ? o[1] + 2 : 1; /* Pad1 has no length */
			if (offset + length > end)
				break;
			if (o[0] == MARK_TYPE && o[1] == MARK_LENGTH) {
				s->mark = offset + 2;
				return 0;
			}
			offset += length;
		}
	}
	return 0;
}

/* Makes what a segment list may need accessible; its length. Not inlined: the stack is small. */
__noinline int pull_segments(context *ctx, const struct segments *s)
{
	struct packet packet = {}, *p = &packet;
	__u32 length;

	if (!s)
		return 0;
	p->l3 = s->l3;
	packet_load(ctx, p);
	length = packet_length(ctx, p);
	packet_pull(ctx, p, length < SEGMENTS_REACH ? length : SEGMENTS_REACH);
	return length;
}

/* Finds the segment list of the header at s->ip6, also where it is not at hand. */
static __always_inline __u32 reach_segments(context *ctx, struct segments *s)
{
	__u32 found = find_segments(ctx, s);

	if (found == SEGMENTS_BEYOND) {
		__u32 length = pull_segments(ctx, s);

		found = find_segments(ctx, s);
		if (found == SEGMENTS_BEYOND)
			return length <= SEGMENTS_REACH ? BAD_SEGMENTS + SRH_TRUNCATED
							: NO_SEGMENTS;
	}
	return found;
}

/* TLVs of an SRH that are looked at. */
#define TLV_REACH 16

#define TLV_HMAC 5 /* RFC 8754 §2.1.2 */

enum tlvs {
	TLVS_OVERRUN = 1, /* they reach beyond their header, or that beyond the packet */
	TLVS_HMAC = 2,
};

/* Looks at the TLVs after a list (RFC 8754 §2.1). Not inlined: the stack is small. */
__noinline int look_at_tlvs(context *ctx, const struct segments *s)
{
	struct packet packet = {}, *p = &packet;
	__u32 offset, end, found = 0;
	const __u8 *tlv;

	if (!s)
		return 0;
	p->l3 = s->l3;
	packet_load(ctx, p);
	end = s->upper;
	if (end > packet_length(ctx, p))
		return TLVS_OVERRUN;
	packet_pull(ctx, p, end);
	offset = s->list + s->count * SEGMENT;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < TLV_REACH; i++) {
		if (offset >= end || offset > 0xfff)
			break;
		opaque(offset);
		offset &= 0xfff; /* as in find_mark() */
		tlv = at(p, offset, 1);
		if (!tlv)
			return found;
		if (!tlv[0]) { /* Pad1 has no length */
			offset++;
			continue;
		}
		tlv = at(p, offset, 2);
		if (!tlv || offset + 2 > end)
			return offset + 2 > end ? TLVS_OVERRUN : found;
		if (tlv[0] == TLV_HMAC)
			found |= TLVS_HMAC;
		offset += tlv[1] + 2;
	}
	return offset > end ? TLVS_OVERRUN : found;
}

/*
 * The bytes of headers, from the first IPv6 header on, that each part of an offloaded packet has; 0: not
 * known, or it is not offloaded. Not inlined: the stack is small.
 */
__noinline int repeated_length(context *ctx, const struct segments *s)
{
	struct packet packet = {}, *p = &packet;
	const __u8 *header;
	__u32 offset, next;
	struct headers h;

	if (!s)
		return 0;
	p->l3 = s->l3;
	packet_load(ctx, p);
	if (packet_segments(ctx, packet_length(ctx, p)) <= 1)
		return 0;
	offset = s->upper & 0xfff;
	next = s->next_header;
	packet_pull(ctx, p, offset + IPV6_HEADER + 20);
	header = at(p, offset, 20);
	if (!header)
		return 0;
	if (next == NEXT_IPV4) {
		next = header[9];
		offset += (header[0] & 15) << 2;
	} else if (next == NEXT_IPV6) {
		next = header[6];
		offset += IPV6_HEADER;
	}
	find_headers(ctx, p, next, offset, &h);
	packet_load(ctx, p);
	if (!h.upper)
		return 0;
	if (h.next_header == NEXT_UDP)
		return h.upper + 8;
	if (h.next_header != NEXT_TCP)
		return 0;
	packet_pull(ctx, p, h.upper + 20);
	header = at(p, h.upper, 20);
	return header ? h.upper + (header[12] >> 4 << 2) : 0;
}

/* Whether a packet with this first header may leave with an option that marks it. */
static __always_inline int may_get_mark(__u8 next)
{
	if (!NODE.inserts_mark)
		return 0;
	return next == NEXT_ROUTING || next == NEXT_DESTINATION || next == NEXT_IPV6 ||
	       next == NEXT_IPV4 || next == NEXT_ETHERNET;
}

#endif
