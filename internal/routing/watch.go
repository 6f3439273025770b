// SPDX-License-Identifier: Apache-2.0

// Package routing watches the state that determines how the kernel forwards
// packets, for a data plane that forwards some of them itself: routes, rules,
// neighbours, links and addresses of its network namespace, and which devices can
// send what XDP redirects.
package routing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// Plane receives the changes; *datapath.Forwarding implements and documents it.
type Plane interface {
	Renew(datapath.Routing) error
	SetSegments([]datapath.SegmentRoute) error
	Beat() error
	SetDevices([]model.IfIndex) error
	Neighbours(within time.Duration) ([]datapath.Neighbour, error)
	Entrances() map[model.IfIndex]datapath.Entrance
}

const (
	// beatPeriod is less than half of the time for which the data plane
	// assumes that it is watched, so one beat may be missed.
	beatPeriod = 40 * time.Millisecond
	// renewPause bounds how often next hops are invalidated while many routes
	// change: the kernel is asked again for each next hop after that.
	renewPause = 10 * time.Millisecond
	// lookPeriod is how often the agent reads what no message reports.
	lookPeriod = time.Second
	// usedWithin is how recently a neighbour must have been sent to.
	usedWithin = 2 * time.Second
	// receiveBuffer holds some 10,000 messages of a routing daemon.
	receiveBuffer = 4 << 20
)

// groups are the messages that may change where a packet goes.
var groups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE,
	unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV6_NETCONF, unix.RTNLGRP_NEXTHOP,
}

// Watch informs the plane until the context ends. It fails when the kernel
// can no longer be watched, or the plane not be informed. When the reason changes,
// explain gets why the stack forwards all packets, "" when it does not.
func Watch(ctx context.Context, plane Plane, explain func(why string), log *slog.Logger) error {
	w := &watcher{plane: plane, explain: explain, log: log, wake: make(chan struct{}, 1), failed: make(chan error, 4)}
	w.seen.entrances = plane.Entrances
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := w.listen(ctx); err != nil {
		return fmt.Errorf("watch the kernel's routes: %w", err)
	}
	w.rereadRoutes()
	if err := w.beat(ctx); err != nil {
		return fmt.Errorf("watch the kernel's routes: %w", err)
	}
	return w.serve(ctx)
}

type watcher struct {
	plane    Plane
	explain  func(why string)
	log      *slog.Logger
	wake     chan struct{} // something changed
	failed   chan error
	seen     traits           // what routes were seen to depend on
	reported datapath.Routing // the latest report to the plane
	why      string           // the latest explanation
	segments int              // the number of the table of segments that the plane has
	refused  int              // and of the one that it has no room for
	left     string           // why the stack has all routes with segments, as last logged
	linked   atomic.Bool      // what devices can do may have changed
	busy     sync.Mutex       // held while something changed that the plane may not know yet

	deviceFault string // why it is not known which devices can send
}

// listen subscribes, and reads in goroutines that end with the context.
func (w *watcher) listen(ctx context.Context) error {
	routes, err := nl.Subscribe(unix.NETLINK_ROUTE, groups...)
	if err != nil {
		return err
	}
	if err := routes.SetReceiveBufferSize(receiveBuffer, true); err != nil {
		w.log.Debug("the buffer for the kernel's messages stays small", "error", err)
	}
	examine := func(kind, flags uint16, data []byte) bool {
		if kind == unix.RTM_NEWLINK || kind == unix.RTM_DELLINK {
			w.linked.Store(true)
		}
		return w.seen.examineMessage(kind, flags, data)
	}
	w.readMessages(ctx, routes, examine, func() {
		w.linked.Store(true)
		w.seen.noteLoss()
	})
	policies, err := nl.Subscribe(unix.NETLINK_XFRM, nl.XFRMNLGRP_POLICY)
	if err == nil { // else the kernel has no IPsec
		w.readMessages(ctx, policies, func(kind, _ uint16, _ []byte) bool {
			if kind == nl.XFRM_MSG_NEWPOLICY || kind == nl.XFRM_MSG_UPDPOLICY || kind == messageDefaults {
				w.seen.notePolicy()
			}
			return true
		}, w.seen.notePolicy)
	}
	devices, err := subscribeDevices()
	if err != nil {
		w.log.Warn("which devices can send is looked at once a second only", "error", err)
		return nil
	}
	changed := func() { w.linked.Store(true) }
	w.readMessages(ctx, devices, func(uint16, uint16, []byte) bool { changed(); return true }, changed)
	return nil
}

