// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Removal of options from a Hop-by-Hop header, a Destination Options header, or both, in which others
 * stay (docs/data-plane/ingress.md#removing-options). The headers are put together anew beside the packet: an
 * option that stays moves by a multiple of 8, so whole words can be copied.
 */
#ifndef WAYMARK_EXTRACT_H
#define WAYMARK_EXTRACT_H

#include "hbh.h"
#include "hook.h"
#include "modules.h"
#include "record.h"

/* The longest headers that are taken apart. */
#define EXTRACTED_HEADER 512
#define EXTRACTED_MASK	 (EXTRACTED_HEADER - 1)

/* The headers as they were found, and without the options. */
struct extraction {
	struct record record; /* header[] is after it, as user space expects */
	union {
		__u8 bytes[ROOM_LARGE];
		__u64 words[ROOM_LARGE / 8];
	} header;
	union {
		__u8 bytes[EXTRACTED_HEADER];
		__u64 words[EXTRACTED_HEADER / 8];
	} kept;
	__u64 removed[EXTRACTED_HEADER / 256]; /* bit n: the option at offset 4n */
	__u32 cursor;	 /* the next option, from the start of the first header */
	__u32 last;	 /* where the header with it ends */
	__u32 end;	 /* of what is kept so far */
	__u32 length;	 /* of all headers */
	__u32 has_trace; /* among those that are removed */
	__u32 pad;
};

/* One entry for each CPU: the packet at hand. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct extraction);
} extraction_at_hand SEC(".maps");

static __always_inline struct extraction *extraction_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&extraction_at_hand, &zero);
}

/*
 * Whether a packet that loses options, and not all of its headers, can be taken apart: a jumbogram says
 * its length in an option (RFC 2675). A Destination Options header counts if it is among them.
 */
static __always_inline int is_extractable(const struct packet *p, const struct options *o,
					  int found)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);

	return NODE.has_removals && (o->removable || found & E2E_MARKED) &&
	       o->length + E2E_LENGTH(found) <= EXTRACTED_HEADER &&
	       (o->foreign || o->removable != o->count || found & E2E_SHARED) && ip6 &&
	       ip6->payload_length;
}

/* Copies an option to a place that is a multiple of 8 before its own. Not inlined: see scan_options(). */
__noinline int keep_words(__u32 from, __u32 to, __u32 size)
{
	struct extraction *x = extraction_here();
	__u32 first = from >> 3, last = (from + size - 1) >> 3, moved = (from - to) >> 3;

	if (!x)
		return -1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 34; i++) {
		__u32 at = first + i;
		__u64 word;

		if (at > last)
			break;
		word = x->header.words[at & (EXTRACTED_MASK >> 3)];
		if (at == first)
			word &= ~0ULL << ((from & 7) << 3);
		if (at == last)
			word &= ~0ULL >> ((~(from + size - 1) & 7) << 3);
		x->kept.words[(at - moved) & (EXTRACTED_MASK >> 3)] |= word;
	}
	return 0;
}

/* Pads what is kept to an offset, at most 7 octets further. */
static __always_inline void pad_kept(struct extraction *x, __u32 to)
{
	__u32 end = x->end;

	if (to - end >= 2) { /* one octet is 0 already */
		x->kept.bytes[end & EXTRACTED_MASK] = OPTION_PADN;
		x->kept.bytes[(end + 1) & EXTRACTED_MASK] = to - end - 2;
	}
	x->end = to;
}

/* Whether an IOAM option is removed here. */
static __always_inline int is_marked(const struct options *o, const struct option *option)
{
	const struct ioam_namespace *ns;

	if (option->kind == KIND_OTHER)
		return 0;
	ns = namespace_of(o, option);
	return ns && ns->remove;
}

/* Notes that the option at an offset, a multiple of 4, is removed. */
static __always_inline void note_extracted(struct extraction *x, __u32 offset)
{
	x->removed[offset >> 8 & 1] |= 1ULL << (offset >> 2 & 63);
}

