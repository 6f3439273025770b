// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Probes with the Active flag that end here although their header stays
 * (docs/data-plane/loopback-and-active.md#active).
 */
#ifndef WAYMARK_PROBE_H
#define WAYMARK_PROBE_H

#include "extract.h"
#include "modules.h"
#include "record.h"

/* Whether a packet that was treated loses something here, or should have. */
static __always_inline int is_decapsulated(enum outcome outcome)
{
	return outcome == OUTCOME_REMOVAL_PARTIAL || outcome == OUTCOME_DECAP_FAILED ||
	       outcome == OUTCOME_OPTIONS_REMOVED || outcome == OUTCOME_INLINE_REMOVED ||
	       outcome == OUTCOME_TUNNEL_DECAPSULATED;
}

/* Whether a packet with this outcome is a probe that ends here. Not inlined: see scan_options(). */
__noinline int ends_probe(const struct options *o, enum outcome outcome)
{
	return o && is_decapsulated(outcome) && is_probe(o);
}

/*
 * Reports a probe whose removal came to an outcome that left it as it is. Not inlined: the stack is small.
 */
__noinline int report_probe(context *ctx, const struct options *o, const struct interface *on,
			    struct hop *hop, enum outcome outcome)
{
	struct packet packet = {.on = on}, *p = &packet;
	struct recording rec = {};

	if (!o || !on || !hop || !are_records_wanted() ||
	    (outcome != OUTCOME_REMOVAL_PARTIAL && outcome != OUTCOME_DECAP_FAILED))
		return 0;
	p->l3 = o->l3;
	packet_load(ctx, p);
	if (!hop->tai)
		hop->tai = tai_now();
	/* what the kernel refused to remove has been exported before */
	if (outcome == OUTCOME_REMOVAL_PARTIAL && dex_reports(o) && are_exports_wanted()) {
		dex_remove(ctx, p, o, hop, o->length, ABOUT_INNER);
		packet_load(ctx, p);
	}
	record_begin(ctx, p, &rec, o->length);
	if (rec.held)
		record_end(ctx, p, &rec, outcome, hop->tai);
	return 0;
}

#endif
