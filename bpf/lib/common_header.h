// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The header of most packets with IOAM: as encapsulating nodes write it, with one trace of ids and
 * timestamps, or one Direct Export. The hooks treat it in one piece, without a walk or a list of
 * options; with the same result as the general path, which treats all others.
 */
#ifndef WAYMARK_COMMON_HEADER_H
#define WAYMARK_COMMON_HEADER_H

#include "context.h"
#include "ipv6.h"
#include "lookup.h"
#include "options.h"
#include "option/flags.h"
#include "option/trace.h"

/* The header up to the trace's data, or to what Extension-Flags announce. */
struct common_header {
	__u8 next_header;
	__u8 length;
	__be16 padding;
	struct typed_option option;
};

/* Where the first option is. */
#define COMMON_OPTION (IPV6_HEADER + offsetof(struct common_header, option))

#define COMMON_LENGTH(header) (((__u32)(header)->length + 1) << 3)

/* Whether the header lies within the packet. */
static __always_inline int has_whole_header(const struct packet *p, const struct ipv6 *ip6,
					    const struct common_header *h)
{
	__u32 length = COMMON_LENGTH(h);

	/* with nothing after the header it may be a copy for this node: see find_probe_end() */
	return length + NODE.asks_loopback <= bpf_ntohs(ip6->payload_length) &&
	       IPV6_HEADER + length <= bytes_at_hand(p);
}

/* Whether a header's end is where its last option ends, or after padding there. */
static __always_inline int ends_at(const struct packet *p, __u32 offset, __u32 end)
{
	const __be32 *padding;

	if (offset == end)
		return 1;
	padding = at(p, offset, 4);
	return offset + 4 == end && padding && *padding == PADN_4;
}

/* Whether nothing but padding is after the header's first option. */
static __always_inline int ends_with_first(const struct packet *p, const struct common_header *h)
{
	return ends_at(p, COMMON_OPTION + 2 + h->option.length, IPV6_HEADER + COMMON_LENGTH(h));
}

/* Whether the header lies within the packet, and has but one option. */
static __always_inline int is_common_layout(const struct packet *p, const struct ipv6 *ip6,
					    const struct common_header *h)
{
	return has_whole_header(p, ip6, h) && ends_with_first(p, h);
}

/* Whether a common trace asks for some field, and no flag asks for more than this node's data. */
static __always_inline int is_simple(const struct typed_option *option)
{
	return option->type && !(bpf_ntohl(option->word) & (TRACE_OVERFLOW | ACTS_ON(~0U)));
}

/* Whether a header begins with padding and such a trace. */
static __always_inline int begins_with_trace(const struct common_header *h)
{
	return h->padding == bpf_htons(0x0100) && is_simple(&h->option) &&
	       is_common_option(&h->option);
}

/* Whether the header is a common one with a trace. */
static __always_inline int is_common_trace(const struct packet *p, const struct ipv6 *ip6,
					   const struct common_header *h)
{
	return begins_with_trace(h) && is_common_layout(p, ip6, h);
}

/* Whether the header is a common one with a Direct Export that has no other extensions than ours. */
static __always_inline int is_common_export(const struct packet *p, const struct ipv6 *ip6,
					    const struct common_header *h)
{
	const struct typed_option *option = &h->option;
	__u32 flags = bpf_ntohl(option->word) & 0xff;

	if (h->padding != bpf_htons(0x0100) || option->ioam_type != IOAM_DEX ||
	    (option->option_type != OPTION_IOAM &&
	     (option->option_type != OPTION_IOAM_IMMUTABLE || option->reserved)))
		return 0;
	if (flags & ~(EXTENSION_FLOW_ID | EXTENSION_SEQUENCE) ||
	    option->length != TYPED_OPTION_MIN + 4 * ((flags >> 7) + (flags >> 6 & 1)))
		return 0;
	return is_common_layout(p, ip6, h);
}

#endif
