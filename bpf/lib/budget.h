// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Budgets of encapsulations: a share of what leaves their interface (docs/data-plane/encapsulation.md#budgets). */
#ifndef WAYMARK_BUDGET_H
#define WAYMARK_BUDGET_H

#include "context.h"
#include "counters.h"

#define BUDGET_ONE 32 /* a packet or an octet is 2^32 units of credit */

/* Packets that an offloaded one will be cut into, at least 1. */
static __always_inline __u32 parts_of(context *ctx, const struct packet *p)
{
	__u32 parts = packet_segments(ctx, packet_length(ctx, p));

	return parts ? parts : 1;
}

/* What all CPUs have said to have sent by an interface. */
static __always_inline struct total *find_total(__u32 slot)
{
	__u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&tallies, &slot);
	struct total *total = 0;
	struct tally *first;

	if (!inner)
		return 0;
	first = bpf_map_lookup_percpu_elem(inner, &zero, 0);
	if (!first)
		return 0;
	total = &first->total;
	if (!total->since)
		__sync_val_compare_and_swap(&total->since, 0, bpf_ktime_get_ns());
	return total;
}

/* Adds what this CPU has sent to the total. */
static __always_inline void add_to_total(struct tally *tally, __u32 slot)
{
	struct total *total = find_total(slot);

	if (!total)
		return;
	__sync_fetch_and_add(&total->traffic.packets, tally->sent.packets - tally->added.packets);
	__sync_fetch_and_add(&total->traffic.octets, tally->sent.octets - tally->added.octets);
	tally->added = tally->sent;
}

/*
 * Counts a frame that leaves by an interface. `back`: takes that back, because the frame goes to the
 * kernel's stack, which counts it; so a frame is added to the total after the next one has come, at the
 * earliest. Not inlined: the BPF stack is small.
 */
__noinline int count_sent(context *ctx, __u32 slot, __u32 back)
{
	struct packet packet = {}, *p = &packet;
	struct tally *tally = find_tally(slot);

	if (!tally)
		return 0;
	packet_load(ctx, p);
	if (back) {
		tally->sent.packets -= parts_of(ctx, p);
		tally->sent.octets -= packet_length(ctx, p);
		return 0;
	}
	if (tally->sent.packets - tally->added.packets >= BUDGET_BATCH)
		add_to_total(tally, slot);
	tally->sent.packets += parts_of(ctx, p);
	tally->sent.octets += packet_length(ctx, p);
	return 0;
}

/* One of a budget's two limits, and what decides whether it allows an insertion. */
struct quota {
	__u64 share;
	__u64 needed; /* credit for the insertion */
	__u64 wanted; /* of what the interface sent, for the insertion and some ahead */
	__u64 most;   /* of it, that is saved up, with what this CPU sent since */
	__u64 sent;   /* by this CPU */
	__u64 added;  /* of that, to the total */
};

/* A limit of so much for each insertion; an offloaded packet needs several at once. */
static __always_inline struct quota quota_of(__u64 share, __u32 price, __u32 each, __u32 parts)
{
	__u64 worth = (__u64)price * each;

	return (struct quota){
		.share = share,
		.needed = (__u64)parts * each << BUDGET_ONE,
		.wanted = (parts + BUDGET_BATCH) * worth,
		.most = (parts > BUDGET_BURST ? parts : BUDGET_BURST) * worth,
	};
}

/* Whether the credit does not suffice, and the total may have some that no CPU has earned. */
static __always_inline int may_take(const struct purse *mine, const struct quota *q)
{
	return mine->credit < q->needed && (mine->more || mine->added != q->added);
}

/*
 * Takes from the total what no CPU has earned, and takes off what this one earned before it was added.
 * Returns 0 if another CPU changed it at the same time: then a later packet tries again.
 */
