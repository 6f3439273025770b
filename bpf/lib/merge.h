// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Insertion into a Hop-by-Hop or Destination Options header that a packet has already
 * (docs/data-plane/encapsulation.md#merging). The options that are inserted come first. The others, and what follows,
 * move by a multiple of 8. merge_after.h has Edge-to-Edge options that go after a Hop-by-Hop header.
 */
#ifndef WAYMARK_MERGE_H
#define WAYMARK_MERGE_H

#include "growth.h"
#include "merge_after.h"
#include "merging.h"
#include "modules.h"

/* Longer headers are written by the helper: its call costs as much as this many words. */
#define MAX_COPIED_WORDS 24

/* As many words fit into almost every packet that has just grown by at least one. */
#define FEW_WORDS 4

/*
 * Copies words of what is prebuilt to the header's place; zero if they do not fit. The packet's end is
 * compared once if it is further away than most headers reach.
 */
static __always_inline int put_words(const struct packet *p, const struct encapsulation *e,
				     __u32 words)
{
	__u64 *to;

	if (words <= FEW_WORDS) {
		to = at(p, IPV6_HEADER, 8 * FEW_WORDS);
		if (to) {
#pragma clang loop unroll(full)
			for (__u32 i = 0; i < FEW_WORDS; i++) {
				opaque(words); /* the loop would not be unrolled */
				if (i >= words)
					break;
				to[i] = e->header[i];
			}
			return 1;
		}
	}
	to = at(p, IPV6_HEADER, 8 * MAX_COPIED_WORDS);
	if (to) {
#pragma clang loop unroll(full)
		for (__u32 i = 0; i < MAX_COPIED_WORDS; i++) {
			opaque(words);
			if (i >= words)
				break;
			to[i] = e->header[i];
		}
		return 1;
	}
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_COPIED_WORDS && i < words; i++) {
		to = at(p, IPV6_HEADER + 8 * i, 8);
		if (!to)
			return 0;
		*to = e->header[i];
	}
	return 1;
}

/*
 * Finds how the first header takes the options; OUTCOME_NO_IOAM if it does. Not inlined: see
 * scan_options().
 */
__noinline int plan_merging(context *ctx, const struct encapsulation *e, __u32 l3, __u32 type)
{
	__u32 end, content, inserted, most = type == NEXT_HBH ? MAX_HBH : E2E_HEADER;
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct merging *m = merging_here();
	const __u8 *header;

	if (!e || !m)
		return OUTCOME_ENCAP_SKIPPED_HBH;
	packet_load(ctx, p);
	end = reach_header(ctx, p, 0, most);
	header = at(p, IPV6_HEADER, 8);
	if (!end || !header)
		return OUTCOME_ENCAP_SKIPPED_OPTIONS;
	m->type = type;
	m->next_header = header[0];
	m->cursor = 2;
	m->first = 0;
	m->behind = 0;
	inserted = type == NEXT_HBH ? e->options - e->e2e_options : e->e2e_options;
	m->options = inserted;
	m->begin = type == NEXT_HBH ? 0 : (__u32)e->last_header << 3;
	m->after = 0;
	m->has_alert = 0;
	m->has_jumbo = 0;
	if (!count_options(p, m, end))
		return OUTCOME_ENCAP_SKIPPED_OPTIONS;
	if (type == NEXT_HBH && m->has_alert)
		return OUTCOME_ENCAP_SKIPPED_ROUTER_ALERT;
	if (type == NEXT_HBH && m->has_jumbo)
		return OUTCOME_ENCAP_SKIPPED_JUMBO;
	content = (__u32)(type == NEXT_HBH ? e->content : e->whole) << 2;
	if (!content)
		m->first = 0; /* the header stays as it is */
	else if (!m->first)
		m->first = end;
	m->content = content;
	m->padding = (m->first - content) & 7;
	m->growth = content + m->padding - m->first;
	m->moved = m->first;
	m->moved_size = end - m->first;
	end += m->growth - m->begin;
	m->length = (end >> 3) - 1;
	/* what is longer could not be taken apart again */
	if (content && (is_too_full(m, inserted, m->padding) || m->first > 2 + MAX_STACK_PADDING ||
			end > E2E_HEADER))
		return OUTCOME_ENCAP_SKIPPED_OPTIONS;
	if (type != NEXT_HBH && m->begin + end > E2E_HEADER)
		return OUTCOME_ENCAP_SKIPPED_HBH;
	if (NODE.inserts_e2e && type == NEXT_HBH && e->e2e_options)
		return plan_after(ctx, e, l3);
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
	put_words(p, e, words);
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
	if (NODE.inserts_e2e && m->after)
		put_after(ctx, e, l3);
	put_content(ctx, p, e, m->content >> 2 & 0xff);
	put_padding(p, IPV6_HEADER + m->content, m->padding);
	ip6 = at(p, 0, IPV6_HEADER);
	header = at(p, IPV6_HEADER + m->begin, 8);
	if (!ip6 || !header)
		return -1;
	ip6->payload_length = bpf_htons(payload > 0xffff ? 0 : payload);
	ip6->next_header = m->type == NEXT_HBH ? NEXT_HBH : e->first_header;
	header[0] = m->next_header;
	header[1] = m->length;
	return complete_merged(ctx, e, departure, l3);
}

#endif
