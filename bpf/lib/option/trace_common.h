// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Traces of ids and timestamps (bits 0 to 3 of the trace type), which most are: their data are written
 * in one piece, and several of a packet in one call. trace.h treats all others.
 */
#ifndef WAYMARK_OPTION_TRACE_COMMON_H
#define WAYMARK_OPTION_TRACE_COMMON_H

#include "clock.h"
#include "context.h"
#include "edit.h"
#include "option/option.h"

/* The trace header's first word: Namespace-ID, NodeLen, flags, RemainingLen. */
#define TRACE_NODELEN(word)   ((word) >> 11 & 0x1f)
#define TRACE_OVERFLOW	      0x400U
#define TRACE_LOOPBACK	      0x200U /* RFC 9322 */
#define TRACE_ACTIVE	      0x100U
#define TRACE_REMAINING(word) ((word) & 0x7f)

#define TRACE_FLAGS_AT	  7  /* bits below the flags */
#define TRACE_OFFSET	  12 /* of node data, from the option's first byte */
#define TRACE_WIDE_FIELDS 0x00e00000U
#define TRACE_FIELDS	  0xfffffc00U
#define NO_NODE_ID	  0xffffffU /* "not available" */
#define NO_NODE_ID_WIDE	  0xffffffffffffffULL

#define HAS(type, n) ((type) >> (31 - (n)) & 1)

/* The fields that a trace asks for, of the first four, a bit each; and their length in 4 bytes. */
#define FIELDS_OF(type)	  ((type) >> 28)
#define LENGTH_OF(fields) (0x4332322132212110ULL >> (fields) * 4 & 7)

/* An option with a trace type, as it is in a packet. */
struct typed_option {
	__u8 option_type;
	__u8 length;
	__u8 reserved;
	__u8 ioam_type;
	__be32 word; /* Namespace-ID; NodeLen, flags, RemainingLen, or Flags, Extension-Flags */
	__be32 type;
};

/* Whether an option is a sound trace with no other fields than the first four, or with none. */
static __always_inline int is_common_option(const struct typed_option *option)
{
	__u32 type = bpf_ntohl(option->type), word = bpf_ntohl(option->word);

	return option->option_type == OPTION_IOAM && option->ioam_type == IOAM_PREALLOCATED_TRACE &&
	       !(type & 0x0fffffff) && TRACE_NODELEN(word) == LENGTH_OF(FIELDS_OF(type)) &&
	       TYPED_OPTION_MIN + 4 * TRACE_REMAINING(word) <= option->length;
}

/*
 * The common trace at an offset, if there is one, aligned and before the end of its header; where the next
 * option is.
 */
static __always_inline struct typed_option *common_at(const struct packet *p, __u32 offset,
						      __u32 end, __u32 *next)
{
	struct typed_option *option = at(p, offset, sizeof(*option));
	__u32 after;

	if (!option || offset & 3)
		return 0;
	after = offset + 2 + option->length;
	opaque(after); /* so that the verifier derives no bound of the end from it */
	*next = after;
	return after <= end && is_common_option(option) ? option : 0;
}

/* How many words of data a sound trace has room for, or holds. */
static __always_inline __u32 words_of(const struct typed_option *option)
{
	return (option->length - TYPED_OPTION_MIN) >> 2;
}

/* Keeps the compiler from merging what follows with the same code elsewhere. */
#define kept_apart(pointer) asm volatile("" : "+r"(pointer))

/* Where a node's data of these fields are; NULL where four, or two without times, are not in the packet. */
static __always_inline __be32 *common_data(const struct packet *p, __u32 fields, __u32 offset)
{
	return fields & 3 ? at(p, offset, 16) : at(p, offset, 8);
}

/*
 * Writes this node's data of these fields. Each test of the packet's end has writes of its own: Linux 6.1
 * does not know that a later test of the same fields has the same result.
 */
static __always_inline void put_common_data(struct packet *p, __be32 *to, __u32 fields,
					    __u32 hop_limit, __u32 ids, int timed, __u64 tai)
{
	struct timestamp time;

	if (fields & 8)
		put32(p, to++, bpf_htonl(hop_limit << 24 | NODE.node_id));
	if (fields & 4)
		put32(p, to++, bpf_htonl(ids));
	if (!timed)
		return;
	time = timestamp_of(tai);
	if (fields & 2)
		put32(p, to++, bpf_htonl(time.seconds));
	if (fields & 1)
		put32(p, to, bpf_htonl(time.fraction));
}

/* What a node writes into the common traces of a packet. */
struct own_data {
	__u32 hop_limit;
	__u32 ids; /* of the interfaces */
	__u64 tai; /* 0: no trace asks for the time */
};

/*
 * Writes this node's data into a common trace at an offset, which has room for them: before those of the
 * nodes on the way here. Zero, with nothing changed, where they are not in reach.
 */
