// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Node data of a pre-allocated trace (RFC 9197 §4.4): written at ingress, completed at egress.
 *
 * The type is read from the packet twice, once to branch on and once to compute offsets from:
 * so the verifier sees the same range of offsets on either branch, and not 2^23 paths.
 */
#ifndef WAYMARK_TRACE_H
#define WAYMARK_TRACE_H

#include "clock.h"
#include "ioam.h"

#define HAS(type, n) ((type) >> (31 - (n)) & 1)

static __always_inline void put32(struct packet *p, __be32 *at, __be32 value)
{
	if (PACKET_HAS_SUM)
		p->sum += (__u64)value + (__u32) ~*at;
	*at = value;
}

static __always_inline struct ioam_namespace *find_namespace(const struct trace *t)
{
	__u32 id = TRACE_NAMESPACE(t->header);

	return bpf_map_lookup_elem(&namespaces, &id);
}

/* What the options of a header ask for, as found before any is written. */
struct demand {
	__u32 types;	 /* the trace types, or-ed */
	__u32 removable; /* options whose namespace is to be removed here */
};

#define TIMED_AT_INGRESS (TRACE_BIT(2) | TRACE_BIT(3) | (NODE.mainline ? 0 : TRACE_BIT(4)))

/* Anything but OUTCOME_NO_IOAM is a fault. Not inlined: see scan_options(). */
__noinline int check_options(context *ctx, __u32 l3, const struct scan *s, struct demand *d)
{
	struct packet p = {.l3 = l3 & 0xff};
	struct trace t;

	if (!s || !d)
		return OUTCOME_MALFORMED_HEADER;
	packet_load(ctx, &p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < s->count; i++) {
		enum outcome outcome = check_option(&p, s->offset[i], &t);

		if (outcome >= OUTCOME_MALFORMED_IPV6)
			return outcome;
		if (outcome != OUTCOME_TRACE_FILLED)
			continue;
		d->types |= t.type;
		if (NODE.has_removals) {
			struct ioam_namespace *ns = find_namespace(&t);

			if (ns && ns->remove)
				d->removable++;
		}
	}
	return OUTCOME_NO_IOAM;
}

/* NodeLen and the opaque snapshot, in 4 bytes. */
static __always_inline __u32 data_length(const struct trace *t, const struct ioam_namespace *ns)
{
	return TRACE_NODELEN(t->header) + (t->type & TRACE_BIT(22) ? ns->snapshot_words : 0);
}

#define PUT32(bit, value)                                \
	do {                                             \
		if (type & TRACE_BIT(bit)) {             \
			__be32 *word = at(p, offset, 4); \
			if (!word)                       \
				return;                  \
			put32(p, word, value);           \
		}                                        \
		offset += HAS(layout, bit) << 2;         \
	} while (0)

#define PUT64(bit, high, low)                            \
	do {                                             \
		if (type & TRACE_BIT(bit)) {             \
			__be32 *word = at(p, offset, 8); \
			if (!word)                       \
				return;                  \
			put32(p, word, high);            \
			put32(p, word + 1, low);         \
		}                                        \
		offset += HAS(layout, bit) << 3;         \
	} while (0)

/* Not inlined: see scan_options(). */
__noinline int put_snapshot(context *ctx, __u32 l3, __u32 offset, __u32 namespace_id)
{
	struct ioam_namespace *ns = bpf_map_lookup_elem(&namespaces, &namespace_id);
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
		put32(&p, word, ns->snapshot[i]);
	}
	packet_commit_sum(ctx, &p);
	return 0;
}

