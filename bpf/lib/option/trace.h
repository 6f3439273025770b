// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Module of the pre-allocated trace (RFC 9197 §4.4): written at ingress, completed at egress. */
#ifndef WAYMARK_OPTION_TRACE_H
#define WAYMARK_OPTION_TRACE_H

#include "clock.h"
#include "context.h"
#include "edit.h"
#include "ipv6.h"
#include "option/option.h"
#include "option/trace_common.h"
#include "option/trace_data.h"

/* OUTCOME_UNTOUCHED if the trace is sound. Checks as the kernel does, in its order. */
static __always_inline enum outcome trace_check(const struct packet *p, __u32 offset, __u32 length,
						struct option *o)
{
	if (length < TYPED_OPTION_MIN || !read_words(p, offset, o))
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	o->words = (length - TYPED_OPTION_MIN) >> 2;
	if (TRACE_REMAINING(o->header) > o->words)
		return OUTCOME_MALFORMED_REMAINING_LENGTH;
	if (TRACE_NODELEN(o->header) != node_length(o->type))
		return OUTCOME_MALFORMED_NODE_LENGTH;
	return OUTCOME_UNTOUCHED;
}

static __always_inline void trace_note(struct options *o, const struct option *option)
{
	o->trace_types |= option->type;
	o->trace_flags |= option->header >> TRACE_FLAGS_AT;
	o->has_trace = 1;
	if (NODE.has_removals)
		note_removal(o, namespace_of(o, option));
}

/* Whether some trace needs the time of arrival, of departure, or the depth of the egress queue. */
static __always_inline int trace_needs_arrival(const struct options *o)
{
	return o->trace_types & (TRACE_BIT(2) | TRACE_BIT(3) | (NODE.mainline ? 0 : TRACE_BIT(4)));
}

static __always_inline int trace_needs_departure(const struct options *o)
{
	return !NODE.mainline && o->trace_types & TRACE_BIT(4);
}

static __always_inline int trace_needs_queue(const struct options *o)
{
	return o->trace_types & TRACE_BIT(6);
}

/* Linux writes no buffer occupancy. */
static __always_inline int trace_needs_buffer(const struct options *o)
{
	return !NODE.mainline && o->trace_types & TRACE_BIT(11);
}

/* Field 4 at ingress: the delay, or for the egress hook the time of arrival. */
static __always_inline __u32 delay_field(struct options *o, const struct hop *hop)
{
	if (NODE.mainline || !hop->stays)
		return UNAVAILABLE;
	if (!(COMPLETES && NODE.fast && hop->leaves))
		return delay_begin(hop->tai);
	o->held = delay_end(delay_begin(hop->tai), tai_now());
	return o->held;
}

/* The same at ingress, for the egress hook to complete. */
static __always_inline void put_node_data(context *ctx, struct packet *p, struct options *options,
					  const struct hop *hop, const struct option *o,
					  const struct ioam_namespace *ns, __u32 offset)
{
	const volatile __u32 *type = &o->type;
	struct values v = {.tai = hop->tai,
			   .delay = *type & TRACE_BIT(4) ? delay_field(options, hop) : UNAVAILABLE};

	put_values(ctx, p, hop, o, ns, offset, &v);
}

/*
 * Transit of a sound trace (RFC 9197 §4.4.1): this node's data and RemainingLen, or the overflow
 * flag. Not inlined: see scan_options().
 */
