// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Module of Direct Export (RFC 9326): options are read and left as they are; each makes a postcard
 * (docs/data-plane/direct-export.md).
 */
#ifndef WAYMARK_OPTION_DEX_H
#define WAYMARK_OPTION_DEX_H

#include "arrival.h"
#include "clock.h"
#include "edit.h"
#include "flow.h"
#include "postcard.h"
#include "record.h"
#include "option/option.h"

#define DEX_OFFSET 12 /* of what Extension-Flags announce, from the option's first byte */

/* Octets that Extension-Flags announce (RFC 9326 §3.2). */
static __always_inline __u32 extension_octets(__u32 header)
{
	__u32 flags = header & 0xff;

	flags -= flags >> 1 & 0x55;
	flags = (flags & 0x33) + (flags >> 2 & 0x33);
	return ((flags + (flags >> 4)) & 0x0f) << 2;
}

/* OUTCOME_UNTOUCHED if the option is sound. */
static __always_inline enum outcome dex_check(const struct packet *p, __u32 offset, __u32 length,
					      struct option *o)
{
	/* to Linux, one that is too short is like an option-type that it does not know */
	const enum outcome too_short =
		NODE.mainline ? OUTCOME_OPTION_UNSUPPORTED : OUTCOME_MALFORMED_OPTION_LENGTH;

	if (length < TYPED_OPTION_MIN)
		return too_short;
	if (!read_words(p, offset, o))
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	return length < TYPED_OPTION_MIN + extension_octets(o->header) ? too_short
								       : OUTCOME_UNTOUCHED;
}

static __always_inline void dex_note(struct options *o, struct option *option)
{
	const struct ioam_namespace *ns = namespace_of(o, option);

	set_outcome(o, option, ns ? OUTCOME_DIRECT_EXPORT : OUTCOME_NAMESPACE_UNKNOWN);
	note_removal(o, ns);
	if (NODE.has_postcards && ns && ns->export)
		o->dex_types |= (option->type & 0xffffff00) | 1;
}

/* Whether some option makes a postcard, if records are wanted. */
static __always_inline int dex_reports(const struct options *o)
{
	return NODE.has_postcards && o->dex_types;
}

/* Whether one of them needs the time that the packet took through this node. */
static __always_inline int dex_needs_delay(const struct options *o)
{
	return !NODE.mainline && o->dex_types & TRACE_BIT(4);
}

static __always_inline int dex_needs_queue(const struct options *o)
{
	return o->dex_types & TRACE_BIT(6);
}

/* Linux exports no buffer occupancy, because it has none in a trace. */
static __always_inline int dex_needs_buffer(const struct options *o)
{
	return !NODE.mainline && o->dex_types & TRACE_BIT(11);
}

/* Begins the postcards of a packet. */
static __always_inline struct draft *begin_postcard(const struct packet *p, enum node_role role,
						    __u32 ingress, __u32 egress,
						    const struct hop *hop)
{
	struct draft *d = draft_here();

	if (!d)
		return 0;
	d->slot = p->on->slot;
	d->tables_index = p->on->tables_index;
	d->postcard.key.role = role;
	*(__u64 *)&d->postcard.key.ingress = ingress | (__u64)egress << 32;
	d->postcard.hop_limit = hop->hop_limit;
	d->postcard.time = hop->tai;
	d->delay = UNAVAILABLE;
	d->queue = hop->queue;
	d->buffer = hop->buffer;
	return d;
}

/* Reports the options of a header, whose packet is in the draft. Not inlined: see scan_options(). */
__noinline int report_options(context *ctx, const struct options *o)
{
	struct packet packet = {}, *p = &packet;

	if (!o)
		return 0;
	p->l3 = o->l3;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		const struct option *option = &o->options[i];
		__u32 offset = option->offset + DEX_OFFSET, flow_id = 0, sequence = 0;
		const __be32 *word;

		if (option->kind != KIND_DEX || option->outcome != OUTCOME_DIRECT_EXPORT)
			continue;
		if (option->header & EXTENSION_FLOW_ID) {
			word = at(p, offset, 4);
			if (!word)
				return 0;
			flow_id = bpf_ntohl(*word);
			offset += 4;
		}
		if (option->header & EXTENSION_SEQUENCE) {
			word = at(p, offset, 4);
			if (!word)
				return 0;
			sequence = bpf_ntohl(*word);
		}
		report_option(option->header, option->type, flow_id, sequence);
	}
	return 0;
}

/* Transit: where the way out is known, postcards are made now. Otherwise the egress hook makes them. */
static __always_inline void dex_ingress(context *ctx, const struct packet *p, struct options *o,
					const struct hop *hop, __u32 egress)
{
	struct draft *d;

	if (!(COMPLETES && NODE.fast) || !hop->leaves)
		return;
	d = begin_postcard(p, NODE_TRANSIT, p->on->ifindex, egress, hop);
	if (!d || find_flow(ctx, p->l3, o->length, ABOUT_INNER))
		return;
	d->postcard.time = 0;
	if (dex_needs_delay(o)) {
		d->postcard.time = tai_now();
		d->delay = delay_between(hop->tai, d->postcard.time);
		o->held = d->delay;
	}
	report_options(ctx, o);
}

/* The postcards of a transit node whose ingress hook did not make them. */
static __always_inline void dex_egress(context *ctx, const struct packet *p,
				       const struct options *o, const struct hop *hop)
{
	struct draft *d = begin_postcard(p, NODE_TRANSIT, p->arrived, p->on->ifindex, hop);

	if (!d)
		return;
	d->delay = o->delay;
	if (!find_flow(ctx, p->l3, o->length, ABOUT_INNER))
		report_options(ctx, o);
}

/* The postcards of a decapsulating node, which removes headers of a length. */
static __always_inline void dex_remove(context *ctx, const struct packet *p,
				       const struct options *o, const struct hop *hop, __u32 length,
				       enum about about)
{
	if (begin_postcard(p, NODE_DECAPSULATING, p->on->ifindex, 0, hop) &&
	    !find_flow(ctx, p->l3, length, about))
		report_options(ctx, o);
}

static __always_inline __u32 flow_id_of(const struct draft *d, const struct patch *patch)
{
	switch (patch->flow_id_source) {
	case FLOW_ID_LABEL:
		return bpf_ntohl(d->postcard.key.flow_label);
	case FLOW_ID_FIXED:
		return patch->fixed_flow_id;
	}
	return d->hash;
}

/*
 * Completes the Direct Exports of the header that was inserted last, and reports them. Not inlined:
 * see scan_options().
 */
__noinline int dex_insert(context *ctx, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	struct draft *d = draft_here();
	const struct encapsulation *e;
	int reports;

	if (!d)
		return -1;
	e = bpf_map_lookup_elem(&encapsulations, &d->inserted);
	if (!e)
		return -1;
	reports = NODE.has_postcards && are_exports_wanted();
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < e->options; i++) {
		const struct patch *patch = &e->patches[i];
		__u32 header, type, flow_id, sequence = 0;
		__be32 *words;

		if (patch->kind != KIND_DEX)
			continue;
		words = at(p, IPV6_HEADER + patch->dex, 8);
		if (!words)
			return -1;
		header = bpf_ntohl(words[0]);
		type = bpf_ntohl(words[1]);
		flow_id = flow_id_of(d, patch);
		if (patch->sequence)
			sequence = take_sequence(header >> 16, flow_id);
		patch32(p, patch->flow_id, bpf_htonl(flow_id));
		patch32(p, patch->sequence, bpf_htonl(sequence));
		if (reports)
			report_option(header, type, flow_id, sequence);
	}
	return 0;
}

#endif
