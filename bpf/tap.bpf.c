// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Looks at the packets of an interface that is not served: whether one is of a measured flow, which then
 * passes uncounted. It is the filter of a packet socket, so no hook of the interface is used, and takes
 * no packet for the socket.
 */
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include "context.h"
#include "lookup.h"
#include "selection.h"

/* Whether a header may come before segments, or inside of a tunnel. */
static __always_inline int may_lead(__u8 next)
{
	return next == NEXT_HBH || next == NEXT_DESTINATION || next == NEXT_ROUTING ||
	       next == NEXT_IPV6 || next == NEXT_IPV4 || next == NEXT_ETHERNET;
}

/* Copies the packet's head; nonzero if it is of no flow. Not inlined: the stack is small. */
__noinline int copy_head(context *ctx)
{
	struct tap_head *head = head_here();
	__u32 length = ctx->len;

	if (!head || length < IPV6_HEADER || bpf_skb_load_bytes(ctx, 0, head->bytes, IPV6_HEADER))
		return -1;
	if (!may_lead(((struct ipv6 *)head->bytes)->next_header))
		return -1;
	if (length > sizeof(head->bytes))
		length = sizeof(head->bytes);
	__builtin_memset(head, 0, sizeof(*head));
	return bpf_skb_load_bytes(ctx, 0, head->bytes, length);
}

/* Finds the flow of the header at s->ip6, as where packets arrive; zero: there is none. */
static __always_inline int find_flow_here(context *ctx, struct segments *s, const struct marking *m,
					  struct measured_flow *flow)
{
	if (find_segments(ctx, s) != SEGMENTS_FOUND)
		return 0;
	if (m->carrier == CARRIER_OPTION && !s->mark)
		find_mark(ctx, s);
	return find_measured(ctx, s, DIRECTION_IN, flow);
}

static __always_inline void note_unserved(const struct measured_flow *flow, __u32 ifindex)
{
	struct unserved_key key = {.ifindex = ifindex, .number = flow->number};
	__u64 one = 1, *packets = bpf_map_lookup_elem(&unserved, &key);

	if (packets)
		__sync_fetch_and_add(packets, 1);
	else
		bpf_map_update_elem(&unserved, &key, &one, BPF_ANY);
}

static __always_inline int look(context *ctx)
{
	struct measured_flow flow = {};
	struct segments s = {};
	const struct interface *on;
	const struct marking *m;
	__u32 zero = 0;

	if (!NODE.measures)
		return 0;
	m = bpf_map_lookup_elem(&markings, &zero);
	if (!m || !m->selected[DIRECTION_IN])
		return 0;
	/* what the stack gave to a device above that is served was counted there */
	on = find_interface(tables_of(STATE.current), ctx->ifindex);
	if ((on && !on->upper) || copy_head(ctx))
		return 0;
	if (!find_flow_here(ctx, &s, m, &flow)) {
		if (s.count || s.next_header != NEXT_IPV6)
			return 0;
		s.ip6 = s.upper;
		if (!find_flow_here(ctx, &s, m, &flow))
			return 0;
	}
	note_unserved(&flow, ctx->ifindex);
	return 0;
}

/* The stack drops what is for another host. */
SEC("socket")
int tap(struct __sk_buff *ctx)
{
	return ctx->pkt_type == PACKET_OTHERHOST ? 0 : look(ctx);
}

/*
 * The same where a device is a member of a bridge or bond. All packets are looked at before that takes
 * them: what the master has a link-layer address for is not for another host.
 */
SEC("socket")
int tap_member(struct __sk_buff *ctx)
{
	return ctx->protocol == bpf_htons(ETH_P_IPV6) ? look(ctx) : 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
