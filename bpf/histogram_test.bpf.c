// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* For a test: the bucket of the time that a packet begins with. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "histogram.h"

SEC("tc")
int bucket_of(struct __sk_buff *ctx)
{
	__u64 time = 0;

	if (bpf_skb_load_bytes(ctx, 0, &time, sizeof(time)))
		return -1;
	return histogram_bucket(time);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
