// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* SRv6 behaviours in tc: the stack's. */
#ifndef WAYMARK_BEHAVIOUR_H
#define WAYMARK_BEHAVIOUR_H

#include "route.h"

static __always_inline enum stack_reason find_behaviour_path(context *ctx, const struct packet *p,
							     struct path *path)
{
	(void)ctx;
	(void)p;
	(void)path;
	return STACK_SEGMENT_TC;
}

static __always_inline int carry_out(context *ctx, const struct path *path)
{
	(void)ctx;
	(void)path;
	return STACK_NONE;
}

static __always_inline __u8 departing_header(const struct path *path, __u32 *offset)
{
	(void)path;
	*offset = IPV6_HEADER;
	return NEXT_HBH;
}

static __always_inline int may_lack_room(context *ctx, const struct packet *p,
					 const struct path *path, int marked)
{
	(void)ctx;
	(void)p;
	(void)path;
	(void)marked;
	return 0;
}

#endif
