// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Node data of a pre-allocated trace (RFC 9197 §4.4): written at ingress, completed at egress.
 *
 * The type is read from memory twice, once to branch on and once to compute offsets from:
 * so the verifier sees the same range of offsets on either branch, and not 2^23 paths.
 */
#ifndef WAYMARK_TRACE_H
#define WAYMARK_TRACE_H

#include "clock.h"
#include "ioam.h"

#define NO_NODE_ID	0xffffffU /* "not available" */
#define NO_NODE_ID_WIDE 0xffffffffffffffULL

#define HAS(type, n) ((type) >> (31 - (n)) & 1)

static __always_inline void put32(struct packet *p, __be32 *at, __be32 value)
{
	if (PACKET_HAS_SUM)
		p->sum += (__u64)value + (__u32) ~*at;
	*at = value;
}

#define TIMED_AT_INGRESS (TRACE_BIT(2) | TRACE_BIT(3) | (NODE.mainline ? 0 : TRACE_BIT(4)))

/* NodeLen and the opaque snapshot, in 4 bytes. */
static __always_inline __u32 data_length(const struct option *o, const struct ioam_namespace *ns)
{
	return TRACE_NODELEN(o->header) + (o->type & TRACE_BIT(22) ? ns->snapshot_words : 0);
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
		put32(&p, word, ns->snapshot[i]);
	}
	packet_commit_sum(ctx, &p);
	return 0;
}

/*
 * Writes this node's data at `offset`; `stays` when the packet will meet the egress hook. The
 * type is read anew for each purpose: see above.
 */
static __always_inline void put_node_data(context *ctx, struct packet *p, const struct scan *s,
					  const struct interface *on, const struct option *o,
					  const struct ioam_namespace *ns, __u32 offset,
					  __u32 hop_limit, __u64 tai, int stays)
{
	const volatile __u32 *again = &o->type;
	__u32 type = *again, layout = *again, wanted = *again, delay = UNAVAILABLE;
	__u32 egress_id = (COMPLETES && NODE.fast) ? s->egress_id : 0xffff;
	__u32 egress_id_wide = (COMPLETES && NODE.fast) ? s->egress_id_wide : UNAVAILABLE;
	struct timestamp time = {};

	if (wanted & (TRACE_BIT(2) | TRACE_BIT(3)))
		time = timestamp_of(tai);
	if (!NODE.mainline && stays && wanted & TRACE_BIT(4))
		delay = (COMPLETES && NODE.fast) && s->leaving
				? delay_end(delay_begin(tai), tai_now())
				: delay_begin(tai);
	PUT32(0, bpf_htonl(hop_limit << 24 | NODE.node_id));
	PUT32(1, bpf_htonl((__u32)on->interface_id << 16 | egress_id));
	PUT32(2, bpf_htonl(time.seconds));
	PUT32(3, bpf_htonl(time.fraction));
	if (type & ~0xf0000000U) {
		PUT32(4, bpf_htonl(delay));
		PUT32(5, ns->data);
		PUT32(6, UNAVAILABLE);
		PUT32(7, UNAVAILABLE);
		PUT64(8, bpf_htonl(hop_limit << 24 | (__u32)(NODE.node_id_wide >> 32)),
		      bpf_htonl((__u32)NODE.node_id_wide));
		PUT64(9, bpf_htonl(on->interface_id_wide), bpf_htonl(egress_id_wide));
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
			put_snapshot(ctx, p->l3, offset, ns);
	}
}

/*
 * Transit of a sound trace (RFC 9197 §4.4.1): this node's data and RemainingLen, or the overflow
 * flag. Not inlined: see scan_options().
 */
