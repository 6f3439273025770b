// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The flow that a postcard is about (docs/data-plane/direct-export.md#flow). */
#ifndef WAYMARK_FLOW_H
#define WAYMARK_FLOW_H

#include "clock.h"
#include "context.h"
#include "draft.h"
#include "headers.h"

#define UDP_HEADER 8

#define TCP_ENDS 0x05 /* FIN, RST */

/*
 * Notes the addresses and the upper layer, found before, of a packet with this IPv6 header; `before`
 * are bytes in front of the upper layer that the packet of the flow does not have.
 */
static __always_inline void note_flow(const struct packet *p, const struct ipv6 *ip6,
				      const struct headers *h, struct draft *e, __u32 before)
{
	struct flow_key *key = &e->postcard.key;
	const __u32 *ports;
	const __u8 *tcp;
	__u64 word = ip6->class_label & FLOW_LABEL_MASK;

	key->source[0] = ip6->source[0];
	key->source[1] = ip6->source[1];
	key->destination[0] = ip6->destination[0];
	key->destination[1] = ip6->destination[1];
	key->next_header = h->next_header;
	e->ends = 0;
	e->repeated = 0;
	ports = h->upper && has_ports(h->next_header) ? at(p, h->upper, 4) : 0;
	if (ports)
		word |= (__u64)*ports << 32;
	/* one store, because it is read by one load: a load that spans two stores stalls the CPU */
	*(__u64 *)&key->flow_label = word;
	if (!ports)
		return;
	e->repeated = h->upper - before + UDP_HEADER;
	tcp = h->next_header == NEXT_TCP ? at(p, h->upper + 12, 2) : 0;
	if (!tcp)
		return;
	e->repeated += (tcp[0] >> 4 << 2) - UDP_HEADER;
	if (tcp[1] & TCP_ENDS)
		e->ends = 1;
}

/* Notes how many packets the noted one is still to be cut into. */
static __always_inline void note_segments(context *ctx, struct draft *e)
{
	e->postcard.segments = packet_segments(ctx, e->postcard.length - e->repeated);
}

/* Which packet a postcard is about. */
enum about {
	ABOUT_REST,  /* the packet without its Hop-by-Hop header */
	ABOUT_INNER, /* the packet in the tunnel; without a tunnel, the rest */
};

/*
 * Notes the flow of a packet with a Hop-by-Hop header of `length` bytes, or with that and a Destination
 * Options header, and its length. Not inlined: see scan_options().
 */
__noinline int find_flow(context *ctx, __u32 l3, __u32 length, __u32 about)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct draft *e = draft_here();
	__u32 start = 0, inside = IPV6_HEADER + (length & 0xfff), whole, reach;
	const struct ipv6 *ip6;
	const __u8 *hbh, *after;
	struct headers h;
	__u32 own, further;
	__u8 next;

	if (!e)
		return -1;
	packet_load(ctx, p);
	whole = packet_length(ctx, p);
	/* enough for most packets: addresses, ports and TCP's flags */
	reach = inside + IPV6_HEADER + 16;
	packet_pull(ctx, p, whole < reach ? whole : reach);
	hbh = at(p, IPV6_HEADER, 8);
	if (!hbh)
		return -1;
	next = hbh[0];
	own = ((__u32)hbh[1] + 1) << 3;
	after = at(p, IPV6_HEADER + own, 8);
	if (next == NEXT_DESTINATION && after) {
		if (own != (length & 0xfff)) { /* `length` is of both headers */
			next = after[0];
		} else if (about == ABOUT_INNER && after[0] == NEXT_IPV6) {
			further = inside + (((__u32)after[1] + 1) << 3);
			reach = further + IPV6_HEADER + 16;
			packet_pull(ctx, p, whole < reach ? whole : reach);
			ip6 = at(p, further, IPV6_HEADER);
			if (ip6 && bpf_ntohl(ip6->class_label) >> 28 == 6) {
				next = NEXT_IPV6;
				inside = further;
			}
		}
	}
	if (about == ABOUT_INNER && next == NEXT_IPV6) {
		ip6 = at(p, inside, IPV6_HEADER);
		if (ip6 && bpf_ntohl(ip6->class_label) >> 28 == 6) {
			start = inside;
			next = ip6->next_header;
			inside += IPV6_HEADER;
		}
	}
	if (is_extension(next)) {
		reach = inside + UPPER_LAYER_REACH;
		packet_pull(ctx, p, whole < reach ? whole : reach);
	}
	/* from the front, because the number of headers is bounded */
	if (about == ABOUT_INNER && !start && is_extension(next))
		find_headers(ctx, p, NEXT_HBH, IPV6_HEADER, &h);
	else
		find_headers(ctx, p, next, inside, &h);
	ip6 = at(p, start, IPV6_HEADER);
	if (!ip6)
		return -1;
	start = start ? start : length & 0xfff;
	note_flow(p, ip6, &h, e, start);
	e->postcard.length = whole - start;
	note_segments(ctx, e);
	return 0;
}

/* The hash of the flow label alone: that of a flow whose rest is zero. */
static __always_inline __u32 label_hash(const struct ipv6 *ip6)
{
	return (ip6->class_label & FLOW_LABEL_MASK) * NODE.flow_keys[10] >> 32;
}

/*
 * The hash of the noted flow, the same at every node of the domain: words of 32 bits with keys of 64,
 * of which the highest 32 bits are used (multilinear hashing).
 */
static __always_inline __u32 flow_hash(const struct flow_key *key)
{
	__u32 ports = key->source_port | (__u32)key->destination_port << 16;
	__u64 h = ports * NODE.flow_keys[8] + key->next_header * NODE.flow_keys[9] +
		  key->flow_label * NODE.flow_keys[10];

#pragma clang loop unroll(full)
	for (int i = 0; i < 2; i++) {
		h += (__u32)key->source[i] * NODE.flow_keys[2 * i] +
		     (key->source[i] >> 32) * NODE.flow_keys[2 * i + 1] +
		     (__u32)key->destination[i] * NODE.flow_keys[4 + 2 * i] +
		     (key->destination[i] >> 32) * NODE.flow_keys[5 + 2 * i];
	}
	return h >> 32;
}

#endif
