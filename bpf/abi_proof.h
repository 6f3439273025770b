// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What crosses to the agent about proofs of transit (RFC 9197 §4.5.1). */
#ifndef WAYMARK_ABI_PROOF_H
#define WAYMARK_ABI_PROOF_H

#include <linux/types.h>

enum proof_bound {
	PROOF_SLOTS = 32,      /* twice as many as namespaces with a proof: of two generations */
	PROOF_BLOCK = 64,      /* numbers that a CPU takes at once */
	PROOF_MOST_LAG = 4096, /* how far behind the newest numbers a CPU's own may be */
	PROOF_WORD_BITS = 4,
	PROOF_WORDS = 4096, /* of 16 numbers each: a window of 65536 */
	PROOF_UNIT = 16,    /* ns of UTC that a number stands for */
};

/* What this node does with a namespace's proofs. */
enum proof_role {
	PROOF_NONE,
	PROOF_UPDATES,
	PROOF_VERIFIES,
};

/*
 * The numbers of a profile: those that an encapsulating node gives, and those that a verifying node has
 * accepted. A word holds numbers that differ in the last four bits alone: what they have in common,
 * without the bits that are the word's index, and a bit for each that was accepted.
 */
struct proof {
	__u64 profile; /* 0: the slot is free */
	__u64 next;    /* number that no CPU has taken */
	__u64 pad[14]; /* the words have cache lines of their own */
	__u64 words[PROOF_WORDS];
};

_Static_assert(sizeof(struct proof) == 128 + 8 * PROOF_WORDS, "proof has holes");

/* Numbers that a CPU has taken and not used. */
struct proof_block {
	__u64 next;
	__u64 end;
};

#endif
