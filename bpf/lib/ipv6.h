// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Link layer, IPv6 header and the walk over extension headers (RFC 8200 §4). */
#ifndef WAYMARK_IPV6_H
#define WAYMARK_IPV6_H

#include "config.h"
#include "packet.h"

#define ETHERTYPE_IPV6	0x86dd
#define ETHERTYPE_VLAN	0x8100
#define ETHERTYPE_QINQ	0x88a8
#define IPV6_HEADER	40
#define ETHERNET_HEADER 14
#define VLAN_TAG	4
#define FLOW_LABEL_MASK bpf_htonl(0x000fffff)

enum next_header {
	NEXT_HBH = 0,
	NEXT_TCP = 6,
	NEXT_UDP = 17,
	NEXT_DCCP = 33,
	NEXT_IPV6 = 41,
	NEXT_ROUTING = 43,
	NEXT_FRAGMENT = 44,
	NEXT_ESP = 50,
	NEXT_AH = 51,
	NEXT_ICMPV6 = 58,
	NEXT_NONE = 59,
	NEXT_DESTINATION = 60,
	NEXT_SCTP = 132,
	NEXT_UDPLITE = 136,
};

struct ipv6 {
	__be32 class_label; /* version, traffic class, flow label */
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u64 source[2];
	__u64 destination[2];
};

/* Whether an address, by its first word, is multicast or link-local (RFC 4291 §2.5.6, 2.7). */
static __always_inline int is_scoped_word(__be32 word)
{
	return (word & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000) ||
	       (word & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

/* Whether either address is. Most begin with other seven bits than both kinds have. */
static __always_inline int is_link_scoped(const struct ipv6 *ip6)
{
	__u64 destination = ip6->destination[0], source = ip6->source[0];

	if ((destination & 0xfe) != 0xfe && (source & 0xfe) != 0xfe)
		return 0;
	return is_scoped_word((__be32)destination) || is_scoped_word((__be32)source);
}

static __always_inline int is_tag(__be16 type)
{
	return type == bpf_htons(ETHERTYPE_VLAN) || type == bpf_htons(ETHERTYPE_QINQ);
}

/*
 * Whether either address is none that a router forwards by: of a link, or one that begins with 64
 * zero bits, as the unspecified and the loopback address and those that hold an IPv4 address do.
 */
static __always_inline int has_local_address(const struct ipv6 *ip6)
{
	return is_link_scoped(ip6) || !ip6->source[0] || !ip6->destination[0];
}

/* Finds the IPv6 header: its offset, or 0xffff when this is another protocol. */
static __always_inline __u32 find_ipv6(const void *data, const void *end)
{
	__be16 type;

	if (NODE.link_header == 0)
		return data + 1 <= end && *(const __u8 *)data >> 4 == 6 ? 0 : 0xffff;
	if (data + ETHERNET_HEADER > end)
		return 0xffff;
	type = *(const __be16 *)(data + 12);
	if (type == bpf_htons(ETHERTYPE_IPV6))
		return ETHERNET_HEADER;
	if (!is_tag(type))
		return 0xffff;
	if (data + ETHERNET_HEADER + VLAN_TAG > end)
		return 0xffff;
	type = *(const __be16 *)(data + 16);
	if (type == bpf_htons(ETHERTYPE_IPV6))
		return ETHERNET_HEADER + VLAN_TAG;
	if (!is_tag(type))
		return 0xffff;
	if (data + ETHERNET_HEADER + 2 * VLAN_TAG > end)
		return 0xffff;
	type = *(const __be16 *)(data + 20);
	return type == bpf_htons(ETHERTYPE_IPV6) ? ETHERNET_HEADER + 2 * VLAN_TAG : 0xffff;
}

/* Whether IPv6, or yet another tag, is after a third tag, where it is not looked for. */
static __always_inline int is_buried(const void *data, const void *end)
{
	const __be16 *types = data + ETHERNET_HEADER - 2;

	if (NODE.link_header == 0 || data + ETHERNET_HEADER + 3 * VLAN_TAG > end)
		return 0;
	return is_tag(types[0]) && is_tag(types[2]) && is_tag(types[4]) &&
	       (types[6] == bpf_htons(ETHERTYPE_IPV6) || is_tag(types[6]));
}

static __always_inline __u32 extension_length(__u8 next_header, __u8 length)
{
	if (next_header == NEXT_FRAGMENT)
		return 8;
	if (next_header == NEXT_AH)
		return (length + 2) << 2;
	return (length + 1) << 3;
}

#define EXTENSIONS                                                                           \
	(1ULL << NEXT_HBH | 1ULL << NEXT_ROUTING | 1ULL << NEXT_FRAGMENT | 1ULL << NEXT_AH | \
	 1ULL << NEXT_DESTINATION)

/* Whether a header is one of a set, as bits; those beyond 63 are of no set. */
static __always_inline int is_among(__u8 next_header, __u64 set)
{
	return next_header < 64 && set >> next_header & 1;
}

static __always_inline int is_extension(__u8 next_header)
{
	return is_among(next_header, EXTENSIONS);
}

#endif
