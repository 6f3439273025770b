// SPDX-License-Identifier: Apache-2.0

package sink

import (
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

// Observer receives records as they happen.
type Observer struct {
	stream *Stream
	filter Filter // nil: all
	queue  *Queue
	lost   atomic.Uint64
}

// Observe adds an observer of what a filter selects, nil for all, with room for unread records.
func (s *Stream) Observe(f Filter, room *Room) *Observer {
	o := &Observer{stream: s, filter: f, queue: NewQueue(room)}
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
		if o.filter != nil {
			is, err := o.filter.Match(r)
			if err != nil {
				s.undecided.Add(1)
			}
			if !is {
				continue
			}
		}
		if !o.queue.Put(r) {
			o.lost.Add(1)
			s.dropped.Add(1)
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

// Close removes the observer.
func (o *Observer) Close() {
	o.stream.mu.Lock()
	defer o.stream.mu.Unlock()
	delete(o.stream.observers, o)
}
