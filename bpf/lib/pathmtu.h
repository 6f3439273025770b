// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Path MTUs of packets that get options inline, learned from Packet Too Big messages that quote such a
 * packet (docs/data-plane/path-mtu.md).
 */
#ifndef WAYMARK_PATHMTU_H
#define WAYMARK_PATHMTU_H

#include "config.h"
#include "maps.h"
#include "context.h"
#include "ipv6.h"
#include "option/option.h"

#define MINIMUM_MTU    1280 /* RFC 8200 §5 */
#define ICMPV6_TOO_BIG 2    /* RFC 4443 §3.2 */

static __always_inline __u32 path_clock(void)
{
	return bpf_ktime_get_coarse_ns() >> 30;
}

/* What is known of the path to a destination now; NULL: nothing. */
static __always_inline struct path_mtu *find_path_mtu(const __u64 *destination)
{
	__u64 address[2] = {destination[0], destination[1]};
	struct path_mtu *known = bpf_map_lookup_elem(&path_mtus, address);

	return known && path_clock() - known->learned <= PATH_MTU_AGE ? known : 0;
}

/* What the path to the packet's destination is known to carry, at most. */
static __always_inline __u32 known_path_mtu(const struct ipv6 *ip6)
{
	const struct path_mtu *known = find_path_mtu(ip6->destination);

	return known ? known->mtu : 0xffffffff;
}

/* Whether a packet that has grown inline is known to be too large for its path. */
static __always_inline int is_known_too_big(const struct ipv6 *ip6, __u32 length)
{
	const struct path_mtu *known;

	if (length <= MINIMUM_MTU)
		return 0;
	known = find_path_mtu(ip6->destination);
	return known && known->mtu < length;
}

struct too_big {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 mtu;
};

/* Whether a header begins as one that a node inserts, or into which it did. */
static __always_inline int begins_as_inserted(const __u8 *header)
{
	if (header[2] != OPTION_PADN)
		return 0;
	if (header[3] == 4 && !*(const __be32 *)(header + 4))
		return 1; /* an incremental trace has grown */
	return !header[3] && (header[4] == OPTION_IOAM || header[4] == OPTION_IOAM_IMMUTABLE);
}

/* Whether the quoted packet, at an offset, has grown: in its first header, or in one after its own Hop-by-Hop header. */
static __always_inline int has_grown_inline(context *ctx, struct packet *p, __u32 offset)
{
	const struct ipv6 *quoted = at(p, offset, IPV6_HEADER);
	const __u8 *header = at(p, offset + IPV6_HEADER, 8);

	if (!quoted || !header ||
	    (quoted->next_header != NEXT_HBH && quoted->next_header != NEXT_DESTINATION))
		return 0;
	if (begins_as_inserted(header))
		return 1;
	if (quoted->next_header != NEXT_HBH || header[0] != NEXT_DESTINATION)
		return 0;
	offset += IPV6_HEADER + (((__u32)header[1] + 1) << 3);
	packet_pull(ctx, p, offset + 8);
	header = at(p, offset, 8);
	return header && begins_as_inserted(header);
}

/*
 * Learns from an ICMPv6 message that says what a path carries, if the packet that it quotes has a
 * header as this node inserts it. What it is about may be another node's packet, if this one
 * inserts into those. Not inlined: see scan_options().
 */
__noinline int learn_too_big(context *ctx, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	const struct ipv6 *ip6, *quoted;
	const struct too_big *message;
	struct path_mtu learned = {}, *known;
	__u64 destination[2];

	packet_load(ctx, p);
	packet_pull(ctx, p, 2 * IPV6_HEADER + sizeof(*message) + 8);
	message = at(p, IPV6_HEADER, sizeof(*message));
	if (!message || message->type != ICMPV6_TOO_BIG ||
	    !has_grown_inline(ctx, p, IPV6_HEADER + sizeof(*message)))
		return 0;
	ip6 = at(p, 0, IPV6_HEADER);
	message = at(p, IPV6_HEADER, sizeof(*message));
	quoted = at(p, IPV6_HEADER + sizeof(*message), IPV6_HEADER);
	if (!ip6 || !message || !quoted || bpf_ntohl(quoted->class_label) >> 28 != 6 ||
	    quoted->source[0] != ip6->destination[0] || quoted->source[1] != ip6->destination[1])
		return 0;
	learned.mtu = bpf_ntohl(message->mtu);
	learned.learned = path_clock();
	/* discarded below the minimum (RFC 8201 §4), and where the quoted packet would have fitted */
	if (learned.mtu < MINIMUM_MTU ||
	    learned.mtu >= (__u32)bpf_ntohs(quoted->payload_length) + IPV6_HEADER)
		return 0;
	destination[0] = quoted->destination[0];
	destination[1] = quoted->destination[1];
	known = find_path_mtu(destination);
	if (!known || known->mtu >= learned.mtu)
		bpf_map_update_elem(&path_mtus, destination, &learned, BPF_ANY);
	return 0;
}

#endif
