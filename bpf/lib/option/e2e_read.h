// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads the Edge-to-Edge options of a Destination Options header that may have to be removed. */
#ifndef WAYMARK_OPTION_E2E_READ_H
#define WAYMARK_OPTION_E2E_READ_H

#include "option/e2e.h"

/* The next word of an option's fields; zero, and `beyond` set, where it is not in the packet. */
static __always_inline __u32 next_e2e_word(const struct packet *p, __u32 *offset, __u32 *beyond)
{
	const __be32 *word = at(p, *offset, 4);

	*offset += 4;
	if (word)
		return bpf_ntohl(*word);
	*beyond = 1;
	return 0;
}

/* Reads the fields of an option. */
static __always_inline enum outcome read_e2e_fields(const struct packet *p, struct e2e_note *note,
						    __u32 type, __u32 offset, __u32 length)
{
	__u32 beyond = 0, need = E2E_OPTION;

	if ((type & (E2E_SEQUENCE_64 | E2E_SEQUENCE_32)) == (E2E_SEQUENCE_64 | E2E_SEQUENCE_32))
		return OUTCOME_MALFORMED_SEQUENCES;
	need += (type >> 12 & 8) + (type >> 12 & 4) + (type >> 11 & 4) + (type >> 10 & 4);
	if (length < need)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	offset += E2E_DATA;
	note->number = 0;
	note->seconds = note->fraction = UNAVAILABLE;
	if (type & E2E_SEQUENCE_64)
		note->number = (__u64)next_e2e_word(p, &offset, &beyond) << 32;
	if (type & (E2E_SEQUENCE_64 | E2E_SEQUENCE_32))
		note->number |= next_e2e_word(p, &offset, &beyond);
	if (type & E2E_SECONDS)
		note->seconds = next_e2e_word(p, &offset, &beyond);
	if (type & E2E_FRACTION)
		note->fraction = next_e2e_word(p, &offset, &beyond);
	return beyond ? OUTCOME_MALFORMED_OPTION_LENGTH : OUTCOME_E2E_MEASURED;
}

/*
 * Reads one IOAM option; its outcome if the header is removed, or its error. Not inlined: see
 * scan_options().
 */
__noinline int read_e2e_option(context *ctx, __u32 l3, __u32 offset, __u32 index,
			       __u32 tables_index)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct e2e_packet *n = e2e_packet_here();
	const struct ioam_namespace *ns;
	enum outcome outcome;
	struct e2e_note *note;
	const __u8 *option;
	const __be32 *word;

	if (!n || index >= E2E_OPTIONS)
		return OUTCOME_MALFORMED_TOO_MANY_OPTIONS;
	note = &n->notes[index];
	note->offset = offset - IPV6_HEADER;
	note->removed = 0;
	if (offset & 3)
		return OUTCOME_MALFORMED_ALIGNMENT;
	packet_load(ctx, p);
	option = at(p, offset & 0xfff, 4);
	if (!option || option[1] < 2)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	if (option[3] != IOAM_E2E) {
		n->found |= E2E_SHARED;
		return OUTCOME_OPTION_UNSUPPORTED;
	}
	word = at(p, (offset & 0xfff) + 4, 4);
	if (option[1] < E2E_OPTION || !word)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	note->header = bpf_ntohl(*word) & (0xffff0000 | E2E_TYPES);
	outcome = read_e2e_fields(p, note, note->header, offset & 0xfff, option[1]);
	if (outcome != OUTCOME_E2E_MEASURED)
		return outcome;
	ns = find_namespace(tables_of(tables_index), note->header >> 16);
	if (ns)
		n->found |= E2E_KNOWN;
	note->removed = NODE.has_removals && ns && ns->remove;
	n->found |= note->removed ? E2E_MARKED : E2E_SHARED;
	if (!ns)
		return OUTCOME_NAMESPACE_UNKNOWN;
	return NODE.has_e2e && ns->e2e ? OUTCOME_E2E_MEASURED : OUTCOME_OPTION_UNSUPPORTED;
}

