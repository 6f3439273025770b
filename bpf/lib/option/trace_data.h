// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A node's data in a trace (RFC 9197 §4.4.2), field by field.
 *
 * A trace type is read from memory twice, once to branch on and once to compute offsets from. The
 * verifier then sees the same range of offsets on either branch, instead of 2^23 paths.
 */
#ifndef WAYMARK_OPTION_TRACE_DATA_H
#define WAYMARK_OPTION_TRACE_DATA_H

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
};

/* Where the next field is, and what was changed: few values, because the stack is small. */
struct writer {
	void *at, *end;
	__u64 sum;
};

static __always_inline void write_word(struct writer *writer, __be32 value)
{
	__be32 *word = writer->at;

	opaque(word);
	if ((void *)(word + 1) > writer->end)
		return;
	writer->sum += (__u64)value + (__u32) ~*word;
	*word = value;
}

static __always_inline void write_field(struct writer *writer, __u32 type, __u32 layout, int bit,
					__be32 value)
{
	if (type & TRACE_BIT(bit))
		write_word(writer, value);
	writer->at += HAS(layout, bit) << 2;
}

static __always_inline void write_wide_field(struct writer *writer, __u32 type, __u32 layout,
					     int bit, __be32 high, __be32 low)
{
	if (type & TRACE_BIT(bit))
		write_word(writer, high);
	writer->at += HAS(layout, bit) << 2;
	if (type & TRACE_BIT(bit))
		write_word(writer, low);
	writer->at += HAS(layout, bit) << 2;
}

/*
 * Writes the fields of node data after the first five, without the snapshot, and returns the change to the
 * sum of the packet's words, folded. The place is the bytes before the IPv6 header, 16 bits with where the
 * fields begin, and the trace type. Not inlined: see scan_options().
 */
__noinline int put_further_fields(context *ctx, const struct hop *hop,
				  const struct ioam_namespace *ns, __u64 place)
{
	struct packet packet = {.l3 = place & 0xff}, *p = &packet;
	__u32 type = place >> 32, layout = type;
	struct writer writer = {};

	if (!hop || !ns)
		return 0;
	opaque(layout);
	packet_load(ctx, p);
	writer.at = at(p, place >> 8 & 0xffff, 4);
	writer.end = p->end;
	if (!writer.at)
		return 0;
	write_field(&writer, type, layout, 5, ns->data);
	write_field(&writer, type, layout, 6, bpf_htonl(hop->queue));
	write_field(&writer, type, layout, 7,
		    NODE.mainline ? UNAVAILABLE : 0); /* see neutralize() */
	write_wide_field(&writer, type, layout, 8,
			 bpf_htonl((__u32)hop->hop_limit << 24 | (__u32)(NODE.node_id_wide >> 32)),
			 bpf_htonl((__u32)NODE.node_id_wide));
	write_wide_field(&writer, type, layout, 9, bpf_htonl(hop->ingress_id_wide),
			 bpf_htonl(hop->egress_id_wide));
	write_wide_field(&writer, type, layout, 10, (__be32)ns->data_wide,
			 (__be32)(ns->data_wide >> 32));
	write_field(&writer, type, layout, 11, bpf_htonl(hop->buffer));
	if (type & 0x000ffc00) {
#pragma clang loop unroll(full)
		for (int bit = 12; bit <= 21; bit++)
			write_field(&writer, type, layout, bit, UNAVAILABLE);
	}
	return fold32(writer.sum);
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
	put_field(p, &f, 4, bpf_htonl(v->delay));
	p->sum += (__u32)put_further_fields(ctx, hop, ns,
					    (__u64)f.wanted << 32 | f.offset << 8 | p->l3);
	if (*type & TRACE_BIT(22))
		p->sum += (__u32)put_snapshot(ctx, p->l3, offset + (node_length(*type) << 2), ns);
}

#endif
