// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What becomes of exports: postcards, flows, and the limits of both (docs/data-plane.md, "Direct
 * Export"; RFC 9326 §3.1.2).
 */
#ifndef WAYMARK_EXPORT_H
#define WAYMARK_EXPORT_H

#include "flow.h"
#include "ioam.h"
#include "record.h"
#include "sequence.h"

/* The reader is woken once for so many postcards; else it looks from time to time. */
#define WAKE_EVERY 512

/* What an interface may owe at most. */
#define MOST_DEBT ((__s64)NODE.export_limit * EXPORT_BURST)

/* Each packet that a hook sees pays a little for exports. */
static __always_inline void pay_debt(struct tally *tally)
{
	if (!NODE.has_exports || tally->debt <= 0)
		return;
	/* the limit may have been larger when the debt was made */
	if (tally->debt > MOST_DEBT)
		tally->debt = MOST_DEBT;
	tally->debt--;
}

/* Whether the node may export one more in this while; CPUs share what they seldom reach. */
static __always_inline int is_within_rate(void)
{
	__u64 window = bpf_ktime_get_coarse_ns() >> 27 << 32, old, *word;
	__u32 zero = 0;

	word = bpf_map_lookup_elem(&export_rates, &zero);
	if (!word)
		return 0;
	old = *(volatile __u64 *)word;
	if (old >> 32 != window >> 32 && __sync_val_compare_and_swap(word, old, window | 1) == old)
		return 1;
	if ((__u32)old >= NODE.export_rate && old >> 32 == window >> 32)
		return 0;
	return (__u32)__sync_fetch_and_add(word, 1) < NODE.export_rate;
}

/*
 * Debts are the interface's; what is exported in a while is bounded for all of them together. Not
 * inlined: the stack is small.
 */
__noinline int may_export(__u32 slot)
{
	struct tally *tally = find_tally(slot);

	if (!tally)
		return 0;
	if (tally->debt > MOST_DEBT - NODE.export_limit || !is_within_rate()) {
		add(tally, COUNTER_EXPORTS_SUPPRESSED);
		return 0;
	}
	tally->debt += NODE.export_limit;
	return 1;
}

static __always_inline void *ring_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&records, &cpu);
}

static __always_inline __u64 wake_flags(struct exporting *e)
{
	return ++e->written % WAKE_EVERY ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP;
}

static __always_inline int same_key(const struct flow_key *a, const struct flow_key *b)
{
	const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4]) |
		 (x[5] ^ y[5]) | (x[6] ^ y[6]) | (x[7] ^ y[7]));
}

/* Secret keys: nobody can make flows that meet in one set. */
static __always_inline __u64 table_hash(const struct flow_key *key)
{
	const __u64 *word = (const __u64 *)key;
	__u64 h = word[0] * NODE.table_keys[0] + word[1] * NODE.table_keys[1] +
		  word[2] * NODE.table_keys[2] + word[3] * NODE.table_keys[3] +
		  word[4] * NODE.table_keys[4] + word[5] * NODE.table_keys[5] +
		  word[6] * NODE.table_keys[6];

	h ^= h >> 32;
	return h * NODE.table_keys[7];
}

/* Whether the reader has all that the flow did. */
static __always_inline int is_collected(const struct flow *f, const struct flow_clock *clock)
{
	return !f->id || ((__s32)(f->totals[0].epoch - clock->collected) <= 0 &&
			  (__s32)(f->totals[1].epoch - clock->collected) <= 0);
}

static __always_inline __u32 last_seen(const struct flow *f)
{
	__u32 even = f->totals[0].last, odd = f->totals[1].last;

	return (__s32)(even - odd) > 0 ? even : odd;
}