__noinline int fill_trace(context *ctx, struct options *o, const struct hop *hop, __u32 index)
{
	struct packet packet = {}, *p = &packet;
	enum outcome outcome = OUTCOME_TRACE_FILLED;
	const struct option *option;
	struct ioam_namespace *ns;
	__u32 length, left, offset;
	__be32 *word;

	if (!o || !hop || index >= MAX_IOAM_OPTIONS)
		return OUTCOME_UNTOUCHED;
	p->l3 = o->l3;
	option = &o->options[index];
	ns = namespace_of(o, option);
	if (!ns)
		return OUTCOME_NAMESPACE_UNKNOWN;
	if (option->header & TRACE_OVERFLOW)
		return OUTCOME_OVERFLOW_SET;
	packet_load(ctx, p);
	word = at(p, option->offset + 4, 4);
	if (!word)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	length = data_length(option, ns);
	left = TRACE_REMAINING(option->header);
	if (!left || left < length) {
		put32(p, word, bpf_htonl(option->header | TRACE_OVERFLOW));
		outcome = OUTCOME_TRACE_OVERFLOW;
	} else {
		left -= length;
		put_data(p, word, bpf_htonl(option->header - length));
		offset = option->offset + TRACE_OFFSET + ((left & 0x7f) << 2);
		put_node_data(ctx, p, o, hop, option, ns, offset);
		neutralize(ctx, p, option->type, offset);
	}
	packet_commit_sum(ctx, p);
	return outcome;
}

/* Fills all traces that are to be filled. */
static __always_inline void fill_each(context *ctx, struct options *o, const struct hop *hop)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		struct option *option = &o->options[i];

		if (option->kind == KIND_TRACE && option->outcome == OUTCOME_UNTOUCHED)
			set_outcome(o, option, fill_trace(ctx, o, hop, i));
	}
}

static __always_inline void trace_ingress(context *ctx, struct options *o, const struct hop *hop)
{
	if (o->has_trace && fill_common_traces(ctx, o, hop))
		fill_each(ctx, o, hop);
}

/* Not inlined: see scan_options(). */
__noinline int fill_traces(context *ctx, struct options *o, const struct hop *hop)
{
	if (o && hop)
		trace_ingress(ctx, o, hop);
	return 0;
}

/* Whether the data at `offset` carry this node's id; `otherwise` where they have no id. */
static __always_inline int is_own(const struct packet *p, __u32 type, __u32 layout, __u32 offset,
				  int otherwise)
{
	const __be32 *word;

	if (type & TRACE_BIT(0)) {
		word = at(p, offset, 4);
		return word && (bpf_ntohl(*word) & 0xffffff) == NODE.node_id &&
		       (otherwise | (NODE.node_id != NO_NODE_ID));
	}
	if (type & TRACE_BIT(8)) {
		offset += (node_length(layout & 0xff000000) & 0xf) << 2;
		word = at(p, offset, 8);
		return word && (bpf_ntohl(word[0]) & 0xffffff) == NODE.node_id_wide >> 32 &&
		       bpf_ntohl(word[1]) == (__u32)NODE.node_id_wide &&
		       (otherwise | (NODE.node_id_wide != NO_NODE_ID_WIDE));
	}
	return otherwise;
}

/* Whether no field that is completed at egress has a value yet. */
static __always_inline int is_unfinished(const struct packet *p, __u32 type, __u32 layout,
					 __u32 offset)
{
	const __be32 *word;

	offset += HAS(layout, 0) << 2;
	if (type & TRACE_BIT(1)) {
		word = at(p, offset, 4);
		if (!word || ~*word & bpf_htonl(0xffff))
			return 0;
	}
	offset += (HAS(layout, 1) + HAS(layout, 2) + HAS(layout, 3)) << 2;
	if (type & TRACE_BIT(4)) {
		word = at(p, offset, 4);
		if (!word || !(*word & bpf_htonl(DELAY_OVERFLOW)))
			return 0;
	}
	offset += (HAS(layout, 4) + HAS(layout, 5)) << 2;
	if (type & TRACE_BIT(6)) {
		word = at(p, offset, 4);
		if (!word || *word != UNAVAILABLE)
			return 0;
	}
	offset += ((HAS(layout, 6) + HAS(layout, 7)) << 2) + (HAS(layout, 8) << 3);
	if (type & TRACE_BIT(9)) {
		word = at(p, offset, 8);
		if (!word || word[1] != UNAVAILABLE)
			return 0;
	}
	offset += (HAS(layout, 9) + HAS(layout, 10)) << 3;
	if (type & TRACE_BIT(11)) {
		word = at(p, offset, 4);
		if (!word || *word != UNAVAILABLE)
			return 0;
	}
	return 1;
}

