// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Where a packet leaves that this node forwards with its header. */
#ifndef WAYMARK_TRANSIT_PATH_H
#define WAYMARK_TRANSIT_PATH_H

#include "context.h"
#include "lookup.h"
#include "route.h"

/*
 * Finds the interface of departure, if it is served; of a master, only the stack knows the member. For a
 * VLAN device, which only tc sends to, the hook of the interface below does the rest.
 */
static __always_inline enum stack_reason find_out(struct packet *p, const struct path *path,
						  const struct interface **out)
{
	const struct interface *o = find_interface(tables_of(p->on->tables_index), path->ifindex);

	*out = o;
	if (!o)
		return STACK_NONE;
	p->out = o;
	return o->upper == UPPER_MASTER ? STACK_DEVICE : STACK_NONE;
}

/*
 * The same of a packet with IOAM: it may not leave the domain, and the egress hook may have more to insert.
 */
static __always_inline enum stack_reason find_transit_path(context *ctx, struct packet *p,
							   struct path *path,
							   const struct interface **out,
							   enum search search)
{
	enum stack_reason reason = find_path(ctx, p, path, search);

	if (reason == STACK_LWTUNNEL)
		return COMPLETES ? STACK_HEADERS : STACK_SEGMENT_TC;
	if (!reason)
		reason = find_out(p, path, out);
	if (!reason && COMPLETES && (!*out || !((*out)->roles & ROLE_EGRESS)))
		return STACK_BOUNDARY;
	if (!reason && NODE.nests && *out && (*out)->insertion)
		return STACK_HEADERS;
	return reason;
}

#endif