static __always_inline int is_extracted(const struct extraction *x, __u32 offset)
{
	return !(offset & 3) && x->removed[offset >> 8 & 1] >> (offset >> 2 & 63) & 1;
}

/* Notes which options of a Hop-by-Hop header are removed. Not inlined: see scan_options(). */
__noinline int note_marked(const struct options *o)
{
	struct extraction *x = extraction_here();

	if (!o || !x)
		return -1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		const struct option *option = &o->options[i];

		if (!is_marked(o, option))
			continue;
		note_extracted(x, option->offset - IPV6_HEADER);
		if (option->kind == KIND_TRACE || option->kind == KIND_INCREMENTAL)
			x->has_trace = 1;
	}
	return 0;
}

/*
 * Notes which options of a Destination Options header are removed. Those that stay are not counted. Not
 * inlined: see scan_options().
 */
__noinline int note_marked_e2e(void)
{
	struct e2e_packet *n = e2e_packet_here();
	struct extraction *x = extraction_here();

	if (!n || !x)
		return -1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < E2E_OPTIONS && i < n->count; i++) {
		struct e2e_note *note = &n->notes[i];

		if (note->removed)
			note_extracted(x, note->offset);
		else
			note->outcome = NUM_OPTION_OUTCOMES;
	}
	return 0;
}

/*
 * Puts the header between two offsets together without the options, after what is kept already. The
 * first begins at 0, and may stay as it is. If only padding would stay, nothing is kept. Not inlined:
 * see scan_options().
 */
__noinline int arrange_header(__u32 begin, __u32 end, __u32 as_it_is)
{
	struct extraction *x = extraction_here();
	__u32 start;

	if (!x)
		return -1;
	if (!begin) {
		__builtin_memset(&x->kept, 0, sizeof(x->kept));
		x->end = 0;
	}
	if (as_it_is) {
#pragma clang loop unroll(disable)
		for (__u32 i = 0; i < EXTRACTED_HEADER / 8; i++) {
			if (i >= end >> 3)
				break;
			x->kept.words[i] = x->header.words[i];
		}
		x->end = end;
		return 0;
	}
	start = x->end;
	x->cursor = begin + 2;
	x->last = end;
	x->end = start + 2;
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_OPTIONS; i++) {
		__u32 offset, type, size;

		forget_memory();
		offset = x->cursor;
		if (offset >= x->last)
			break;
		type = x->header.bytes[offset & EXTRACTED_MASK];
		if (type == OPTION_PAD1) {
			x->cursor = offset + 1;
			continue;
		}
		size = 2 + x->header.bytes[(offset + 1) & EXTRACTED_MASK];
		x->cursor = offset + size;
		if (type == OPTION_PADN || is_extracted(x, offset))
			continue;
		pad_kept(x, x->end + ((offset - x->end) & 7));
		keep_words(offset, x->end, size);
		x->end += size;
	}
	if (x->end == start + 2) {
		x->end = start;
		return 0;
	}
	pad_kept(x, (x->end + 7) & ~7U);
	x->kept.bytes[start & EXTRACTED_MASK] = x->header.bytes[begin & EXTRACTED_MASK];
	x->kept.bytes[(start + 1) & EXTRACTED_MASK] = ((x->end - start) >> 3) - 1;
	return 0;
}

/*
 * Puts the headers together without the options: a Hop-by-Hop header of `before` bytes, as it is if
 * nothing of it is removed, and a Destination Options header after it. Either may not be there, or no
 * longer. The type of the first one that is left.
 */
static __always_inline int arrange_kept(struct extraction *x, __u32 before, __u32 as_it_is)
{
	__u32 first = 0;

	if (before) {
		arrange_header(0, before, as_it_is);
		if (before >= x->length)
			return NEXT_HBH;
		first = x->end;
	}
	arrange_header(before, x->length, 0);
	if (!first)
		return NEXT_DESTINATION;
	x->kept.bytes[0] =
		x->end > first ? NEXT_DESTINATION : x->header.bytes[before & EXTRACTED_MASK];
	return NEXT_HBH;
}

