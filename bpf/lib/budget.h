// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Budgets of encapsulations: a share of what leaves their interface (docs/data-plane.md, "Budgets"). */
#ifndef WAYMARK_BUDGET_H
#define WAYMARK_BUDGET_H

#include "context.h"
#include "counters.h"

#define BUDGET_ONE   32		   /* a packet or an octet is 2^32 units of credit */
#define BUDGET_LIMIT 0x7fffffffULL /* most that is added at once, so that products fit 64 bits */

/* Packets that an offloaded one will be cut into, at least 1. */
static __always_inline __u32 parts_of(context *ctx, const struct packet *p)
{
	__u32 parts = packet_segments(ctx, packet_length(ctx, p));

	return parts ? parts : 1;
}

/*
 * Counts a frame that leaves by an interface. `back`: takes that back, because the frame goes to the
 * kernel's stack, which counts it. Not inlined: the BPF stack is small.
 */
__noinline int count_sent(context *ctx, __u32 slot, __u32 back)
{
	struct packet packet = {}, *p = &packet;
	struct tally *tally = find_tally(slot);

	if (!tally)
		return 0;
	packet_load(ctx, p);
	if (back) {
		tally->sent_packets--;
		tally->sent_octets -= packet_length(ctx, p);
	} else {
		tally->sent_packets += parts_of(ctx, p);
		tally->sent_octets += packet_length(ctx, p);
	}
	return 0;
}

/* Adds the share of what was sent since the last look; no more than for a burst is saved up. */
static __always_inline __u64 earn(__u64 credit, __u64 seen, __u64 sent, __u64 share, __u64 most)
{
	__u64 since = sent - seen;

	if ((__s64)since < 0) /* the counters began anew */
		since = 0;
	if (since > BUDGET_LIMIT)
		since = BUDGET_LIMIT;
	credit += since * share;
	return credit < most ? credit : most;
}

/*
 * Whether the encapsulation may add bytes to a packet that is to be cut into parts, and then spends them.
 * Each CPU keeps its own budget, of what it sends itself. Not inlined: the stack is small.
 */
__noinline int may_spend(const struct encapsulation *e, __u32 slot, __u32 bytes, __u32 parts)
{
	struct tally *tally = find_tally(slot);
	struct frequency_block *mine;
	__u64 cost, most;

	if (!e || !tally)
		return 0;
	slot = e->frequency_slot;
	mine = bpf_map_lookup_elem(&frequency_blocks, &slot);
	if (!mine)
		return 0;
	if (!mine->seen_packets) { /* the first look */
		mine->seen_packets = tally->sent_packets;
		mine->seen_octets = tally->sent_octets;
	}
	cost = (__u64)parts << BUDGET_ONE;
	most = (__u64)(parts > BUDGET_BURST ? parts : BUDGET_BURST) << BUDGET_ONE;
	mine->packets =
		earn(mine->packets, mine->seen_packets, tally->sent_packets, e->packet_share, most);
	mine->octets = earn(mine->octets, mine->seen_octets, tally->sent_octets, e->octet_share,
			    most * bytes);
	mine->seen_packets = tally->sent_packets;
	mine->seen_octets = tally->sent_octets;
	if ((e->packet_share && mine->packets < cost) ||
	    (e->octet_share && mine->octets < cost * bytes))
		return 0;
	if (e->packet_share)
		mine->packets -= cost;
	if (e->octet_share)
		mine->octets -= cost * bytes;
	return 1;
}

#endif
