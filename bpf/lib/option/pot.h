// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Module of Proof of Transit, POT-Type 0 (RFC 9197 §4.5.1): each node of the path adds to Cumulative,
 * and the last one verifies it (docs/data-plane/proof-of-transit.md).
 */
#ifndef WAYMARK_OPTION_POT_H
#define WAYMARK_OPTION_POT_H

#include "clock.h"
#include "draft.h"
#include "edit.h"
#include "option/option.h"

#define POT_HEADER_OPTION 6  /* length of the shortest option: up to POT-Type and flags */
#define POT_OPTION	  22 /* and of one of POT-Type 0 */
#define POT_PKTID	  8  /* from the option's first byte; Cumulative follows */

/* 2^61 - 1 */
#define PRIME ((1ULL << 61) - 1)

#define PROOF_TRIES 64

static __always_inline __u64 reduce(__u64 x)
{
	x = (x & PRIME) + (x >> 61);
	return x >= PRIME ? x - PRIME : x;
}

/* The product of two elements of the field, without a type of 128 bits: 2^61 is 1. */
static __always_inline __u64 multiply(__u64 a, __u64 b)
{
	__u64 a_high = a >> 32, a_low = (__u32)a, b_high = b >> 32, b_low = (__u32)b;
	__u64 low = a_low * b_low, middle = a_low * b_high + a_high * b_low;

	/* 2^64 is 8; 2^32 times the upper part of the middle, from bit 29 on, is that part */
	return reduce((a_high * b_high << 3) + (middle >> 29) + ((middle & 0x1fffffff) << 32) +
		      (low & PRIME) + (low >> 61));
}

/*
 * OUTCOME_UNTOUCHED if the option, whose place is noted, is one of POT-Type 0. Not inlined: most headers
 * have no proof, and the verifier looks at the function once.
 */
__noinline int pot_check(context *ctx, struct options *o, __u32 index, __u32 length)
{
	/* to Linux, one that is too short is like an option-type that it does not know */
	const enum outcome too_short =
		NODE.mainline ? OUTCOME_OPTION_UNSUPPORTED : OUTCOME_MALFORMED_OPTION_LENGTH;
	struct packet packet = {}, *p = &packet;
	struct option *option;
	const __be32 *word;

	if (!o || index >= MAX_IOAM_OPTIONS || length < POT_HEADER_OPTION)
		return too_short;
	p->l3 = o->l3;
	packet_load(ctx, p);
	option = &o->options[index];
	word = at(p, option->offset + 4, 4);
	if (!word)
		return OUTCOME_MALFORMED_OPTION_LENGTH;
	option->header = bpf_ntohl(*word);
	if (option->header >> 8 & 0xff) /* another POT-Type */
		return OUTCOME_OPTION_UNSUPPORTED;
	return length < POT_OPTION ? too_short : OUTCOME_UNTOUCHED;
}

/*
 * The outcome is that of a hook that does not treat it: of egress. Not inlined: see pot_check().
 */
__noinline int pot_note(struct options *o, __u32 index)
{
	enum outcome outcome = OUTCOME_NAMESPACE_UNKNOWN;
	const struct ioam_namespace *ns;
	struct option *option;

	if (!o || index >= MAX_IOAM_OPTIONS)
		return 0;
	option = &o->options[index];
	ns = namespace_of(o, option);
	if (ns)
		outcome = NODE.has_proofs && ns->proof ? OUTCOME_UNTOUCHED
						       : OUTCOME_OPTION_UNSUPPORTED;
	set_outcome(o, option, outcome);
	note_removal(o, ns);
	if (outcome == OUTCOME_UNTOUCHED)
		o->has_proof = 1;
	return 0;
}

/* What this node adds to the Cumulative of a packet. */
static __always_inline __u64 pot_share(const struct ioam_namespace *ns, __u64 number)
{
	return reduce(multiply(ns->proof_factor, number) + ns->proof_summand);
}

/*
 * Numbers are times in units of 16 ns. One that is further ahead than clocks differ is forged: it would
 * make the numbers of a word too old until the time comes to it.
 */
static __always_inline int is_ahead(__u64 number, __u64 ahead)
{
	return number > (utc_now() + ahead) / PROOF_UNIT;
}

/*
 * Notes a number whose proof is right; OUTCOME_POT_ACCEPTED if it is new. The numbers of a word only
 * increase, so no number that it has left is accepted again. Only a number that moves a word on has to be
 * compared with the clock. Not inlined: see scan_options().
 */
