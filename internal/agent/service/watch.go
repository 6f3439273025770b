// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// Watch is work that runs while it is wanted, and is restarted when it fails.
type Watch struct {
	wanted chan bool              // the latest request, not yet handled
	Fault  atomic.Pointer[string] // why the work does not run; nil when it does, or is not wanted
}

// Set turns the work on or off. One goroutine calls it at a time.
func (w *Watch) Set(wanted bool) {
	select {
	case <-w.wanted:
	default:
	}
	w.wanted <- wanted
}

// RetryPeriod is the time before a failed watch is restarted.
const RetryPeriod = time.Second

// NewWatch is work that is not wanted yet.
func NewWatch() Watch { return Watch{wanted: make(chan bool, 1)} }

// Follow runs the work while it is wanted, until the context ends. The work calls begun
// once it has no error; failed gets each new reason why it ended.
func (w *Watch) Follow(ctx context.Context, work func(ctx context.Context, begun func()) error, failed func(error)) {
	stop, done := context.CancelFunc(func() {}), make(chan struct{})
	close(done)
	watching := false
	for {
		select {
		case <-ctx.Done():
			stop()
			<-done
			return
		case wanted := <-w.wanted:
			if wanted == watching {
				continue
			}
			stop()
			<-done
			if watching = wanted; !wanted {
				continue
			}
			var watch context.Context
			watch, stop = context.WithCancel(ctx)
			done = make(chan struct{})
			go func() {
				defer close(done)
				w.repeat(watch, work, failed)
			}()
		}
	}
}

func (w *Watch) repeat(ctx context.Context, work func(ctx context.Context, begun func()) error, failed func(error)) {
	defer w.Fault.Store(nil)
	for {
		err := work(ctx, func() { w.Fault.Store(nil) })
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			text := err.Error()
			if before := w.Fault.Swap(&text); before == nil || *before != text {
				failed(err)
			}
		}
		if !Sleep(ctx, RetryPeriod) {
			return
		}
	}
}

// listenRetry is the time before a failed socket is opened again.
const listenRetry = time.Minute

// Hear listens until the context ends, and stores in fault why it cannot; without says what
// lacks then.
func Hear(ctx context.Context, log *slog.Logger, without string, fault *atomic.Pointer[string], watch func(listening func()) error) {
	for {
		err := watch(func() { fault.Store(nil) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the socket was closed")
		}
		text := err.Error()
		if before := fault.Swap(&text); before == nil || *before != text {
			log.Warn(without, "error", err)
		}
		if !Sleep(ctx, listenRetry) {
			return
		}
	}
}
