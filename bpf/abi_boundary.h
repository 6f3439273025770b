// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What crosses to the agent about the domain's edge. */
#ifndef WAYMARK_ABI_BOUNDARY_H
#define WAYMARK_ABI_BOUNDARY_H

#include <linux/types.h>

enum role {
	ROLE_INGRESS = 1,
	ROLE_EGRESS = 2,
};

/* Where an interface drops some IOAM: each is a role that it lacks, shifted. */
enum edge {
	EDGE_SHIFT = 2,
	EDGE_INGRESS = ROLE_INGRESS << EDGE_SHIFT,
	EDGE_EGRESS = ROLE_EGRESS << EDGE_SHIFT,
};

/* Where the domain ends at an interface: each is a role that it lacks, unless its default is `ignore`. */
enum outside {
	OUTSIDE_SHIFT = 4,
	OUTSIDE_INGRESS = ROLE_INGRESS << OUTSIDE_SHIFT,
	OUTSIDE_EGRESS = ROLE_EGRESS << OUTSIDE_SHIFT,
};

/* Where an interface drops or strips some IOAM: each is a role that it lacks, shifted. */
enum filter {
	FILTER_SHIFT = 6,
	FILTER_INGRESS = ROLE_INGRESS << FILTER_SHIFT,
	FILTER_EGRESS = ROLE_EGRESS << FILTER_SHIFT,
};

enum boundary {
	BOUNDARY_DROP,
	BOUNDARY_STRIP,
	BOUNDARY_IGNORE,
};

/* What interface.boundary holds. */
enum boundary_bits {
	BOUNDARY_DEFAULT = 3,	 /* enum boundary: the policy for all other namespaces */
	BOUNDARY_NAMESPACES = 4, /* some have their own, in boundary_policies */
};

/* A namespace that has its own policy at an edge. */
struct policy_key {
	__u32 ifindex;
	__u16 namespace_id;
	__u8 tables_index;
	__u8 pad;
};

_Static_assert(sizeof(struct policy_key) == 8, "policy_key has holes");

#endif
