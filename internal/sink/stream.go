// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/record"
)

// Stream passes records to observers that come and go. It never waits for one: records
// that do not fit an observer's queue are counted and dropped. The zero value is ready.
type Stream struct {
	mu        sync.Mutex
	observers map[*Observer]struct{}
	dropped   atomic.Uint64
	undecided atomic.Uint64
}

// Filter selects records. One goroutine at a time calls it. An error says why it could not
// decide; the record is not selected then.
type Filter interface {
	Match(r record.Record) (bool, error)
}

// Filters are what an observer selects by; nil ones select all. Every record goes through Quick in the
// goroutine that publishes it, which reads a ring. What is left goes through Costly in a goroutine of the
// observer, so that one with a long expression slows no other; what that one cannot examine in time is lost.
type Filters struct{ Quick, Costly Filter }

// Observer receives records as they happen.
type Observer struct {
	stream  *Stream
	filters Filters
	intake  *Queue // what Costly has not examined; nil without Costly
	closed  chan struct{}
	queue   *Queue
	lost    atomic.Uint64
}

// Observe adds an observer of what filters select, with room for unread records, and as much again for those
// that are not examined.
func (s *Stream) Observe(f Filters, room *QueueSpace) *Observer {
	o := &Observer{stream: s, filters: f, queue: NewQueue(room), closed: make(chan struct{})}
	if f.Costly != nil {
		o.intake = NewQueue(room)
		go o.examine()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.observers == nil {
		s.observers = map[*Observer]struct{}{}
	}
	s.observers[o] = struct{}{}
	return o
}

// Publish passes records to the observers.
func (s *Stream) Publish(records ...record.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.observers) == 0 {
		return
	}
	for _, r := range records {
		s.publish(record.Retain(r))
	}
}

func (s *Stream) publish(r record.Record) {
	for o := range s.observers {
		if o.selects(o.filters.Quick, r) {
			o.put(cmp.Or(o.intake, o.queue), r)
		}
	}
}

func (o *Observer) selects(f Filter, r record.Record) bool {
	if f == nil {
		return true
	}
	is, err := f.Match(r)
	if err != nil {
		o.stream.undecided.Add(1)
	}
	return is
}

func (o *Observer) put(q *Queue, r record.Record) {
	if !q.Put(r) {
		o.lost.Add(1)
		o.stream.dropped.Add(1)
	}
}

// examine passes on what Costly selects, until the observer is closed.
func (o *Observer) examine() {
	var taken []record.Record
	for {
		select {
		case <-o.closed:
			return
		case <-o.intake.Ready():
		}
		taken = o.intake.Drain(taken)
		for _, r := range taken {
			select {
			case <-o.closed:
				return
			default:
			}
			if o.selects(o.filters.Costly, r) {
				o.put(o.queue, r)
			}
		}
	}
}

// Observers is the number of observers.
func (s *Stream) Observers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.observers)
}

// Dropped is how many records did not fit an observer's queue, over all observers so
// far.
func (s *Stream) Dropped() uint64 { return s.dropped.Load() }

// Undecided is how many records a filter could not decide about, over all observers so far.
func (s *Stream) Undecided() uint64 { return s.undecided.Load() }

// Queue has the records that the observer has not read yet.
func (o *Observer) Queue() *Queue { return o.queue }

// TakeLost is how many records have been lost since the last call.
func (o *Observer) TakeLost() uint64 { return o.lost.Swap(0) }

// Close removes the observer. It is called once.
func (o *Observer) Close() {
	close(o.closed)
	o.stream.mu.Lock()
	defer o.stream.mu.Unlock()
	delete(o.stream.observers, o)
}