/* What an error in a header is: nothing, if nothing before it was IOAM. */
static __always_inline int broken_e2e(const struct e2e_packet *n, enum outcome outcome)
{
	return n->count ? (int)outcome << 24 : 0;
}

/* Reads the options of the header from the cursor on; the packet is within reach. */
static __always_inline int read_e2e_options(context *ctx, const struct packet *p,
					    struct e2e_packet *n, __u32 end, __u32 tables_index)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_OPTIONS; i++) {
		__u32 offset = n->cursor, type, size, slot = n->count;
		const __u8 *option;
		int outcome;

		if (offset >= end)
			return slot ? (int)(n->found | E2E_THERE) : 0;
		option = at(p, offset, 1);
		if (!option)
			return broken_e2e(n, OUTCOME_MALFORMED_HEADER);
		type = option[0];
		if (type == OPTION_PAD1) {
			n->cursor = offset + 1;
			continue;
		}
		option = at(p, offset, 2);
		if (!option || offset + 2 > end)
			return broken_e2e(n, OUTCOME_MALFORMED_HEADER);
		size = option[1];
		if (offset + 2 + size > end)
			return broken_e2e(n, OUTCOME_MALFORMED_HEADER);
		n->cursor = offset + 2 + size;
		if (type == OPTION_PADN)
			continue;
		if (!is_ioam(p, offset, type, size)) {
			n->found |= E2E_SHARED;
			if (type & OPTION_DISCARDS)
				n->found |= E2E_DISCARDS;
			continue;
		}
		outcome = read_e2e_option(ctx, p->l3, offset, slot, tables_index);
		if (outcome >= OUTCOME_MALFORMED_IPV6)
			return outcome << 24;
		if (slot >= E2E_OPTIONS)
			return OUTCOME_MALFORMED_TOO_MANY_OPTIONS << 24;
		n->notes[slot].outcome = outcome;
		n->count = slot + 1;
	}
	if (n->cursor < end)
		return broken_e2e(n, OUTCOME_MALFORMED_TOO_MANY_OPTIONS);
	return n->count ? (int)(n->found | E2E_THERE) : 0;
}

/* With the index of the tables: read it though nothing is removed here. */
#define READ_FOR_OTHERS 2

/*
 * Reads the header after `before` bytes of headers, whose next header value is `next`, if that is
 * Destination Options. Otherwise, or if there is no IOAM in it or it is not whole, only the next header
 * value is found. The options are noted, for measure_e2e(). Not inlined: the stack is small.
 */
__noinline int read_destination(context *ctx, __u32 l3, __u32 before, __u32 next,
				__u32 tables_index)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct e2e_packet *n = e2e_packet_here();
	__u32 begin = IPV6_HEADER + (before & 0xfff), length, payload;
	const struct ipv6 *ip6;
	const __u8 *header;
	int found;

	next &= 0xff;
	if (!n)
		return next;
	n->count = 0;
	if (next != NEXT_DESTINATION ||
	    (!tables_of(tables_index)->removes && !(tables_index & READ_FOR_OTHERS)))
		return next;
	packet_load(ctx, p);
	packet_pull(ctx, p, begin + 8);
	ip6 = at(p, 0, IPV6_HEADER);
	header = at(p, begin, 8);
	if (!ip6 || !header)
		return next;
	length = ((__u32)header[1] + 1) << 3;
	payload = bpf_ntohs(ip6->payload_length);
	if (length > E2E_HEADER || (payload && begin - IPV6_HEADER + length > payload))
		return next;
	n->tunnel = tunnel_hash(ip6);
	n->cursor = begin + 2;
	n->found = header[0];
	packet_pull(ctx, p, begin + length);
	if (!at(p, begin + length - 8, 8))
		return next;
	found = read_e2e_options(ctx, p, n, begin + length, tables_index);
	if (found & E2E_THERE)
		return found | length << 5;
	n->count = 0;
	return found | next;
}

/* Forgets what was read: that header stays. Not inlined: the stack is small. */
__noinline int forget_e2e(void)
{
	struct e2e_packet *n = e2e_packet_here();

	if (n)
		n->count = 0;
	return 0;
}

#endif
