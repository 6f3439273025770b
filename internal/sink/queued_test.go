// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

// faulty is a Writer that writes two records at a time, and fails after the first of them while it
// is broken.
type faulty struct {
	mu     sync.Mutex
	broken bool
	list   []uint64
	closed bool
}

func (f *faulty) Write(batch []record.Record) (tried, written int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tried, written = min(len(batch), 2), min(len(batch), 2); f.broken {
		written, err = 0, fmt.Errorf("write: %w", problem.New("no space\nleft", "remove some; or add a disk"))
	}
	for _, r := range batch[:written] {
		f.list = append(f.list, r.(*record.Lost).Count)
	}
	return tried, written, err
}

func (f *faulty) End() {}

func (f *faulty) Close() error { f.closed = true; return nil }

func (f *faulty) breaks(broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

func numbered(from, to int) (list []record.Record) {
	for n := from; n < to; n++ {
		list = append(list, &record.Lost{Count: uint64(n)})
	}
	return list
}

func running(q *Queued) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { q.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

// What could not be written is written later, in order, up to the queue's bound. What has no room is
// counted.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &faulty{broken: true}
		q := NewQueued(w, Settings{Name: "x", Retry: true})
		stop := running(q)
		q.Offer(numbered(0, 1)...)
		synctest.Wait() // the worker has it; of several, it may take some first
		room := new(QueueSpace).Records()
		q.Offer(numbered(1, 1+room+5)...)
		time.Sleep(time.Minute)
		want := Stats{Offered: uint64(room + 6), Dropped: 5, Error: "write: no space left", Cure: "remove some; or add a disk"}
		if s := q.Stats(); s != want {
			t.Errorf("while it fails: %+v", s)
		}
		w.breaks(false)
		time.Sleep(mostRetry)
		if s := q.Stats(); s != (Stats{Offered: uint64(room + 6), Written: uint64(room + 1), Dropped: 5}) {
			t.Errorf("afterwards: %+v", s)
		}
		stop()
		if !slices.IsSorted(w.list) || len(w.list) != room+1 || !w.closed {
			t.Errorf("wrote %d records, in order: %v", len(w.list), slices.IsSorted(w.list))
		}
	})
}

// At the end, the queue is tried once more; what cannot be written is lost, and counted.
func TestEndOfRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, broken := range []bool{false, true} {
			w := &faulty{broken: true}
			q := NewQueued(w, Settings{Retry: true})
			stop := running(q)
			q.Offer(numbered(0, 5)...)
			synctest.Wait()
			w.breaks(broken)
			stop()
			want := Stats{Offered: 5, Written: 5}
			if broken {
				want = Stats{Offered: 5, Lost: 5, Error: "write: no space left", Cure: "remove some; or add a disk"}
			}
			if s := q.Stats(); s != want || !w.closed {
				t.Errorf("broken %v: %+v", broken, s)
			}
		}
	})
}

// Who offers may wait for room, but not longer than a moment.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &faulty{broken: true}
		q := NewQueued(w, Settings{Retry: true})
		s := Except(Only(q, record.KindLost), record.KindPath)
		room := new(QueueSpace).Records()
		if !Await(s, room, time.Second) || Await(s, room+1, time.Second) {
			t.Error("an empty queue has room for as many as it says")
		}
		s.Offer(numbered(0, room)...)
		began := time.Now()
		if Await(s, 1, time.Second) || time.Since(began) != time.Second {
			t.Errorf("a full queue: it waited %v", time.Since(began))
		}
		go func() { time.Sleep(time.Second / 2); running(q)() }()
		if !Await(s, 1, time.Second) || time.Since(began) != 3*time.Second/2 {
			t.Errorf("a queue that was read: it waited %v", time.Since(began))
		}
		if !Await(&kept{}, 1, 0) {
			t.Error("a sink that nobody can wait for")
		}
	})
}

// What comes in an interval is written at its end, also what comes late in it; at the end of all, nothing waits.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &faulty{}
		q := NewQueued(w, Settings{Interval: time.Second})
		stop := running(q)
		written := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := int(q.Stats().Written); got != want {
				t.Errorf("%d records are written, want %d", got, want)
			}
		}
		q.Offer(numbered(0, 1)...)
		written(0, 1) // the first one waits for nothing
		for i := 1; i < 10; i++ {
			time.Sleep(99 * time.Millisecond)
			q.Offer(numbered(i, i+1)...)
		}
		written(108*time.Millisecond, 1)
		written(time.Millisecond, 10)
		q.Offer(numbered(10, 11)...)
		written(time.Millisecond, 10)
		stop()
		written(0, 11)
	})
}
