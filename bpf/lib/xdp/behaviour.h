// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * SRv6 behaviours (RFC 8986) as the kernel's routes have them (docs/data-plane/fast-forwarding.md#srv6-behaviours).
 * A packet is changed only when it is certain that it leaves here: until then, the stack may get it.
 */
#ifndef WAYMARK_BEHAVIOUR_H
#define WAYMARK_BEHAVIOUR_H

#include "growth.h"
#include "route.h"
#include "segments.h"

static __always_inline struct routed *routed_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&routed, &zero);
}

/*
 * The bytes before the SRH, or the tunnel, and the type of that header. The kernel does not read
 * Destination Options before it either; here, a header with the AltMark option alone is passed over.
 */
static __always_inline __u32 segments_begin(const struct packet *p, const struct ipv6 *ip6,
					    __u8 *next)
{
	const __u8 *header;

	*next = ip6->next_header;
	if (*next != NEXT_DESTINATION)
		return IPV6_HEADER;
	header = at(p, IPV6_HEADER, MARK_HEADER);
	if (!header || header[1] || header[2] != MARK_TYPE || header[3] != MARK_LENGTH)
		return IPV6_HEADER;
	*next = header[0];
	return IPV6_HEADER + MARK_HEADER;
}

/*
 * An SRH as the kernel takes it, whole and without TLVs; else NULL: the stack checks TLVs, and an HMAC;
 * see why_not_plain().
 */
static __always_inline const __u8 *plain_srh(const struct packet *p, __u32 offset)
{
	const __u8 *srh = at(p, offset, SRH_FIXED);

	if (!srh || srh[2] != ROUTING_SEGMENTS || srh[1] != 2 * (srh[4] + 1) ||
	    srh[3] > srh[4] + 1 || !at(p, offset + SRH_FIXED + srh[4] * SEGMENT, SEGMENT))
		return 0;
	return srh;
}

/* Why a packet's routing header is no plain SRH. Not inlined: the stack is small. */
__noinline int why_not_plain(context *ctx)
{
	struct packet packet = {.l3 = ETHERNET_HEADER}, *p = &packet;
	struct segments s = {.l3 = ETHERNET_HEADER};
	__u32 offset, length, entries;
	const struct ipv6 *ip6;
	const __u8 *srh;
	int tlvs;
	__u8 next;

	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return STACK_PACKET;
	offset = segments_begin(p, ip6, &next);
	srh = at(p, offset, SRH_FIXED);
	if (!srh)
		return STACK_SEGMENT_MALFORMED;
	if (srh[2] != ROUTING_SEGMENTS)
		return STACK_SEGMENT_MISMATCH;
	length = (srh[1] + 1) << 3;
	entries = srh[4] + 1;
	if (SRH_FIXED + entries * SEGMENT > length || srh[3] > entries)
		return STACK_SEGMENT_MALFORMED;
	s.list = offset + SRH_FIXED;
	s.count = entries;
	s.upper = offset + length;
	tlvs = look_at_tlvs(ctx, &s);
	if (tlvs & TLVS_OVERRUN)
		return STACK_SEGMENT_MALFORMED;
	return tlvs & TLVS_HMAC ? STACK_SEGMENT_HMAC : STACK_SEGMENT_TLV;
}

/* Why a behaviour does not find what it needs where a header of this type is. */
static __always_inline enum stack_reason not_for_behaviour(__u8 next)
{
	return is_extension(next) ? STACK_HEADERS : STACK_SEGMENT_MISMATCH;
}

/* Drops this node's compressed SID: those after it move up (RFC 9800 §4.1). */
static __always_inline void shift_segments(const struct behaviour *b, const struct ipv6 *ip6,
					   __u64 *to)
{
	__u64 head = bpf_be64_to_cpu(ip6->destination[0]);
	__u64 tail = bpf_be64_to_cpu(ip6->destination[1]);
	__u32 shift = b->shift & 127;

	if (shift >= 64) {
		head = tail << (shift - 64);
		tail = 0;
	} else {
		head = head << shift | tail >> 1 >> (63 - shift);
		tail <<= shift;
	}
	to[0] = (ip6->destination[0] & b->block[0]) | (bpf_cpu_to_be64(head) & ~b->block[0]);
	to[1] = (ip6->destination[1] & b->block[1]) | (bpf_cpu_to_be64(tail) & ~b->block[1]);
}

static __always_inline void copy_header(struct routed *r, const __u64 *header)
{
	r->header[0] = header[0];
	r->header[1] = header[1];
	r->header[2] = header[2];
	r->header[3] = header[3];
	r->header[4] = header[4];
}