/* The entry that is free, or has been read, or has been silent for longest. */
static __always_inline struct flow *find_victim_flow(struct flow_set *set,
						     const struct flow_clock *clock)
{
	struct flow *victim = &set->ways[0];

#pragma clang loop unroll(full)
	for (int i = 0; i < FLOW_WAYS; i++) {
		struct flow *f = &set->ways[i];

		if (is_collected(f, clock))
			return f;
		if ((__s32)(last_seen(f) - last_seen(victim)) < 0)
			victim = f;
	}
	return victim;
}

/* Hands a flow to the reader before the interval ends; zero when it must stay. */
static __always_inline int hand_over(struct exporting *e, struct flow *f, __u32 collected)
{
	struct flow_sample *sample;
	void *ring = ring_here();

	if (!ring || !may_export(e->slot))
		return 0;
	sample = bpf_ringbuf_reserve(ring, sizeof(*sample), 0);
	if (!sample) {
		count(e->slot, COUNTER_RECORDS_LOST);
		return 0;
	}
	sample->kind = SAMPLE_FLOW;
	sample->flow = *f;
	sample->collected = collected;
	bpf_ringbuf_submit(sample, wake_flags(e));
	return 1;
}

/* A full barrier: whoever reads the old id again after reading the rest has the old flow. */
static __always_inline void free_entry(struct flow *f)
{
	__sync_lock_test_and_set(&f->id, 0);
}

/* The flow's entry for the postcard at hand; NULL when there is none to be had. Not inlined: see
 * scan_options(). */
static __noinline struct flow *find_entry(const struct flow_clock *clock, __u32 now)
{
	struct exporting *e = export_here();
	struct flow_key *key;
	struct flow_set *set;
	struct flow *f;
	__u32 index;
	__u64 h, id;

	if (!e)
		return 0;
	key = &e->postcard.key;
	h = table_hash(key);
	index = bpf_get_smp_processor_id() * NODE.flow_sets +
		(__u32)((h >> 32) * NODE.flow_sets >> 32);
	set = bpf_map_lookup_elem(&flows, &index);
	if (!set)
		return 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < FLOW_WAYS; i++) {
		f = &set->ways[i];
		if (f->hash == (__u32)h && f->id && same_key(&f->key, key))
			return f;
	}
	f = find_victim_flow(set, clock);
	if (!is_collected(f, clock)) {
		if (!hand_over(e, f, clock->collected)) {
			/* Its packets were not counted: they are not missing. */
			set->ways[0].refused = now | 1;
			return 0;
		}
		count(e->slot, COUNTER_FLOWS_EVICTED);
	}
	free_entry(f);
	id = (__u64)now << 32 | ++e->flows;
	f->key = *key;
	f->hash = h;
	f->index = index * FLOW_WAYS + ((void *)f - (void *)set) / sizeof(*f);
	f->numbered = 0;
	f->again = 0;
	f->totals[0].epoch = f->totals[1].epoch = clock->collected;
	__sync_lock_test_and_set(&f->id, id ? id : 1);
	return f;
}

/*
 * Notes a Sequence Number; the reader reckons from all CPUs' what is missing. Two in a row from
 * far behind mean that numbers began anew.
 */
static __always_inline void follow_sequence(struct flow *f, struct flow_totals *t, __u32 sequence)
{
	__s32 ahead = sequence - f->sequence;

	if (!f->numbered || ahead > 0) {
		f->sequence = sequence;
	} else if (!ahead) {
		return; /* segments of one packet share a number */
	} else if (ahead >= -MOST_LATE) {
		t->late++;
	} else if (f->again == sequence) {
		f->sequence = sequence;
		t->anew = 1;
		t->numbers = t->strays ? 1 : 0; /* the one before is of the new ones */
		t->lowest = t->highest = sequence - 1;
		t->strays = 0;
	} else {
		f->again = sequence + 1;
		t->late++;
		t->strays++;
		return;
	}
	f->numbered = 1;
	if (!t->numbers++) {
		t->lowest = sequence;
		t->highest = sequence;
	} else if ((__s32)(sequence - t->highest) > 0) {
		t->highest = sequence;
	} else if ((__s32)(sequence - t->lowest) < 0) {
		t->lowest = sequence;
	}
}

