// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Completes the Edge-to-Edge options of a header that is being inserted, and gives out their numbers, exactly
 * on all CPUs.
 *
 * A CPU remembers where the numbers of recent flows are, and takes most with one exchange, without the lock.
 * The exchange fails if another CPU took the number, or if the entry has changed hands (decision 0024).
 */
#ifndef WAYMARK_OPTION_E2E_INSERT_H
#define WAYMARK_OPTION_E2E_INSERT_H

#include "option/e2e.h"

#define E2E_RECENT 64 /* a power of two */
#define E2E_TRIES  4  /* before the lock, where other CPUs number the same flow */

/* In the lower half of e2e_number.next: no number may be taken without the lock. */
#define E2E_LOCKED 0xffffffffU

/* A flow that this CPU has numbered. */
struct e2e_recent {
	struct e2e_key key;
	__u64 begin; /* as in its entry */
	__u64 next;  /* and so was this, after the last number here */
	__u32 place; /* set * E2E_WAYS + way */
	__u32 used;  /* when that was noted last, in jiffies */
};

struct e2e_recent_flows {
	struct e2e_recent flows[E2E_RECENT];
};

/* One entry for each CPU. Of this program alone, which has one table as long as it runs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct e2e_recent_flows);
} e2e_recent_flows SEC(".maps");

static __always_inline struct e2e_recent *e2e_recent_at(__u32 index)
{
	__u32 zero = 0;
	struct e2e_recent_flows *r = bpf_map_lookup_elem(&e2e_recent_flows, &zero);

	return r ? &r->flows[index & (E2E_RECENT - 1)] : 0;
}

/*
 * Takes the number under the lock, and remembers the flow's entry. Not inlined: see scan_options().
 */
__noinline __u64 find_e2e_number(__u32 recent, __u32 slot)
{
	const struct e2e_clock *c = e2e_clock_here();
	struct e2e_recent *r = e2e_recent_at(recent);
	struct e2e_number_set *set;
	__u64 old, number, version;
	struct e2e_number *own;
	struct e2e_place place;
	__u32 now, index;

	if (!r || !c)
		return 0;
	r->used = bpf_jiffies64();
	now = time_of_use();
	index = e2e_hash(c, &r->key) & (E2E_NUMBER_SETS - 1);
	set = bpf_map_lookup_elem(&e2e_numbers, &index);
	if (!set)
		return 0;
	bpf_spin_lock(&set->lock);
	place = find_e2e_place(set->ways, sizeof(set->ways[0]), &r->key);
	own = &set->ways[place.way & (E2E_WAYS - 1)];
	old = __sync_lock_test_and_set(&own->next, E2E_LOCKED);
	number = (__u32)old;
	version = old >> 32;
	if (!place.own) {
		own->entry.key = r->key;
		own->entry.taken = 1;
		own->begin = 0;
		number = 0;
		version++;
	} else if (number == E2E_LOCKED) { /* all of this half were taken */
		own->begin += number;
		number = 0;
		version++;
	}
	own->entry.used = now;
	r->begin = own->begin;
	r->next = version << 32 | (number + 1);
	__sync_lock_test_and_set(&own->next, r->next);
	bpf_spin_unlock(&set->lock);
	r->place = index * E2E_WAYS + place.way;
	if (place.evicted)
		count(slot, COUNTER_E2E_NUMBERS_EVICTED);
	return r->begin + number;
}

/*
 * Takes the number r->next if it is still the flow's next one, else zero: r->next is the next one now, or
 * says that the flow must be looked for.
 */
static __always_inline int take_e2e_number(struct e2e_recent *r)
{
	__u32 index = r->place / E2E_WAYS, now = bpf_jiffies64();
	struct e2e_number_set *set = bpf_map_lookup_elem(&e2e_numbers, &index);
	__u64 expected = r->next, found;
	struct e2e_number *own;

	if (!set || (__u32)expected == E2E_LOCKED)
		return 0;
	own = &set->ways[r->place & (E2E_WAYS - 1)];
	r->next = expected + 1;
	found = __sync_val_compare_and_swap(&own->next, expected, expected + 1);
	if (found != expected) {
		r->next = (found ^ expected) >> 32 ? E2E_LOCKED : found;
		return 0;
	}
	if (r->used != now) {
		r->used = now;
		own->entry.used = time_of_use();
	}
	return 1;
}

