// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Module of the incremental trace (RFC 9197 §4.4): where the way out is known, the packet grows by this
 * node's data (docs/data-plane/incremental-traces.md; incremental_grow.h).
 */
#ifndef WAYMARK_OPTION_INCREMENTAL_H
#define WAYMARK_OPTION_INCREMENTAL_H

#include "draft.h"
#include "edit.h"
#include "option/option.h"
#include "option/trace.h"

#define MAX_OPTION 255 /* bytes of an option's data */

/*
 * Whether a trace whose nodes have snapshots ends with the data of a node: each says how long its snapshot
 * is (RFC 9197 §4.4.2.13). Not inlined: see scan_options().
 */
__noinline int ends_with_snapshot(context *ctx, __u32 l3, const struct option *o, __u32 length)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 end, next, fields;

	if (!o)
		return 0;
	packet_load(ctx, p);
	end = o->offset + 2 + (length & MAX_OPTION);
	next = o->offset + TRACE_OFFSET;
	fields = TRACE_NODELEN(o->header) << 2;
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_OPTION / 4 && next < end; i++) {
		const __u8 *snapshot = at(p, next + fields, 4);

		if (!snapshot)
			return 0;
		next += fields + 4 + ((__u32)snapshot[0] << 2);
	}
	return next == end;
}

/* Whether a trace ends with the data of a node. Where nodes have none, nothing is read. */
static __always_inline int ends_with_node(context *ctx, __u32 l3, const struct option *o,
					  __u32 length)
{
	__u32 fields = TRACE_NODELEN(o->header) << 2;

	if (o->type & TRACE_BIT(22))
		return ends_with_snapshot(ctx, l3, o, length);
	return !fields || (length - TYPED_OPTION_MIN) % fields == 0;
}

/*
 * OUTCOME_UNTOUCHED if the trace in a slot is sound. RemainingLen is of no space that is in the packet. Not
 * inlined: see scan_options().
 */
__noinline int incremental_check(context *ctx, struct options *o, __u32 slot, __u32 length)
{
	struct packet packet = {}, *p = &packet;
	struct option *option;

	if (!o || slot >= MAX_IOAM_OPTIONS)
		return OUTCOME_OPTION_UNSUPPORTED;
	p->l3 = o->l3;
	option = &o->options[slot];
	packet_load(ctx, p);
	/* to Linux, an option-type that it does not know has no errors */
	if (length < TYPED_OPTION_MIN || !read_words(p, option->offset, option))
		return NODE.mainline ? OUTCOME_OPTION_UNSUPPORTED : OUTCOME_MALFORMED_OPTION_LENGTH;
	if (TRACE_NODELEN(option->header) != node_length(option->type))
		return NODE.mainline ? OUTCOME_OPTION_UNSUPPORTED : OUTCOME_MALFORMED_NODE_LENGTH;
	if (!ends_with_node(ctx, o->l3, option, length))
		return NODE.mainline ? OUTCOME_OPTION_UNSUPPORTED : OUTCOME_MALFORMED_NODE_DATA;
	option->words = (length - TYPED_OPTION_MIN) >> 2;
	return OUTCOME_UNTOUCHED;
}

/*
 * Notes what the trace is to this node; it grows only where its namespace allows that. Not inlined: see
 * scan_options().
 */
__noinline int incremental_note(struct options *o, __u32 slot)
{
	enum outcome outcome = OUTCOME_INCREMENTAL_TRACE;
	const struct ioam_namespace *ns;
	struct option *option;

	if (!o || slot >= MAX_IOAM_OPTIONS)
		return 0;
	option = &o->options[slot];
	ns = namespace_of(o, option);
	o->has_trace = 1; /* it is reported by the record of the header */
	o->trace_flags |= option->header >> TRACE_FLAGS_AT;
	note_removal(o, ns);
	if (!ns) {
		outcome = OUTCOME_NAMESPACE_UNKNOWN;
	} else if (!NODE.grows || !ns->incremental) {
		outcome = OUTCOME_OPTION_UNSUPPORTED;
	} else if (option->header & TRACE_OVERFLOW) {
		outcome = OUTCOME_OVERFLOW_SET;
	} else {
		o->grows = 1;
		o->growing_types |= option->type;
		o->room += (data_length(option, ns) << 2) + 4; /* and padding */
	}
	set_outcome(o, option, outcome);
	return 0;
}

static __always_inline int incremental_grows(const struct options *o)
{
	return NODE.grows && o->grows;
}

/* Whether some trace that grows needs the time of arrival, or at egress how long ago that was. */
static __always_inline int incremental_needs_arrival(const struct options *o)
{
	return incremental_grows(o) && o->growing_types & (TRACE_BIT(2) | TRACE_BIT(3) |
							   (NODE.mainline ? 0 : TRACE_BIT(4)));
}

static __always_inline int incremental_needs_queue(const struct options *o)
{
	return incremental_grows(o) && o->growing_types & TRACE_BIT(6);
}

static __always_inline int incremental_needs_buffer(const struct options *o)
{
	return incremental_grows(o) && !NODE.mainline && o->growing_types & TRACE_BIT(11);
}

/*
 * Bounds RemainingLen of the incremental traces of the header that was inserted last by what the path
 * carries (RFC 9197 §4.4.1). Not inlined: see scan_options().
 */
__noinline int incremental_insert(context *ctx, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	const struct draft *d = draft_here();
	const struct encapsulation *e;

	if (!d)
		return -1;
	e = bpf_map_lookup_elem(&encapsulations, &d->inserted);
	if (!e || !e->has_incremental)
		return -1;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < e->options; i++) {
		const struct patch *patch = &e->patches[i];

		if (patch->kind == KIND_INCREMENTAL && d->room >> 2 < patch->remaining)
			patch8(p, patch->remaining_at, d->room >> 2);
	}
	return 0;
}

#endif
