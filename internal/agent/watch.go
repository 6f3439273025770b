// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync/atomic"
	"time"
)

// watch is work that goes on while it is wanted, and is begun again when it
// fails.
type watch struct {
	wanted chan bool              // the latest wish, not yet followed
	fault  atomic.Pointer[string] // why it does not go on; nil when it does, or need not
}

// set says whether the work is wanted. One goroutine calls it at a time.
func (w *watch) set(wanted bool) {
	select {
	case <-w.wanted:
	default:
	}
	w.wanted <- wanted
}

// watchRetry is when a watch that failed is begun again.
const watchRetry = time.Second

// follow does the work while it is wanted, until the context ends. The work
// calls begun when nothing is wrong any more; failed gets each new reason why it
// ended.
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
