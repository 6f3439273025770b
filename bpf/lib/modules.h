// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The modules of option-types (option/option.h): which there are, and when each one acts. */
#ifndef WAYMARK_MODULES_H
#define WAYMARK_MODULES_H

#include "context.h"
#include "counters.h"
#include "held.h"
#include "option/dex.h"
#include "option/e2e.h"
#include "option/e2e_insert.h"
#include "option/e2e_measure.h"
#include "option/e2e_read.h"
#include "option/flags.h"
#include "option/incremental.h"
#include "option/incremental_grow.h"
#include "option/pot.h"
#include "option/trace.h"
#include "option/trace_insert.h"
#include "queue.h"
#include "record.h"
#include "tracedelays.h"

/* The module of an option-type. */
static __always_inline enum option_kind kind_of(__u8 option_type, __u8 ioam_type)
{
	if (ioam_type == IOAM_DEX)
		return KIND_DEX;
	if (ioam_type == IOAM_PREALLOCATED_TRACE && option_type == OPTION_IOAM)
		return KIND_TRACE;
	if (ioam_type == IOAM_INCREMENTAL_TRACE && option_type == OPTION_IOAM)
		return KIND_INCREMENTAL;
	if (ioam_type == IOAM_POT && option_type == OPTION_IOAM)
		return KIND_POT;
	return KIND_OTHER;
}

/*
 * Checks one IOAM option as the kernel does, in its order: OUTCOME_UNTOUCHED if its module can treat
 * it, OUTCOME_OPTION_UNSUPPORTED if none does, else the error.
 */
static __always_inline enum outcome check_option(context *ctx, const struct packet *p,
						 struct options *options, __u32 slot,
						 struct option *o, __u32 offset)
{
	const __u8 *option = at(p, offset, 4);

	o->kind = KIND_OTHER;
	if (offset & 3)
		return OUTCOME_MALFORMED_ALIGNMENT;
	if (!option || option[1] < 2)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	o->kind = kind_of(option[0], option[3]);
	switch (o->kind) {
	case KIND_TRACE:
		return trace_check(p, offset, option[1], o);
	case KIND_DEX:
		return dex_check(p, offset, option[1], o);
	case KIND_POT:
		return pot_check(ctx, options, slot, option[1]);
	case KIND_INCREMENTAL:
		return incremental_check(ctx, options, slot, option[1]);
	}
	return OUTCOME_OPTION_UNSUPPORTED;
}

/* Notes an IOAM option in a slot, the next free one; nonzero when there are too many. */
static __always_inline int note_option(context *ctx, const struct packet *p,
				       struct options *options, __u32 slot, __u32 offset)
{
	struct option *o;

	if (slot >= MAX_IOAM_OPTIONS)
		return -1;
	o = &options->options[slot];
	options->count = slot + 1;
	o->offset = offset;
	o->outcome = check_option(ctx, p, options, slot, o, offset);
	if (o->outcome >= OUTCOME_MALFORMED_IPV6) {
		o->kind = KIND_OTHER;
		if (!options->error)
			options->error = o->outcome;
		return 0;
	}
	if (o->outcome != OUTCOME_UNTOUCHED) {
		o->kind = KIND_OTHER;
		set_outcome(options, o, o->outcome);
		return 0;
	}
	switch (o->kind) {
	case KIND_TRACE:
		trace_note(options, o);
		break;
	case KIND_DEX:
		dex_note(options, o);
		break;
	case KIND_POT:
		pot_note(options, slot);
		break;
	case KIND_INCREMENTAL:
		incremental_note(options, slot);
		break;
	}
	return 0;
}

/*
 * Notes the option at an offset in a slot if it is a common trace (trace_common.h), aligned and within the
 * header, as note_option() would after its checks: where the next option is; else zero.
 */
static __always_inline __u32 note_common_trace(const struct packet *p, struct options *options,
					       __u32 slot, __u32 offset, __u32 end)
{
	__u32 next = 0;
	const struct typed_option *option = common_at(p, offset, end, &next);
	struct option *o;

	if (!option)
		return 0;
	o = &options->options[slot];
	o->header = bpf_ntohl(option->word);
	o->type = bpf_ntohl(option->type);
	o->offset = offset;
	o->kind = KIND_TRACE;
	o->words = words_of(option);
	o->outcome = OUTCOME_UNTOUCHED;
	trace_note(options, o);
	return next;
}

/*
 * The outcome at egress of an option that the ingress hook treated. A trace without room has the overflow
 * flag by now, which ingress set. Proofs have no outcome at egress.
 */