__noinline int accept_number(__u32 slot, __u64 number, __u64 ahead)
{
	struct proof *proof = bpf_map_lookup_elem(&proofs, &slot);
	__u64 group = number >> PROOF_WORD_BITS, bit = 1ULL << (number & 15), index;
	__u64 tag = group / PROOF_WORDS, *word;

	if (!proof)
		return OUTCOME_POT_TOO_OLD;
	index = group & (PROOF_WORDS - 1);
	opaque(index);
	if (index >= PROOF_WORDS)
		return OUTCOME_POT_TOO_OLD;
	word = &proof->words[index];
#pragma clang loop unroll(disable)
	for (int i = 0; i < PROOF_TRIES; i++) {
		__u64 old = *(volatile __u64 *)word, next = tag << 16 | bit;

		if (old >> 16 > tag)
			return OUTCOME_POT_TOO_OLD;
		if (old >> 16 < tag && is_ahead(number, ahead))
			return OUTCOME_POT_AHEAD;
		if (old >> 16 == tag) {
			if (old & bit)
				return OUTCOME_POT_REPLAYED;
			next = old | bit;
		}
		if (__sync_val_compare_and_swap(word, old, next) == old)
			return OUTCOME_POT_ACCEPTED;
	}
	/* other CPUs changed the word at each try; a number that is not noted is not accepted */
	return OUTCOME_POT_TOO_OLD;
}

/* Adds to one option, and verifies it if this is the last node. */
static __always_inline enum outcome treat_proof(struct packet *p, const struct ioam_namespace *ns,
						__u32 offset)
{
	__be32 *words = at(p, offset + POT_PKTID, 16);
	__u64 number, cumulative;

	if (!words)
		return OUTCOME_POT_INVALID;
	number = (__u64)bpf_ntohl(words[0]) << 32 | bpf_ntohl(words[1]);
	cumulative = (__u64)bpf_ntohl(words[2]) << 32 | bpf_ntohl(words[3]);
	if (number >= PRIME || cumulative >= PRIME)
		return OUTCOME_POT_INVALID;
	cumulative = reduce(cumulative + pot_share(ns, number));
	put32(p, words + 2, bpf_htonl(cumulative >> 32));
	put32(p, words + 3, bpf_htonl((__u32)cumulative));
	if (ns->proof != PROOF_VERIFIES)
		return OUTCOME_POT_UPDATED;
	if (cumulative != reduce(ns->proof_secret + number))
		return OUTCOME_POT_REJECTED;
	return accept_number(ns->proof_slot, number, ns->proof_ahead);
}

static __always_inline int is_proof_refused(enum outcome outcome)
{
	return outcome >= OUTCOME_POT_TOO_OLD && outcome <= OUTCOME_POT_REJECTED;
}

/*
 * Treats the proofs of a packet: once for each time that it arrives. Sets o->refused if the packet is
 * to be dropped. Not inlined: see scan_options().
 */
__noinline int pot_ingress(context *ctx, struct options *o)
{
	struct packet packet = {}, *p = &packet;

	if (!o)
		return 0;
	p->l3 = o->l3;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		struct option *option = &o->options[i];
		const struct ioam_namespace *ns;
		enum outcome outcome;

		if (option->kind != KIND_POT || option->outcome != OUTCOME_UNTOUCHED)
			continue;
		ns = namespace_of(o, option);
		if (!ns)
			continue;
		outcome = treat_proof(p, ns, option->offset);
		set_outcome(o, option, outcome);
		if (ns->proof_drops && is_proof_refused(outcome))
			o->refused = 1;
	}
	packet_commit_sum(ctx, p);
	return 0;
}

/*
 * The next number of a profile. Each CPU uses the numbers of a block before the next, unless others are
 * far ahead: to the verifying node, old numbers look like replayed ones.
 */
static __always_inline __u64 take_number(__u32 slot)
{
	struct proof_block *mine = bpf_map_lookup_elem(&proof_blocks, &slot);
	struct proof *proof = bpf_map_lookup_elem(&proofs, &slot);
	__u64 newest;

	if (!mine || !proof)
		return 0;
	newest = *(volatile __u64 *)&proof->next;
	if (mine->next >= mine->end || newest - mine->next > PROOF_MOST_LAG) {
		mine->next = __sync_fetch_and_add(&proof->next, PROOF_BLOCK);
		mine->end = mine->next + PROOF_BLOCK;
	}
	return reduce(mine->next++);
}

/* Completes the proofs of the header that was inserted last. Not inlined: see scan_options(). */
__noinline int pot_insert(context *ctx, __u32 l3, __u32 tables_index)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	const struct draft *d = draft_here();
	const struct encapsulation *e;

	if (!d)
		return -1;
	e = bpf_map_lookup_elem(&encapsulations, &d->inserted);
	if (!e || !e->has_proof)
		return -1;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < e->options; i++) {
		const struct patch *patch = &e->patches[i];
		const struct ioam_namespace *ns;
		__u64 number, cumulative;
		__be32 *words;

		if (patch->kind != KIND_POT)
			continue;
		words = at(p, IPV6_HEADER + patch->proof, 20);
		if (!words)
			return -1;
		ns = find_namespace(tables_of(tables_index), bpf_ntohl(words[0]) >> 16);
		if (!ns)
			return -1;
		number = take_number(ns->proof_slot);
		cumulative = pot_share(ns, number);
		words[1] = bpf_htonl(number >> 32);
		words[2] = bpf_htonl((__u32)number);
		words[3] = bpf_htonl(cumulative >> 32);
		words[4] = bpf_htonl((__u32)cumulative);
	}
	return 0;
}

#endif
