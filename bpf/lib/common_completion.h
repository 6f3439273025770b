// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Egress of a packet with a common header (common_header.h): what complete_options() does with it. */
#ifndef WAYMARK_COMMON_COMPLETION_H
#define WAYMARK_COMMON_COMPLETION_H

#include "common_header.h"
#include "common_traces.h"
#include "edit.h"
#include "held.h"
#include "hook.h"

/*
 * Completes what this node's ingress hook has just written; zero where complete_options() has to. The
 * caller knows that the packet came by a served interface, which is no master.
 */
static __always_inline int common_completion(context *ctx, struct packet *p)
{
	const struct ipv6 *ip6 = at(p, 0, IPV6_HEADER);
	const struct common_header *h = at(p, IPV6_HEADER, sizeof(*h));
	__u32 word, type, length, found;
	int timed;

	/* after a tunnel, the data may be another node's */
	if (NODE.has_decapsulations || !ip6 || !h || !begins_with_trace(h) ||
	    !has_whole_header(p, ip6, h))
		return 0;
	length = COMMON_LENGTH(h);
	if (ends_with_first(p, h)) {
		word = bpf_ntohl(h->option.word);
		type = bpf_ntohl(h->option.type);
		if (!find_namespace(tables_of(p->on->tables_index), word >> 16) ||
		    !complete_common(
			    p, own_common_data(p, COMMON_OPTION, word, type, words_of(&h->option)),
			    type, p->on->interface_id))
			return 0;
		packet_commit_sum(ctx, p);
		timed = FIELDS_OF(type) & 3;
	} else {
		found = judge_completed(ctx, p->on, p->l3);
		if (!found)
			return 0;
		complete_several(ctx, p->on, p->l3);
		packet_load(ctx, p);
		timed = found & SEVERAL_TIMES;
	}
	if (NODE.has_delays && timed)
		leave_sampled(ctx, p, length);
	return 1;
}

#endif
