// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The view of a packet that the core works on. xdp/context.h and skb/context.h add what differs: how
 * bytes are reached, written and removed.
 */
#ifndef WAYMARK_PACKET_H
#define WAYMARK_PACKET_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "abi.h"
#include "compiler.h"

struct packet {
	void *end;
	void *ip6;     /* the IPv6 header */
	__u64 sum;     /* change to the checksum of the bytes, where the context keeps one */
	__u32 arrived; /* interface of arrival, 0 = generated here; egress only */
	__u16 mtu;     /* of the path, if the packet is forwarded here */
	__u8 l3;       /* bytes before the IPv6 header */
	/* its VLAN tag could not be put back, or its headers are not whole: it must not go on */
	__u8 broken;
	__u8 left;   /* only the stack can do, or refuse, the insertion */
	__u8 nested; /* it carries IOAM already, and was forwarded; egress only */
	__u8 treated; /* its options have outcomes, the greatest of which is its own so far; egress only */
	__u8 faulty;		     /* one of them is not sound; egress only */
	const struct interface *on;  /* the hook's own */
	const struct interface *out; /* where it will leave, if that is known here */
};

/*
 * What a function that is not inlined says of a packet: the outcome, from bit 8 on the bytes before the
 * IPv6 header, and in bit 16 whether the packet is broken.
 */
static __always_inline int with_place(const struct packet *p, __u32 outcome)
{
	return outcome | (__u32)p->l3 << 8 | (__u32)p->broken << 16;
}

static __always_inline void take_place(struct packet *p, int said)
{
	p->l3 = said >> 8;
	p->broken = said >> 16;
}

/* A one's complement sum of words, in 32 bits. */
static __always_inline __u32 fold32(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	return sum;
}

/* Directly accessible bytes from the IPv6 header on. */
static __always_inline __u64 bytes_at_hand(const struct packet *p)
{
	__u64 bytes = (__u64)p->end - (__u64)p->ip6;

	opaque(bytes);
	return bytes;
}

#ifndef PACKET_IN_MEMORY
/* Bytes at an offset from the IPv6 header; NULL when they are beyond the packet. */
static __always_inline void *at(const struct packet *p, __u32 offset, __u32 size)
{
	void *start;

	if (!__builtin_constant_p(offset))
		opaque(offset);
	if (offset > 0xfff)
		return 0;
	start = p->ip6 + offset;
	opaque(start);
	return start + size > p->end ? 0 : start;
}
#endif

#endif