static __always_inline enum outcome completed_outcome(enum outcome outcome)
{
	if (outcome == OUTCOME_POT_UPDATED || outcome == OUTCOME_POT_ACCEPTED ||
	    is_proof_refused(outcome))
		return OUTCOME_UNTOUCHED;
	return outcome == OUTCOME_TRACE_OVERFLOW ? OUTCOME_OVERFLOW_SET : outcome;
}

/*
 * Sums up several options: each that is not the packet's outcome is counted, from a counter on. In most
 * packets all options have the same outcome. Not inlined: see scan_options().
 */
__noinline int sum_up_several(struct options *o, __u32 slot, __u32 counter)
{
	volatile __u8 *greatest, *completed;
	struct tally *tally;
	int counted = 0;

	if (!o)
		return 0;
	tally = find_tally(slot);
	if (!(o->seen & (o->seen - 1))) {
		o->outcome = o->options[0].outcome;
		o->completed = completed_outcome(o->outcome);
		if (tally)
			add_several(tally, counter + o->outcome, o->count - 1);
		return 0;
	}
	/* in memory, because the verifier would follow each value of a register apart */
	greatest = &o->outcome;
	completed = &o->completed;
	*greatest = 0;
	*completed = 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		__u32 outcome = o->options[i].outcome, later = completed_outcome(outcome);

		if (outcome > *greatest)
			*greatest = outcome;
		if (later > *completed)
			*completed = later;
	}
	if (!tally)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		__u32 outcome = o->options[i].outcome;

		if (outcome == *greatest && !counted)
			counted = 1;
		else
			add(tally, counter + outcome);
	}
	return 0;
}

/* Finds the outcome of a packet that goes on with its options: the greatest of theirs. */
static __always_inline void sum_up(struct options *o, __u32 slot, enum counter counter)
{
	if (o->count > 1) {
		sum_up_several(o, slot, counter);
		return;
	}
	o->outcome = o->options[0].outcome;
	o->completed = completed_outcome(o->outcome);
}

/*
 * Finds the outcome at egress of a packet whose incremental traces have grown without the egress hook: it
 * is that of the growth, which the ingress hook does not count. Not inlined: see scan_options().
 */
__noinline int sum_up_grown(struct options *o)
{
	__u32 completed = 0;

	if (!o)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		__u32 outcome = o->options[i].outcome;

		if (o->options[i].kind != KIND_INCREMENTAL)
			outcome = completed_outcome(outcome);
		if (outcome > completed)
			completed = outcome;
	}
	o->completed = completed;
	return 0;
}

/*
 * Ingress of a packet that keeps its header, and leaves by an interface if that is known. What is dropped
 * for its proof is not reported. Returns where the packet is, as with_place(). Not inlined: see
 * scan_options().
 */
__noinline int treat_options(context *ctx, struct options *o, const struct interface *on,
			     struct hop *hop, const struct path *path)
{
	struct packet packet = {}, *p = &packet;
	int reports, sampled, leaves;

	if (!o || !on || !hop || !path)
		return 0;
	leaves = COMPLETES && NODE.fast && hop->leaves;
	p->l3 = o->l3;
	p->on = on;
	packet_load(ctx, p);
	reports = dex_reports(o) && !o->refused && are_exports_wanted();
	sampled = NODE.has_delays && hop->stays && carries_times(o) && !trace_needs_departure(o) &&
		  !(reports && dex_needs_delay(o)) && !incremental_needs_arrival(o) &&
		  is_delay_sampled();
	/* one reading of the clock serves all options */
	if (trace_needs_arrival(o) || (reports && dex_needs_delay(o)) ||
	    incremental_needs_arrival(o) || sampled)
		hop->tai = tai_now();
	o->held = UNAVAILABLE;
	trace_ingress(ctx, o, hop);
	/* after the traces: the egress hook finds an arrival by the header as it is now */
	if (!leaves && ((reports && dex_needs_delay(o)) || incremental_needs_arrival(o)))
		remember_arrival(ctx, p, o->length, hop->tai);
	if (!leaves && sampled)
		remember_sampled(ctx, p, o->length, hop->tai);
	if (reports) {
		dex_ingress(ctx, p, o, hop, path->ifindex);
		packet_load(ctx, p);
	}
	if (leaves && sampled)
		o->held = delay_between(hop->tai, tai_now());
	if (NODE.has_delays && leaves && o->held < DELAY_OVERFLOW)
		note_held(on->ifindex, path->ifindex, o->held);
	sum_up(o, p->on->slot, COUNTER_INGRESS_OPTIONS);
	return with_place(p, 0);
}