static __always_inline void add_delay(struct flow_totals *t, __u32 delay)
{
	if (delay == UNAVAILABLE)
		return;
	t->delay_sum += delay;
	t->delay_count++;
	if (delay < t->delay_min)
		t->delay_min = delay;
	if (delay > t->delay_max)
		t->delay_max = delay;
}

/* Adds the postcard at hand to its flow; nonzero when it is one of the sample. */
static __always_inline int aggregate(struct exporting *e, const struct ioam_namespace *ns)
{
	const struct postcard *c = &e->postcard;
	struct flow_totals *t;
	struct flow_clock *clock;
	struct flow *f;
	__u32 zero = 0, now = coarse_now(), epoch, chosen_by, further;

	clock = bpf_map_lookup_elem(&flow_clock, &zero);
	if (!clock)
		return 0;
	f = find_entry(clock, now);
	if (!f)
		return 0;
	epoch = *(volatile __u32 *)&clock->epoch; /* it may change at any time */
	t = epoch & 1 ? &f->totals[1] : &f->totals[0];
	if (t->epoch != epoch) {
		*t = (struct flow_totals){.first = now,
					  .epoch = epoch,
					  .delay_min = UNAVAILABLE,
					  .hop_limit_min = 0xff};
	}
	further = c->segments > 1 ? c->segments - 1 : 0;
	t->packets += 1 + further;
	t->bytes += c->length + further * e->repeated;
	t->last = now;
	t->ended |= e->ends;
	if (c->hop_limit < t->hop_limit_min)
		t->hop_limit_min = c->hop_limit;
	if (c->hop_limit > t->hop_limit_max)
		t->hop_limit_max = c->hop_limit;
	add_delay(t, c->delay);
	if (c->key.type & EXTENSION_SEQUENCE) {
		chosen_by = c->sequence;
		follow_sequence(f, t, c->sequence);
	} else {
		chosen_by = f->again++;
	}
	if (e->ends && hand_over(e, f, clock->collected))
		free_entry(f);
	return ns->export == EXPORT_SAMPLE && ns->sample && chosen_by % ns->sample == 0;
}

static __always_inline void send_postcard(struct exporting *e)
{
	void *ring;

	if (!may_export(e->slot))
		return;
	ring = ring_here();
	if (!e->postcard.time)
		e->postcard.time = tai_now();
	e->postcard.kind = SAMPLE_POSTCARD;
	if (ring && !bpf_ringbuf_output(ring, &e->postcard, sizeof(e->postcard), wake_flags(e)))
		count(e->slot, COUNTER_POSTCARDS);
	else
		count(e->slot, COUNTER_RECORDS_LOST);
}

/*
 * Exports for one option: its first word, its trace type, and what Extension-Flags announce. The
 * rest is in the export at hand. Not inlined: see scan_options().
 */
__noinline int export_option(__u32 header, __u32 type, __u32 flow_id, __u32 sequence)
{
	struct exporting *e = export_here();
	const struct ioam_namespace *ns;
	struct postcard *c;

	if (!e)
		return 0;
	ns = find_namespace(tables_of(e->half), header >> 16);
	if (!ns || ns->export == EXPORT_NONE)
		return 0;
	c = &e->postcard;
	c->key.namespace_id = header >> 16;
	c->key.flow_id = header & EXTENSION_FLOW_ID ? flow_id : 0;
	c->key.type = (type & 0xffffff00) | (header & 0xff);
	c->sequence = header & EXTENSION_SEQUENCE ? sequence : 0;
	c->flags = header >> 8;
	/* options of one packet need not ask for the same */
	c->delay = type & TRACE_BIT(4) ? e->delay : UNAVAILABLE;
	c->queue = type & TRACE_BIT(6) ? e->queue : UNAVAILABLE;
	if (ns->export == EXPORT_EVERY || aggregate(e, ns))
		send_postcard(e);
	return 1;
}

