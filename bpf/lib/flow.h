// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The flow that an export tells of (docs/data-plane.md, "Direct Export"). */
#ifndef WAYMARK_FLOW_H
#define WAYMARK_FLOW_H

#include "clock.h"
#include "upper.h"

#define UDP_HEADER	8
#define FLOW_LABEL_MASK bpf_htonl(0x000fffff)

/* The export that is being made, on this CPU: hooks do not interrupt each other. */
static __always_inline struct exporting *export_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&exports, &zero);
}

static __always_inline int has_ports(__u8 next_header)
{
	return next_header == NEXT_TCP || next_header == NEXT_UDP || next_header == NEXT_SCTP ||
	       next_header == NEXT_DCCP || next_header == NEXT_UDPLITE;
}

#define TCP_ENDS 0x05 /* FIN, RST */

/*
 * Notes the addresses and the upper layer, found before, of an IPv6 header; `before` are bytes in
 * front of the upper layer that the packet that is told does not have.
 */
static __always_inline void note_flow(const struct packet *p, const struct ipv6 *ip6,
				      const struct upper *u, struct exporting *e, __u32 before)
{
	struct flow_key *key = &e->postcard.key;
	const __be16 *ports;
	const __u8 *tcp;

	key->source[0] = ip6->source[0];
	key->source[1] = ip6->source[1];
	key->destination[0] = ip6->destination[0];
	key->destination[1] = ip6->destination[1];
	key->flow_label = ip6->class_label & FLOW_LABEL_MASK;
	key->next_header = u->next_header;
	key->source_port = 0;
	key->destination_port = 0;
	e->ends = 0;
	e->repeated = 0;
	if (!u->offset || !has_ports(u->next_header))
		return;
	ports = at(p, u->offset, 4);
	if (!ports)
		return;
	key->source_port = ports[0];
	key->destination_port = ports[1];
	e->repeated = u->offset - before + UDP_HEADER;
	tcp = u->next_header == NEXT_TCP ? at(p, u->offset + 12, 2) : 0;
	if (!tcp)
		return;
	e->repeated += (tcp[0] >> 4 << 2) - UDP_HEADER;
	if (tcp[1] & TCP_ENDS)
		e->ends = 1;
}

/* Notes what the noted packet is still to be cut into. */
static __always_inline void note_segments(context *ctx, struct exporting *e)
{
	e->postcard.segments = packet_segments(ctx, e->postcard.length - e->repeated);
}

/* Which packet is told of, behind or around a Hop-by-Hop header. */
enum told {
	TOLD_REST,   /* the packet without the header */
	TOLD_EITHER, /* the one inside, if there is one, else the packet */
};

/*
 * Notes the flow of a packet with a Hop-by-Hop header of `length` bytes, and what of the packet is
 * told. Not inlined: see scan_options().
 */
__noinline int find_flow(context *ctx, __u32 l3, __u32 length, __u32 told)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct exporting *e = export_here();
	__u32 start = 0, inside = IPV6_HEADER + (length & 0xfff), whole, reach;
	const struct ipv6 *ip6;
	const __u8 *hbh;
	struct upper u;
	__u8 next;

	if (!e)
		return -1;
	packet_load(ctx, p);
	whole = packet_length(ctx, p);
	/* mostly that is enough: addresses, ports and TCP's flags */
	reach = inside + IPV6_HEADER + 16;
	packet_pull(ctx, p, whole < reach ? whole : reach);
	hbh = at(p, IPV6_HEADER, 8);
	if (!hbh)
		return -1;
	next = hbh[0];
	if (told == TOLD_EITHER && next == NEXT_IPV6) {
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
	if (told == TOLD_EITHER && !start && is_extension(next))
		u = find_upper(ctx, p, NEXT_HBH, IPV6_HEADER);
	else
		u = find_upper(ctx, p, next, inside);
	ip6 = at(p, start, IPV6_HEADER);
	if (!ip6)
		return -1;
	start = start ? start : length & 0xfff;
	note_flow(p, ip6, &u, e, start);
	e->postcard.length = whole - start;
	note_segments(ctx, e);
	return 0;
}

static __always_inline __u32 fold(__u64 h)
{
	h ^= h >> 32;
	return h * NODE.flow_keys[6] >> 32;
}

/* The hash of the flow label alone: that of a flow whose rest is zero. */
static __always_inline __u32 label_hash(const struct ipv6 *ip6)
{
	return fold((ip6->class_label & FLOW_LABEL_MASK) * NODE.flow_keys[5]);
}

/* The hash of the noted flow, the same at every node of the domain. */
static __always_inline __u32 flow_hash(const struct flow_key *key)
{
	__u32 ports = key->source_port | (__u32)key->destination_port << 16;

	return fold(key->source[0] * NODE.flow_keys[0] + key->source[1] * NODE.flow_keys[1] +
		    key->destination[0] * NODE.flow_keys[2] +
		    key->destination[1] * NODE.flow_keys[3] +
		    (ports | (__u64)key->next_header << 32) * NODE.flow_keys[4] +
		    key->flow_label * NODE.flow_keys[5]);
}

#endif
