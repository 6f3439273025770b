// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Egress of a packet with a common header (common_header.h): what complete_options() does with it. */
#ifndef WAYMARK_COMMON_COMPLETION_H
#define WAYMARK_COMMON_COMPLETION_H

#include "common_header.h"
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
	__u32 word, fields, left, length;
	__be32 *data;

	/* after a tunnel, the data may be another node's */
	if (NODE.has_decapsulations || !ip6 || !h || !is_common_trace(p, ip6, h))
		return 0;
	word = bpf_ntohl(h->word);
	length = ((__u32)h->length + 1) << 3;
	fields = FIELDS_OF(bpf_ntohl(h->type));
	left = TRACE_REMAINING(word);
	if (TYPED_OPTION_MIN + 4 * (left + LENGTH_OF(fields)) > h->option_length ||
	    !find_namespace(tables_of(p->on->tables_index), word >> 16))
		return 0;
	data = common_data(p, fields, COMMON_DATA(left));
	if (!data)
		return 0;
	if (fields & 8) {
		if ((bpf_ntohl(*data) & 0xffffff) != NODE.node_id)
			return 0;
		data++;
	}
	if (fields & 4)
		put32(p, data, (*data & bpf_htonl(0xffff0000)) | bpf_htonl(p->on->interface_id));
	packet_commit_sum(ctx, p);
	if (NODE.has_delays && fields & 3)
		leave_sampled(ctx, p, length);
	return 1;
}

#endif
