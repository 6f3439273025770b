// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// observer collects the records of one agent as they come.
type observer struct {
	lock   sync.Mutex
	traced []record.Packet
	totals []time.Duration
	last   time.Time
	ended  chan error
	show   *printer
}

// observe is api.Client.Observe of the collecting agent.
type observe func(ctx context.Context, ready func(), line func([]byte) error) error

// newObserver returns once the agent streams records to it.
func newObserver(ctx context.Context, show *printer, stream observe) (*observer, error) {
	o := &observer{ended: make(chan error, 1), show: show, last: time.Now()}
	ready := make(chan struct{})
	go func() { o.ended <- stream(ctx, func() { close(ready) }, o.readRecord) }()
	select {
	case <-ready:
		return o, nil
	case err := <-o.ended:
		if err == nil {
			err = fmt.Errorf("the stream of records ended at once")
		}
		return nil, err
	}
}

// readRecord reads one record.
func (o *observer) readRecord(line []byte) error {
	parsed, err := record.Parse(line)
	if err != nil {
		return fmt.Errorf("read a record of the agent: %w", err)
	}
	r, ok := parsed.(*record.Trace)
	if !ok {
		return nil
	}
	o.show.way("trace", r, r)
	o.lock.Lock()
	defer o.lock.Unlock()
	o.traced = append(o.traced, r.Packet)
	if total, over, ok := r.Elapsed(); ok && over == record.EndToEnd {
		o.totals = append(o.totals, total)
	}
	o.last = time.Now()
	return nil
}

// count is the number of traced packets of one protocol.
func (o *observer) count(next ioam.NextHeader) int {
	o.lock.Lock()
	defer o.lock.Unlock()
	n := 0
	for _, p := range o.traced {
		if p.NextHeader == next {
			n++
		}
	}
	return n
}

// awaitTraces waits until want traces of a protocol have come and no more follow, for at
// most limit.
func (o *observer) awaitTraces(ctx context.Context, next ioam.NextHeader, want int, quiet, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		o.lock.Lock()
		silence := time.Since(o.last)
		o.lock.Unlock()
		if o.count(next) >= want && silence >= quiet {
			return nil
		}
		select {
		case err := <-o.ended:
			o.ended <- err
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("the agent stopped reporting: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// packets are the traced packets so far.
func (o *observer) packets() []record.Packet {
	o.lock.Lock()
	defer o.lock.Unlock()
	return slices.Clone(o.traced)
}

// delays are the end-to-end delays so far.
func (o *observer) delays() []time.Duration {
	o.lock.Lock()
	defer o.lock.Unlock()
	return slices.Clone(o.totals)
}
