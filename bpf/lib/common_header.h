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
	__u8 option_type;
	__u8 option_length;
	__u8 reserved;
	__u8 ioam_type;
	__be32 word; /* Namespace-ID; NodeLen, flags, RemainingLen, or Flags, Extension-Flags */
	__be32 type;
};

/* Offset of the node data that is filled next, when `left` words of 4 bytes are free. */
#define COMMON_DATA(left) (IPV6_HEADER + sizeof(struct common_header) + ((left) << 2))

/* Whether the header begins with padding, lies within the packet, and ends with its option or padding. */
static __always_inline int is_common_layout(const struct packet *p, const struct ipv6 *ip6,
					    const struct common_header *h)
{
	__u32 length = ((__u32)h->length + 1) << 3, room = h->option_length;
	const __be32 *end;

	/* with nothing after the header it may be a copy for this node: see find_probe_end() */
	if (length + NODE.asks_loopback > bpf_ntohs(ip6->payload_length) ||
	    IPV6_HEADER + length > bytes_at_hand(p))
		return 0;
	if (length == 6 + room)
		return 1;
	end = at(p, IPV6_HEADER + 6 + room, 4);
	return length == 10 + room && end && *end == PADN_4;
}

/* Whether the header is a common one with a sound trace, and no flag asks for more than this node's data. */
static __always_inline int is_common_trace(const struct packet *p, const struct ipv6 *ip6,
					   const struct common_header *h)
{
	__u32 type = bpf_ntohl(h->type), word = bpf_ntohl(h->word), left = TRACE_REMAINING(word);

	if (h->padding != bpf_htons(0x0100) || h->option_type != OPTION_IOAM ||
	    h->ioam_type != IOAM_PREALLOCATED_TRACE)
		return 0;
	if (!type || type & 0x0fffffff || TRACE_NODELEN(word) != LENGTH_OF(FIELDS_OF(type)) ||
	    word & (TRACE_OVERFLOW | ACTS_ON(~0U)) ||
	    TYPED_OPTION_MIN + 4 * left > h->option_length)
		return 0;
	return is_common_layout(p, ip6, h);
}

/* Whether the header is a common one with a Direct Export that has no other extensions than ours. */
static __always_inline int is_common_export(const struct packet *p, const struct ipv6 *ip6,
					    const struct common_header *h)
{
	__u32 flags = bpf_ntohl(h->word) & 0xff;

	if (h->padding != bpf_htons(0x0100) || h->ioam_type != IOAM_DEX ||
	    (h->option_type != OPTION_IOAM &&
	     (h->option_type != OPTION_IOAM_IMMUTABLE || h->reserved)))
		return 0;
	if (flags & ~(EXTENSION_FLOW_ID | EXTENSION_SEQUENCE) ||
	    h->option_length != TYPED_OPTION_MIN + 4 * ((flags >> 7) + (flags >> 6 & 1)))
		return 0;
	return is_common_layout(p, ip6, h);
}

#endif
