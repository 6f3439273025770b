// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Puts a frame back as it was and hands it to the program under test: the program-run facility
 * repeats a program over one frame and does not restore it.
 *
 * The calibration programs tell what putting the length back costs: g growths and s shrinkings
 * per run, of which the reader solves for either.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_BYTES 1024
#define MAX_STEPS 16

struct frame {
	__u32 length; /* of the whole frame */
	__u32 offset; /* of the bytes to put back */
	__u32 size;   /* of them; 0 = none */
	__u32 keep;   /* tc: 1 = length changes behind the IPv6 header, 0 = in front of it */
	__u32 growths;
	__u32 growth; /* bytes each */
	__u32 shrinkings;
	__u32 shrinking; /* bytes each */
	__u32 values;	 /* of the 16 bits at `varied`, in turn; 0 = as they are */
	__u32 varied;
	__u32 turn; /* the next value */
	__u32 reserved;
	__u8 bytes[MAX_BYTES];
};

/* One entry: the frame to restore, written between runs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame);
} frames SEC(".maps");

/* One entry: the program under test. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} under_test SEC(".maps");

static __always_inline __be16 next_value(struct frame *f, __u32 values)
{
	return bpf_htons(f->turn++ % values);
}

static __always_inline struct frame *find_frame(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&frames, &zero);
}

SEC("xdp.frags")
int restore_xdp(struct xdp_md *ctx)
{
	struct frame *f = find_frame();
	__u32 size, values;
	__s32 surplus;
	__be16 value;

	if (!f)
		return XDP_ABORTED;
	surplus = (__s32)bpf_xdp_get_buff_len(ctx) - (__s32)f->length;
	if (surplus && bpf_xdp_adjust_head(ctx, surplus))
		return XDP_ABORTED;
	size = f->size;
	if (size > 0 && size <= MAX_BYTES && bpf_xdp_store_bytes(ctx, f->offset, f->bytes, size))
		return XDP_ABORTED;
	values = f->values;
	if (values) {
		value = next_value(f, values);
		if (bpf_xdp_store_bytes(ctx, f->varied, &value, sizeof(value)))
			return XDP_ABORTED;
	}
	bpf_tail_call(ctx, &under_test, 0);
	return XDP_ABORTED;
}

SEC("xdp.frags")
int calibrate_xdp(struct xdp_md *ctx)
{
	struct frame *f = find_frame();

	if (!f)
		return XDP_ABORTED;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_STEPS && i < f->growths; i++)
		if (bpf_xdp_adjust_head(ctx, -(int)f->growth))
			return XDP_ABORTED;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_STEPS && i < f->shrinkings; i++)
		if (bpf_xdp_adjust_head(ctx, f->shrinking))
			return XDP_ABORTED;
	return XDP_PASS;
}

static __always_inline long adjust(struct __sk_buff *ctx, const struct frame *f, __s32 by)
{
	return bpf_skb_adjust_room(ctx, by, f->keep ? BPF_ADJ_ROOM_NET : BPF_ADJ_ROOM_MAC,
				   BPF_F_ADJ_ROOM_NO_CSUM_RESET | BPF_F_ADJ_ROOM_FIXED_GSO);
}

SEC("tc")
int restore_tc(struct __sk_buff *ctx)
{
	struct frame *f = find_frame();
	__u32 size, values;
	__s32 surplus;
	__be16 value;

	if (!f)
		return TC_ACT_SHOT;
	surplus = (__s32)ctx->len - (__s32)f->length;
	if (surplus && adjust(ctx, f, -surplus))
		return TC_ACT_SHOT;
	size = f->size;
	if (size > 0 && size <= MAX_BYTES && bpf_skb_store_bytes(ctx, f->offset, f->bytes, size, 0))
		return TC_ACT_SHOT;
	values = f->values;
	if (values) {
		value = next_value(f, values);
		if (bpf_skb_store_bytes(ctx, f->varied, &value, sizeof(value), 0))
			return TC_ACT_SHOT;
	}
	bpf_tail_call(ctx, &under_test, 0);
	return TC_ACT_SHOT;
}

SEC("tc")
int calibrate_tc(struct __sk_buff *ctx)
{
	struct frame *f = find_frame();

	if (!f)
		return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_STEPS && i < f->growths; i++)
		if (adjust(ctx, f, f->growth))
			return TC_ACT_SHOT;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_STEPS && i < f->shrinkings; i++)
		if (adjust(ctx, f, -(__s32)f->shrinking))
			return TC_ACT_SHOT;
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
