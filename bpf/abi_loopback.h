// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What crosses to the agent about the Loopback and Active flags (RFC 9322). */
#ifndef WAYMARK_ABI_LOOPBACK_H
#define WAYMARK_ABI_LOOPBACK_H

#include <linux/types.h>

/* What this node does with the flags of a namespace's traces. */
enum probing {
	PROBING_RETURNS = 1, /* returns copies of packets with the Loopback flag */
	PROBING_ASKS = 2,    /* sets that flag, so copies come back */
	PROBING_TERMINATES =
		4, /* ends packets with the Active flag where it removes their header */
};

enum loopback_count {
	LOOPBACK_ASKED,	     /* the flag was set */
	LOOPBACK_RETURNED,   /* a header was handed to the agent, which returns it */
	LOOPBACK_SUPPRESSED, /* either was due, and beyond a limit */
	NUM_LOOPBACK_COUNTS,
};

enum loopback_bound {
	LOOPBACK_BURST = 64,   /* copies that an interface can save credit for */
	LOOPBACK_HEADER = 536, /* bytes of the longest header that is returned */
	LOOPBACK_RATES = 2,    /* of copies, and of packets that ask for them */
	LOOPBACK_HOLDS =
		65536, /* bytes in a ring beyond which no copy is added: its reader is away */
};

#endif