__noinline int fill_option(context *ctx, const struct scan *s, const struct interface *on,
			   __u32 index_stays_hop, __u64 tai)
{
	struct packet packet = {}, *p = &packet;
	enum outcome outcome = OUTCOME_TRACE_FILLED;
	__u32 length, left, index = index_stays_hop >> 16;
	struct ioam_namespace *ns;
	const struct option *o;
	__be32 *word;

	if (!s || !on || index >= MAX_IOAM_OPTIONS)
		return OUTCOME_NO_IOAM;
	p->l3 = s->l3;
	o = &s->options[index];
	if (o->outcome != OUTCOME_TRACE_FILLED)
		return o->outcome;
	ns = find_namespace(tables_of(s->half), TRACE_NAMESPACE(o->header));
	if (!ns)
		return OUTCOME_NAMESPACE_UNKNOWN;
	if (o->header & TRACE_OVERFLOW)
		return OUTCOME_OVERFLOW_SET;
	packet_load(ctx, p);
	word = at(p, o->offset + 4, 4);
	if (!word)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	length = data_length(o, ns);
	left = TRACE_REMAINING(o->header);
	if (!left || left < length) {
		put32(p, word, bpf_htonl(o->header | TRACE_OVERFLOW));
		outcome = OUTCOME_TRACE_OVERFLOW;
	} else {
		left -= length;
		put32(p, word, bpf_htonl(o->header - length));
		put_node_data(ctx, p, s, on, o, ns, o->offset + TRACE_OFFSET + ((left & 0x7f) << 2),
			      index_stays_hop & 0xff, tai, index_stays_hop >> 8 & 1);
	}
	packet_commit_sum(ctx, p);
	return outcome;
}

/* Whether the data at `offset` carry this node's id; `otherwise` when no id tells nodes apart. */
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
	return 1;
}

static __always_inline void complete_fields(struct packet *p, const struct scan *s, __u32 type,
					    __u32 layout, __u32 offset, __u64 tai, __u32 queue)
{
	__be32 *word;

	offset += HAS(layout, 0) << 2;
	if (type & TRACE_BIT(1)) {
		word = at(p, offset, 4);
		if (!word)
			return;
		put32(p, word, (*word & bpf_htonl(0xffff0000)) | bpf_htonl(s->egress_id));
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
		put32(p, word + 1, bpf_htonl(s->egress_id_wide));
	}
}

/*
 * Egress: finishes what this node's ingress hook wrote into a sound trace. It must be plain that the
 * data are ours, and not finished, where no hook may have seen this header: the packet came by a
 * master, perhaps by a member that is not served, or perhaps inside a tunnel. Not inlined: see
 * scan_options().
 */
__noinline int complete_option(context *ctx, const struct scan *s, __u32 master_index_l3, __u64 tai,
			       __u32 queue)
{
	struct packet packet = {.l3 = master_index_l3 & 0xff}, *p = &packet;
	__u32 index = master_index_l3 >> 8 & 0xff, offset, left;
	__u32 unproven = master_index_l3 >> 16 | NODE.has_decapsulations;
	const volatile __u32 *again;
	struct ioam_namespace *ns;
	const struct option *o;

	if (!s || index >= MAX_IOAM_OPTIONS)
		return OUTCOME_NO_IOAM;
	o = &s->options[index];
	if (o->outcome != OUTCOME_TRACE_FILLED)
		return o->outcome;
	ns = find_namespace(tables_of(s->half), TRACE_NAMESPACE(o->header));
	if (!ns)
		return OUTCOME_NAMESPACE_UNKNOWN;
	if (o->header & TRACE_OVERFLOW)
		return OUTCOME_OVERFLOW_SET;
	left = TRACE_REMAINING(o->header);
	if (left + data_length(o, ns) > o->words)
		return OUTCOME_UNTOUCHED;
	packet_load(ctx, p);
	offset = o->offset + TRACE_OFFSET + (left << 2);
	again = &o->type;
	if (!is_own(p, *again, *again, offset, !unproven) ||
	    (unproven && !is_unfinished(p, *again, *again, offset)))
		return OUTCOME_UNTOUCHED;
	complete_fields(p, s, *again, *again, offset, tai, queue);
	packet_commit_sum(ctx, p);
	return OUTCOME_TRACE_FILLED;
}

#endif