static __always_inline int take_credit(struct purse *mine, const struct quota *q, __u64 *earned,
				       const __u64 *total)
{
	__u64 before = *(volatile __u64 *)earned;
	int again = mine->added == q->added;
	__u64 own = again ? 0 : mine->seen - mine->added;
	__s64 most = q->most - (q->sent - (again ? mine->seen : q->added));
	__s64 left = *(volatile __u64 *)total - before - own;
	__u64 after = before + own, taken = 0;

	if (most < 0)
		most = 0;
	if (left > most) {
		after += left - most;
		left = most;
	}
	if (left > 0)
		taken = left < (__s64)q->wanted ? left : q->wanted;
	after += taken;
	if (after != before && __sync_val_compare_and_swap(earned, before, after) != before)
		return 0;
	mine->credit += taken * q->share;
	mine->more = left > (__s64)taken;
	if (!again)
		mine->seen = mine->added = q->added;
	return 1;
}

/* Earns from what this CPU has sent and not yet added to the total. */
static __always_inline void earn(struct purse *mine, const struct quota *q)
{
	__s64 fresh = q->sent - mine->seen, most = q->sent - q->added;

	if (mine->credit >= q->needed)
		return;
	if (fresh > most) /* the encapsulation was for another interface */
		fresh = most;
	if (fresh > 0)
		mine->credit += fresh * q->share;
	mine->seen = q->sent;
}

/* What of an interface's total an encapsulation's CPUs have earned, or lost. */
static __always_inline struct frequency *find_earned(__u32 frequency_slot,
						     const struct total *total)
{
	struct frequency *f = bpf_map_lookup_elem(&frequencies, &frequency_slot);
	__u64 since;

	if (!f)
		return 0;
	since = *(volatile __u64 *)&f->earned.since;
	if (since != total->since && /* a new encapsulation, or another interface */
	    __sync_val_compare_and_swap(&f->earned.since, since, total->since) == since)
		f->earned.traffic = total->traffic;
	return f;
}

/* Makes credit, if there is not enough, and returns whether there is now. */
static __always_inline int fill(struct purse *mine, const struct quota *q, __u32 frequency_slot,
				__u32 slot, int octets)
{
	struct frequency *f;
	struct total *total;

	if (may_take(mine, q)) {
		total = find_total(slot);
		if (!total)
			return 0;
		f = find_earned(frequency_slot, total);
		if (!f)
			return 0;
		if (!take_credit(mine, q,
				 octets ? &f->earned.traffic.octets : &f->earned.traffic.packets,
				 octets ? &total->traffic.octets : &total->traffic.packets))
			return 0;
	}
	earn(mine, q);
	return mine->credit >= q->needed;
}

/* A CPU begins with an encapsulation: what it sent before earns nothing. */
static __always_inline void begin_purses(struct frequency_block *mine, const struct tally *tally)
{
	mine->packets.seen = tally->sent.packets;
	mine->packets.added = tally->added.packets;
	mine->octets.seen = tally->sent.octets;
	mine->octets.added = tally->added.octets;
	mine->packets.more = mine->octets.more = 1;
}

/*
 * Whether the encapsulation may add bytes to a packet that is to be cut into parts, and then spends them.
 * Not inlined: the stack is small.
 */
__noinline int may_spend(const struct encapsulation *e, __u32 slot, __u32 bytes, __u32 parts)
{
	struct tally *tally = find_tally(slot);
	struct frequency_block *mine;
	struct quota q;
	__u32 own;
	int enough = 1;

	if (!e || !tally)
		return 0;
	own = e->frequency_slot; /* Linux 6.1 takes no key from the memory of an argument */
	mine = bpf_map_lookup_elem(&frequency_blocks, &own);
	if (!mine)
		return 0;
	if (!mine->packets.seen)
		begin_purses(mine, tally);
	if (e->packet_share) {
		q = quota_of(e->packet_share, e->packet_price, 1, parts);
		q.sent = tally->sent.packets;
		q.added = tally->added.packets;
		enough = fill(&mine->packets, &q, own, slot, 0);
	}
	if (e->octet_share) {
		q = quota_of(e->octet_share, e->octet_price, bytes, parts);
		q.sent = tally->sent.octets;
		q.added = tally->added.octets;
		enough &= fill(&mine->octets, &q, own, slot, 1);
	}
	if (!enough)
		return 0;
	if (e->packet_share)
		mine->packets.credit -= (__u64)parts << BUDGET_ONE;
	if (e->octet_share)
		mine->octets.credit -= (__u64)parts * bytes << BUDGET_ONE;
	return 1;
}

#endif
