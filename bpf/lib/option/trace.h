// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Module of the pre-allocated trace (RFC 9197 §4.4): written at ingress, completed at egress.
 *
 * A trace type is read from memory twice, once to branch on and once to compute offsets from. The
 * verifier then sees the same range of offsets on either branch, instead of 2^23 paths.
 */
#ifndef WAYMARK_OPTION_TRACE_H
#define WAYMARK_OPTION_TRACE_H

#include "clock.h"
#include "context.h"
#include "edit.h"
#include "ipv6.h"
#include "option/option.h"
#include "option/trace_common.h"

/* NodeLen that a trace type asks for, in 4 bytes; the snapshot is not part of it. */
static __always_inline __u32 node_length(__u32 type)
{
	__u64 x = (type & TRACE_FIELDS) | (__u64)(type & TRACE_WIDE_FIELDS) << 32;

	x -= x >> 1 & 0x5555555555555555ULL;
	x = (x & 0x3333333333333333ULL) + (x >> 2 & 0x3333333333333333ULL);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return x * 0x0101010101010101ULL >> 56;
}

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

/* NodeLen and the opaque snapshot, in 4 bytes. */
static __always_inline __u32 data_length(const struct option *o, const struct ioam_namespace *ns)
{
	return TRACE_NODELEN(o->header) + (o->type & TRACE_BIT(22) ? ns->snapshot_words : 0);
}

/* Fields of node data being written, one after the other. */
struct fields {
	__u32 wanted; /* the trace type, to branch on; 0 once a field is beyond the packet */
	__u32 layout; /* the trace type, to compute offsets from */
	__u32 offset; /* of the next field, from the IPv6 header */
};

static __always_inline void put_field(struct packet *p, struct fields *f, int bit, __be32 value)
{
	__be32 *word;

	if (f->wanted & TRACE_BIT(bit)) {
		word = at(p, f->offset, 4);
		if (word)
			put_data(p, word, value);
		else
			f->wanted = 0;
	}
	f->offset += HAS(f->layout, bit) << 2;
}

static __always_inline void put_wide_field(struct packet *p, struct fields *f, int bit, __be32 high,
					   __be32 low)
{
	__be32 *words;

	if (f->wanted & TRACE_BIT(bit)) {
		words = at(p, f->offset, 8);
		if (words) {
			put_data(p, words, high);
			put_data(p, words + 1, low);
		} else {
			f->wanted = 0;
		}
	}
	f->offset += HAS(f->layout, bit) << 3;
}

/* Returns the change to the sum of the packet's words, folded. Not inlined: see scan_options(). */
__noinline int put_snapshot(context *ctx, __u32 l3, __u32 offset, const struct ioam_namespace *ns)
{
	struct packet p = {.l3 = l3 & 0xff};
	__u32 words;

	if (!ns)
		return 0;
	packet_load(ctx, &p);
	words = ns->snapshot_words;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 64 && i < words; i++) {
		__be32 *word = at(&p, offset + 4 * i, 4);

		if (!word)
			break;
		put_data(&p, word, ns->snapshot[i]);
	}
	return fold32(p.sum);
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

/*
 * The Checksum Complement (RFC 9197 §4.4.2.8) that offsets changes to the packet whose sum is given:
 * the one's complement sum of the packet's 16-bit words stays as it was. It is below 0xffff, so it is
 * never "not available".
 */
static __always_inline __be32 complement_of(__u64 sum)
{
	__u32 words = fold32(sum);

	words = (words & 0xffff) + (words >> 16);
	words = (words & 0xffff) + (words >> 16);
	words = ~words & 0xffff;
	return words == 0xffff ? 0 : bpf_htonl(bpf_ntohs(words));
}

/*
 * Gives field 7 of the node data at an offset the value that makes up for changes to the packet; their
 * sum includes what the field had before. Returns the change to the sum. Not inlined: see
 * scan_options().
 */
__noinline int put_complement(context *ctx, __u32 l3, __u32 offset, __u32 type, __u32 sum)
{
	struct packet p = {.l3 = l3 & 0xff};
	__be32 *word;

	packet_load(ctx, &p);
	word = at(&p, offset + (node_length(type & 0xfe000000) << 2), 4);
	if (!word || *word == UNAVAILABLE)
		return 0;
	put_data(&p, word, complement_of((__u64)sum + (__u32) ~*word));
	return fold32(p.sum);
}

