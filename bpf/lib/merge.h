// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Insertion into a Hop-by-Hop or Destination Options header that a packet has already
 * (docs/data-plane.md, "Merging"). The options that are inserted come first. The others, and what follows, move by a multiple of 8.
 */
#ifndef WAYMARK_MERGE_H
#define WAYMARK_MERGE_H

#include "growth.h"
#include "modules.h"

/* Longer headers are written by the helper: its call costs as much as this many words. */
#define MAX_COPIED_WORDS 10

/* Options in one header, and octets of padding in one piece, that Linux accepts by default. */
#define MAX_STACK_OPTIONS 8
#define MAX_STACK_PADDING 7

/* A header of a packet, and what becomes of it. */
struct merging {
	__u32 cursor;  /* the next option, from the start of the header */
	__u32 first;   /* the first one that is no padding; 0: not found yet */
	__u32 options; /* in all */
	__u32 growth;
	__u32 padding; /* between the inserted options and the others */
	__u32 content; /* bytes that are inserted, without it */
	__u32 begin;   /* of the header, from the end of the IPv6 header */
	__u8 type;     /* NEXT_HBH or NEXT_DESTINATION */
	__u8 next_header;
	__u8 length; /* as in the header */
	__u8 has_alert;
	__u8 has_jumbo;
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
 * Walks the options of the header; zero where they go beyond the packet, or are too many. The state of
 * the walk stays in memory: see scan_options().
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
			continue;
		}
		option = at(p, IPV6_HEADER + offset, 2);
		if (!option)
			return 0;
		m->cursor = offset + 2 + option[1];
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

/* The length of the first header if it is whole, and of one that may be longer than a program reads; else 0. */
static __always_inline __u32 reach_header(context *ctx, struct packet *p, __u32 most)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	const __u8 *header = at(p, IPV6_HEADER, 8);
	__u32 length, payload;

	if (!ip6 || !header)
		return 0;
	length = ((__u32)header[1] + 1) << 3;
	payload = bpf_ntohs(ip6->payload_length);
	if (length > most || (payload && length > payload))
		return 0;
	packet_pull(ctx, p, IPV6_HEADER + length);
	return at(p, IPV6_HEADER + length - 8, 8) ? length : 0;
}

/*
 * Finds how the first header takes the options; OUTCOME_NO_IOAM if it does. Not inlined: see
 * scan_options().
 */
__noinline int plan_merging(context *ctx, const struct encapsulation *e, __u32 l3, __u32 type)
{
	__u32 end, content, most = type == NEXT_HBH ? MAX_HBH : E2E_HEADER;
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct merging *m = merging_here();
	const __u8 *header;

	if (!e || !m || (type == NEXT_HBH && e->e2e_options))
		return OUTCOME_ENCAP_SKIPPED_HBH;
	packet_load(ctx, p);
	end = reach_header(ctx, p, most);
	header = at(p, IPV6_HEADER, 8);
	if (!end || !header)
		return OUTCOME_ENCAP_SKIPPED_OPTIONS;
	m->type = type;
	m->next_header = header[0];
	m->cursor = 2;
	m->first = 0;
	m->options = type == NEXT_HBH ? e->options : e->e2e_options;
	m->begin = type == NEXT_HBH ? 0 : (__u32)e->last_header << 3;
	m->has_alert = 0;
	m->has_jumbo = 0;
	if (!count_options(p, m, end))
		return OUTCOME_ENCAP_SKIPPED_OPTIONS;
	if (type == NEXT_HBH && m->has_alert)
		return OUTCOME_ENCAP_SKIPPED_ROUTER_ALERT;
	if (type == NEXT_HBH && m->has_jumbo)
		return OUTCOME_ENCAP_SKIPPED_JUMBO;
	if (!m->first)
		m->first = end;
	content = (__u32)(type == NEXT_HBH ? e->content : e->whole) << 2;
	m->content = content;
	m->padding = (m->first - content) & 7;
	m->growth = content + m->padding - m->first;
	end += m->growth - m->begin;
	m->length = (end >> 3) - 1;
	if (m->options > MAX_STACK_OPTIONS || m->first > 2 + MAX_STACK_PADDING || end > most)
		return OUTCOME_ENCAP_SKIPPED_OPTIONS;
	return OUTCOME_NO_IOAM;
}

