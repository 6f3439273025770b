// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which packets an encapsulation takes: numbers for k of n, and budgets. */
#ifndef WAYMARK_ABI_FREQUENCY_H
#define WAYMARK_ABI_FREQUENCY_H

#include <linux/types.h>

/* Numbers of packets that a CPU takes at once, so that CPUs seldom write what they share. */
enum frequency_bound {
	FREQUENCY_BLOCK = 64,
	BUDGET_BURST = 256, /* insertions that a budget saves up for all CPUs */
	BUDGET_BATCH =
		32, /* packets that a CPU adds at once to what all sent; insertions it takes ahead */
};

struct traffic {
	__u64 packets;
	__u64 octets; /* of their frames */
};

/* What left by an interface, as far as its CPUs have said. */
struct total {
	__u64 since; /* when the count began, ns: tells two counts apart; 0 = it did not yet */
	struct traffic traffic;
};

/*
 * The numbers of an encapsulation's packets that no CPU has taken, and what of its interface's total
 * CPUs have earned for its budget, or lost; outlives a generation.
 */
struct frequency {
	__u64 next;
	struct total earned;
	__u8 name[56]; /* of the encapsulation that owns the slot; empty = free */
};

/* A CPU's part of a budget, for packets or for octets. */
struct purse {
	__u64 credit; /* in 2^-32 */
	__u64 seen;   /* what the CPU had sent when it last earned from that */
	__u64 added;  /* and had added to the total when it last took from that */
	__u64 more;   /* then something was left there */
};

/*
 * Numbers that a CPU has taken and not used; its part of the budget; and how many packets are left until
 * the next one that gets the Loopback flag.
 */
struct frequency_block {
	__u64 next;
	__u64 end;
	__u64 until_loopback;
	struct purse packets;
	struct purse octets;
};

#endif
