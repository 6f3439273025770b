// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What is reported about a Direct Export: a postcard, or one packet more of a flow. */
#ifndef WAYMARK_POSTCARD_H
#define WAYMARK_POSTCARD_H

#include "clock.h"
#include "flowtable.h"
#include "option/option.h"
#include "postcardring.h"

/* Not inlined: the stack is small. */
static __noinline int send_postcard(struct draft *e)
{
	struct tally *tally = find_tally(e->slot);

	if (!tally || !may_send(tally))
		return 0;
	if (!e->postcard.time)
		e->postcard.time = tai_now();
	add(tally, put_postcard(e) ? COUNTER_POSTCARDS : COUNTER_RECORDS_LOST);
	return 0;
}

/*
 * Reports one Direct Export: its first word, its trace type, and what Extension-Flags announce. The
 * rest is in the draft. Not inlined: see scan_options().
 */
__noinline int report_option(__u32 header, __u32 type, __u32 flow_id, __u32 sequence)
{
	struct draft *e = draft_here();
	const struct ioam_namespace *ns;
	struct postcard *c;
	__u64 word;

	if (!e)
		return 0;
	ns = find_namespace(tables_of(e->tables_index), header >> 16);
	if (!ns || ns->export == EXPORT_NONE)
		return 0;
	c = &e->postcard;
	/* as they are read, in words: a load of two stores waits for both */
	word = *(const __u16 *)&c->key.next_header | (header & 0xffff0000);
	if (header & EXTENSION_FLOW_ID)
		word |= (__u64)flow_id << 32;
	*(__u64 *)&c->key.next_header = word;
	*(__u64 *)&c->key.type = (type & 0xffffff00) | (header & 0xff);
	c->sequence = header & EXTENSION_SEQUENCE ? sequence : 0;
	c->buffer = type & TRACE_BIT(11) ? e->buffer : UNAVAILABLE;
	c->flags = header >> 8;
	/* options of one packet need not ask for the same */
	c->delay = type & TRACE_BIT(4) ? e->delay : UNAVAILABLE;
	c->queue = type & TRACE_BIT(6) ? e->queue : UNAVAILABLE;
	if (ns->export == EXPORT_EVERY || aggregate(e, ns))
		send_postcard(e);
	return 1;
}

#endif
