// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Completes the traces of a header that is being inserted, which hold this node's own data already. */
#ifndef WAYMARK_OPTION_TRACE_INSERT_H
#define WAYMARK_OPTION_TRACE_INSERT_H

#include "option/trace.h"

/*
 * Writes the complement of what trace_insert() writes, and of what the agent wrote before. Not inlined:
 * the stack is small.
 */
__noinline int complement_insertion(context *ctx, const struct patch *patch,
				    const struct departure *d, __u32 l3)
{
	struct packet packet = {.l3 = l3 & 0xff}, *p = &packet;
	__u64 sum;

	if (!patch || !d)
		return 0;
	sum = patch->sum;
	if (patch->hop_limit)
		sum += bpf_htonl((__u32)d->hop.hop_limit << 24);
	if (patch->ingress_id)
		sum += bpf_htonl((__u32)d->hop.ingress_id << 16);
	if (patch->seconds)
		sum += bpf_htonl(d->time.seconds);
	if (patch->fraction)
		sum += bpf_htonl(d->time.fraction);
	if (patch->queue)
		sum += bpf_htonl(d->hop.queue);
	if (patch->buffer)
		sum += bpf_htonl(d->hop.buffer);
	if (patch->hop_limit_wide)
		sum += bpf_htonl((__u32)d->hop.hop_limit << 24);
	if (patch->ingress_id_wide)
		sum += bpf_htonl(d->hop.ingress_id_wide);
	packet_load(ctx, p);
	patch32(p, patch->complement, complement_of(sum));
	return 0;
}

/* Writes what a prebuilt trace with this node's own data lacks. */
static __always_inline void trace_insert(struct packet *p, const struct patch *patch,
					 const struct departure *d)
{
	patch8(p, patch->hop_limit, d->hop.hop_limit);
	patch16(p, patch->ingress_id, bpf_htons(d->hop.ingress_id));
	if (d->hop.tai) {
		patch32(p, patch->seconds, bpf_htonl(d->time.seconds));
		patch32(p, patch->fraction, bpf_htonl(d->time.fraction));
	}
	patch32(p, patch->queue, bpf_htonl(d->hop.queue));
	patch8(p, patch->hop_limit_wide, d->hop.hop_limit);
	patch32(p, patch->ingress_id_wide, bpf_htonl(d->hop.ingress_id_wide));
	patch32(p, patch->buffer, bpf_htonl(d->hop.buffer));
}

#endif