// readMessages reads messages until the context ends, and signals those that matter.
// A lost message matters, too: something changed.
func (w *watcher) readMessages(ctx context.Context, s *nl.NetlinkSocket, matters func(kind, flags uint16, data []byte) bool, lost func()) {
	context.AfterFunc(ctx, s.Close)
	go func() {
		for {
			messages, _, err := s.Receive()
			if ctx.Err() != nil {
				return
			}
			wake := false
			switch {
			case errors.Is(err, unix.ENOBUFS):
				lost()
				wake = true
			case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			case err != nil:
				w.failed <- fmt.Errorf("read the kernel's messages: %w", err)
				return
			}
			for _, m := range messages {
				wake = matters(m.Header.Type, m.Header.Flags, m.Data) || wake
			}
			if !wake {
				continue
			}
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	}()
}

// serve handles changes, and reads what no message reports.
func (w *watcher) serve(ctx context.Context) error {
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	wake, rested, refresh := w.wake, time.NewTimer(0), time.NewTimer(0)
	defer rested.Stop()
	defer refresh.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.failed:
			return err
		case <-rested.C:
			wake = w.wake
		case <-wake:
			// at once, then not again for a while
			if err := w.renew(); err != nil {
				return err
			}
			wake = nil
			rested.Reset(renewPause)
			if in, due := w.seen.refreshIn(); due {
				refresh.Reset(in)
			}
		case <-refresh.C:
			w.busy.Lock()
			w.reportIfChanged(w.seen.refresh())
			w.busy.Unlock()
		case <-look.C:
			w.busy.Lock()
			w.rereadRoutes()
			w.useNeighbours()
			w.busy.Unlock()
		}
	}
}

func (w *watcher) renew() error {
	w.busy.Lock()
	defer w.busy.Unlock()
	err := w.reportRouting(w.seen.routing())
	if w.linked.Swap(false) {
		w.setDevices()
	}
	return err
}

// reportRouting invalidates the plane's next hops, and reports on which fields routes depend.
func (w *watcher) reportRouting(routing datapath.Routing, why string) error {
	routing = w.withSegments(routing)
	w.reported = routing
	if left := w.seen.segmentsLeft(); left != w.left {
		if w.left = left; left != "" {
			w.log.Info("the stack has all routes with segments", "why", left)
		} else {
			w.log.Info("programs have routes with segments again")
		}
	}
	if why != w.why {
		w.why = why
		w.explain(why)
	}
	return w.plane.Renew(routing)
}

// withSegments has the plane know the behaviours of routes, if programs can; it may
// have no room for them.
func (w *watcher) withSegments(routing datapath.Routing) datapath.Routing {
	if !routing.Segments {
		return routing
	}
	list, number := w.seen.segmentRoutes()
	if number != w.segments && number != w.refused {
		if err := w.plane.SetSegments(list); err != nil {
			w.log.Warn("the stack encapsulates and treats segments: programs cannot know all routes that do", "error", err)
			w.refused = number
		} else {
			w.segments = number
		}
	}
	routing.Segments = number != w.refused
	return routing
}

// rereadRoutes reads the routes again, because messages may not have reported all changes.
func (w *watcher) rereadRoutes() {
	err := w.seen.read()
	w.setDevices()
	w.reportIfChanged(err)
}

// reportIfChanged reports what was read again, if it makes a difference.
func (w *watcher) reportIfChanged(err error) {
	if err != nil {
		w.log.Warn("the stack forwards all: the kernel's routes are not understood", "error", err)
	}
	routing, why := w.seen.routing()
	if before := w.segments; w.withSegments(routing) == w.reported && before == w.segments && why == w.why {
		return
	}
	w.log.Debug("routes depend on something else now", "key", uint32(routing.Key), "mtu", routing.MTU, "why", why)
	if err := w.reportRouting(routing, why); err != nil {
		w.log.Warn("the data plane does not know of changed routes", "error", err)
	}
}

func (w *watcher) setDevices() {
	indexes, err := SendingDevices()
	if err == nil {
		err = w.plane.SetDevices(w.seen.sending(indexes))
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != w.deviceFault && err != nil {
		w.log.Warn("which devices can send is not known", "error", err)
	}
	w.deviceFault = text
}
