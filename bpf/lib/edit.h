// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Changes to a packet's bytes in place. */
#ifndef WAYMARK_EDIT_H
#define WAYMARK_EDIT_H

#include "context.h"
#include "ipv6.h"

/* Writes a word, and accounts for it where the stack keeps a sum over the packet's bytes. */
static __always_inline void put32(struct packet *p, __be32 *at, __be32 value)
{
	if (PACKET_HAS_SUM)
		p->sum += (__u64)value + (__u32) ~*at;
	*at = value;
}

/* Writes a word of node data, and accounts for it everywhere: the checksum complement needs the sum. */
static __always_inline void put_data(struct packet *p, __be32 *at, __be32 value)
{
	p->sum += (__u64)value + (__u32) ~*at;
	*at = value;
}

/*
 * patch8() and those below write a value into a header that was inserted after the IPv6 header, at an
 * offset from its start. Offset 0: the header has no such value.
 */
static __always_inline void patch8(struct packet *p, __u16 offset, __u8 value)
{
	__u8 *to = offset ? at(p, IPV6_HEADER + offset, 1) : 0;

	if (to)
		*to = value;
}

static __always_inline void patch16(struct packet *p, __u16 offset, __be16 value)
{
	__be16 *to = offset ? at(p, IPV6_HEADER + offset, 2) : 0;

	if (to)
		*to = value;
}

static __always_inline void patch32(struct packet *p, __u16 offset, __be32 value)
{
	__be32 *to = offset ? at(p, IPV6_HEADER + offset, 4) : 0;

	if (to)
		*to = value;
}

#endif
