// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packets of measured flows that were counted before they grew, and are still to be cut. */
#ifndef WAYMARK_DEPARTURE_H
#define WAYMARK_DEPARTURE_H

#include "marking.h"

/*
 * Counts the parts that an offloaded packet has more than when it was counted, because its segments
 * became smaller when a header was inserted. Not inlined: few packets need it.
 */
__noinline int recount_cut(context *ctx)
{
	__u32 zero = 0, size = ctx->gso_size, parts;
	const struct marking *m = bpf_map_lookup_elem(&markings, &zero);
	const struct block_clock *last = bpf_map_lookup_elem(&block_clocks, &zero);
	struct measured_flow flow = {};
	struct block_counts *c;

	if (!m || !last || !size)
		return 0;
	flow.number = last->cut.number;
	if (!last->cut.payload) {
		note_packets(&flow, last->cut.block, NOTE_UNCOUNTED, 0, 0);
		return 0;
	}
	parts = (last->cut.payload + size - 1) / size;
	if (parts <= last->cut.parts)
		return 0;
	parts -= last->cut.parts;
	c = counts_at(m, last->cut.place, last->cut.block);
	if (!c || c->block != last->cut.block)
		return 0;
	c->packets += parts;
	c->octets += parts * last->cut.repeated;
	c->time += parts * last->cut.into;
	if (last->cut.delayed)
		note_packets(&flow, last->cut.block, NOTE_DELAY, parts, last->cut.into);
	return 0;
}

#endif
