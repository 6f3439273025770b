// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Packets without IOAM in a Hop-by-Hop header: they may lose a tunnel that ends here, or Edge-to-Edge options
 * (docs/data-plane/tunnel-ends.md, edge-to-edge.md).
 */
#ifndef WAYMARK_BARE_H
#define WAYMARK_BARE_H

#include "extract.h"
#include "hbh.h"
#include "modules.h"
#include "tunnel_end.h"

/* Counts the options of a Destination Options header, if the packet has lost one. */
static __always_inline void measure_removed(context *ctx, struct packet *p, int tunneled)
{
	if (!READS_E2E)
		return;
	measure_e2e(ctx, p->l3, p->on->slot, tunneled);
	packet_load(ctx, p);
}

static __always_inline int is_removed(enum outcome outcome)
{
	return outcome == OUTCOME_TUNNEL_DECAPSULATED || outcome == OUTCOME_INLINE_REMOVED;
}

/* Takes a packet without IOAM out of the tunnel that ends here, if one does; without a record. */
static __always_inline enum outcome bare_tunnel(context *ctx, struct packet *p,
						const struct options *o, __u32 length, __u8 next)
{
	enum outcome outcome;

	if (!NODE.has_decapsulations)
		return OUTCOME_NO_IOAM;
	packet_pull(ctx, p, 2 * IPV6_HEADER + length);
	outcome = find_tunnel(ctx, p, next, length, o, 0);
	if (outcome != OUTCOME_TUNNEL_DECAPSULATED)
		return outcome;
	if (o && o->discards)
		return OUTCOME_REMOVAL_PARTIAL;
	return remove_tunnel(ctx, p, IPV6_HEADER + length) ? OUTCOME_DECAP_FAILED : outcome;
}

/*
 * The same of a packet with a Destination Options header that was found, or removes that header, or
 * options from it.
 */
static __always_inline enum outcome end_destination(context *ctx, struct packet *p, __u32 length,
						    int found)
{
	__u32 whole = (length & 0xfff) + E2E_LENGTH(found);
	enum outcome outcome;
	int removed;

	packet_pull(ctx, p, 2 * IPV6_HEADER + whole);
	outcome = find_tunnel(ctx, p, E2E_NEXT(found), whole, 0, found & E2E_KNOWN);
	if (outcome == OUTCOME_TUNNEL_DECAPSULATED) {
		if (found & E2E_DISCARDS)
			return OUTCOME_REMOVAL_PARTIAL;
		return remove_tunnel(ctx, p, IPV6_HEADER + whole) ? OUTCOME_DECAP_FAILED : outcome;
	}
	if (outcome != OUTCOME_NO_IOAM || !(found & E2E_MARKED))
		return outcome;
	if (length || found & E2E_SHARED) {
		removed = extract_e2e(ctx, p->l3, length, E2E_LENGTH(found));
		take_place(p, removed);
		return removed & 0xff;
	}
	if (E2E_NEXT(found) == NEXT_HBH)
		return OUTCOME_REMOVAL_PARTIAL;
	return remove_header(ctx, p, whole, E2E_NEXT(found)) ? OUTCOME_DECAP_FAILED
							     : OUTCOME_INLINE_REMOVED;
}

/*
 * The same in a call: the stack is small. `length` is of the headers before it, which have no IOAM. Bytes
 * before the IPv6 header are from bit 8 on, packet.broken is bit 16.
 */
__noinline int remove_destination(context *ctx, const struct interface *on, __u32 l3, __u32 length,
				  int found)
{
	struct packet packet = {.l3 = l3 & 0xff, .on = on}, *p = &packet;
	enum outcome outcome;

	if (!on)
		return OUTCOME_NO_IOAM;
	packet_load(ctx, p);
	outcome = end_destination(ctx, p, length, found);
	return with_place(p, outcome);
}

/*
 * Treats a packet without IOAM in its Hop-by-Hop header, of `length` bytes; 0: it has none, and its first
 * header is of type `next`.
 */
static __always_inline enum outcome
without_options(context *ctx, struct packet *p, const struct options *o, __u32 length, __u8 next)
{
	enum outcome outcome;
	int found, removed;
	const __u8 *hbh;

	if (!READS_E2E)
		return OUTCOME_NO_IOAM; /* nor does a tunnel end here */
	if (length) {
		hbh = at(p, IPV6_HEADER, 8);
		if (!hbh)
			return OUTCOME_NO_IOAM;
		next = hbh[0];
	}
	if (next != NEXT_DESTINATION || !(p->on->roles & ROLE_INGRESS))
		return bare_tunnel(ctx, p, o, length, next);
	found = read_destination(ctx, p->l3, length, next, p->on->tables_index);
	if (E2E_ERROR(found)) {
		packet_load(ctx, p);
		return E2E_ERROR(found);
	}
	if (o && o->discards)
		found |= E2E_DISCARDS;
	removed = remove_destination(ctx, p->on, p->l3, length, found);
	outcome = removed & 0xff;
	take_place(p, removed);
	packet_load(ctx, p);
	if (is_removed(outcome) || outcome == OUTCOME_OPTIONS_REMOVED)
		measure_removed(ctx, p, outcome == OUTCOME_TUNNEL_DECAPSULATED);
	return outcome;
}

#endif
