// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

const (
	// usualRoom is how many records wait in a queue: at 100,000 a second, for 40 ms.
	usualRoom = 4096
	// mostRoom bounds the room, whatever comes at a time.
	mostRoom = 1 << 18
)

// QueueSpace is how many records a queue takes. Results of measured flows come many at a time, so
// there is room for those of two blocks besides the usual. The nil value and the zero value
// are the usual room.
type QueueSpace struct{ burst atomic.Int64 }

// SetBurst sets how many records come at a time.
func (r *QueueSpace) SetBurst(records int) { r.burst.Store(int64(min(max(records, 0), mostRoom))) }

// Burst is how many records come at a time.
func (r *QueueSpace) Burst() int {
	if r == nil {
		return 0
	}
	return int(r.burst.Load())
}

// Records is how many records a queue takes.
func (r *QueueSpace) Records() int { return min(usualRoom+2*r.Burst(), mostRoom) }

// Queue is a bounded queue of records for one reader. It takes memory only for what waits.
type Queue struct {
	room    *QueueSpace
	ready   chan struct{} // has one while there are records
	taken   chan struct{} // has one after records were taken
	mu      sync.Mutex
	waiting []record.Record
}

// NewQueue makes a queue with a room, which may change.
func NewQueue(room *QueueSpace) *Queue {
	return &Queue{room: room, ready: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

// Put queues a record; false: it has no room.
func (q *Queue) Put(r record.Record) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= q.room.Records() {
		return false
	}
	q.waiting = append(q.waiting, r)
	if len(q.waiting) == 1 {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
	return true
}

// Ready receives when there are records that were not taken. Nothing may be there after all.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

// Drain takes all records. used, which was taken before, is used again for others.
func (q *Queue) Drain(used []record.Record) []record.Record {
	clear(used)
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.waiting
	q.waiting = used[:0]
	select {
	case q.taken <- struct{}{}:
	default:
	}
	return list
}

// Await waits until that number of records has room; false: they have none when the time is over. One
// goroutine may wait.
func (q *Queue) Await(records int, most time.Duration) bool {
	if q.fits(records) {
		return true
	}
	over := time.NewTimer(most)
	defer over.Stop()
	for {
		select {
		case <-q.taken: // or before the queue was full
			if q.fits(records) {
				return true
			}
		case <-over.C:
			return q.fits(records)
		}
	}
}

func (q *Queue) fits(records int) bool { return q.Len()+records <= q.room.Records() }

// Len is how many records wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}
