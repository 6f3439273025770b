// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Insertion of Edge-to-Edge options after a Hop-by-Hop header that a packet has already, which may take
 * other options (merge.h): into the Destination Options header there, or with one of their own. The kernel
 * makes room only right after the IPv6 header, so what stays of the Hop-by-Hop header moves to the front.
 */
#ifndef WAYMARK_MERGE_AFTER_H
#define WAYMARK_MERGE_AFTER_H

#include "draft.h"
#include "merging.h"

/*
 * Finds how the options go after the header that plan_merging() has planned; the outcome is as there. Not
 * inlined: see scan_options().
 */
__noinline int plan_after(context *ctx, const struct encapsulation *e, __u32 l3)
{
	__u32 content, before, growth, end = 0, first = 0;
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct merging *m = merging_here();
	const __u8 *header;

	if (!e || !m)
		return OUTCOME_ENCAP_SKIPPED_HBH;
	packet_load(ctx, p);
	header = at(p, IPV6_HEADER, 8);
	if (!header)
		return OUTCOME_ENCAP_SKIPPED_OPTIONS;
	before = ((__u32)header[1] + 1) << 3;
	m->after = ((__u32)m->length + 1) << 3;
	m->after_next = header[0];
	if (header[0] == NEXT_DESTINATION) {
		end = reach_header(ctx, p, before, E2E_HEADER);
		header = at(p, IPV6_HEADER + before, 8);
		if (!end || !header)
			return OUTCOME_ENCAP_SKIPPED_OPTIONS;
		m->after_next = header[0];
		m->cursor = before + 2;
		m->first = 0;
		m->options = e->e2e_options;
		m->behind = 0;
		if (!count_options(p, m, before + end))
			return OUTCOME_ENCAP_SKIPPED_OPTIONS;
		first = m->first ? m->first - before : end;
	}
	content = ((__u32)e->whole << 2) - ((__u32)e->last_header << 3);
	m->next_header = NEXT_DESTINATION;
	m->after_padding = (first - content) & 7;
	if (end &&
	    (is_too_full(m, e->e2e_options, m->after_padding) || first > 2 + MAX_STACK_PADDING))
		return OUTCOME_ENCAP_SKIPPED_OPTIONS;
	growth = content + m->after_padding - first;
	m->growth += growth;
	end += growth;
	m->after_length = (end >> 3) - 1;
	if (end > E2E_HEADER)
		return OUTCOME_ENCAP_SKIPPED_OPTIONS;
	/* what is longer could not be taken apart again */
	return m->after + end > E2E_HEADER ? OUTCOME_ENCAP_SKIPPED_HBH : OUTCOME_NO_IOAM;
}

/*
 * Writes the prebuilt piece, at whose end the options are, to where these belong, and what stays of the
 * Hop-by-Hop header after its own inserted options, which put_merged() writes then. Not inlined: the stack
 * is small.
 */
__noinline int put_after(context *ctx, const struct encapsulation *e, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 size, whole, offset = p->l3 + IPV6_HEADER;
	struct merging *m = merging_here();
	struct draft *d = draft_here();
	__u8 *header;

	if (!e || !m || !d)
		return -1;
	size = ((m->moved_size - 1) & (E2E_HEADER - 1)) + 1;
	if (m->moved_size && load_bytes(ctx, offset + m->growth + m->moved, m->moving, size))
		return -1;
	d->shift = m->after - ((__u32)e->last_header << 3);
	whole = (((__u32)e->whole << 2) - 1 & (MAX_HEADER_INSERTION - 1)) + 1;
	store_bytes(ctx, offset + d->shift, e->header, whole);
	if (m->moved_size)
		store_bytes(ctx, offset + m->after - size, m->moving, size);
	packet_load(ctx, p);
	put_padding(p, IPV6_HEADER + d->shift + whole, m->after_padding);
	header = at(p, IPV6_HEADER + m->after, 8);
	if (!header)
		return -1;
	header[0] = m->after_next;
	header[1] = m->after_length;
	return 0;
}

#endif
