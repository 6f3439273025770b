// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#ifndef WAYMARK_QUEUEBUCKET_H
#define WAYMARK_QUEUEBUCKET_H

#include "abi_queue.h"
#include "histogram.h"

/* The bucket of a wait: 0 below one unit, and the last for all beyond. */
static __always_inline __u32 queue_bucket(__u64 ns)
{
	__u64 units = units_of(ns);
	__u32 bucket = units ? bucket_of(units) : 0;

	return bucket < QUEUE_BUCKETS ? bucket : QUEUE_BUCKETS - 1;
}

#endif