/* Writes this node's data at `offset`; `stays` when the packet will meet the egress hook. */
static __always_inline void put_node_data(context *ctx, struct packet *p, const struct trace *t,
					  const struct ioam_namespace *ns, __u32 offset,
					  __u32 hop_limit, __u64 tai, int stays)
{
	__u32 type = t->type, layout, wanted, delay = UNAVAILABLE;
	struct timestamp time = {};
	const volatile __be32 *again = at(p, t->offset + 4, 4);

	if (!again)
		return;
	layout = bpf_ntohl(*again);
	wanted = bpf_ntohl(*again);
	if (wanted & (TRACE_BIT(2) | TRACE_BIT(3)))
		time = timestamp_of(tai);
	if (!NODE.mainline && stays && wanted & TRACE_BIT(4))
		delay = delay_begin(tai);
	PUT32(0, bpf_htonl(hop_limit << 24 | NODE.node_id));
	PUT32(1, bpf_htonl((__u32)NODE.interface_id << 16 | 0xffff));
	PUT32(2, bpf_htonl(time.seconds));
	PUT32(3, bpf_htonl(time.fraction));
	if (type & ~0xf0000000U) {
		PUT32(4, bpf_htonl(delay));
		PUT32(5, ns->data);
		PUT32(6, UNAVAILABLE);
		PUT32(7, UNAVAILABLE);
		PUT64(8, bpf_htonl(hop_limit << 24 | (__u32)(NODE.node_id_wide >> 32)),
		      bpf_htonl((__u32)NODE.node_id_wide));
		PUT64(9, bpf_htonl(NODE.interface_id_wide), UNAVAILABLE);
		PUT64(10, (__be32)ns->data_wide, (__be32)(ns->data_wide >> 32));
		PUT32(11, UNAVAILABLE);
		if (type & 0x000ffc00) {
			PUT32(12, UNAVAILABLE);
			PUT32(13, UNAVAILABLE);
			PUT32(14, UNAVAILABLE);
			PUT32(15, UNAVAILABLE);
			PUT32(16, UNAVAILABLE);
			PUT32(17, UNAVAILABLE);
			PUT32(18, UNAVAILABLE);
			PUT32(19, UNAVAILABLE);
			PUT32(20, UNAVAILABLE);
			PUT32(21, UNAVAILABLE);
		}
		if (type & TRACE_BIT(22))
			put_snapshot(ctx, p->l3, offset, TRACE_NAMESPACE(t->header));
	}
}

/* Transit (RFC 9197 §4.4.1): this node's data, RemainingLen, or the overflow flag. */
static __always_inline enum outcome fill_trace(context *ctx, struct packet *p, struct trace *t,
					       __u32 hop_limit, __u64 tai, int stays)
{
	struct ioam_namespace *ns = find_namespace(t);
	enum outcome outcome = OUTCOME_TRACE_FILLED;
	__u32 length, left = TRACE_REMAINING(t->header), header = t->header;
	__be32 *word;

	if (!ns)
		return OUTCOME_NAMESPACE_UNKNOWN;
	if (header & TRACE_OVERFLOW)
		return OUTCOME_OVERFLOW_SET;
	length = data_length(t, ns);
	if (!left || left < length) {
		header |= TRACE_OVERFLOW;
		outcome = OUTCOME_TRACE_OVERFLOW;
	} else {
		left -= length;
		put_node_data(ctx, p, t, ns, t->offset + 8 + ((left & 0x7f) << 2), hop_limit, tai,
			      stays);
		header -= length;
	}
	word = at(p, t->offset, 4);
	if (word)
		put32(p, word, bpf_htonl(header));
	return outcome;
}

/* Transit of one option, checked before; `stays` when the packet will meet the egress hook. */
__noinline int fill_option(context *ctx, __u32 l3, __u32 offset, __u32 hop_limit_stays, __u64 tai)
{
	struct packet p = {.l3 = l3 & 0xff};
	enum outcome outcome;
	struct trace t;

	packet_load(ctx, &p);
	outcome = check_option(&p, offset, &t);
	if (outcome == OUTCOME_TRACE_FILLED)
		outcome =
			fill_trace(ctx, &p, &t, hop_limit_stays & 0xff, tai, hop_limit_stays >> 8);
	packet_commit_sum(ctx, &p);
	return outcome;
}

