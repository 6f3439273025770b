// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What crosses to the agent about the path MTUs that the programs learn. */
#ifndef WAYMARK_ABI_PATHMTU_H
#define WAYMARK_ABI_PATHMTU_H

#include <linux/types.h>

/* What the path to a destination carries, as a Packet Too Big message said. */
struct path_mtu {
	__u32 mtu;
	__u32 learned; /* when, in units of 2^30 ns */
};

enum path_mtu_bound {
	PATH_MTUS = 16384,
	PATH_MTU_AGE = 559, /* ten minutes (RFC 8201 §4), in units of 2^30 ns */
};

#endif