static __always_inline void ingress_options(context *ctx, struct packet *p, struct options *o,
					    struct hop *hop, const struct path *path)
{
	take_place(p, treat_options(ctx, o, p->on, hop, path));
	packet_load(ctx, p);
	if (COMPLETES && NODE.fast && hop->leaves && incremental_grows(o)) {
		incremental_egress(ctx, p, o, hop, path->mtu);
		sum_up_grown(o);
		packet_load(ctx, p);
	}
}

/*
 * Ingress of a packet that loses headers of a length, these options among them; nonzero: a record of
 * the header is wanted.
 */
static __always_inline int remove_options(context *ctx, struct packet *p, struct options *o,
					  struct hop *hop, __u32 length, enum about about)
{
	if (NODE.has_delays && o->has_trace)
		note_traces(ctx, o, hop, 1);
	if (dex_reports(o) && are_exports_wanted()) {
		if (o->has_trace && !hop->tai)
			hop->tai = tai_now();
		dex_remove(ctx, p, o, hop, length, about);
		packet_load(ctx, p);
	} else if (!(o->has_trace && are_records_wanted()) && !(NODE.has_proofs && o->has_proof)) {
		return 0; /* a proof was treated, and is counted with all else in its header */
	}
	if (o->has_trace) {
		if (!hop->tai)
			hop->tai = tai_now();
		fill_traces(ctx, o, hop);
	}
	sum_up(o, p->on->slot, COUNTER_INGRESS_OPTIONS);
	return o->has_trace && are_records_wanted(); /* read again: the stack is small */
}

/* Egress of a packet whose options the ingress hook treated. */
static __always_inline void egress_options(context *ctx, struct packet *p, struct options *o,
					   struct hop *hop)
{
	int reports = dex_reports(o) && are_exports_wanted();
	int remembered = (reports && dex_needs_delay(o)) || incremental_needs_arrival(o);

	if (trace_needs_departure(o) || remembered)
		hop->tai = tai_now();
	if (trace_needs_queue(o) || dex_needs_queue(o) || incremental_needs_queue(o))
		hop->queue = queue_depth(ctx);
	if (trace_needs_buffer(o) || dex_needs_buffer(o) || incremental_needs_buffer(o))
		hop->buffer = buffer_occupancy(ctx);
	o->delay = o->held = UNAVAILABLE;
	if (remembered) {
		o->delay = delay_since_arrival(ctx, p, o->length, hop->tai);
		o->held = o->delay;
	} else if (NODE.has_delays && carries_times(o) && !trace_needs_departure(o)) {
		leave_sampled(ctx, p, o->length);
	}
	if (reports)
		dex_egress(ctx, p, o, hop);
	trace_egress(ctx, o, hop);
	if (NODE.has_delays && o->held < DELAY_OVERFLOW)
		note_held(p->arrived, p->on->ifindex, o->held);
	incremental_egress(ctx, p, o, hop, 0);
	sum_up(o, p->on->slot, COUNTER_EGRESS_OPTIONS);
}

/* Completes an option of a header that is being inserted. */
static __always_inline void insert_option(context *ctx, struct packet *p, const struct patch *patch,
					  const struct departure *departure)
{
	if (patch->kind != KIND_TRACE && patch->kind != KIND_INCREMENTAL)
		return;
	trace_insert(p, patch, departure);
	if (patch->complement)
		complement_insertion(ctx, patch, departure, p->l3);
}

/* Completes options that need the whole inserted header. A step of its own, because the stack is small. */
static __always_inline void insert_options(context *ctx, const struct packet *p)
{
	const struct draft *d;

	if (!NODE.inserts_dex && !NODE.inserts_proofs && !NODE.inserts_e2e && !NODE.asks_loopback &&
	    !NODE.inserts_growing)
		return;
	d = draft_here();
	if (!d || d->inserted == NO_RULE)
		return;
	if (NODE.inserts_dex)
		dex_insert(ctx, p->l3);
	if (NODE.inserts_proofs)
		pot_insert(ctx, p->l3, p->on->tables_index);
	if (NODE.inserts_e2e)
		e2e_insert(ctx, p->l3, OUT(p, slot));
	if (NODE.asks_loopback)
		ask_loopback(ctx, p->l3, COMPLETES || p->arrived, OUT(p, slot));
	if (NODE.inserts_growing)
		incremental_insert(ctx, p->l3);
}

#endif