/* Makes the changes to a trace neutral, where it has a checksum complement. Linux writes none. */
static __always_inline void neutralize(context *ctx, struct packet *p, __u32 type, __u32 offset)
{
	if (type & TRACE_BIT(7) && !NODE.mainline)
		p->sum += (__u32)put_complement(ctx, p->l3, offset, type, fold32(p->sum));
}

/* What node data have besides a hop and a namespace. */
struct values {
	__u64 tai;
	__u32 delay;
	__be32 complement;
};

/*
 * Writes the fields of node data after the first four, the next of which is at an offset, and returns the
 * change to the sum of the packet's words, folded. Not inlined: see scan_options().
 */
__noinline int put_further_fields(context *ctx, const struct hop *hop,
				  const struct ioam_namespace *ns, const struct values *v,
				  __u64 place)
{
	struct packet packet = {.l3 = place & 0xff}, *p = &packet;
	struct fields f = {
		.wanted = place >> 32, .layout = place >> 32, .offset = place >> 8 & 0xffff};

	if (!hop || !ns || !v)
		return 0;
	opaque(f.layout);
	packet_load(ctx, p);
	put_field(p, &f, 4, bpf_htonl(v->delay));
	put_field(p, &f, 5, ns->data);
	put_field(p, &f, 6, bpf_htonl(hop->queue));
	put_field(p, &f, 7, v->complement);
	put_wide_field(p, &f, 8,
		       bpf_htonl((__u32)hop->hop_limit << 24 | (__u32)(NODE.node_id_wide >> 32)),
		       bpf_htonl((__u32)NODE.node_id_wide));
	put_wide_field(p, &f, 9, bpf_htonl(hop->ingress_id_wide), bpf_htonl(hop->egress_id_wide));
	put_wide_field(p, &f, 10, (__be32)ns->data_wide, (__be32)(ns->data_wide >> 32));
	put_field(p, &f, 11, bpf_htonl(hop->buffer));
	if (f.wanted & 0x000ffc00) {
#pragma clang loop unroll(full)
		for (int bit = 12; bit <= 21; bit++)
			put_field(p, &f, bit, UNAVAILABLE);
	}
	if (f.wanted & TRACE_BIT(22))
		p->sum += (__u32)put_snapshot(ctx, p->l3, f.offset, ns);
	return fold32(p->sum);
}

/* Writes this node's data at an offset. The sum of the packet has the changes to the trace so far. */
static __always_inline void put_values(context *ctx, struct packet *p, const struct hop *hop,
				       const struct option *o, const struct ioam_namespace *ns,
				       __u32 offset, const struct values *v)
{
	const volatile __u32 *type = &o->type;
	struct fields f = {.wanted = *type, .layout = *type, .offset = offset};
	struct timestamp time = {};

	if (*type & (TRACE_BIT(2) | TRACE_BIT(3)))
		time = timestamp_of(v->tai);
	put_field(p, &f, 0, bpf_htonl((__u32)hop->hop_limit << 24 | NODE.node_id));
	put_field(p, &f, 1, bpf_htonl((__u32)hop->ingress_id << 16 | hop->egress_id));
	put_field(p, &f, 2, bpf_htonl(time.seconds));
	put_field(p, &f, 3, bpf_htonl(time.fraction));
	if (!(f.wanted & ~0xf0000000U))
		return;
	p->sum += (__u32)put_further_fields(ctx, hop, ns, v,
					    (__u64)f.wanted << 32 | f.offset << 8 | p->l3);
}

/* The same at ingress, for the egress hook to complete. */
static __always_inline void put_node_data(context *ctx, struct packet *p, struct options *options,
					  const struct hop *hop, const struct option *o,
					  const struct ioam_namespace *ns, __u32 offset)
{
	const volatile __u32 *type = &o->type;
	struct values v = {.tai = hop->tai,
			   .delay = *type & TRACE_BIT(4) ? delay_field(options, hop) : UNAVAILABLE,
			   .complement = NODE.mainline ? UNAVAILABLE : 0};

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