/* Whether the data at `offset` carry this node's id, as far as the type says. */
static __always_inline int is_own(const struct packet *p, __u32 type, __u32 layout, __u32 offset)
{
	const __be32 *word;

	if (type & TRACE_BIT(0)) {
		word = at(p, offset, 4);
		return word && (bpf_ntohl(*word) & 0xffffff) == NODE.node_id;
	}
	if (type & TRACE_BIT(8)) {
		offset += (node_length(layout & 0xff000000) & 0xf) << 2;
		word = at(p, offset, 8);
		return word && (bpf_ntohl(word[0]) & 0xffffff) == NODE.node_id_wide >> 32 &&
		       bpf_ntohl(word[1]) == (__u32)NODE.node_id_wide;
	}
	return 1;
}

static __always_inline void complete_fields(struct packet *p, __u32 type, __u32 layout,
					    __u32 offset, __u64 tai, __u32 queue)
{
	__be32 *word;

	offset += HAS(layout, 0) << 2;
	if (type & TRACE_BIT(1)) {
		word = at(p, offset, 4);
		if (!word)
			return;
		put32(p, word, (*word & bpf_htonl(0xffff0000)) | bpf_htonl(NODE.interface_id));
	}
	offset += (HAS(layout, 1) + HAS(layout, 2) + HAS(layout, 3)) << 2;
	if (type & TRACE_BIT(4) && !NODE.mainline) {
		word = at(p, offset, 4);
		if (!word)
			return;
		__u32 begun = bpf_ntohl(*word);

		if (begun & DELAY_OVERFLOW && begun != UNAVAILABLE)
			put32(p, word, bpf_htonl(delay_end(begun, tai)));
	}
	offset += (HAS(layout, 4) + HAS(layout, 5)) << 2;
	if (type & TRACE_BIT(6)) {
		word = at(p, offset, 4);
		if (!word)
			return;
		put32(p, word, bpf_htonl(queue));
	}
	offset += ((HAS(layout, 6) + HAS(layout, 7)) << 2) + (HAS(layout, 8) << 3);
	if (type & TRACE_BIT(9)) {
		word = at(p, offset, 8);
		if (!word)
			return;
		put32(p, word + 1, bpf_htonl(NODE.interface_id_wide));
	}
}

/* Egress: finishes what this node's ingress hook wrote. */
static __always_inline enum outcome complete_trace(struct packet *p, struct trace *t, __u64 tai,
						   __u32 queue)
{
	struct ioam_namespace *ns = find_namespace(t);
	__u32 offset, layout, left = TRACE_REMAINING(t->header);
	const volatile __be32 *again;

	if (!ns)
		return OUTCOME_NAMESPACE_UNKNOWN;
	if (t->header & TRACE_OVERFLOW)
		return OUTCOME_OVERFLOW_SET;
	offset = t->offset + 8 + (left << 2);
	again = at(p, t->offset + 4, 4);
	if (!again || left + data_length(t, ns) > t->words)
		return OUTCOME_UNTOUCHED;
	layout = bpf_ntohl(*again);
	if (!is_own(p, t->type, layout, offset))
		return OUTCOME_UNTOUCHED;
	complete_fields(p, t->type, layout, offset, tai, queue);
	return OUTCOME_TRACE_FILLED;
}

/* Completion of one option, checked before. */
__noinline int complete_option(context *ctx, __u32 l3, __u32 offset, __u64 tai, __u32 queue)
{
	struct packet p = {.l3 = l3 & 0xff};
	enum outcome outcome;
	struct trace t;

	packet_load(ctx, &p);
	outcome = check_option(&p, offset, &t);
	if (outcome == OUTCOME_TRACE_FILLED)
		outcome = complete_trace(&p, &t, tai, queue);
	packet_commit_sum(ctx, &p);
	return outcome;
}

#endif
