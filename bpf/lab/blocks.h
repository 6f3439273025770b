// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Counts what rules lost by block of the alternate marking (RFC 9341) that packets have. */
#ifndef WAYMARK_LAB_BLOCKS_H
#define WAYMARK_LAB_BLOCKS_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_BLOCKS 65536 /* of all rules of one interface */

/* Written by all CPUs, with atomic additions. */
struct counts {
	__u64 frames; /* that the rule chose from */
	__u64 packets;
	__u64 lost_frames;
	__u64 lost_packets;
};

/* How packets are marked. */
struct colouring {
	__u64 length;	/* of a block, in nanoseconds; 0: blocks are not told apart */
	__u64 offset;	/* TAI - UTC, in nanoseconds */
	__u64 unplaced; /* packets without a colour, or for whose block there was no room */
	__u8 mask;	/* of the traffic class, as both values */
	__u8 even;
	__u8 odd;
	__u8 pad[5];
};

struct rule_block {
	__u64 block;
	__u32 rule; /* its number from 0 */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct colouring);
} colourings SEC(".maps");

/* What rules chose from, and lost, in each block. Memory is taken for blocks that there are. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_BLOCKS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rule_block);
	__type(value, struct counts);
} blocks SEC(".maps");

/* The frame's number, from 0. */
static __always_inline __u64 count_seen(struct counts *counts, __u64 packets)
{
	__sync_fetch_and_add(&counts->packets, packets);
	return __sync_fetch_and_add(&counts->frames, 1);
}

static __always_inline void count_lost(struct counts *counts, __u64 packets)
{
	__sync_fetch_and_add(&counts->lost_frames, 1);
	__sync_fetch_and_add(&counts->lost_packets, packets);
}

/* The block with a packet's colour that is nearest to now (RFC 9341 §5); -1 without a colour. */
static __always_inline int find_block(struct __sk_buff *ctx, const struct colouring *c,
				      __u64 *block)
{
	__u64 now = bpf_ktime_get_tai_ns() - c->offset;
	__be16 word;
	__u8 mark;

	if (bpf_skb_load_bytes(ctx, ETH_HLEN, &word, sizeof(word)))
		return -1;
	mark = bpf_ntohs(word) >> 4 & c->mask;
	if (mark != c->even && mark != c->odd)
		return -1;
	*block = now / c->length;
	if ((mark == c->odd) == (*block & 1))
		return 0;
	*block += now % c->length < c->length >> 1 ? -1 : 1;
	return 0;
}

/* Counts a frame in its block. Not inlined: it would be verified once for each rule. */
__noinline int count_in_block(struct __sk_buff *ctx, __u32 rule, __u64 packets, int lost)
{
	struct rule_block key = {.rule = rule};
	struct counts *counts, none = {};
	struct colouring *c;
	__u32 zero = 0;

	c = bpf_map_lookup_elem(&colourings, &zero);
	if (!c || !c->length)
		return 0;
	if (!find_block(ctx, c, &key.block)) {
		counts = bpf_map_lookup_elem(&blocks, &key);
		if (!counts) {
			/* another CPU may be first */
			bpf_map_update_elem(&blocks, &key, &none, BPF_NOEXIST);
			counts = bpf_map_lookup_elem(&blocks, &key);
		}
		if (counts) {
			count_seen(counts, packets);
			if (lost)
				count_lost(counts, packets);
			return 0;
		}
	}
	__sync_fetch_and_add(&c->unplaced, packets);
	return 0;
}

#endif
