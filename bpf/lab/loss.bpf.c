// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loses packets on a link of a lab: a clsact filter at the egress of the sending interface, after
 * all other programs there. Each rule chooses packets and counts what it saw and what it lost, or
 * sent twice. A detour gives the packets that are not lost to a device; a process reads them there,
 * and sends them on later.
 *
 * A frame is what the device is given. An offloaded one is many packets: it is lost whole or not at
 * all, because the link's far end gets it whole, too.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "blocks.h"

#define EXTENSION_HEADERS 4
#define MAX_RULES	  128 /* of one interface */
#define SEGMENT_ROUTING	  4   /* RFC 8754 §2 */
/* Of a copy, on its way through this filter once more. */
#define MARK_COPY 0x574d6370

enum pattern {
	PATTERN_NONE,	  /* the rule does not exist */
	PATTERN_PERIODIC, /* the last `burst` frames of each `period` */
	PATTERN_RANDOM,
};

struct prefix {
	__be32 value[4];
	__be32 mask[4]; /* 0: any address */
};

struct rule {
	struct prefix source; /* of the outer header, as the following */
	struct prefix destination;
	struct prefix first; /* SID of the segment routing header: the first to visit */
	struct prefix last;
	__u64 seed;
	__u64 threshold; /* of 2^32: the probability */
	enum pattern pattern;
	__u32 burst;
	__u32 period;
	__u32 twice; /* what is chosen is sent twice, instead of lost */
};

/* Which frames go to a device instead of the link. */
struct detour {
	struct prefix source;
	struct prefix destination;
	struct prefix first;
	struct prefix last;
	__u64 until;  /* nanoseconds of the monotonic clock, after which no process reads from it */
	__u32 device; /* 0: no detour */
	__u32 pad;
};

/* Written by all CPUs, with atomic additions. */
struct detoured {
	__u64 frames;
	__u64 packets;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_RULES);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

/* Of the rule with the same number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_RULES);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct detour);
} detours SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct detoured);
} detour_counts SEC(".maps");

struct addresses {
	__be32 source[4];
	__be32 destination[4];
	__be32 first[4];
	__be32 last[4];
};

struct routing_header {
	__u8 next_header;
	__u8 length; /* in 8 bytes, without the first 8 */
	__u8 type;
	__u8 segments_left;
	__u8 last_entry;
	__u8 flags;
	__be16 tag;
};

/* Reads what rules compare; nonzero if the frame is not IPv6. */
static __always_inline int read_addresses(struct __sk_buff *ctx, struct addresses *a)
{
	__u32 offset = ETH_HLEN + sizeof(struct ipv6hdr);
	struct routing_header header;
	struct ipv6hdr ip6;
	__u8 next;

	if (ctx->protocol != bpf_htons(ETH_P_IPV6) ||
	    bpf_skb_load_bytes(ctx, ETH_HLEN, &ip6, sizeof(ip6)))
		return -1;
	__builtin_memcpy(a->source, &ip6.saddr, sizeof(a->source));
	__builtin_memcpy(a->destination, &ip6.daddr, sizeof(a->destination));
	/* without the header, the destination is the only segment (RFC 8986 §5.2) */
	__builtin_memcpy(a->first, &ip6.daddr, sizeof(a->first));
	__builtin_memcpy(a->last, &ip6.daddr, sizeof(a->last));
	next = ip6.nexthdr;
#pragma clang loop unroll(full)
	for (int i = 0; i < EXTENSION_HEADERS; i++) {
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_DSTOPTS && next != IPPROTO_ROUTING)
			break;
		if (bpf_skb_load_bytes(ctx, offset, &header, sizeof(header)))
			break;
		if (next == IPPROTO_ROUTING && header.type == SEGMENT_ROUTING) {
			bpf_skb_load_bytes(ctx, offset + sizeof(header), a->last, sizeof(a->last));
			bpf_skb_load_bytes(ctx, offset + sizeof(header) + header.last_entry * 16,
					   a->first, sizeof(a->first));
			break;
		}
		next = header.next_header;
		offset += (header.length + 1) * 8;
	}
	return 0;
}

