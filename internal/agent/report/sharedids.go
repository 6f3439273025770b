// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// SharedIDs warns of node ids that recently came twice in a trace. The node that removes a trace is
// the only one that sees all of its nodes.
type SharedIDs struct {
	service.Idle
	d      Dependencies
	mu     sync.Mutex
	seen   map[nodeName]*sharedID
	logged map[nodeName]bool // only for the goroutine that notes
}

// nodeName is an id of a node, of 24 bits or, in a trace without those, of 56.
type nodeName struct {
	id   uint64
	wide bool
}

type sharedID struct {
	total     uint64
	hopLimits [2]uint8 // of the last trace, in path order; 0 if the trace has none
	recent    service.Samples
}

// mostShared bounds the ids that are remembered: outsiders may write any.
const mostShared = 64

// NewSharedIDs makes the service, which the reader tells of traces.
func NewSharedIDs(d Dependencies) *SharedIDs {
	return &SharedIDs{d: d, seen: make(map[nodeName]*sharedID)}
}

// nameOf is the id that a node wrote, if it wrote one that is known.
func nameOf(d ioam.NodeData) (nodeName, bool) {
	if id, ok := d.NodeID(); ok {
		return nodeName{id: uint64(id)}, id != ioam.NodeIDUnavailable
	}
	id, ok := d.NodeIDWide()
	return nodeName{uint64(id), true}, ok && id != ioam.NodeIDWideUnavailable
}

// checkTrace looks for nodes of a trace with the same ID. Copies pass nodes twice: there and back.
func (x *SharedIDs) checkTrace(t *record.Trace) {
	if t.Copy || t.Loopback {
		return
	}
	for i, one := range t.Raw {
		name, ok := nameOf(one)
		if !ok {
			continue
		}
		for _, other := range t.Raw[:i] {
			if before, ok := nameOf(other); ok && before == name {
				x.add(name, other, one)
				return // one warning for a trace
			}
		}
	}
}

func (x *SharedIDs) add(name nodeName, first, second ioam.NodeData) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.seen[name]
	if s == nil {
		if len(x.seen) == mostShared {
			return
		}
		s = &sharedID{}
		s.recent.Add(time.Now(), 0)
		x.seen[name] = s
	}
	s.total++
	s.hopLimits[0], _ = first.HopLimit()
	s.hopLimits[1], _ = second.HopLimit()
}

func (x *SharedIDs) Run(ctx context.Context) error {
	x.d.Tasks.Every(ctx, service.SamplePeriod, func() {
		x.sample()
		x.logBegin()
	})
	return nil
}

// sample notes the counters, and forgets ids that have not come twice for a minute.
func (x *SharedIDs) sample() {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	for name, s := range x.seen {
		if s.recent.Add(now, s.total); s.recent.Full() && s.recent.Growth(s.total) == 0 {
			delete(x.seen, name)
		}
	}
}

func (x *SharedIDs) list() map[nodeName][]health.Warning {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make(map[nodeName][]health.Warning)
	for name, s := range x.seen {
		if ws := health.SharedNodeID(name.id, s.recent.Growth(s.total), s.hopLimits); len(ws) > 0 {
			out[name] = ws
		}
	}
	return out
}

func (x *SharedIDs) Warnings(*service.State) (ws []health.Warning) {
	for _, of := range x.list() {
		ws = append(ws, of...)
	}
	return ws
}

// logBegin logs when an id begins to come twice, because no reload does.
func (x *SharedIDs) logBegin() {
	now := make(map[nodeName]bool)
	for name, ws := range x.list() {
		if now[name] = true; !x.logged[name] {
			service.LogWarning(x.d.Log, ws[0])
		}
	}
	x.logged = now
}
