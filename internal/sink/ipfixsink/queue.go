// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/sink"
)

// A queue of encoded records has at most maxBlocks blocks, sent and not yet
// acknowledged ones included: 8 MiB for each collector, at 100 octets a record
// some 80,000 records. Where many come at a time, as the results of measured flows,
// there is room for two such bursts besides, with burstRecord octets each.
const (
	burstRecord = 256

	blockLen  = 64 << 10
	maxBlocks = 128
)

// maxSpare is how many empty blocks are kept for a burst.
const maxSpare = 8

// block is a sequence of encoded records and marks: layout, length, octets.
type block struct {
	data    []byte
	records int // from start on
	start   int // offset of the first record that is still needed
	begun   time.Time
}

const entryHeader = 4

func (b *block) append(layout uint16, record []byte) *block {
	b.entry(layout, record)
	b.records++
	return b
}

func (b *block) entry(layout uint16, octets []byte) {
	b.data = binary.NativeEndian.AppendUint16(b.data, layout)
	b.data = binary.NativeEndian.AppendUint16(b.data, uint16(len(octets)))
	b.data = append(b.data, octets...)
}

// next reads the record at an offset; end is the offset of the following one.
func (b *block) next(at int) (layout uint16, record []byte, end int) {
	layout = binary.NativeEndian.Uint16(b.data[at:])
	end = at + entryHeader + int(binary.NativeEndian.Uint16(b.data[at+2:]))
	return layout, b.data[at+entryHeader : end], end
}

// queue is a bounded queue of encoded records for one reader. When it is full,
// its oldest block is dropped, and the records in it are counted.
type queue struct {
	wake    chan struct{}    // wakes the waiting reader
	discard func(*block)     // gets blocks that are not sent
	room    *sink.QueueSpace // says how many records come at a time

	mu          sync.Mutex
	blocks      []*block // the oldest first; the last one is being filled
	freeBlocks  []*block
	blocksTaken int       // blocks that the reader holds
	lastBegun   time.Time // when the last block was begun
	lastDrop    time.Time // no record that was offered since then was dropped
	offered     uint64
	dropped     uint64
	closed      bool
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), discard: func(*block) {}, lastDrop: time.Now()}
}

// put copies the records of a block into the queue.
func (q *queue) put(b *block) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.offered += uint64(b.records)
	if last := len(q.blocks) - 1; last >= 0 && len(q.blocks[last].data)+len(b.data) <= blockLen {
		q.blocks[last].data = append(q.blocks[last].data, b.data...)
		q.blocks[last].records += b.records
		return
	}
	q.addAll(b, len(b.data))
}

// again queues the records of a block up to an offset once more, after the others.
func (q *queue) again(b *block, to int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addAll(b, to)
}

func (q *queue) addAll(b *block, to int) {
	for at := b.start; at < to; {
		layout, record, end := b.next(at)
		if layout != markLayout { // what it marks comes later now
			q.add(layout, record)
		}
		at = end
	}
}

// mark puts a mark behind what was offered before. It is no record.
func (q *queue) mark(octets []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.roomFor(entryHeader+len(octets)).entry(markLayout, octets)
	}
}

// wholeSince is since when no record was dropped.
func (q *queue) wholeSince() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lastDrop
}

func (q *queue) add(layout uint16, record []byte) {
	need := entryHeader + len(record)
	if q.closed || need > blockLen {
		q.dropped++
		q.lastDrop = time.Now()
		q.discard(new(block).append(layout, record))
		return
	}
	q.roomFor(need).append(layout, record)
}

// roomFor is a block with room for that number of octets more.
func (q *queue) roomFor(need int) *block {
	last := len(q.blocks) - 1
	if last < 0 || len(q.blocks[last].data)+need > blockLen {
		q.extend()
		last = len(q.blocks) - 1
	}
	return q.blocks[last]
}

// extend begins a block and wakes the reader: for the first record, and whenever a
// block is full.
func (q *queue) extend() {
	for len(q.blocks) > 0 && len(q.blocks)+q.blocksTaken >= maxBlocks+2*q.room.Burst()*burstRecord/blockLen {
		oldest := q.blocks[0]
		q.blocks = append(q.blocks[:0], q.blocks[1:]...)
		q.dropped += uint64(oldest.records)
		q.discard(oldest)
		q.reuse(oldest)
		if q.lastDrop = time.Now(); len(q.blocks) > 0 {
			q.lastDrop = q.blocks[0].begun
		}
	}
	if n := len(q.freeBlocks); n > 0 {
		q.blocks = append(q.blocks, q.freeBlocks[n-1])
		q.freeBlocks = q.freeBlocks[:n-1]
	} else {
		q.blocks = append(q.blocks, &block{data: make([]byte, 0, blockLen)})
	}
	q.lastBegun = time.Now()
	q.blocks[len(q.blocks)-1].begun = q.lastBegun
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) reuse(b *block) {
	if len(q.freeBlocks) < maxSpare {
		b.data, b.records, b.start = b.data[:0], 0, 0
		q.freeBlocks = append(q.freeBlocks, b)
	}
}

// nextBlock returns the oldest block as soon as it is full or as old as age. If it waits for
// age without any, or the context ends, it returns nil.
func (q *queue) nextBlock(ctx context.Context, age time.Duration, until <-chan struct{}) *block {
	b, wait := q.ready(age)
	if b != nil {
		return b
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-q.wake: // a block was begun, or is full
			if b, _ := q.ready(age); b != nil {
				return b
			}
		case <-timer.C:
			b, _ := q.ready(age)
			return b
		case <-until:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// ready takes the oldest block if it is full or as old as age, else returns how long to
// wait.
func (q *queue) ready(age time.Duration) (*block, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.blocks) == 0 {
		return nil, age
	}
	if rest := age - time.Since(q.lastBegun); len(q.blocks) == 1 && rest > 0 {
		return nil, rest
	}
	b := q.blocks[0]
	q.blocks = append(q.blocks[:0], q.blocks[1:]...)
	q.blocksTaken++
	return b, 0
}

// release returns blocks that are no longer needed.
func (q *queue) release(blocks ...*block) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range blocks {
		q.blocksTaken--
		q.reuse(b)
	}
}

// restore puts taken blocks, with the records still needed, back in front of the queue.
func (q *queue) restore(blocks []*block) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.blocksTaken -= len(blocks)
	q.blocks = append(append(make([]*block, 0, len(blocks)+len(q.blocks)), blocks...), q.blocks...)
}

// more reports whether a full block waits.
func (q *queue) more() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.blocks) > 1
}

// close empties the queue and refuses further records. It reports how many records were
// in it.
func (q *queue) close() (left uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range q.blocks {
		left += uint64(b.records)
		q.discard(b)
	}
	q.blocks, q.freeBlocks, q.closed = nil, nil, true
	return left
}

// queueStats counts the records of a queue.
type queueStats struct {
	offered, dropped uint64
	waiting          uint64 // in the queue
}

func (q *queue) stats() queueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := queueStats{offered: q.offered, dropped: q.dropped}
	for _, b := range q.blocks {
		s.waiting += uint64(b.records)
	}
	return s
}