static __always_inline int in_prefix(const __be32 *address, const struct prefix *p)
{
	__be32 differs = 0;

#pragma clang loop unroll(full)
	for (int i = 0; i < 4; i++)
		differs |= (address[i] ^ p->value[i]) & p->mask[i];
	return !differs;
}

/* Number `position` of the sequence of SplitMix64 that begins with the seed. */
static __always_inline __u64 random_number(__u64 seed, __u64 position)
{
	__u64 z = seed + (position + 1) * 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static __always_inline int is_lost(const struct rule *rule, __u64 position)
{
	if (rule->pattern == PATTERN_RANDOM)
		return random_number(rule->seed, position) >> 32 < rule->threshold;
	return rule->period && position % rule->period + rule->burst >= rule->period;
}

/* How many packets a frame is; the kernel may not have computed it. */
static __always_inline __u64 count_packets(const struct __sk_buff *ctx)
{
	if (ctx->gso_segs)
		return ctx->gso_segs;
	if (!ctx->gso_size)
		return 1;
	return (ctx->len - ETH_HLEN + ctx->gso_size - 1) / ctx->gso_size;
}

/* The verdict on a frame that is not lost. */
static __always_inline int send_on(const struct addresses *a, __u64 packets)
{
	__u32 zero = 0;
	struct detour *detour = bpf_map_lookup_elem(&detours, &zero);
	struct detoured *counts = bpf_map_lookup_elem(&detour_counts, &zero);

	if (!detour || !counts || !detour->device || bpf_ktime_get_ns() > detour->until ||
	    !in_prefix(a->source, &detour->source) ||
	    !in_prefix(a->destination, &detour->destination) ||
	    !in_prefix(a->first, &detour->first) || !in_prefix(a->last, &detour->last))
		return TC_ACT_UNSPEC;
	__sync_fetch_and_add(&counts->frames, 1);
	__sync_fetch_and_add(&counts->packets, packets);
	return bpf_redirect(detour->device, 0);
}

/* Sends a copy first. It passes this interface's programs again, as a packet of its own. */
static __always_inline void send_copy(struct __sk_buff *ctx)
{
	__u32 mark = ctx->mark;

	ctx->mark = MARK_COPY;
	bpf_clone_redirect(ctx, ctx->ifindex, 0);
	ctx->mark = mark;
}

SEC("tc")
int lose(struct __sk_buff *ctx)
{
	__u64 packets = count_packets(ctx);
	struct addresses a = {};

	if (read_addresses(ctx, &a))
		return TC_ACT_UNSPEC;
	if (ctx->mark == MARK_COPY) {
		ctx->mark = 0;
		return send_on(&a, packets);
	}
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_RULES; i++) {
		__u32 key = i;
		struct counts *counts;
		struct rule *rule;
		int lost;

		/* i stays in a register: Linux 6.12 does not know the values of 32 bits on the stack */
		asm volatile("" : "+r"(key));
		rule = bpf_map_lookup_elem(&rules, &key);
		if (!rule)
			break;
		if (rule->pattern == PATTERN_NONE || !in_prefix(a.source, &rule->source) ||
		    !in_prefix(a.destination, &rule->destination) ||
		    !in_prefix(a.first, &rule->first) || !in_prefix(a.last, &rule->last))
			continue;
		counts = bpf_map_lookup_elem(&counters, &key);
		if (!counts)
			break;
		lost = is_lost(rule, count_seen(counts, packets));
		count_in_block(ctx, key, packets, lost);
		if (!lost)
			continue;
		count_lost(counts, packets);
		if (rule->twice) {
			send_copy(ctx);
			return send_on(&a, packets);
		}
		/* not SHOT: a sender on this node would learn of it, and of a link's loss it does not */
		return TC_ACT_STOLEN;
	}
	return send_on(&a, packets);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
