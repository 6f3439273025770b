// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The ends of a forwarding measurement: a source that sends live frames of the program-run
 * facility, and sinks that count and drop. The usual one is in tc: an XDP program makes the kernel
 * reallocate every skb with less than 256 bytes of headroom.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_BYTES   512
#define STAMP_BYTES 8

struct headers {
	__u32 size;   /* bytes of headers to write */
	__u32 to;     /* interface to send to */
	__u32 stamp;  /* 1 = the time of sending is in the last 8 bytes */
	__u32 values; /* of the 16 bits at `offset`, in turn; 1 = as in the headers */
	__u32 first;
	__u32 offset;
	__u32 every;	/* one in so many packets has `bytes`, the others `rest`; 0 = all have */
	__u32 apart;	/* 1 = each CPU has values of its own */
	__u32 numbered; /* where those have a 32-bit number, from 0 on; 0 = nowhere */
	__u8 bytes[MAX_BYTES];
	__u8 rest[MAX_BYTES];
};

/* One entry: what the source sends. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct headers);
} sending SEC(".maps");

/* Packets that arrived at the sink. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} received SEC(".maps");

struct sample {
	__u32 length;
	__u8 bytes[MAX_BYTES];
};

/* One entry: the last packet that the witness saw. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} samples SEC(".maps");

/* How many packets this CPU has sent. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} sent SEC(".maps");

/* How many packets this CPU has sent of streams that count them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} counted SEC(".maps");

/* Numbers that an audit can tell apart. */
#define AUDITED (1 << 21)

struct audit {
	__u32 length; /* of packets that carry a number */
	__u32 at;     /* where it is, in 32 bits */
	__u64 seen[AUDITED / 64];
};

/* One entry: the numbers that the auditor has seen, a bit for each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct audit);
} audits SEC(".maps");

/* How many numbers this CPU met that had been there before. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} repeated SEC(".maps");

struct delay {
	__u64 least; /* ns from source to sink */
	__u64 packets;
};

/* One entry: what the stopwatch has seen. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct delay);
} delays SEC(".maps");

/* Writes the next of the values that distinguish flows, destinations or namespaces. */
static __always_inline long vary(struct xdp_md *ctx, const struct headers *h)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&sent, &zero);
	__u32 first = h->first;
	__be16 value;

	if (!n || h->values < 1)
		return -1;
	if (h->apart)
		first += bpf_get_smp_processor_id() * h->values;
	value = bpf_htons(first + (*n)++ % h->values);
	return bpf_xdp_store_bytes(ctx, h->offset, &value, sizeof(value));
}

/* Writes the headers, of which a mixed stream has two. */
static __always_inline long write_headers(struct xdp_md *ctx, const struct headers *h, __u32 size)
{
	__u32 zero = 0, every = h->every;
	__u64 *n, packet;
	__be32 number;

	if (!every)
		return bpf_xdp_store_bytes(ctx, 0, (void *)h->bytes, size);
	n = bpf_map_lookup_elem(&counted, &zero);
	if (!n)
		return -1;
	packet = (*n)++;
	if (packet % every)
		return bpf_xdp_store_bytes(ctx, 0, (void *)h->rest, size);
	if (bpf_xdp_store_bytes(ctx, 0, (void *)h->bytes, size))
		return -1;
	if (!h->numbered)
		return 0;
	number = bpf_htonl(packet / every);
	return bpf_xdp_store_bytes(ctx, h->numbered, &number, sizeof(number));
}

/* Frames are recycled and come back as the network left them: headers are written each time. */
SEC("xdp")
int source(struct xdp_md *ctx)
{
	__u32 zero = 0, size;
	struct headers *t = bpf_map_lookup_elem(&sending, &zero);
	__u64 now;

	if (!t)
		return XDP_ABORTED;
	size = t->size;
	if (size < 1 || size > MAX_BYTES || write_headers(ctx, t, size))
		return XDP_ABORTED;
	if (t->values != 1 && vary(ctx, t))
		return XDP_ABORTED;
	if (t->stamp) {
		now = bpf_ktime_get_ns();
		if (bpf_xdp_store_bytes(ctx, bpf_xdp_get_buff_len(ctx) - STAMP_BYTES, &now,
					sizeof(now)))
			return XDP_ABORTED;
	}
	return bpf_redirect(t->to, 0);
}

static __always_inline void count(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&received, &zero);

	if (n)
		(*n)++;
}

SEC("tc")
int sink(struct __sk_buff *ctx)
{
	(void)ctx;
	count();
	return TC_ACT_SHOT;
}

/* A sink for frames that never were an skb: those that XDP programs redirect. */
SEC("xdp")
int sink_xdp(struct xdp_md *ctx)
{
	(void)ctx;
	count();
	return XDP_DROP;
}

/* A sink that ticks off the numbers of packets, from all CPUs at a time. */
SEC("xdp")
int auditor(struct xdp_md *ctx)
{
	__u32 zero = 0, number;
	struct audit *a = bpf_map_lookup_elem(&audits, &zero);
	__u64 *again = bpf_map_lookup_elem(&repeated, &zero), bit;

	count();
	if (!a || !again || bpf_xdp_get_buff_len(ctx) != a->length ||
	    bpf_xdp_load_bytes(ctx, a->at, &number, sizeof(number)))
		return XDP_DROP;
	number = bpf_ntohl(number) % AUDITED;
	bit = 1ULL << number % 64;
	if (__sync_fetch_and_or(&a->seen[number / 64], bit) & bit)
		(*again)++;
	return XDP_DROP;
}

/* In its place while the sinks in tc are to see packets. */
SEC("xdp")
int pass_xdp(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_PASS;
}

/* A sink that compares the time with that in the last 8 bytes. */
SEC("tc")
int stopwatch(struct __sk_buff *ctx)
{
	__u64 now = bpf_ktime_get_ns(), then;
	__u32 zero = 0;
	struct delay *d = bpf_map_lookup_elem(&delays, &zero);

	if (d && !bpf_skb_load_bytes(ctx, ctx->len - STAMP_BYTES, &then, sizeof(then))) {
		if (now - then < d->least)
			d->least = now - then;
		d->packets++;
	}
	count();
	return TC_ACT_SHOT;
}

/*
 * A sink that keeps what it sees; for a look before the measurement. What goes to groups, as
 * reports of multicast listeners do, is not from the source.
 */
SEC("tc")
int witness(struct __sk_buff *ctx)
{
	__u32 zero = 0, size = ctx->len;
	struct sample *s = bpf_map_lookup_elem(&samples, &zero);
	__u8 first;

	if (!s || bpf_skb_load_bytes(ctx, 0, &first, 1) || first & 1)
		return TC_ACT_SHOT;
	s->length = size;
	if (size > MAX_BYTES)
		size = MAX_BYTES;
	if (size > 0)
		bpf_skb_load_bytes(ctx, 0, s->bytes, size);
	count();
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
