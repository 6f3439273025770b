// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What insertion into headers of all kinds shares: how they are read, and what becomes of them. */
#ifndef WAYMARK_MERGING_H
#define WAYMARK_MERGING_H

#include "context.h"
#include "ipv6.h"
#include "maps.h"
#include "option/option.h"

/* Options in one header, and octets of padding in one piece, that Linux accepts by default. */
#define MAX_STACK_OPTIONS 8
#define MAX_STACK_PADDING 7

/*
 * A header of a packet, and what becomes of it. Offsets are from the end of the IPv6 header. Where
 * Edge-to-Edge options go after a Hop-by-Hop header, what stays of that is `moved`.
 */
struct merging {
	__u32 cursor;  /* the next option */
	__u32 first;   /* the first one that is no padding; 0: not found yet */
	__u32 options; /* in all */
	__u32 behind;  /* of these and of padding, from the first one on */
	__u32 growth;
	__u32 padding; /* between the inserted options and the others */
	__u32 content; /* bytes that are inserted, without it */
	__u32 begin;   /* of the header, as it will be */
	__u32 moved;
	__u32 moved_size;
	__u32 after;	     /* where the header after it will begin; 0: none gets options */
	__u32 after_padding; /* of that one */
	__u8 after_next;
	__u8 after_length;
	__u8 type; /* NEXT_HBH or NEXT_DESTINATION */
	__u8 next_header;
	__u8 length; /* as in the header */
	__u8 has_alert;
	__u8 has_jumbo;
	__u8 pad;
	__u8 moving[E2E_HEADER];
};

/* One entry for each CPU: the packet at hand. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct merging);
} merging_at_hand SEC(".maps");

static __always_inline struct merging *merging_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&merging_at_hand, &zero);
}

/*
 * Walks the options of a header from the cursor on; zero where they go beyond the header or the packet,
 * or are too many. The state of the walk stays in memory: see scan_options().
 */
static __always_inline int count_options(const struct packet *p, struct merging *m, __u32 end)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_OPTIONS; i++) {
		const __u8 *option;
		__u32 offset;

		forget_memory();
		offset = m->cursor;
		if (offset >= end)
			return offset == end;
		option = at(p, IPV6_HEADER + offset, 1);
		if (!option)
			return 0;
		if (option[0] == OPTION_PAD1) {
			m->cursor = offset + 1;
			if (m->first)
				m->behind++;
			continue;
		}
		option = at(p, IPV6_HEADER + offset, 2);
		if (!option)
			return 0;
		m->cursor = offset + 2 + option[1];
		if (m->first || option[0] != OPTION_PADN)
			m->behind++;
		if (option[0] == OPTION_PADN)
			continue;
		if (!m->first)
			m->first = offset;
		m->options++;
		if (option[0] == OPTION_ROUTER_ALERT)
			m->has_alert = 1;
		if (option[0] == OPTION_JUMBO)
			m->has_jumbo = 1;
	}
	return m->cursor == end;
}

/* Whether a header whose options were counted would have more, with those inserted, than is read of one. */
static __always_inline int is_too_full(const struct merging *m, __u32 inserted, __u32 padding)
{
	return m->options > MAX_STACK_OPTIONS || 1 + inserted + !!padding + m->behind > MAX_OPTIONS;
}

/*
 * The length of a header that begins after `before` bytes of others, if it is whole, and of one that may
 * be longer than a program reads; else 0.
 */
static __always_inline __u32 reach_header(context *ctx, struct packet *p, __u32 before, __u32 most)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	const __u8 *header = at(p, IPV6_HEADER + before, 8);
	__u32 length, payload;

	if (!ip6 || !header)
		return 0;
	length = ((__u32)header[1] + 1) << 3;
	payload = bpf_ntohs(ip6->payload_length);
	if (length > most || (payload && before + length > payload))
		return 0;
	packet_pull(ctx, p, IPV6_HEADER + before + length);
	return at(p, IPV6_HEADER + before + length - 8, 8) ? length : 0;
}

/* Writes padding of 0 to 7 octets at an offset that is a multiple of 4. */
static __always_inline void put_padding(const struct packet *p, __u32 offset, __u32 length)
{
	__be32 *word = length & 4 ? at(p, offset, 4) : 0;
	__be16 *padding;
	__u8 *byte;

	if (word)
		*word = bpf_htonl(0x01000000 | (length - 2) << 16);
	offset += length & 4;
	padding = length & 2 ? at(p, offset, 2) : 0;
	if (padding)
		*padding = length & 4 ? 0 : bpf_htons(0x0100 | (length - 2));
	offset += length & 2;
	byte = length & 1 ? at(p, offset, 1) : 0;
	if (byte)
		*byte = 0;
}

#endif
