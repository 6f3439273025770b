// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What crosses to the agent about waits in queues (docs/how-to/measure-queues.md). */
#ifndef WAYMARK_ABI_QUEUE_H
#define WAYMARK_ABI_QUEUE_H

#include <linux/types.h>

/* 16 for each power of two from 2^-30 s, 0.93 ns, to 2^10 s, 17 minutes, and one below them. */
#define QUEUE_BUCKETS 641

/* What one CPU counted of the packets that waited in the queue of a device. */
struct queue_waits {
	__u64 total;   /* of the waits in the buckets, in ns */
	__u64 untimed; /* packets that came to the driver without our time */
	__u64 buckets[QUEUE_BUCKETS];
};

#endif
