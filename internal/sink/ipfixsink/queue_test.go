// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"encoding/binary"
	"testing"
	"time"
)

// numbers takes all records from a queue, and returns their numbers in order.
func numbers(q *queue) (list []uint32) {
	for {
		b, _ := q.ready(0)
		if b == nil {
			return list
		}
		for at := b.start; at < len(b.data); {
			_, record, end := b.next(at)
			list = append(list, binary.BigEndian.Uint32(record))
			at = end
		}
		q.release(b)
	}
}

func fill(q *queue, from, to, length int) {
	for i := from; i < to; i++ {
		q.put(new(block).append(7, append(binary.BigEndian.AppendUint32(nil, uint32(i)), make([]byte, length-4)...)))
	}
}

func TestQueueDropsTheOldest(t *testing.T) {
	q := newQueue()
	const length, count = 996, 20000 // 65 to a block
	fill(q, 0, count, length)
	s := q.stats()
	if s.offered != count || s.offered != s.dropped+s.waiting || s.dropped == 0 || len(q.blocks) != maxBlocks {
		t.Fatalf("%+v in %d blocks", s, len(q.blocks))
	}
	list := numbers(q)
	if len(list) != int(s.waiting) || list[0] != uint32(s.dropped) || list[len(list)-1] != count-1 {
		t.Errorf("%d records from %d to %d; %+v", len(list), list[0], list[len(list)-1], s)
	}
	if len(q.freeBlocks) != maxSpare {
		t.Errorf("%d blocks are kept for later, want %d", len(q.freeBlocks), maxSpare)
	}
}

// Blocks that the reader holds count too, and return to their place.
func TestQueueRestores(t *testing.T) {
	q := newQueue()
	fill(q, 0, 1000, 996)
	var taken []*block
	for range 5 {
		b, _ := q.ready(0)
		taken = append(taken, b)
	}
	first := taken[0]
	_, _, first.start = first.next(0) // one of them is done
	first.records--
	fill(q, 1000, 20000, 996)
	if s := q.stats(); len(q.blocks)+len(taken) != maxBlocks || s.offered-s.dropped-s.waiting != 5*65 {
		t.Errorf("%d blocks and %d taken, %+v", len(q.blocks), len(taken), s)
	}
	q.restore(taken)
	s := q.stats()
	list := numbers(q)
	if list[0] != 1 || len(list) != int(s.waiting) || s.offered != s.dropped+s.waiting+1 {
		t.Errorf("%d records from %d on, %+v", len(list), list[0], s)
	}
}

func TestQueueCloses(t *testing.T) {
	q := newQueue()
	fill(q, 0, 10, 100)
	if left := q.close(); left != 10 {
		t.Errorf("%d were left, want 10", left)
	}
	fill(q, 10, 12, 100)
	q.put(new(block).append(0, make([]byte, blockLen-1))) // no block has room for it
	if s := q.stats(); s != (queueStats{offered: 13, dropped: 3}) {
		t.Errorf("%+v", s)
	}
}

func TestQueueTake(t *testing.T) {
	q := newQueue()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { time.Sleep(20 * time.Millisecond); fill(q, 0, 1, 100) }()
	began := time.Now()
	if b := q.nextBlock(ctx, 50*time.Millisecond, ended); b != nil && time.Since(began) < 50*time.Millisecond {
		t.Errorf("a block that is not full came after %v", time.Since(began))
	}
	for q.stats().waiting == 1 {
		q.nextBlock(ctx, 10*time.Millisecond, ended)
	}
	go func() { time.Sleep(20 * time.Millisecond); fill(q, 1, 200, 996) }()
	if b := q.nextBlock(ctx, time.Hour, ended); b == nil || len(b.data) < blockLen-1000 {
		t.Errorf("a full block does not come at once: %v", b)
	}
	close(ended)
	if b := newQueue().nextBlock(ctx, time.Hour, ended); b != nil {
		t.Error("a block of an empty queue")
	}
	cancel()
	if b := newQueue().nextBlock(ctx, time.Hour, nil); b != nil {
		t.Error("a block of an empty queue")
	}
}
