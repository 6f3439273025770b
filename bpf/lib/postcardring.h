// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Each CPU's ring of postcards, in memory that the agent maps. Writing one needs no lock, no helper
 * and no wake-up. What is in it outlives the agent.
 */
#ifndef WAYMARK_POSTCARDRING_H
#define WAYMARK_POSTCARDRING_H

#include "draft.h"
#include "limits.h"

/* Postcards that wait when the reader is woken. */
#define POSTCARD_WAKE_AT (NODE.postcard_room / 4)

/* The reader waits for the ring of records. A discarded record wakes it, and is not read. */
static __always_inline void wake_reader(void)
{
	void *ring = ring_here(), *nothing;

	if (!ring)
		return;
	nothing = bpf_ringbuf_reserve(ring, 8, 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}

/* Whether there is room for one more. The reader writes head->read; programs only read it. */
static __noinline int has_room(struct postcard_head *head)
{
	__u64 waiting = head->written - *(volatile __u64 *)&head->read, room;

	if (waiting >= NODE.postcard_room)
		return 0;
	if (waiting >= POSTCARD_WAKE_AT)
		wake_reader();
	room = NODE.postcard_room - waiting;
	head->look_at = head->written + (room < POSTCARD_WAKE_AT ? room : POSTCARD_WAKE_AT);
	return 1;
}

/* Writes the postcard at hand into the ring; zero when there is no room. */
static __always_inline int put_postcard(const struct draft *e)
{
	__u32 at = bpf_get_smp_processor_id() * (POSTCARD_HEAD + NODE.postcard_room);
	struct postcard_head *head = bpf_map_lookup_elem(&postcards, &at);
	struct postcard *to;

	if (!head || (head->written >= head->look_at && !has_room(head)))
		return 0;
	at += POSTCARD_HEAD + (head->written & (NODE.postcard_room - 1));
	to = bpf_map_lookup_elem(&postcards, &at);
	if (!to)
		return 0;
	*to = e->postcard;
	/* a full barrier: the reader sees the postcard before the count */
	__sync_lock_test_and_set(&head->written, head->written + 1);
	return 1;
}

#endif
