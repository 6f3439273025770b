// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The policies of an edge for IOAM options, by namespace (docs/data-plane/edge.md). */
#ifndef WAYMARK_BOUNDARY_POLICY_H
#define WAYMARK_BOUNDARY_POLICY_H

#include "context.h"
#include "hook.h"
#include "lookup.h"
#include "options.h"

/* What an edge found in a packet: policies of its options, a bit each, and what it could not read. */
enum edge_found {
	FOUND_DROP = 1 << BOUNDARY_DROP,
	FOUND_STRIP = 1 << BOUNDARY_STRIP,
	FOUND_IGNORE = 1 << BOUNDARY_IGNORE,
	FOUND_POLICIES = FOUND_DROP | FOUND_STRIP | FOUND_IGNORE,
	HIDES_HBH = 1 << 3,  /* may hide a Hop-by-Hop header */
	UNREADABLE = 1 << 4, /* a Destination Options header */
};

static __always_inline enum boundary default_policy(const struct interface *on)
{
	return on->boundary & BOUNDARY_DEFAULT;
}

/* Whether this hook is an edge that drops or strips some IOAM. */
static __always_inline int filters_ioam(const struct interface *on, enum role role)
{
	return (NODE.has_edges || NODE.strips) && on->roles & role << FILTER_SHIFT;
}

/* The policy for the IOAM option at an offset, whose length says that it is within its header. */
static __always_inline __u32 policy_at(const struct packet *p, __u32 offset)
{
	struct policy_key key = {.ifindex = p->on->ifindex, .tables_index = p->on->tables_index};
	__u32 policy = default_policy(p->on), *found;
	const __u8 *option;

	if (!NODE.has_policies || !(p->on->boundary & BOUNDARY_NAMESPACES))
		return policy;
	option = at(p, offset & 0xfff, 6);
	if (!option || option[1] < 4 || option[3] > IOAM_DEX)
		return policy; /* it has no namespace */
	key.namespace_id = option[4] << 8 | option[5];
	found = bpf_map_lookup_elem(&boundary_policies, &key);
	return found ? *found & BOUNDARY_DEFAULT : policy;
}

/*
 * Finds the policies of a header's options, and notes which are to be stripped. Not inlined: see
 * scan_options().
 */
__noinline int judge_options(context *ctx, const struct interface *on, struct options *o)
{
	struct packet packet = {.on = on}, *p = &packet;
	__u32 found = 0;

	if (!on || !o)
		return FOUND_DROP;
	p->l3 = o->l3;
	packet_load(ctx, p);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		__u32 policy = policy_at(p, o->options[i].offset);

		found |= 1U << policy;
		if (policy == BOUNDARY_STRIP)
			o->stripped |= 1U << i;
	}
	return found;
}

/* The same, without a call where all namespaces have one policy. */
static __always_inline __u32 policies_of(context *ctx, struct packet *p, struct options *o)
{
	__u32 found;

	if (NODE.has_policies && p->on->boundary & BOUNDARY_NAMESPACES) {
		found = judge_options(ctx, p->on, o);
		packet_load(ctx, p);
		return found;
	}
	if (default_policy(p->on) == BOUNDARY_STRIP)
		o->stripped = (1U << o->count) - 1;
	return 1U << default_policy(p->on);
}

#endif
