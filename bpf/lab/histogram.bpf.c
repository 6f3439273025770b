// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* For a test alone: finds the buckets of values. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../lib/histogram.h"

#define VALUES 4096

/* Values, each of which its bucket replaces. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VALUES);
	__type(key, __u32);
	__type(value, __u64);
} values SEC(".maps");

/* Not inlined: the verifier then follows it once. */
__noinline int find_bucket(__u32 index)
{
	__u64 *value = bpf_map_lookup_elem(&values, &index);

	if (value && *value)
		*value = bucket_of(*value);
	return 0;
}

/* The same of times. Not inlined, as above. */
__noinline int find_time_bucket(__u32 index)
{
	__u64 *value = bpf_map_lookup_elem(&values, &index);

	if (value && *value)
		*value = bucket_of_ns(*value);
	return 0;
}

SEC("xdp")
int find_time_buckets(struct xdp_md *ctx __attribute__((unused)))
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < VALUES; i++)
		find_time_bucket(i);
	return XDP_PASS;
}

SEC("xdp")
int find_buckets(struct xdp_md *ctx __attribute__((unused)))
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < VALUES; i++)
		find_bucket(i);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