static __always_inline void complete_fields(struct packet *p, struct options *o,
					    const struct hop *hop, __u32 type, __u32 layout,
					    __u32 offset)
{
	__be32 *word;

	offset += HAS(layout, 0) << 2;
	if (type & TRACE_BIT(1)) {
		word = at(p, offset, 4);
		if (!word)
			return;
		put_data(p, word, (*word & bpf_htonl(0xffff0000)) | bpf_htonl(hop->egress_id));
	}
	offset += (HAS(layout, 1) + HAS(layout, 2) + HAS(layout, 3)) << 2;
	if (type & TRACE_BIT(4) && !NODE.mainline) {
		word = at(p, offset, 4);
		if (!word)
			return;
		__u32 begun = bpf_ntohl(*word);

		if (begun & DELAY_OVERFLOW && begun != UNAVAILABLE) {
			o->held = delay_end(begun, hop->tai);
			put_data(p, word, bpf_htonl(o->held));
		}
	}
	offset += (HAS(layout, 4) + HAS(layout, 5)) << 2;
	if (type & TRACE_BIT(6)) {
		word = at(p, offset, 4);
		if (!word)
			return;
		put_data(p, word, bpf_htonl(hop->queue));
	}
	offset += ((HAS(layout, 6) + HAS(layout, 7)) << 2) + (HAS(layout, 8) << 3);
	if (type & TRACE_BIT(9)) {
		word = at(p, offset, 8);
		if (!word)
			return;
		put_data(p, word + 1, bpf_htonl(hop->egress_id_wide));
	}
	offset += (HAS(layout, 9) + HAS(layout, 10)) << 3;
	if (type & TRACE_BIT(11) && !NODE.mainline) {
		word = at(p, offset, 4);
		if (!word)
			return;
		put_data(p, word, bpf_htonl(hop->buffer));
	}
}

/*
 * Egress: completes what this node's ingress hook wrote into a sound trace. It must be clear that
 * the data are this node's, and not complete, where no hook may have seen this header: the packet
 * came by a master, perhaps by a member that is not served, or perhaps inside a tunnel. Not inlined:
 * see scan_options().
 */
__noinline int complete_trace(context *ctx, struct options *o, const struct hop *hop, __u32 index)
{
	struct packet packet = {}, *p = &packet;
	const volatile __u32 *type;
	const struct option *option;
	struct ioam_namespace *ns;
	__u32 offset, left;

	if (!o || !hop || index >= MAX_IOAM_OPTIONS)
		return OUTCOME_UNTOUCHED;
	p->l3 = o->l3;
	option = &o->options[index];
	ns = namespace_of(o, option);
	if (!ns)
		return OUTCOME_NAMESPACE_UNKNOWN;
	if (option->header & TRACE_OVERFLOW)
		return OUTCOME_OVERFLOW_SET;
	left = TRACE_REMAINING(option->header);
	if (left + data_length(option, ns) > option->words)
		return OUTCOME_UNTOUCHED;
	packet_load(ctx, p);
	offset = option->offset + TRACE_OFFSET + (left << 2);
	type = &option->type;
	if (!is_own(p, *type, *type, offset, !hop->unproven) ||
	    (hop->unproven && !is_unfinished(p, *type, *type, offset)))
		return OUTCOME_UNTOUCHED;
	complete_fields(p, o, hop, *type, *type, offset);
	neutralize(ctx, p, *type, offset);
	packet_commit_sum(ctx, p);
	return OUTCOME_TRACE_FILLED;
}

/* Completes all traces that are to be completed. Not inlined: see scan_options(). */
__noinline int complete_traces(context *ctx, struct options *o, const struct hop *hop)
{
	if (!o || !hop)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		struct option *option = &o->options[i];

		if (option->kind == KIND_TRACE && option->outcome == OUTCOME_UNTOUCHED)
			set_outcome(o, option, complete_trace(ctx, o, hop, i));
	}
	return 0;
}

static __always_inline void trace_egress(context *ctx, struct options *o, const struct hop *hop)
{
	if (o->has_trace && complete_common_traces(ctx, o, hop))
		complete_traces(ctx, o, hop);
}

#endif
