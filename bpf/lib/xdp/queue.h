// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The depth of the egress queue, and what waits in all of them. */
#ifndef WAYMARK_QUEUE_H
#define WAYMARK_QUEUE_H

#include "clock.h"
#include "context.h"

/* Redirected frames wait in no queue that a program can see. */
static __always_inline __u32 queue_depth(context *ctx)
{
	(void)ctx;
	return UNAVAILABLE;
}

static __always_inline __u32 buffer_occupancy(context *ctx)
{
	(void)ctx;
	return UNAVAILABLE;
}

#endif
