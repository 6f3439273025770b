// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A bare prototype: the least that a program does to the packets of a benchmark. It parses them,
 * does one thing that was fixed when it was loaded, and forwards them, or leaves that to the stack.
 * It has no rules and no counters, and knows nothing of other packets. Only to compare with.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETHERNET_HEADER 14
#define ADDRESSES	12 /* bytes of an Ethernet header */
#define IPV6_HEADER	40
#define HBH_FIXED	4 /* and a PadN option */
#define TRACE_FIXED	12
#define MAX_ADDED	320
#define MAX_TRACES	9
#define MAX_WORDS	4
#define MAX_DATA	244 /* bytes of a trace's data */
#define WORD		8
#define IPV6		0x86dd
#define NEXT_HBH	0
#define IOAM		0x31
#define FAMILY_IPV6	10

/* What is done. The verifier removes everything else. */
const volatile __u32 stack = 0; /* 1 = the stack forwards */
const volatile __u32 asks = 0;	/* 1 = the kernel is asked for each packet's next hop */
const volatile __u32 traces = 0;
const volatile __u32 words = 0; /* of a node's data in each of these */
const volatile __u32 node = 0;
const volatile __u32 interfaces = 0; /* ids of both */
const volatile __u32 first = 0;	     /* namespace; the next traces have the next ones */
const volatile __u32 removed = 0;    /* bytes of a tunnel's headers */
const volatile __u32 added = 0;
const volatile __u32 tunnel = 0; /* 1 = they are added in front of the IPv6 header */
const volatile __u64 header[MAX_ADDED / WORD] = {};

struct address {
	__u64 head, tail;
};

struct next_hop {
	__u8 addresses[ADDRESSES];
	__u32 interface;
};

/* The next hop of each destination. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct address);
	__type(value, struct next_hop);
} next_hops SEC(".maps");

struct ipv6 {
	__u32 class_label;
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	struct address source, destination;
} __attribute__((packed, aligned(2)));

struct trace {
	__u8 option, length, reserved, type;
	__be16 namespace;
	__u8 node_length, remaining; /* with flags, of which none is set */
	__be32 kind;
} __attribute__((packed, aligned(2)));

struct data {
	__be32 words[MAX_WORDS];
} __attribute__((packed, aligned(2)));

/* Fills a trace that has room; the data of nodes are behind one another, the last one first. */
static __always_inline int fill(struct xdp_md *ctx, __u32 offset, __u32 index, __u8 hop_limit,
				__u64 now, __u32 *length)
{
	struct trace *t = (void *)(long)ctx->data + offset;
	void *end = (void *)(long)ctx->data_end;
	struct data *d;
	__u32 at;

	if ((void *)(t + 1) > end || t->option != IOAM || t->type != 0 ||
	    t->namespace != bpf_htons(first + index) || t->node_length != words << 3 ||
	    t->remaining < words)
		return -1;
	*length = 2 + t->length;
	at = (t->remaining - words) * 4;
	if (at > MAX_DATA)
		return -1;
	d = (void *)(t + 1) + at;
	if ((void *)d + words * 4 > end)
		return -1;
	t->remaining -= words;
	d->words[0] = bpf_htonl((__u32)hop_limit << 24 | node);
	if (words > 1)
		d->words[1] = bpf_htonl(interfaces);
	if (words > 2) {
		d->words[2] = bpf_htonl(now / 1000000000);
		d->words[3] = bpf_htonl(now % 1000000000);
	}
	return 0;
}

static __always_inline int fill_all(struct xdp_md *ctx, __u8 hop_limit)
{
	__u32 offset = ETHERNET_HEADER + IPV6_HEADER + HBH_FIXED, length = 0;
	__u64 now = words > 2 ? bpf_ktime_get_tai_ns() : 0;

#pragma clang loop unroll(full)
	for (__u32 i = 0; i < MAX_TRACES; i++) {
		if (i >= traces)
			break;
		if (offset > 512 || fill(ctx, offset, i, hop_limit, now, &length))
			return -1;
		offset += length;
	}
	return 0;
}

/* Takes the tunnel's headers away. */
static __always_inline int remove_headers(struct xdp_md *ctx)
{
	__u16 *from = (void *)(long)ctx->data, *to;
	void *end = (void *)(long)ctx->data_end;
	__u16 link[ETHERNET_HEADER / 2];

	if ((void *)from + ETHERNET_HEADER > end)
		return -1;
	__builtin_memcpy(link, from, ETHERNET_HEADER);
	if (bpf_xdp_adjust_head(ctx, removed))
		return -1;
	to = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if ((void *)to + ETHERNET_HEADER > end)
		return -1;
	__builtin_memcpy(to, link, ETHERNET_HEADER);
	return 0;
}

