// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The Loopback and Active flags of traces (RFC 9322; docs/data-plane/loopback-and-active.md): packets
 * that ask for copies, the copies, and probes. All are rare, so nothing here is inlined: the hooks only
 * look at the flags.
 */
#ifndef WAYMARK_OPTION_FLAGS_H
#define WAYMARK_OPTION_FLAGS_H

#include "counters.h"
#include "draft.h"
#include "headers.h"
#include "option/trace.h"
#include "record.h"

/* The flags are those of both kinds of traces (RFC 9322 §3). */
static __always_inline int is_trace(const struct option *option)
{
	return option->kind == KIND_TRACE || option->kind == KIND_INCREMENTAL;
}

/* Whether this node acts on a flag in some namespace: TRACE_LOOPBACK or TRACE_ACTIVE. */
#define ACTS_ON(flags) ((__u32)NODE.trace_flags << TRACE_FLAGS_AT & (flags))

/* Which of enum loopback_bound's rates. */
enum loopback_rate {
	RATE_RETURNED,
	RATE_ASKED,
};

/* What the copies of a packet cost an interface at most, in packets. */
#define MOST_LOOPBACK_DEBT ((__s64)NODE.loopback_limit * LOOPBACK_BURST)

/* Whether the node may do one more in this second, or so. All CPUs share the count. */
static __always_inline int is_within_loopback_rate(__u32 which)
{
	__u64 *word = bpf_map_lookup_elem(&loopback_rates, &which), old;
	__u32 window = coarse_now() >> 30;

	if (!word)
		return 0;
	old = *(volatile __u64 *)word;
	if ((__s32)(window - (__u32)(old >> 32)) > 0 &&
	    __sync_val_compare_and_swap(word, old, (__u64)window << 32 | 1) == old)
		return 1;
	/* nothing is added beyond the rate, so the count cannot wrap */
	if ((__u32) * (volatile __u64 *)word >= NODE.loopback_rate)
		return 0;
	old = __sync_fetch_and_add(word, 1);
	return (__u32)old < NODE.loopback_rate;
}

/* Each packet that a hook sees pays a little for copies. Not inlined: few nodes need it. */
__noinline int pay_loopback_debt(__u32 slot)
{
	struct tally *tally = find_tally(slot);

	if (!tally || tally->loopback_debt <= 0)
		return 0;
	/* the limit may have been larger when the debt was made */
	if (tally->loopback_debt > MOST_LOOPBACK_DEBT)
		tally->loopback_debt = MOST_LOOPBACK_DEBT;
	tally->loopback_debt--;
	return 0;
}

/* Whether a copy may be returned: each interface has a debt, and all share a rate (RFC 9322 §4.2). */
static __always_inline int may_return(struct tally *tally)
{
	if (tally->loopback_debt > MOST_LOOPBACK_DEBT - NODE.loopback_limit ||
	    !is_within_loopback_rate(RATE_RETURNED))
		return 0;
	tally->loopback_debt += NODE.loopback_limit;
	return 1;
}

/* The trace type with which alone the flag has a meaning (RFC 9322 §4.1), in a trace's second word. */
#define LOOPBACK_TYPE TRACE_BIT(0)

static __always_inline int is_loopback_type(const struct option *option)
{
	return (option->type & ~0xffU) == LOOPBACK_TYPE;
}

/* Whether a trace is that of a copy which this node asked for: the first hop is this node (RFC 9322 §4.4). */
static __always_inline int is_own_copy(const struct packet *p, const struct option *option)
{
	__u32 words = option->words, left = TRACE_REMAINING(option->header);
	const __be32 *first;

	if (option->kind == KIND_INCREMENTAL)
		left = 0; /* the space that is left is not in the packet */
	if (!is_loopback_type(option) || option->header & TRACE_LOOPBACK || left >= words ||
	    NODE.node_id == NO_NODE_ID)
		return 0;
	first = at(p, option->offset + TRACE_OFFSET + ((words - 1 & 0xff) << 2), 4);
	return first && (bpf_ntohl(*first) & 0xffffff) == NODE.node_id;
}

/* What a packet has to do with copies. */
enum copy_kind {
	COPY_NONE,
	COPY_DUE, /* some trace with the flag has room for this node's data, and none asks in vain */
	COPY_OWN, /* it is one that this node asked for */
};

static __always_inline enum copy_kind copy_kind_of(const struct packet *p, const struct options *o,
						   const struct ipv6 *ip6)
{
	const __u8 *hbh = at(p, IPV6_HEADER, 8);
	enum copy_kind kind = COPY_NONE;
	int bare;

	bare = hbh && hbh[0] == NEXT_NONE && bpf_ntohs(ip6->payload_length) == o->length;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		const struct option *option = &o->options[i];
		const struct ioam_namespace *ns;

		if (!is_trace(option))
			continue;
		if (option->header & TRACE_LOOPBACK && !is_loopback_type(option))
			return COPY_NONE; /* "MUST NOT loop back a copy" (RFC 9322 §4.1) */
		ns = namespace_of(o, option);
		if (!ns)
			continue;
		if (bare && ns->probing & PROBING_ASKS && is_own_copy(p, option))
			kind = COPY_OWN;
		if (option->kind == KIND_INCREMENTAL && !ns->incremental)
			continue; /* this node adds nothing to it */
		if (ns->probing & PROBING_RETURNS && option->header & TRACE_LOOPBACK &&
		    !(option->header & TRACE_OVERFLOW) && TRACE_REMAINING(option->header))
			kind = kind > COPY_DUE ? kind : COPY_DUE;
	}
	return kind;
}

