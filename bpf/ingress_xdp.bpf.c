// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The ingress hook in the driver: packets before the stack has an skb for them. Where the interface
 * forwards fast, their way goes on here to the core of the egress hook and out.
 */
#include "config.h"
#include "maps.h"
#include "lib/packet_xdp.h"
#include "lib/forward_xdp.h"
#include "lib/grow_xdp.h"
#include "lib/ingress.h"
#include "lib/encap.h"

/*
 * The egress core's encapsulation of an untagged packet that is to leave by an interface. Not
 * inlined: see scan_options().
 */
__noinline int encapsulate_here(context *ctx, const struct path *path, __u32 from, __u32 half)
{
	struct packet packet = {.l3 = ETHERNET_HEADER}, *p = &packet;

	if (!path)
		return OUTCOME_LEFT_TO_STACK;
	p->mtu = path->mtu;
	p->arrived = from;
	p->on = find_interface(tables_of(half), from);
	p->out = find_interface(tables_of(half), path->ifindex);
	if (!p->on || !p->out)
		return OUTCOME_NO_IOAM;
	packet_load(ctx, p);
	return encapsulate(ctx, p);
}

/* What the egress hook would do, then out; or the reason to leave the packet to the stack. */
static __always_inline int forward(context *ctx, struct packet *p, struct result *result,
				   const struct path *path)
{
	enum outcome outcome = result->completed;
	struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);

	if (!ip6)
		return -STACK_PACKET;
	ip6->hop_limit--;
	if (outcome == OUTCOME_NOT_IPV6)
		outcome = OUTCOME_NO_IOAM;
	if (outcome == OUTCOME_NO_IOAM && p->insertion) {
		outcome = encapsulate_here(ctx, path, p->on->ifindex, p->on->half);
		complete_insertion(ctx, p, outcome);
		packet_load(ctx, p);
		if (outcome == OUTCOME_LEFT_TO_STACK) {
			ip6 = at(p, 0, IPV6_HEADER);
			if (ip6)
				ip6->hop_limit++;
			return -STACK_HEADROOM;
		}
	}
	result->completed = outcome;
	return leave(p, path);
}

#include "lib/ingress_hook.h"

SEC("xdp.frags")
int ingress_xdp(struct xdp_md *ctx)
{
	return ingress_hook(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