/* Writes the headers that were put together, the first of some type, into the packet, which gets shorter. */
static __always_inline int replace_headers(context *ctx, struct packet *p,
					   const struct extraction *x, __u32 type)
{
	__u32 length = x->end;

	if (x->length - length > EXTRACTED_HEADER)
		return -1;
	if (x->length != length && remove_header(ctx, p, x->length - length, type))
		return -1;
	opaque(length);
	length = ((length - 1) & EXTRACTED_MASK) + 1;
	if (rewrite_bytes(ctx, p->l3 + IPV6_HEADER, x->kept.bytes, length)) {
		p->broken |= x->length != x->end;
		return -1;
	}
	packet_load(ctx, p);
	return 0;
}

/* Makes options that stay look like padding, in the copy of the header that is reported. */
static __always_inline void hide_kept(struct extraction *x, const struct options *o)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count; i++) {
		const struct option *option = &o->options[i];

		if (!is_marked(o, option))
			x->header.bytes[(option->offset - IPV6_HEADER) & EXTRACTED_MASK] =
				OPTION_PADN;
	}
}

/* Reports the traces that were removed. Not inlined: see scan_options(). */
__noinline int record_extraction(context *ctx, const struct options *o, const struct interface *on,
				 __u32 l3, __u64 tai)
{
	struct packet packet = {.l3 = l3 & 0xff, .on = on}, *p = &packet;
	struct extraction *x = extraction_here();
	__u32 cpu = bpf_get_smp_processor_id(), head, room;
	struct record *r;
	__u64 waiting;
	void *ring;
	long err;

	if (!o || !on || !x || !take_wanted())
		return -1;
	packet_load(ctx, p);
	if (!may_be_probe(o) || !is_probe(o))
		hide_kept(x, o);
	r = &x->record;
	r->kind = SAMPLE_RECORD;
	r->ifindex = on->ifindex;
	r->time = tai;
	r->length = packet_length(ctx, p);
	r->header_length = o->length;
	r->outcome = OUTCOME_OPTIONS_REMOVED;
	head = r->length;
	if (head > RECORD_PACKET)
		head = RECORD_PACKET;
	if (read_some(ctx, p->l3, r->packet, head, RECORD_PACKET))
		head = 0;
	r->packet_length = head;
	ring = bpf_map_lookup_elem(&records, &cpu);
	if (!ring)
		return count(on->slot, COUNTER_RECORDS_LOST);
	room = o->length <= ROOM_SMALL ? ROOM_SMALL : ROOM_LARGE;
	waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) + sizeof(*r) + room;
	if (room == ROOM_SMALL)
		err = bpf_ringbuf_output(ring, x, sizeof(*r) + ROOM_SMALL, wake_by(waiting, room));
	else
		err = bpf_ringbuf_output(ring, x, sizeof(*r) + ROOM_LARGE, wake_by(waiting, room));
	return count(on->slot, err ? COUNTER_RECORDS_LOST : COUNTER_RECORDS_WRITTEN);
}

/* Reads the headers after the IPv6 header, to be put together anew; zero if it cannot. */
static __always_inline struct extraction *begin_extraction(context *ctx, const struct packet *p,
							   __u32 length)
{
	struct extraction *x = extraction_here();

	if (!x || read_some(ctx, p->l3 + IPV6_HEADER, x->header.bytes, length, EXTRACTED_HEADER))
		return 0;
	x->length = length;
	x->removed[0] = x->removed[1] = 0;
	x->has_trace = 0;
	return x;
}

/*
 * Reports the Direct Exports that were removed. The egress hook reports those that stay; of a probe, which
 * does not get there, all are reported here.
 */
