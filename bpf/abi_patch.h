// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The part of abi.h that says what a prebuilt header lacks. */
#ifndef WAYMARK_ABI_PATCH_H
#define WAYMARK_ABI_PATCH_H

#include <linux/types.h>

/*
 * Where an inserted option needs a value of its packet: offsets from the start of the header, 0 =
 * nowhere.
 */
struct patch {
	__u16 hop_limit;
	__u16 ingress_id;
	__u16 seconds;
	__u16 fraction;
	__u16 queue;
	__u16 hop_limit_wide;
	__u16 ingress_id_wide;
	__u16 dex; /* the first word after the option-type */
	__u16 flow_id;
	__u16 sequence;
	__u32 flow_id_source;
	__u32 fixed_flow_id;
	__u8 kind;	/* enum option_kind */
	__u8 remaining; /* RemainingLen of an incremental trace, unless the path has less room */
	__u16 proof;	/* the first word after the option-type; of Edge-to-Edge, too */
	__u16 buffer;
	__u16 complement;
	__u16 sum; /* of the trace's words that are prebuilt, for the complement; no offset */
	__u16 remaining_at; /* its octet */
};

_Static_assert(sizeof(struct patch) == 40, "patch has holes");

#endif
