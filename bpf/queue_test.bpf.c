// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* For a test: the bucket of a wait, with which a packet begins. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "queuebucket.h"

SEC("tc")
int bucket_of_wait(struct __sk_buff *ctx)
{
	__u64 time = 0;

	if (bpf_skb_load_bytes(ctx, 0, &time, sizeof(time)))
		return -1;
	return queue_bucket(time);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