static __always_inline void report_extracted(context *ctx, const struct packet *p,
					     struct options *o, const struct hop *hop)
{
	int ends = may_be_probe(o) && is_probe(o);

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_IOAM_OPTIONS && i < o->count && !ends; i++) {
		if (!is_marked(o, &o->options[i]))
			o->options[i].kind = KIND_OTHER;
	}
	dex_remove(ctx, p, o, hop, o->length, ABOUT_INNER);
}

/*
 * Treats the options of a packet, and removes those whose namespace is to be removed here, where others
 * stay; also from a Destination Options header that was found to hold some. Bytes before the IPv6 header
 * are from bit 8 of the result on, packet.broken is bit 16. Not inlined: the stack is small.
 */
__noinline int extract_options(context *ctx, struct options *o, const struct interface *on,
			       struct hop *hop, int found)
{
	struct packet packet = {.on = on}, *p = &packet;
	struct extraction *x;
	int wanted, reports, type;

	if (!o || !on || !hop)
		return OUTCOME_REMOVAL_PARTIAL;
	p->l3 = o->l3;
	packet_load(ctx, p);
	wanted = o->has_trace && are_records_wanted();
	reports = dex_reports(o) && are_exports_wanted();
	if (!hop->tai && (wanted || reports || trace_needs_arrival(o)))
		hop->tai = tai_now();
	trace_ingress(ctx, o, hop);
	sum_up(o, on->slot, COUNTER_INGRESS_OPTIONS);
	packet_load(ctx, p);
	/* with this node's data */
	x = begin_extraction(ctx, p, o->length + E2E_LENGTH(found));
	if (!x)
		return OUTCOME_REMOVAL_PARTIAL | (__u32)p->l3 << 8;
	note_marked(o);
	if (found & E2E_MARKED)
		note_marked_e2e();
	type = arrange_kept(x, o->length, !o->removable);
	if (reports) {
		report_extracted(ctx, p, o, hop);
		packet_load(ctx, p);
	}
	if (replace_headers(ctx, p, x, type))
		return with_place(p, OUTCOME_DECAP_FAILED);
	if (wanted && x->has_trace)
		record_extraction(ctx, o, on, p->l3, hop->tai);
	if (found & E2E_MARKED)
		measure_e2e(ctx, p->l3, on->slot, 0);
	return with_place(p, OUTCOME_OPTIONS_REMOVED);
}

/* The same of a packet that is loaded. */
static __always_inline enum outcome extract(context *ctx, struct packet *p, struct options *o,
					    struct hop *hop, int found)
{
	int done;

	/* here, because the stack is small */
	if (NODE.has_delays && o->has_trace)
		note_traces(ctx, o, hop, 0);
	done = extract_options(ctx, o, p->on, hop, found);
	take_place(p, done);
	packet_load(ctx, p);
	return done & 0xff;
}

/*
 * Removes the options that read_destination() found in a header of some length, after a Hop-by-Hop header
 * of `before` bytes, if there is one, which stays as it is. The result is that of extract_options(). Not
 * inlined: the stack is small.
 */
__noinline int extract_e2e(context *ctx, __u32 l3, __u32 before, __u32 length)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	enum outcome outcome = OUTCOME_REMOVAL_PARTIAL;
	const struct ipv6 *ip6;
	struct extraction *x;

	packet_load(ctx, p);
	ip6 = at(p, 0, IPV6_HEADER);
	if (!ip6 || !ip6->payload_length || before + length > EXTRACTED_HEADER)
		return outcome | (__u32)p->l3 << 8;
	x = begin_extraction(ctx, p, before + length);
	if (!x)
		return outcome | (__u32)p->l3 << 8;
	note_marked_e2e();
	outcome = OUTCOME_OPTIONS_REMOVED;
	if (replace_headers(ctx, p, x, arrange_kept(x, before, 1)))
		outcome = OUTCOME_DECAP_FAILED;
	return with_place(p, outcome);
}

#endif