static __always_inline int fill_common(struct packet *p, __u32 offset, __be32 *header, __u32 type,
				       const struct own_data *own)
{
	__u32 fields = FIELDS_OF(type), word = bpf_ntohl(*header) - LENGTH_OF(fields);
	__be32 *to;

	offset += TRACE_OFFSET + (TRACE_REMAINING(word) << 2);
	if (fields & 3) {
		to = at(p, offset, 16);
		if (!to)
			return 0;
		kept_apart(to);
		put_common_data(p, to, fields, own->hop_limit, own->ids, 1, own->tai);
	} else {
		to = at(p, offset, 8);
		if (!to)
			return 0;
		put_common_data(p, to, fields, own->hop_limit, own->ids, 0, 0);
	}
	put32(p, header, bpf_htonl(word));
	return 1;
}

/* Transit of a trace with room left: OUTCOME_TRACE_FILLED, or OUTCOME_UNTOUCHED where fill_trace() has to. */
static __always_inline enum outcome fill_common_trace(struct packet *p, const struct tables *t,
						      const struct option *option,
						      const struct own_data *own)
{
	__u32 header = option->header, length = LENGTH_OF(FIELDS_OF(option->type));
	__be32 *word;

	if (option->type & 0x0fffffff || header & TRACE_OVERFLOW ||
	    TRACE_REMAINING(header) < length || !length || !find_namespace(t, header >> 16))
		return OUTCOME_UNTOUCHED;
	word = at(p, option->offset + 4, 4);
	return word && fill_common(p, option->offset, word, option->type, own)
		       ? OUTCOME_TRACE_FILLED
		       : OUTCOME_UNTOUCHED;
}

/* Transit of all common traces; nonzero: others are left. Not inlined: see scan_options(). */
__noinline int fill_common_traces(context *ctx, struct options *o, const struct hop *hop)
{
	struct packet packet = {}, *p = &packet;
	struct own_data own = {};
	const struct tables *t;
	int others = 0;

	if (!o || !hop)
		return 0;
	p->l3 = o->l3;
	own.hop_limit = hop->hop_limit;
	own.ids = (__u32)hop->ingress_id << 16 | hop->egress_id;
	own.tai = hop->tai;
	t = tables_of(o->tables_index);
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		struct option *option = &o->options[i];

		if (option->kind != KIND_TRACE)
			continue;
		if (fill_common_trace(p, t, option, &own) == OUTCOME_TRACE_FILLED)
			set_outcome(o, option, OUTCOME_TRACE_FILLED);
		else
			others = 1;
	}
	packet_commit_sum(ctx, p);
	return others;
}

/*
 * This node's data in a common trace at an offset, with room for some words of data, after the node's id; NULL
 * where complete_trace() has to look for them.
 */
static __always_inline __be32 *own_common_data(const struct packet *p, __u32 offset, __u32 header,
					       __u32 type, __u32 words)
{
	__u32 fields = FIELDS_OF(type), left = TRACE_REMAINING(header);
	__be32 *data;

	if (left + LENGTH_OF(fields) > words)
		return 0;
	data = common_data(p, fields, offset + TRACE_OFFSET + (left << 2));
	if (!data || !(fields & 8))
		return data;
	return (bpf_ntohl(*data) & 0xffffff) == NODE.node_id ? data + 1 : 0;
}

/* Writes the interface of departure into such data; zero if there are none. */
static __always_inline int complete_common(struct packet *p, __be32 *data, __u32 type, __u32 egress)
{
	if (!data)
		return 0;
	if (FIELDS_OF(type) & 4)
		put32(p, data, (*data & bpf_htonl(0xffff0000)) | bpf_htonl(egress));
	return 1;
}

/* Completion of a trace: OUTCOME_UNTOUCHED where complete_trace() has to. */
static __always_inline enum outcome complete_common_trace(struct packet *p, const struct tables *t,
							  const struct option *option,
							  const struct hop *hop)
{
	__u32 header = option->header;

	if (option->type & 0x0fffffff || header & TRACE_OVERFLOW ||
	    !find_namespace(t, header >> 16) ||
	    !complete_common(
		    p, own_common_data(p, option->offset, header, option->type, option->words),
		    option->type, hop->egress_id))
		return OUTCOME_UNTOUCHED;
	return OUTCOME_TRACE_FILLED;
}

/* Completes all common traces; nonzero: others are left. Not inlined: see scan_options(). */
__noinline int complete_common_traces(context *ctx, struct options *o, const struct hop *hop)
{
	struct packet packet = {}, *p = &packet;
	const struct tables *t;
	int others = 0;

	if (!o || !hop)
		return 0;
	p->l3 = o->l3;
	t = tables_of(o->tables_index);
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		struct option *option = &o->options[i];

		if (option->kind != KIND_TRACE)
			continue;
		if (!hop->unproven &&
		    complete_common_trace(p, t, option, hop) == OUTCOME_TRACE_FILLED)
			set_outcome(o, option, OUTCOME_TRACE_FILLED);
		else
			others = 1;
	}
	packet_commit_sum(ctx, p);
	return others;
}

#endif
