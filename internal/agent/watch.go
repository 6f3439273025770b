// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// watch is work that runs while it is wanted, and is restarted when it fails.
type watch struct {
	wanted chan bool              // the latest request, not yet handled
	fault  atomic.Pointer[string] // why the work does not run; nil when it does, or is not wanted
}

// set turns the work on or off. One goroutine calls it at a time.
func (w *watch) set(wanted bool) {
	select {
	case <-w.wanted:
	default:
	}
	w.wanted <- wanted
}

// watchRetry is the time before a failed watch is restarted.
const watchRetry = time.Second

func newWatch() watch { return watch{wanted: make(chan bool, 1)} }

// follow runs the work while it is wanted, until the context ends. The work calls begun
// once it has no error; failed gets each new reason why it ended.
func (w *watch) follow(ctx context.Context, work func(ctx context.Context, begun func()) error, failed func(error)) {
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

func (w *watch) repeat(ctx context.Context, work func(ctx context.Context, begun func()) error, failed func(error)) {
	defer w.fault.Store(nil)
	for {
		err := work(ctx, func() { w.fault.Store(nil) })
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			text := err.Error()
			if before := w.fault.Swap(&text); before == nil || *before != text {
				failed(err)
			}
		}
		if !sleep(ctx, watchRetry) {
			return
		}
	}
}

// listenRetry is the time before a failed socket is opened again.
const listenRetry = time.Minute

// hear listens until the context ends, and stores in fault why it cannot.
func (c *core) hear(ctx context.Context, without string, fault *atomic.Pointer[string], watch func(listening func()) error) {
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
			c.log.Warn(without, "error", err)
		}
		if !sleep(ctx, listenRetry) {
			return
		}
	}
}
