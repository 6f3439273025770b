// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What modules of option-types share. A module is one file, NAME.h, with a function for each step
 * that concerns its option-type:
 *
 *   NAME_check    whether an option is sound; reads its words (RFC 9197, RFC 9326)
 *   NAME_note     notes what an option needs from the hooks
 *   NAME_ingress  ingress: treats all its options of a packet that goes on with its header
 *   NAME_egress   egress: completes what only the way out knows; incremental traces grow there
 *   NAME_remove   ingress: reports its options before their header is removed; traces are
 *                 reported by the record of the header (record.h)
 *   NAME_insert   egress: completes its options in a header that was inserted
 *
 * modules.h lists the modules. The reference node has the same ones.
 */
#ifndef WAYMARK_OPTION_H
#define WAYMARK_OPTION_H

#include <bpf/bpf_endian.h>
#include "clock.h"
#include "lookup.h"
#include "packet.h"

enum option_type {
	OPTION_PAD1 = 0,
	OPTION_PADN = 1,
	OPTION_ROUTER_ALERT = 5, /* RFC 2711 */
	OPTION_IOAM_IMMUTABLE = 0x11,
	OPTION_IOAM = 0x31,
	OPTION_JUMBO = 0xc2, /* RFC 2675 */
};

enum ioam_type {
	IOAM_PREALLOCATED_TRACE = 0,
	IOAM_INCREMENTAL_TRACE = 1,
	IOAM_POT = 2,
	IOAM_E2E = 3,
	IOAM_DEX = 4,
};

/* Bit of a trace type; Direct Exports have trace types as well (RFC 9197 §4.4.1, RFC 9326 §3.2). */
#define TRACE_BIT(n) (1U << (31 - (n)))

/* Length of the shortest option with a trace type: what a trace without data has. */
#define TYPED_OPTION_MIN 10

/* An IOAM option as it was found, its words in host order. */
struct option {
	__u32 header;	   /* the first word after the option-type; Namespace-ID << 16 | ... */
	__u32 type;	   /* the second word: trace type << 8 | ... */
	__u16 offset : 12; /* from the IPv6 header */
	__u16 kind : 4;	   /* enum option_kind */
	__u8 words;	   /* of node data that a trace has room for */
	__u8 outcome;	   /* enum outcome; of a trace OUTCOME_UNTOUCHED until it is treated */
};

/* The IOAM options of a Hop-by-Hop header, and what they need from the hooks. */
struct options {
	__u32 trace_types;   /* of sound traces, or-ed */
	__u32 dex_types;     /* of Direct Exports that make postcards here, or-ed, and bit 0 */
	__u32 growing_types; /* of incremental traces that grow here, or-ed */
	__u32 delay;	     /* of the packet in this node, at egress: see delay_since_arrival() */
	__u32 held;	     /* how long this node had the packet, ns; all ones: not known */
	__u32 pad;
	__u16 length; /* bytes of the header */
	__u16 cursor;
	__u16 room;	   /* bytes that traces may grow by here, at most */
	__u16 made;	   /* bytes of room that was made for one */
	__s8 shift;	   /* by how much what is before its data moved on */
	__u8 in_tunnel;	   /* that ends here */
	__u16 stripped;	   /* options that an edge is to remove, a bit each */
	__u32 seen;	   /* outcomes of options, a bit each */
	__u8 removable;	   /* options whose namespace is to be removed here */
	__u8 l3;	   /* of the packet */
	__u8 count;	   /* of options[] */
	__u8 error;	   /* outcome of the first option that is not sound, or 0 */
	__u8 outcome;	   /* the greatest of all options, once they were treated */
	__u8 completed;	   /* the same, as the egress hook would have it */
	__u8 foreign : 1;  /* the header holds something else than IOAM and padding */
	__u8 discards : 1; /* and its type says: a node that does not know it discards the packet */
	__u8 untidy : 1;   /* not laid out as encapsulating nodes do: a stack may object to it */
	__u8 has_trace : 1;    /* a sound trace */
	__u8 tables_index : 1; /* which of the two in struct state */
	__u8 has_proof : 1;    /* one that this node updates */
	__u8 refused : 1;      /* by its proof: the packet is to be dropped */
	__u8 grows : 1;	       /* some incremental trace grows here */
	__u8 trace_flags;      /* of sound traces, or-ed, below bits of NodeLen */
	__u64 found;	       /* see forget_way() */
	struct option options[MAX_IOAM_OPTIONS];
};

/* One entry for each CPU: the options of the packet at hand, which are too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct options);
} options_at_hand SEC(".maps");

/* No options yet; null never, though the verifier cannot know. */
static __always_inline struct options *begin_options(void)
{
	__u32 zero = 0;
	struct options *o = bpf_map_lookup_elem(&options_at_hand, &zero);

	if (o)
		__builtin_memset(o, 0, offsetof(struct options, options));
	return o;
}

/* What this node can say of a packet, here and now. */
struct hop {
	__u64 tai; /* 0: no option needs the time */
	__u32 queue;
	__u32 ingress_id_wide; /* ids are all ones where they are not available */
	__u32 egress_id_wide;
	__u16 ingress_id;
	__u16 egress_id;
	__u8 hop_limit;
	__u8 stays : 1;	   /* the packet goes on with its header, to the egress hook */
	__u8 leaves : 1;   /* that is done here, too: the egress ids are known */
	__u8 unproven : 1; /* the newest node data may be another node's */
	__u8 pad[2];	   /* Linux 6.1 wants every byte to be initialized */
	__u32 buffer;
};

/* What it can say of a packet that it encapsulates, which is on its way out. */
struct departure {
	struct hop hop;
	struct timestamp time;
};

/* Reads the two words that options with a trace type begin with; zero where they are out of reach. */
static __always_inline int read_words(const struct packet *p, __u32 offset, struct option *o)
{
	const __be32 *words = at(p, offset + 4, 8);

	if (!words)
		return 0;
	o->header = bpf_ntohl(words[0]);
	o->type = bpf_ntohl(words[1]);
	return 1;
}

_Static_assert(NUM_OPTION_OUTCOMES <= 32, "options.seen is too small");

static __always_inline void set_outcome(struct options *o, struct option *option,
					enum outcome outcome)
{
	option->outcome = outcome;
	o->seen |= 1U << (outcome & 31);
}

/* Highest bits of an option's type; 00: a node that does not know it skips it (RFC 8200 §4.2). */
#define OPTION_DISCARDS 0xc0

/* 0x11 has older users than RFC 9486: it counts as IOAM only where it cannot be anything else. */
static __always_inline int is_ioam(const struct packet *p, __u32 offset, __u8 type, __u8 length)
{
	const __u8 *option;

	if (type == OPTION_IOAM)
		return 1;
	if (type != OPTION_IOAM_IMMUTABLE || offset & 3 || length < 6)
		return 0;
	option = at(p, offset, 4);
	if (!option || option[2])
		return 0;
	return option[3] == IOAM_E2E || (option[3] == IOAM_DEX && length >= TYPED_OPTION_MIN);
}

/* Notes that an option's namespace is to be removed here. */
static __always_inline void note_removal(struct options *o, const struct ioam_namespace *ns)
{
	if (NODE.has_removals && ns && ns->remove)
		o->removable++;
}

static __always_inline struct ioam_namespace *namespace_of(const struct options *o,
							   const struct option *option)
{
	return find_namespace(tables_of(o->tables_index), option->header >> 16);
}

#endif