/* Finds in *merging how the packet's header takes the options; NULL: not at all, and the outcome says why. */
static __always_inline enum outcome begin_merging(context *ctx, struct packet *p,
						  const struct encapsulation *e, __u32 type,
						  const struct merging **merging)
{
	enum outcome outcome = OUTCOME_ENCAP_SKIPPED_HBH;

	/* what is forwarded here has no such header, or IOAM in it */
	if (COMPLETES)
		return outcome;
	outcome = plan_merging(ctx, e, p->l3, type);
	packet_load(ctx, p);
	if (outcome == OUTCOME_NO_IOAM)
		*merging = merging_here();
	return outcome;
}

/* Completes the options of a header that was inserted. */
static __always_inline void complete_header(context *ctx, struct packet *p,
					    const struct encapsulation *e,
					    const struct departure *departure)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < e->options; i++) {
		insert_option(ctx, p, &e->patches[i], departure);
	}
}

/* Writes padding of 0 to 7 octets at an offset that is a multiple of 4. */
static __always_inline void put_padding(const struct packet *p, __u32 offset, __u32 length)
{
	__be32 *word = length & 4 ? at(p, offset, 4) : 0;
	__be16 *half;
	__u8 *byte;

	if (word)
		*word = bpf_htonl(0x01000000 | (length - 2) << 16);
	offset += length & 4;
	half = length & 2 ? at(p, offset, 2) : 0;
	if (half)
		*half = length & 4 ? 0 : bpf_htons(0x0100 | (length - 2));
	offset += length & 2;
	byte = length & 1 ? at(p, offset, 1) : 0;
	if (byte)
		*byte = 0;
}

/* Copies what is prebuilt, up to the padding at its end, to the header's place, in units of 4 bytes. */
static __always_inline void put_content(context *ctx, struct packet *p,
					const struct encapsulation *e, __u32 units)
{
	__u32 words = units >> 1;

	if (words > MAX_COPIED_WORDS) {
		store_bytes(ctx, p->l3 + IPV6_HEADER, e->header,
			    ((units << 2) - 1 & (MAX_HEADER_INSERTION - 1)) + 1);
		packet_load(ctx, p);
		return;
	}
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_COPIED_WORDS && i < words; i++) {
		__u64 *to = at(p, IPV6_HEADER + 8 * i, 8);

		if (to)
			*to = e->header[i];
	}
	if (units & 1) {
		__u32 *to = at(p, IPV6_HEADER + 8 * words, 4);

		if (to)
			*to = e->header[words];
	}
}

/* Completes what put_merged() wrote. Not inlined: see scan_options(). */
__noinline int complete_merged(context *ctx, const struct encapsulation *e,
			       const struct departure *departure, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;

	if (!e || !departure)
		return -1;
	packet_load(ctx, p);
	complete_header(ctx, p, e, departure);
	return 0;
}

/*
 * Writes the options into the room before the others, and completes them; `payload` is that of the
 * packet now. Not inlined: the stack is small.
 */
__noinline int put_merged(context *ctx, const struct encapsulation *e,
			  const struct departure *departure, __u32 l3, __u32 payload)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	const struct merging *m = merging_here();
	struct ipv6 *ip6;
	__u8 *header;

	if (!e || !departure || !m)
		return -1;
	put_content(ctx, p, e, m->content >> 2 & 0xff);
	put_padding(p, IPV6_HEADER + m->content, m->padding);
	ip6 = at(p, 0, IPV6_HEADER);
	header = at(p, IPV6_HEADER + m->begin, 8);
	if (!ip6 || !header)
		return -1;
	ip6->payload_length = bpf_htons(payload > 0xffff ? 0 : payload);
	ip6->next_header = e->first_header;
	header[0] = m->next_header;
	header[1] = m->length;
	return complete_merged(ctx, e, departure, l3);
}

#endif
