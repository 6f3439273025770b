// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync/atomic"
	"time"
)

// routeWatch is the watch of what the kernel forwards by, for interfaces that
// forward fast.
type routeWatch struct {
	wanted chan bool              // the latest wish, not yet followed
	fault  atomic.Pointer[string] // why nothing is watched; nil when it is, or need not be
}

// set says whether the watch is needed.
func (r *routeWatch) set(wanted bool) {
	select {
	case <-r.wanted:
	default:
	}
	r.wanted <- wanted
}

// watchRetry is when a watch that failed is begun again.
const watchRetry = time.Second

// followRoutes watches while that is wanted. While it does not, the programs
// notice: they ask the kernel for each packet, and later leave all to the stack.
func (a *Agent) followRoutes(ctx context.Context) {
	stop, done := context.CancelFunc(func() {}), make(chan struct{})
	close(done)
	watching := false
	for {
		select {
		case <-ctx.Done():
			stop()
			<-done
			return
		case wanted := <-a.routeWatch.wanted:
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
				a.watchRoutes(watch)
			}()
		}
	}
}

func (a *Agent) watchRoutes(ctx context.Context) {
	defer a.routeWatch.fault.Store(nil)
	for {
		plane, err := a.datapath.Forwarding()
		if err == nil {
			a.routeWatch.fault.Store(nil)
			err = a.options.System.WatchRoutes(ctx, plane, a.log)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			text := err.Error()
			if before := a.routeWatch.fault.Swap(&text); before == nil || *before != text {
				a.log.Warn("packets are forwarded by the stack soon: its routes are not watched", "error", err)
			}
		}
		if !sleep(ctx, watchRetry) {
			return
		}
	}
}