/* Hands the packet's headers to the agent, as they arrived; nonzero: there is no room. */
static __always_inline int give_headers(context *ctx, const struct packet *p,
					const struct options *o, __u32 own)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct recording rec = {.ring = bpf_map_lookup_elem(&records, &cpu)};
	__u32 length = packet_length(ctx, p);

	if (!rec.ring || o->length > LOOPBACK_HEADER ||
	    (!own && bpf_ringbuf_query(rec.ring, BPF_RB_AVAIL_DATA) > LOOPBACK_HOLDS))
		return -1;
	record_take(ctx, p, &rec, o->length, LOOPBACK_HEADER);
	if (!rec.held)
		return -1;
	rec.record->time = tai_now();
	rec.record->ifindex = p->on->ifindex;
	rec.record->length = length;
	rec.record->outcome = OUTCOME_LOOPBACK_RECEIVED;
	rec.record->kind = own ? SAMPLE_RECORD : SAMPLE_LOOPBACK;
	rec.record->packet_length = IPV6_HEADER;
	if (read_some(ctx, p->l3, rec.record->packet, IPV6_HEADER, RECORD_PACKET))
		rec.record->packet_length = 0;
	bpf_ringbuf_submit(rec.record, BPF_RB_FORCE_WAKEUP); /* its sender waits for the copy */
	return 0;
}

/* Whether a packet with these options may be a copy, or ask for one: see take_copy(). */
static __always_inline int may_be_copy(const struct options *o)
{
	return NODE.asks_loopback ||
	       (ACTS_ON(TRACE_LOOPBACK) && o->trace_flags & TRACE_LOOPBACK >> TRACE_FLAGS_AT);
}

/*
 * Before a packet with valid options is treated: returns a copy of it to its source, if one is due, by way
 * of the agent, which knows from which address and by which route (RFC 9322 §4.2). Nonzero: the packet is
 * a copy that this node asked for; it is reported, and goes nowhere. Not inlined: see scan_options().
 */
__noinline int take_copy(context *ctx, const struct options *o, const struct interface *on)
{
	struct packet packet = {.on = on}, *p = &packet;
	__u32 counter = COUNTER_LOOPBACK + LOOPBACK_RETURNED;
	const struct ipv6 *ip6;
	enum copy_kind kind;
	struct tally *tally;

	if (!o || !on || o->error || !(on->roles & ROLE_INGRESS))
		return 0;
	p->l3 = o->l3;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	tally = find_tally(on->slot);
	if (!ip6 || !tally)
		return 0;
	kind = copy_kind_of(p, o, ip6);
	if (kind == COPY_OWN) {
		counter = COUNTER_RECORDS_WRITTEN;
		if (!take_wanted())
			return 1;
		if (give_headers(ctx, p, o, 1))
			counter = COUNTER_RECORDS_LOST;
		add(tally, counter);
		return 1;
	}
	if (kind != COPY_DUE || has_local_address(ip6))
		return 0;
	if (!may_return(tally) || give_headers(ctx, p, o, 0))
		counter = COUNTER_LOOPBACK + LOOPBACK_SUPPRESSED;
	add(tally, counter);
	return 0;
}

/* Whether a packet with these options may be a probe: see is_probe(). */
static __always_inline int may_be_probe(const struct options *o)
{
	return ACTS_ON(TRACE_ACTIVE) && o->trace_flags & TRACE_ACTIVE >> TRACE_FLAGS_AT;
}

/*
 * Whether the packet is a probe that ends here: a trace with the flag is to be removed, with its tunnel or
 * by its namespace. Not inlined: see scan_options().
 */
__noinline int is_probe(const struct options *o)
{
	if (!o)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		const struct option *option = &o->options[i];
		const struct ioam_namespace *ns;

		if (!is_trace(option) || !(option->header & TRACE_ACTIVE))
			continue;
		ns = namespace_of(o, option);
		if (ns && ns->probing & PROBING_TERMINATES && (o->in_tunnel || ns->remove))
			return 1;
	}
	return 0;
}

/*
 * Sets the Loopback flag of the header that was inserted last, in one of N packets. The copies must reach
 * this node, so the source of the packet must be its own; and a packet gets the flag once (RFC 9322 §4.1).
 * Not inlined: see scan_options().
 */
__noinline int ask_loopback(context *ctx, __u32 l3, __u32 arrived, __u32 slot)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	const struct draft *d = draft_here();
	const struct encapsulation *e;
	struct frequency_block *mine;
	__u32 kind = LOOPBACK_ASKED;
	const __u8 *next;
	__be32 *word;

	if (!d)
		return -1;
	e = bpf_map_lookup_elem(&encapsulations, &d->inserted);
	if (!e || !e->loopback || packet_is_to_be_cut(ctx) || d->placed == PLACED_IN_HEADER)
		return -1;
	packet_load(ctx, p);
	if (d->placed == PLACED_IN_TUNNEL)
		next = at(p, IPV6_HEADER + e->header_length + 6, 1); /* of the packet inside */
	else
		next = arrived ? 0 : at(p, IPV6_HEADER + 8 * e->last_header, 1);
	word = at(p, IPV6_HEADER + e->loopback_at, 4);
	if (!next || !word || *next == NEXT_HBH || *next == NEXT_IPV6)
		return -1;
	mine = bpf_map_lookup_elem(&frequency_blocks, &e->frequency_slot);
	if (!mine)
		return -1;
	if (mine->until_loopback && mine->until_loopback < e->loopback) {
		mine->until_loopback--;
		return 0;
	}
	mine->until_loopback = e->loopback - 1;
	if (is_within_loopback_rate(RATE_ASKED))
		*word |= bpf_htonl(TRACE_LOOPBACK);
	else
		kind = LOOPBACK_SUPPRESSED;
	return count(slot, COUNTER_LOOPBACK + kind);
}

#endif
