// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Delays in a trace whose header is removed here (docs/data-plane/delays.md): of each segment, from one node
 * with a time to the next, and of the path, from the first node to this one.
 */
#ifndef WAYMARK_TRACEDELAYS_H
#define WAYMARK_TRACEDELAYS_H

#include "context.h"
#include "delays.h"
#include "option/option.h"
#include "option/trace.h"

#define NO_TIME (~0ULL)

/* Nodes that an option of 255 bytes can have, if they have times. */
#define TIMED_NODES 30

/* A timestamp in ns of its epoch, or NO_TIME. Nodes of a domain have one format. */
static __always_inline __u64 time_in(__u32 seconds, __u32 fraction)
{
	__u64 ns = seconds * NS_PER_S;

	if (seconds == UNAVAILABLE && fraction == UNAVAILABLE)
		return NO_TIME;
	if (NODE.timestamp_format == TIMESTAMP_NTP)
		return ns + ((fraction * NS_PER_S + (1U << 31)) >> 32); /* written rounded down */
	if (NODE.timestamp_format == TIMESTAMP_PTP)
		return fraction < NS_PER_S ? ns + fraction : NO_TIME;
	return fraction < 1000000 ? ns + fraction * 1000ULL : NO_TIME;
}

/* The layout of a trace type; zero if its nodes have no times. */
static __always_inline int stop_layout_of(__u32 header, __u32 type, struct stop_layout *l)
{
	if ((type & (TRACE_BIT(2) | TRACE_BIT(3))) != (TRACE_BIT(2) | TRACE_BIT(3)))
		return 0;
	l->time = (HAS(type, 0) + HAS(type, 1)) << 2;
	l->wide = !HAS(type, 0);
	l->id = l->wide ? (node_length(type & 0xff000000) & 0xf) << 2 : 0;
	l->length = TRACE_NODELEN(header) << 2;
	return 1;
}

/* Reads the data of a node. */
static __always_inline int read_stop(const struct packet *p, __u32 type,
				     const struct stop_layout *l, __u32 offset, struct stop *s)
{
	const __be32 *time = at(p, offset + l->time, 8), *id;

	if (!time)
		return 0;
	s->time = time_in(bpf_ntohl(time[0]), bpf_ntohl(time[1]));
	s->id = 0;
	if (l->wide && !(type & TRACE_BIT(8)))
		return 1;
	id = at(p, offset + l->id, 8);
	if (!id)
		return 0;
	s->id = bpf_ntohl(id[0]) & 0xffffff;
	if (l->wide)
		s->id = s->id << 32 | bpf_ntohl(id[1]);
	return 1;
}

/* Where an option is, for a function that gets it in one word. */
#define TRACE_AT(l3, offset) ((__u32)(l3) | (__u32)(offset) << 8)
#define TRACE_AT_INCREMENTAL (1U << 31) /* its newest data come first */

/* Of this CPU: hooks do not interrupt each other. */
static __always_inline struct trace_walk *walk_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&trace_walks, &zero);
}

/* What read_next_stop() found. */
#define STOP_READ  1 /* a node, and there may be another */
#define STOP_TIMED 2 /* its delay to the one after it */

/*
 * Reads a trace's next node. Not inlined, with all that it knows in a map: Linux 6.1 would go through the rest
 * of a trace once for each way through a node.
 */
__noinline int read_next_stop(context *ctx)
{
	struct trace_walk *w = walk_here();
	struct packet packet = {}, *p = &packet;
	struct stop stop = {};
	const __u8 *snapshot;
	int found = 0;

	if (!w)
		return 0;
	p->l3 = w->l3;
	packet_load(ctx, p);
	if (w->next + w->layout.length > w->end ||
	    !read_stop(p, w->type, &w->layout, w->next, &stop))
		return 0;
	if (stop.time != NO_TIME && w->newer.time != NO_TIME &&
	    (!w->layout.wide || w->type & TRACE_BIT(8)))
		found = STOP_TIMED;
	w->to = w->newer.id;
	w->delay = w->newer.time - stop.time;
	w->newer = stop;
	w->stops++;
	w->next += w->layout.length;
	if (!(w->type & TRACE_BIT(22)))
		return found | STOP_READ;
	snapshot = at(p, w->next, 4);
	if (!snapshot)
		return found;
	w->next += 4 + ((__u32)snapshot[0] << 2);
	return found | STOP_READ;
}

/*
 * Counts the delays of a trace, before this node's data are in it: the time here is `tai`, as precise as a
 * trace has it. Not inlined: see scan_options().
 */
__noinline int note_trace(context *ctx, __u32 where, __u64 tai)
{
	struct packet packet = {.l3 = where & 0xff}, *p = &packet;
	__u32 offset = where >> 8 & 0xfff, header, type, id;
	struct trace_walk *w = walk_here();
	struct timestamp now;
	const __u8 *option;
	struct stop own;

	packet_load(ctx, p);
	option = at(p, offset, TRACE_OFFSET);
	if (!option || !w)
		return 0;
	header = bpf_ntohl(*(const __be32 *)(option + 4));
	type = bpf_ntohl(*(const __be32 *)(option + 8));
	if (!stop_layout_of(header, type, &w->layout))
		return 0;
	id = header >> 16;
	w->l3 = where & 0xff;
	w->type = type;
	w->stops = 0;
	w->end = offset + 2 + option[1];
	w->next = offset + TRACE_OFFSET;
	if (!(where & TRACE_AT_INCREMENTAL))
		w->next += TRACE_REMAINING(header) << 2;
	if (w->layout.wide)
		id |= DELAY_WIDE;
	w->segment = label_of(DELAY_SEGMENT, id);
	now = timestamp_of(tai);
	own.id = !w->layout.wide ? NODE.node_id : type & TRACE_BIT(8) ? NODE.node_id_wide : 0;
	own.time = time_in(now.seconds, now.fraction);
	w->newer = own;
	if (header & TRACE_OVERFLOW)
		w->newer.time = NO_TIME; /* the nodes before this one may have found no room */
#pragma clang loop unroll(disable)
	for (int i = 0; i < TIMED_NODES; i++) {
		int found = read_next_stop(ctx);

		if (found & STOP_TIMED)
			note_delay(w->newer.id, w->to, w->segment, w->delay);
		if (!(found & STOP_READ))
			break;
	}
	if (!w->stops)
		return 0;
	if (header & TRACE_OVERFLOW || w->newer.time == NO_TIME)
		note_incomplete(w->newer.id, own.id, label_of(DELAY_PATH, id));
	else
		note_delay(w->newer.id, own.id, label_of(DELAY_PATH, id), own.time - w->newer.time);
	return 0;
}

/*
 * Counts the delays of the traces that a packet loses: all, or those of namespaces that are removed here.
 * Not inlined: see scan_options().
 */
__noinline int note_traces(context *ctx, const struct options *o, struct hop *hop, int all)
{
	if (!o || !hop)
		return 0;
	if (!hop->tai)
		hop->tai = tai_now();
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		const struct option *option = &o->options[i];
		const struct ioam_namespace *ns;
		__u32 where = TRACE_AT(o->l3, option->offset);

		if (option->kind == KIND_INCREMENTAL)
			where |= TRACE_AT_INCREMENTAL;
		else if (option->kind != KIND_TRACE)
			continue;
		ns = namespace_of(o, option);
		if (ns && (all || ns->remove))
			note_trace(ctx, where, hop->tai);
	}
	return 0;
}

#endif
