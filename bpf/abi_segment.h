// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* SRv6 behaviours (RFC 8986) that fast forwarding has from the kernel's routes: what crosses to the agent. */
#ifndef WAYMARK_ABI_SEGMENT_H
#define WAYMARK_ABI_SEGMENT_H

#include <linux/types.h>

enum segment_bound {
	BEHAVIOURS = 512,      /* of one table */
	SEGMENT_ROUTES = 4096, /* that lead to them */
	SEGMENT_TABLES = 7,    /* routing tables that behaviours look into */
	BEHAVIOUR_HEADER =
		208, /* octets: with more, a frame's headroom leaves no space for the kernel's own data */
};

enum behaviour_kind {
	BEHAVIOUR_NONE, /* only the stack has it, by `reason` */
	BEHAVIOUR_END,	/* End and End.X (RFC 8986 §4.1, 4.2), with NEXT-CSID (RFC 9800 §4.1) too */
	BEHAVIOUR_DECAPSULATE, /* End.DT6 (RFC 8986 §4.6) */
	BEHAVIOUR_ENCAPSULATE, /* H.Encaps and H.Encaps.Red (RFC 8986 §5.1, 5.2) */
};

/* What is done with the packets of a route. Addresses and masks as in the packet. */
struct behaviour {
	__u8 kind;
	__u8 crosses; /* END: packets go to next_hop, not to the destination that they get */
	__u8 shift;   /* END: bits of a compressed SID; 0: no NEXT-CSID */
	__u8 table;   /* DECAPSULATE: the number of table_id among those in use, from 1 on */
	__u32 table_id;
	__u64 next_hop[2];
	__u64 block[2];	   /* END with NEXT-CSID: the bits of the locator block */
	__u64 argument[2]; /* and those after this node's SID */
	__u16 length;	   /* ENCAPSULATE: bytes of header[], a multiple of 8 */
	__u8 reason;	   /* NONE: enum stack_reason */
	__u8 pad;
	__be32 inherited; /* what of the first word comes from the packet itself */
	__u64 header[BEHAVIOUR_HEADER / 8];
};

_Static_assert(sizeof(struct behaviour) == 64 + BEHAVIOUR_HEADER, "behaviour has holes");

/* A route with a behaviour, in one of the two tables. */
struct segment_route {
	__u32 prefix_length; /* 32 + that of the address */
	__u32 table;
	__u8 destination[16];
};

/* A packet as it will be routed, when its behaviour has been carried out. */
struct routed {
	__u64 header[5];      /* what the kernel is asked about */
	__u64 destination[2]; /* END: what the packet gets */
	__u32 table_id;	      /* 0: as rules say */
	__u8 table;
	__u8 advances; /* END: a segment of the SRH has been used up */
	__u8 pad[2];
};

#endif