/* Adds the header, which is prebuilt, and sets the lengths. */
static __always_inline int add_header(struct xdp_md *ctx)
{
	void *start, *end;
	__u64 *to;
	struct ipv6 *ip6;
	__be16 length;
	__u8 next;

	if (bpf_xdp_adjust_head(ctx, -(int)added))
		return -1;
	start = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (start + ETHERNET_HEADER + IPV6_HEADER + added > end)
		return -1;
	ip6 = start + ETHERNET_HEADER + added;
	*(__u16 *)(start + ADDRESSES) = bpf_htons(IPV6);
	length = ip6->payload_length;
	next = ip6->next_header;
	if (!tunnel)
		__builtin_memmove(start + ETHERNET_HEADER, ip6, IPV6_HEADER);
	to = start + ETHERNET_HEADER + (tunnel ? 0 : IPV6_HEADER);
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < MAX_ADDED / WORD; i++) {
		if (i >= added / WORD)
			break;
		to[i] = header[i];
	}
	ip6 = start + ETHERNET_HEADER;
	if (tunnel) {
		ip6->payload_length = bpf_htons(bpf_ntohs(length) + added);
	} else {
		*(__u8 *)to = next;
		ip6->next_header = NEXT_HBH;
		ip6->payload_length = bpf_htons(bpf_ntohs(length) + added);
	}
	return 0;
}

/* Asks the kernel for a next hop. */
static __always_inline int ask(struct xdp_md *ctx, const struct ipv6 *ip6, struct next_hop *hop)
{
	struct bpf_fib_lookup p = {.family = FAMILY_IPV6, .ifindex = ctx->ingress_ifindex};

	__builtin_memcpy(p.ipv6_src, &ip6->source, sizeof(ip6->source));
	__builtin_memcpy(p.ipv6_dst, &ip6->destination, sizeof(ip6->destination));
	if (bpf_fib_lookup(ctx, &p, sizeof(p), 0))
		return -1;
	__builtin_memcpy(hop->addresses, p.dmac, 6);
	__builtin_memcpy(hop->addresses + 6, p.smac, 6);
	hop->interface = p.ifindex;
	return 0;
}

static __always_inline int forward(struct xdp_md *ctx)
{
	void *start = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ipv6 *ip6 = start + ETHERNET_HEADER;
	struct next_hop asked = {}, *hop;
	struct address to;

	if ((void *)(ip6 + 1) > end)
		return XDP_PASS;
	to = ip6->destination;
	hop = asks ? NULL : bpf_map_lookup_elem(&next_hops, &to);
	if (!hop) {
		if (ask(ctx, ip6, &asked))
			return XDP_PASS;
		if (!asks)
			bpf_map_update_elem(&next_hops, &to, &asked, BPF_ANY);
		hop = &asked;
	}
	__builtin_memcpy(start, hop->addresses, ADDRESSES);
	return bpf_redirect(hop->interface, 0);
}

SEC("xdp.frags")
int bare(struct xdp_md *ctx)
{
	void *start = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ipv6 *ip6 = start + ETHERNET_HEADER;
	__u8 hop_limit;

	if ((void *)(ip6 + 1) > end || *(__be16 *)(start + ADDRESSES) != bpf_htons(IPV6) ||
	    ip6->hop_limit < 2)
		return XDP_PASS;
	hop_limit = ip6->hop_limit - 1;
	if (traces && (ip6->next_header != NEXT_HBH || fill_all(ctx, hop_limit)))
		return XDP_PASS;
	if (removed) {
		if (ip6->next_header != NEXT_HBH || remove_headers(ctx))
			return XDP_PASS;
		start = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		ip6 = start + ETHERNET_HEADER;
		if ((void *)(ip6 + 1) > end || ip6->hop_limit < 2)
			return XDP_PASS;
	}
	if (stack)
		return XDP_PASS;
	ip6->hop_limit--;
	if (added && add_header(ctx))
		return XDP_ABORTED;
	return forward(ctx);
}

/* The same where packets leave the stack, which has forwarded them already. */
SEC("tc")
int bare_tc(struct __sk_buff *ctx)
{
	void *start = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ipv6 *ip6 = start + ETHERNET_HEADER;
	__be16 length;
	__u64 *to;
	__u8 next;

	if (!added)
		return TC_ACT_UNSPEC;
	if ((void *)(ip6 + 1) > end || ctx->protocol != bpf_htons(IPV6))
		return TC_ACT_UNSPEC;
	length = bpf_htons(bpf_ntohs(ip6->payload_length) + added);
	next = ip6->next_header;
	if (bpf_skb_adjust_room(ctx, added, tunnel ? BPF_ADJ_ROOM_MAC : BPF_ADJ_ROOM_NET,
				BPF_F_ADJ_ROOM_NO_CSUM_RESET | BPF_F_ADJ_ROOM_FIXED_GSO))
		return TC_ACT_SHOT;
	start = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (start + ETHERNET_HEADER + IPV6_HEADER + added > end)
		return TC_ACT_SHOT;
	ip6 = start + ETHERNET_HEADER;
	to = start + ETHERNET_HEADER + (tunnel ? 0 : IPV6_HEADER);
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < MAX_ADDED / WORD; i++) {
		if (i >= added / WORD)
			break;
		to[i] = header[i];
	}
	if (!tunnel) {
		*(__u8 *)to = next;
		ip6->next_header = NEXT_HBH;
	}
	ip6->payload_length = length;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