/*
 * The same where other CPUs number the flow, too, or have taken its place. Not inlined: see
 * scan_options().
 */
__noinline __u64 share_e2e_number(__u32 recent, __u32 slot)
{
	struct e2e_recent *r = e2e_recent_at(recent);

	if (!r)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < E2E_TRIES; i++) {
		if (take_e2e_number(r))
			return r->begin + (__u32)(r->next - 1);
	}
	return find_e2e_number(recent, slot);
}

/* Whether a key is that of a packet with this IPv6 header; `last` is its last word. */
static __always_inline int is_e2e_flow(const struct e2e_key *key, const struct ipv6 *ip6,
				       __u64 tunnel, __u64 last)
{
	return !((key->source[0] ^ ip6->source[0]) | (key->source[1] ^ ip6->source[1]) |
		 (key->destination[0] ^ ip6->destination[0]) |
		 (key->destination[1] ^ ip6->destination[1]) | (key->tunnel ^ tunnel) |
		 (*(const __u64 *)&key->flow_label ^ last));
}

/* The next number of the flow of a packet with this IPv6 header, and of options with this header. */
static __always_inline __u64 next_e2e_number(const struct ipv6 *ip6, __u64 tunnel, __u32 header,
					     __u32 slot)
{
	__u64 last = (ip6->class_label & FLOW_LABEL_MASK) | (__u64)header << 32;
	__u64 mixed = ip6->source[1] ^ ip6->destination[1] ^ last;
	__u32 recent = mixed * FIBONACCI >> 32 & (E2E_RECENT - 1);
	struct e2e_recent *r = e2e_recent_at(recent);

	if (!r)
		return 0;
	if (is_e2e_flow(&r->key, ip6, tunnel, last)) {
		if (take_e2e_number(r))
			return r->begin + (__u32)(r->next - 1);
		return share_e2e_number(recent, slot);
	}
	note_e2e_flow(&r->key, ip6, tunnel);
	r->key.header = header;
	r->next = E2E_LOCKED; /* until it is found */
	return find_e2e_number(recent, slot);
}

/*
 * Completes the options of the header that was inserted last. Not inlined: see scan_options().
 */
__noinline int e2e_insert(context *ctx, __u32 l3, __u32 slot)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	const struct draft *d = draft_here();
	const struct encapsulation *e;
	const struct ipv6 *ip6;
	struct timestamp time = {};
	__u64 tunnel = 0;

	if (!d)
		return -1;
	e = bpf_map_lookup_elem(&encapsulations, &d->inserted);
	if (!e || !e->e2e_options)
		return -1;
	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (ip6 && d->placed == PLACED_IN_TUNNEL) {
		tunnel = tunnel_hash(ip6);
		ip6 = at(p, IPV6_HEADER + (e->header_length & 0x3ff), IPV6_HEADER);
	}
	if (!ip6)
		return -1;
	if (d->placed == PLACED_IN_HEADER) /* and a header is after that one */
		p->ip6 += d->shift & (E2E_HEADER - 1);
	if (e->wants_e2e_time)
		time = timestamp_of(tai_now());
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < e->options; i++) {
		const struct patch *patch = &e->patches[i];
		__be32 *words;
		__u64 number;

		if (patch->kind != KIND_E2E)
			continue;
		words = at(p, IPV6_HEADER + patch->proof, 8);
		if (!words)
			return -1;
		if (patch->sequence) {
			number = next_e2e_number(ip6, tunnel, bpf_ntohl(words[0]), slot);
			if (words[0] & bpf_htonl(E2E_SEQUENCE_64)) {
				words[1] = bpf_htonl(number >> 32);
				patch32(p, patch->sequence + 4, bpf_htonl((__u32)number));
			} else {
				words[1] = bpf_htonl((__u32)number);
			}
		}
		patch32(p, patch->seconds, bpf_htonl(time.seconds));
		patch32(p, patch->fraction, bpf_htonl(time.fraction));
	}
	return 0;
}

#endif
