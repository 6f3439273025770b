// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Finds a packet's flow as a chain of rules does: the segment lists of all flows are compared one by
 * one until one is equal. Only to compare with; nodes look flows up by a hash.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETHERNET_HEADER 14
#define IPV6_HEADER	40
#define SRH_FIXED	8
#define SEGMENT		16
#define MAX_SEGMENTS	16
#define NEXT_ROUTING	43
#define CLASS_SHIFT	20

struct segment {
	__u64 head, tail;
};

/* A flow, and what was counted of it. One CPU measures, so nothing is atomic. */
struct list {
	__u64 packets;
	__u64 octets;
	__u32 count;
	__u32 reserved;
	struct segment segments[MAX_SEGMENTS]; /* as in an SRH: the last one first */
};

/* The flows; as many entries as there are. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct list);
} lists SEC(".maps");

const volatile __u32 flows = 1;
const volatile __u8 colour = 0; /* of the traffic class; 0 = packets are only counted */

struct ipv6 {
	__be32 class_label;
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u8 addresses[32];
};

struct sought {
	struct segment segments[MAX_SEGMENTS];
	__u32 count;
	struct list *found;
};

static long compare(__u32 index, struct sought *s)
{
	struct list *l = bpf_map_lookup_elem(&lists, &index);

	if (!l || l->count != s->count)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_SEGMENTS && i < s->count; i++)
		if (l->segments[i].head != s->segments[i].head ||
		    l->segments[i].tail != s->segments[i].tail)
			return 0;
	s->found = l;
	return 1;
}

/* Reads the segment list; 0 if there is none. */
static __always_inline int read_segments(struct __sk_buff *ctx, const struct ipv6 *ip6,
					 struct sought *s)
{
	__u8 header[SRH_FIXED];
	__u32 size;

	if (ip6->next_header != NEXT_ROUTING ||
	    bpf_skb_load_bytes(ctx, ETHERNET_HEADER + IPV6_HEADER, header, sizeof(header)))
		return 0;
	s->count = header[4] + 1;
	size = s->count * SEGMENT;
	asm volatile("" : "+r"(size)); /* the verifier is to see the value that is compared */
	if (size < SEGMENT || size > sizeof(s->segments))
		return 0;
	return !bpf_skb_load_bytes(ctx, ETHERNET_HEADER + IPV6_HEADER + SRH_FIXED, s->segments,
				   size);
}

SEC("tc")
int linear(struct __sk_buff *ctx)
{
	struct sought s = {};
	struct ipv6 ip6;

	if (bpf_skb_load_bytes(ctx, ETHERNET_HEADER, &ip6, sizeof(ip6)) ||
	    !read_segments(ctx, &ip6, &s))
		return TC_ACT_UNSPEC;
	bpf_loop(flows, compare, &s, 0);
	if (!s.found)
		return TC_ACT_UNSPEC;
	s.found->packets++;
	s.found->octets += IPV6_HEADER + bpf_ntohs(ip6.payload_length);
	if (colour) {
		ip6.class_label |= bpf_htonl((__u32)colour << CLASS_SHIFT);
		bpf_skb_store_bytes(ctx, ETHERNET_HEADER, &ip6.class_label, 4, 0);
	}
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