/* Exports for the options of a header, whose packet is noted. Not inlined: see scan_options(). */
__noinline int export_options(context *ctx, __u32 l3, const struct scan *s)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;

	if (!s)
		return 0;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < s->count; i++) {
		const struct option *o = &s->options[i];
		__u32 offset = o->offset + DEX_OFFSET, flow_id = 0, sequence = 0;
		const __be32 *word;

		if (o->outcome != OUTCOME_DIRECT_EXPORT)
			continue;
		if (o->header & EXTENSION_FLOW_ID) {
			word = at(p, offset, 4);
			if (!word)
				return 0;
			flow_id = bpf_ntohl(*word);
			offset += 4;
		}
		if (o->header & EXTENSION_SEQUENCE) {
			word = at(p, offset, 4);
			if (!word)
				return 0;
			sequence = bpf_ntohl(*word);
		}
		export_option(o->header, o->type, flow_id, sequence);
	}
	return 0;
}

/* The transit delay is asked for, and this profile has it. */
#define DELAYED (NODE.mainline ? 0 : TRACE_BIT(4))

static __always_inline __u32 delay_of(__u64 begun, __u64 ended)
{
	__u64 delay = ended - begun;

	return delay > DELAY_OVERFLOW ? DELAY_OVERFLOW : delay;
}

/* What the exports of a packet have in common. */
static __always_inline struct exporting *begin_export(const struct packet *p, enum export_role role,
						      __u32 ingress, __u32 egress, __u32 hop_limit)
{
	struct exporting *e = export_here();

	if (!e)
		return 0;
	e->slot = p->on->slot;
	e->half = p->on->half;
	e->postcard.key.role = role;
	e->postcard.key.ingress = ingress;
	e->postcard.key.egress = egress;
	e->postcard.hop_limit = hop_limit;
	e->postcard.time = 0;
	e->delay = UNAVAILABLE;
	e->queue = UNAVAILABLE;
	return e;
}

/*
 * The place of the packet's arrival. Between the hooks of a node, a packet that is forwarded stays
 * where it is; one that was moved is not found. The pointer becomes a number on its way through a
 * map.
 */
static __always_inline struct arrival *find_arrival(const struct packet *p, __u64 *buffer)
{
	struct exporting *e = export_here();
	__u32 index;

	if (!e)
		return 0;
	*(void *volatile *)&e->buffer = p->data;
	*buffer = *(volatile __u64 *)&e->buffer;
	index = *buffer * FIBONACCI >> 56;
	return bpf_map_lookup_elem(&arrivals, &index);
}

/* Tells a packet from another one that came to lie where it was: mostly by its Sequence Number. */
static __always_inline __u64 mark_of(const struct packet *p, const struct scan *s)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	const __u64 *last = at(p, IPV6_HEADER + s->length - 8, 8);

	return ip6 && last ? *last ^ ip6->source[1] ^ (__u64)ip6->payload_length << 48 : 0;
}

static __always_inline void remember_arrival(const struct packet *p, const struct scan *s,
					     __u64 tai)
{
	__u64 buffer;
	struct arrival *a = find_arrival(p, &buffer);

	if (!a)
		return;
	a->buffer = buffer;
	a->mark = mark_of(p, s);
	a->time = tai;
}

/* The time that the packet took through this node, or all-ones. */
static __always_inline __u32 delay_since_arrival(const struct packet *p, const struct scan *s,
						 __u64 tai)
{
	__u64 buffer;
	struct arrival *a = find_arrival(p, &buffer);

	if (!a || a->buffer != buffer || a->mark != mark_of(p, s))
		return UNAVAILABLE;
	a->buffer = 0;
	return tai - a->time > NS_PER_S ? UNAVAILABLE : delay_of(a->time, tai);
}

#endif
