// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// Writer writes records to one place, for one goroutine.
type Writer interface {
	// Write tries some of the records, at least the first, in their order. written says how many of
	// these, from the first on, are written; err may say that something is wrong although all are.
	// The next call begins with the record after those that were tried, or with the first of these
	// that was not written.
	Write(batch []record.Record) (tried, written int, err error)
	// End lets writes wait no longer than a moment from now. Any goroutine calls it, once.
	End()
	Close() error
}

// Waits before a failed write is tried again: doubled each time.
const (
	firstRetry = 100 * time.Millisecond
	mostRetry  = 5 * time.Second
)

// Queued is a Sink with a queue, and a Writer that takes from it. A slow Writer never makes the
// caller of Offer wait.
type Queued struct {
	name  string
	to    Writer
	retry bool
	queue *Queue

	interval time.Duration
	begun    time.Time // when the last write was

	offered, written, dropped, lost atomic.Uint64
	fault                           Fault // of the last write
}

// Settings are those of a Queued.
type Settings struct {
	Name       string      // in status and metrics
	QueueSpace *QueueSpace // of the queue
	Retry      bool        // what could not be written is tried again, in its turn, else it is lost
	Fault      error       // why nothing can be written now, as far as is known

	// Interval is the time from the begin of one write to that of the next, at least: what comes meanwhile is in that one.
	Interval time.Duration
}

// NewQueued makes a sink. Nothing is written before Run.
func NewQueued(to Writer, s Settings) *Queued {
	q := &Queued{name: s.Name, to: to, retry: s.Retry, queue: NewQueue(s.QueueSpace), interval: s.Interval}
	q.fault.Set(s.Fault)
	return q
}

// Name is the sink's name in status and metrics.
func (q *Queued) Name() string { return q.name }

// Offer queues records.
func (q *Queued) Offer(records ...record.Record) {
	q.offered.Add(uint64(len(records)))
	for _, r := range records {
		if !q.queue.Put(record.Retain(r)) {
			q.dropped.Add(1)
		}
	}
}

// Await waits until that number of records has room.
func (q *Queued) Await(records int, most time.Duration) bool { return q.queue.Await(records, most) }

// Run writes until the context ends, then tries the queued records once more and closes the Writer.
// What it does not take within the moment that End gives it is lost.
func (q *Queued) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, q.to.End)()
	for {
		select {
		case <-q.queue.Ready():
			q.writeQueued(ctx)
		case <-ctx.Done():
			q.writeQueued(ctx)
			q.Close()
			return
		}
	}
}

func (q *Queued) writeQueued(ctx context.Context) {
	var list []record.Record
	for {
		// It waits before it takes records from the queue, so that those that come during the wait are written with the others.
		if wait := q.interval - time.Since(q.begun); !q.begun.IsZero() && wait > 0 {
			pause(ctx, wait)
		}
		if list = q.queue.Drain(list); len(list) == 0 {
			return
		}
		q.begun = time.Now()
		q.write(ctx, list)
	}
}

// write writes records, or counts that they are lost.
func (q *Queued) write(ctx context.Context, rest []record.Record) {
	wait := firstRetry
	for len(rest) > 0 {
		ended := ctx.Err() != nil
		tried, written, err := q.to.Write(rest)
		q.fault.Set(err)
		q.written.Add(uint64(written))
		if written > 0 {
			wait = firstRetry
		}
		if written < tried && q.retry && !ended {
			pause(ctx, wait)
			rest, wait = rest[written:], min(2*wait, mostRetry)
			continue
		}
		q.lost.Add(uint64(tried - written))
		rest = rest[tried:]
	}
}

// pause waits, but not longer than the context.
func pause(ctx context.Context, wait time.Duration) {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// Close closes the Writer of a sink that does not run.
func (q *Queued) Close() { _ = q.to.Close() } // what it has not written by now is counted

// Stats is what happened so far.
func (q *Queued) Stats() Stats {
	s := Stats{Offered: q.offered.Load(), Written: q.written.Load(), Dropped: q.dropped.Load(), Lost: q.lost.Load()}
	s.Error, s.Cure = q.fault.Parts()
	return s
}

// Each makes a Writer that gives each record to a function.
func Each(consume func(record.Record)) Writer { return each(consume) }

type each func(record.Record)

func (e each) Write(batch []record.Record) (tried, written int, err error) {
	for _, r := range batch {
		e(r)
	}
	return len(batch), len(batch), nil
}

func (each) End() {}

func (each) Close() error { return nil }