/* End, End.X (RFC 8986 §4.1, 4.2): the packet gets the next segment as its destination. */
static __always_inline enum stack_reason plan_end(const struct packet *p, const struct behaviour *b,
						  const struct ipv6 *ip6, struct routed *r)
{
	const __u64 *segment;
	const __u8 *srh;
	__u32 offset;
	__u8 next;

	copy_header(r, (const __u64 *)ip6);
	if (b->shift &&
	    (ip6->destination[0] & b->argument[0] || ip6->destination[1] & b->argument[1])) {
		shift_segments(b, ip6, r->destination);
	} else {
		offset = segments_begin(p, ip6, &next);
		if (next != NEXT_ROUTING)
			return not_for_behaviour(next);
		srh = plain_srh(p, offset);
		if (!srh)
			return STACK_SEGMENT_MALFORMED;
		if (!srh[3])
			return STACK_SEGMENT_MISMATCH;
		segment = at(p, offset + SRH_FIXED + (srh[3] - 1) * SEGMENT, SEGMENT);
		if (!segment)
			return STACK_SEGMENT_MALFORMED;
		r->destination[0] = segment[0];
		r->destination[1] = segment[1];
		r->advances = 1;
	}
	r->header[3] = b->crosses ? b->next_hop[0] : r->destination[0];
	r->header[4] = b->crosses ? b->next_hop[1] : r->destination[1];
	return !r->destination[0] || is_scoped_word((__be32)r->destination[0]) ? STACK_PACKET
									       : STACK_NONE;
}

/* End.DT6 (RFC 8986 §4.6): what is in the tunnel is routed by a table. */
static __always_inline enum stack_reason plan_decapsulation(const struct packet *p,
							    const struct behaviour *b,
							    const struct ipv6 *ip6,
							    struct path *path, struct routed *r)
{
	const struct ipv6 *inner;
	const __u8 *srh, *type;
	__u8 next;
	__u32 length = segments_begin(p, ip6, &next);

	if (next == NEXT_ROUTING) {
		srh = plain_srh(p, length);
		if (!srh)
			return STACK_SEGMENT_MALFORMED;
		if (srh[3])
			return STACK_SEGMENT_MISMATCH;
		next = srh[0];
		length += (srh[1] + 1) << 3;
	}
	if (next != NEXT_IPV6)
		return not_for_behaviour(next);
	inner = at(p, length, IPV6_HEADER);
	if (!inner || bpf_ntohl(inner->class_label) >> 28 != 6 || !inner->payload_length ||
	    bytes_at_hand(p) != length + IPV6_HEADER + bpf_ntohs(inner->payload_length))
		return STACK_PACKET;
	if (inner->next_header == NEXT_HBH)
		return STACK_HEADERS;
	if (inner->hop_limit <= 1)
		return STACK_HOP_LIMIT;
	copy_header(r, (const __u64 *)inner);
	if (inner->next_header == NEXT_ICMPV6) {
		type = at(p, length + IPV6_HEADER, 1);
		if (!type || (*type != ICMPV6_ECHO_REQUEST && *type != ICMPV6_ECHO_REPLY))
			return STACK_CONTROL;
	}
	r->table_id = b->table_id;
	r->table = b->table;
	path->growth = -length;
	return STACK_NONE;
}

/*
 * Finds the packet as it will be routed, and leaves it as it is. STACK_SEGMENT_MALFORMED: why_not_plain()
 * knows why not. Not inlined: the stack is small.
 */
__noinline int plan_behaviour(context *ctx, struct path *path)
{
	struct packet packet = {.l3 = ETHERNET_HEADER}, *p = &packet;
	enum stack_reason reason = STACK_NONE;
	const struct behaviour *b;
	const struct ipv6 *ip6;
	struct routed *r = routed_here();
	__u32 number;

	if (!path || !r || !path->macs[0])
		return STACK_SEGMENT_SUSPENDED;
	number = path->macs[0] - 1;
	b = bpf_map_lookup_elem(&behaviours, &number);
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!b || !ip6)
		return STACK_SEGMENT_SUSPENDED;
	path->behaviour = number + 1;
	path->growth = 0;
	r->table_id = 0;
	r->table = 0;
	r->advances = 0;
	switch (b->kind) {
	case BEHAVIOUR_END:
		reason = plan_end(p, b, ip6, r);
		break;
	case BEHAVIOUR_DECAPSULATE:
		reason = plan_decapsulation(p, b, ip6, path, r);
		break;
	case BEHAVIOUR_ENCAPSULATE: /* RFC 8986 §5.1 */
		copy_header(r, b->header);
		r->header[0] |= ip6->class_label & b->inherited;
		path->growth = b->length;
		break;
	default:
		return b->reason ? b->reason : STACK_SEGMENT_BEHAVIOUR;
	}
	if (!reason && has_local_address((const struct ipv6 *)r->header))
		reason = STACK_PACKET;
	return reason;
}

/* Finds where the planned packet goes, as find_next_hop() does. */
__noinline int find_routed_hop(context *ctx, struct path *path, const struct interface *on)
{
	struct packet packet = {.l3 = ETHERNET_HEADER};
	struct routed *r = routed_here();
	const struct ipv6 *ip6;
	struct next_hop_set *set;
	enum stack_reason reason;
	struct wanted w = {};

	if (!path || !r || !on)
		return STACK_SEGMENT_SUSPENDED;
	ip6 = (const struct ipv6 *)r->header;
	w.table_id = r->table_id;
	reason = find_wanted(ip6, on, r->table, &w, &set);
	if (reason)
		return reason;
	if (!set) /* no agent says that the behaviour is still true */
		return STACK_SEGMENT_SUSPENDED;
	if (is_remembered(set, ip6, &w, path))
		return STACK_NONE;
	forget_memory();
	return ask_kernel(ctx, &packet, on, ip6, &w, set, path);
}

