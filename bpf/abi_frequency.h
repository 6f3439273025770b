// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which packets an encapsulation takes: numbers for k of n, and budgets. */
#ifndef WAYMARK_ABI_FREQUENCY_H
#define WAYMARK_ABI_FREQUENCY_H

#include <linux/types.h>

/* Numbers of packets that a CPU takes at once, so that CPUs seldom write what they share. */
enum frequency_bound {
	FREQUENCY_BLOCK = 64,
	BUDGET_BURST = 256, /* packets that a budget saves up */
};

/* The numbers of an encapsulation's packets that no CPU has taken; outlives a generation. */
struct frequency {
	__u64 next;
	__u8 name[56]; /* of the encapsulation that owns the slot; empty = free */
};

/*
 * Those that a CPU has taken and not used; its budget, in 2^-32 packets and octets; and how many packets
 * are left until the next one that gets the Loopback flag.
 */
struct frequency_block {
	__u64 next;
	__u64 end;
	__u64 packets;
	__u64 octets;
	__u64 seen_packets; /* what the interface had sent at the last look */
	__u64 seen_octets;
	__u64 until_loopback;
};

#endif
