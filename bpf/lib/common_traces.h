// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Headers as encapsulating nodes write them for several namespaces: padding, a common trace (trace_common.h)
 * for each, padding. They are judged before the first one is written, so that the packet is as it was
 * where the general path has to treat it.
 */
#ifndef WAYMARK_COMMON_TRACES_H
#define WAYMARK_COMMON_TRACES_H

#include "common_header.h"
#include "counters.h"

/* Whether a header with an option of the namespace stays. */
static __always_inline int stays_common(const struct ioam_namespace *ns)
{
	return ns && !(NODE.has_removals && ns->remove);
}

/* Whether a common trace at an offset is filled here: it has room, and its header stays. */
static __always_inline int is_filled_here(const struct packet *p, const struct tables *t,
					  __u32 offset, const struct typed_option *option)
{
	__u32 word = bpf_ntohl(option->word), left = TRACE_REMAINING(word),
	      size = TRACE_NODELEN(word);

	if (left < size || !common_data(p, FIELDS_OF(bpf_ntohl(option->type)),
					offset + TRACE_OFFSET + ((left - size) << 2)))
		return 0;
	return stays_common(find_namespace(t, word >> 16));
}

/* Whether this node's ingress hook has just filled the trace, and it is completed here. */
static __always_inline int is_completed_here(const struct packet *p, const struct tables *t,
					     __u32 offset, const struct typed_option *option)
{
	__u32 word = bpf_ntohl(option->word);

	return own_common_data(p, offset, word, bpf_ntohl(option->type), words_of(option)) &&
	       find_namespace(t, word >> 16);
}

/* What judge_each() found, besides how many traces there are. */
#define SEVERAL_COUNT 0xff
#define SEVERAL_TIMES 0x100 /* some ask for the time */

/*
 * Judges the traces of a header that begins with a common one; zero where not all are common ones that are
 * filled, or else completed, here.
 */
static __always_inline int judge_each(context *ctx, const struct interface *on, __u32 l3,
				      int completed)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 offset = COMMON_OPTION, end, count, types = 0;
	const struct common_header *h;
	const struct ipv6 *ip6;
	const struct tables *t;

	if (!on)
		return 0;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	h = at(p, IPV6_HEADER, sizeof(*h));
	if (!ip6 || !h || !has_whole_header(p, ip6, h))
		return 0;
	end = IPV6_HEADER + COMMON_LENGTH(h);
	t = tables_of(on->tables_index);
#pragma clang loop unroll(disable)
	for (count = 0; count < MAX_IOAM_OPTIONS; count++) {
		__u32 next = 0;
		const struct typed_option *option = common_at(p, offset, end, &next);

		if (!option)
			break;
		if (!is_simple(option) || !(completed ? is_completed_here(p, t, offset, option)
						      : is_filled_here(p, t, offset, option)))
			return 0;
		types |= bpf_ntohl(option->type);
		offset = next;
	}
	if (!ends_at(p, offset, end))
		return 0;
	return count | (FIELDS_OF(types) & 3 ? SEVERAL_TIMES : 0);
}

/* Not inlined: see scan_options(). */
__noinline int judge_filled(context *ctx, const struct interface *on, __u32 l3)
{
	return judge_each(ctx, on, l3, 0);
}

__noinline int judge_completed(context *ctx, const struct interface *on, __u32 l3)
{
	return judge_each(ctx, on, l3, 1);
}

/* Keeps what the verifier knows of the sum the same in each turn of a loop: it follows one of them then. */
static __always_inline void keep_in_bounds(struct packet *p)
{
	if (PACKET_HAS_SUM)
		p->sum = fold32(p->sum);
}

/* Counts an outcome of the traces besides the first, whose outcome is the packet's. */
static __always_inline void count_further(const struct interface *on, __u32 counter, __u32 count)
{
	struct tally *tally = find_tally(on->slot);

	if (tally && count)
		add_several(tally, counter, count - 1);
}

/* Writes this node's data into all traces, as judge_filled() found them. Not inlined: as above. */
__noinline int fill_several(context *ctx, const struct interface *on, __u32 l3, __u32 egress)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 offset = COMMON_OPTION, end, count;
	const struct common_header *h;
	struct own_data own = {};
	struct ipv6 *ip6;

	if (!on)
		return 0;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	h = at(p, IPV6_HEADER, sizeof(*h));
	if (!ip6 || !h)
		return 0;
	end = IPV6_HEADER + COMMON_LENGTH(h);
	own.hop_limit = ip6->hop_limit - 1;
	own.ids = (__u32)on->interface_id << 16 | (egress & 0xffff);
#pragma clang loop unroll(disable)
	for (count = 0; count < MAX_IOAM_OPTIONS && offset + 4 < end; count++) {
		struct typed_option *option = at(p, offset, sizeof(*option));
		__u32 type;

		if (!option)
			return 0;
		type = bpf_ntohl(option->type);
		if (FIELDS_OF(type) & 3 && !own.tai)
			own.tai = tai_now();
		if (!fill_common(p, offset, &option->word, type, &own))
			return 0;
		keep_in_bounds(p);
		offset = offset + 2 + option->length & 0xfff;
	}
	packet_commit_sum(ctx, p);
	count_further(on, COUNTER_INGRESS_OPTIONS + OUTCOME_TRACE_FILLED, count);
	return 1;
}

/* Completes all traces, as judge_completed() found them. Not inlined: as above. */
__noinline int complete_several(context *ctx, const struct interface *on, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u32 offset = COMMON_OPTION, end, count;
	const struct common_header *h;

	if (!on)
		return 0;
	packet_load(ctx, p);
	h = at(p, IPV6_HEADER, sizeof(*h));
	if (!h)
		return 0;
	end = IPV6_HEADER + COMMON_LENGTH(h);
#pragma clang loop unroll(disable)
	for (count = 0; count < MAX_IOAM_OPTIONS && offset + 4 < end; count++) {
		const struct typed_option *option = at(p, offset, sizeof(*option));
		__u32 type;

		if (!option)
			return 0;
		type = bpf_ntohl(option->type);
		complete_common(
			p,
			own_common_data(p, offset, bpf_ntohl(option->word), type, words_of(option)),
			type, on->interface_id);
		keep_in_bounds(p);
		offset = offset + 2 + option->length & 0xfff;
	}
	packet_commit_sum(ctx, p);
	count_further(on, COUNTER_EGRESS_OPTIONS + OUTCOME_TRACE_FILLED, count);
	return 1;
}

#endif