/* The way out of a packet whose route has a behaviour; the packet is as it was. */
static __always_inline enum stack_reason find_behaviour_path(context *ctx, const struct packet *p,
							     struct path *path)
{
	enum stack_reason reason = plan_behaviour(ctx, path);

	if (reason == STACK_SEGMENT_MALFORMED)
		return why_not_plain(ctx);
	if (!reason)
		reason = find_routed_hop(ctx, path, p->on);
	if (reason)
		return reason;
	if (path->reason & (WAY_IS_PLAIN - 1))
		return path->reason == STACK_LWTUNNEL ? STACK_SEGMENT_CHAINED : path->reason;
	if ((__s64)bytes_at_hand(p) + path->growth > path->mtu)
		return STACK_MTU;
	return path->ifindex != p->on->ifindex && choose_device(path->ifindex) ? STACK_NONE
									       : STACK_DEVICE;
}

/* Writes the prebuilt outer headers in front of the packet. */
static __always_inline enum stack_reason put_segments(context *ctx, struct packet *p,
						      const struct behaviour *b)
{
	__u64 length = bytes_at_hand(p) + b->length - IPV6_HEADER;
	struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	__u32 words = b->length >> 3;
	__be32 class_label;
	__u8 hop_limit;

	if (!ip6)
		return STACK_PACKET;
	class_label = ip6->class_label & b->inherited;
	hop_limit = ip6->hop_limit;
	if (bpf_xdp_adjust_head(ctx, -(int)b->length))
		return STACK_HEADROOM;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < BEHAVIOUR_HEADER / 8 && i < words; i++) {
		__u64 *to = at(p, 8 * i, 8);

		if (to)
			*to = b->header[i];
	}
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6)
		return STACK_PACKET;
	ip6->class_label |= class_label;
	ip6->payload_length = bpf_htons(length);
	ip6->hop_limit = hop_limit;
	*(__be16 *)((void *)ip6 - 2) = bpf_htons(ETHERTYPE_IPV6);
	return STACK_NONE;
}

/* Changes the packet as planned. Nonzero: it is as it was. */
__noinline int carry_out(context *ctx, const struct path *path)
{
	struct packet packet = {.l3 = ETHERNET_HEADER}, *p = &packet;
	const struct behaviour *b;
	struct routed *r = routed_here();
	struct ipv6 *ip6;
	__u32 number;
	__u8 *srh, next;

	if (!path || !r)
		return STACK_SEGMENT_SUSPENDED;
	number = path->behaviour - 1;
	b = bpf_map_lookup_elem(&behaviours, &number);
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!b || !ip6)
		return STACK_SEGMENT_SUSPENDED;
	switch (b->kind) {
	case BEHAVIOUR_END:
		if (r->advances) {
			srh = at(p, segments_begin(p, ip6, &next), SRH_FIXED);
			if (!srh)
				return STACK_PACKET;
			srh[3]--;
		}
		ip6->destination[0] = r->destination[0];
		ip6->destination[1] = r->destination[1];
		return STACK_NONE;
	case BEHAVIOUR_DECAPSULATE:
		return move_head(ctx, ETHERNET_HEADER, -path->growth) ? STACK_HEADROOM : STACK_NONE;
	case BEHAVIOUR_ENCAPSULATE:
		return put_segments(ctx, p, b);
	}
	return STACK_SEGMENT_SUSPENDED;
}

/*
 * The headers that the planned packet has after its IPv6 header: the type of the first one, and where it
 * is now. What is in a tunnel that was added hides from an edge.
 */
static __always_inline __u8 departing_header(const struct path *path, __u32 *offset)
{
	struct routed *r = routed_here();

	*offset = IPV6_HEADER;
	if (path->growth > 0)
		return NEXT_IPV6;
	*offset -= path->growth;
	return r ? ((const struct ipv6 *)r->header)->next_header : NEXT_HBH;
}

/*
 * Whether a header that the packet may still get could keep it from leaving here: when it has been
 * counted or changed, that would be too late.
 */
static __always_inline int may_lack_room(context *ctx, const struct packet *p,
					 const struct path *path, int marked)
{
	__s32 added = marked ? MARK_HEADER : 0, growth;

	if (p->out && p->out->insertion)
		added += (__s32)p->out->insertion << 3;
	growth = path->growth + added;
	/* one that loses a tunnel may still be too long: the next link may be shorter than the last */
	return (added || path->growth) &&
	       ((__s64)bytes_at_hand(p) + growth > path->mtu || growth > (__s64)headroom(ctx));
}

#endif
