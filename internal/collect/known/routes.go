// SPDX-License-Identifier: Apache-2.0

package known

import (
	"container/list"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Bounds of what is remembered of the ways of packets.
const (
	maxFlows  = 1 << 14
	maxSteps  = 1 << 14
	maxAfter  = 64 // exporters after one
	maxRoutes = 2  // of a flow, the latest
)

// learnAgain is how soon another packet of a flow that took the same way is looked at.
const learnAgain = 50 * time.Millisecond

// delayWindow is how long the least and greatest delays hold, at least.
const delayWindow = time.Minute

// Stop is a node of a path.
type Stop struct {
	Exporter join.Exporter
	Role     record.NodeRole
	Time     time.Time // when it saw the packet, by its clock; zero: not known
}

// FlowKey is a flow of a namespace.
type FlowKey struct {
	Namespace ioam.NamespaceID
	FlowID    uint32
	Source    [16]byte
}

// Routes is which exporters were seen after which, by flow and in the namespace.
type Routes struct {
	flows map[FlowKey]*flowRoutes
	order *list.List // of flows, the latest seen first
	after map[place][]join.Exporter
	steps map[step]*delays
}

type place struct {
	namespace ioam.NamespaceID
	exporter  join.Exporter
}

type step struct {
	place
	to join.Exporter
}

// flowRoutes are the latest ways of a flow.
type flowRoutes struct {
	key     FlowKey
	routes  [][]join.Exporter // the latest first
	learned time.Time
	place   *list.Element
}

// delays are the differences of two exporters' times for a packet: travel and clocks.
type delays struct {
	least, most       time.Duration // of this window and the one before
	newLeast, newMost time.Duration
	began             time.Time
	seen              time.Time // of the latest packet, by the clock of the second exporter
	next              bool      // no exporter was between them
	end               bool      // the second one was the decapsulating node
}

// NewRoutes makes Routes without any.
func NewRoutes() *Routes {
	return &Routes{map[FlowKey]*flowRoutes{}, list.New(), map[place][]join.Exporter{}, map[step]*delays{}}
}

// Learn takes the nodes of a path, in its order.
func (r *Routes) Learn(key FlowKey, stops []Stop, now time.Time) {
	f := r.flows[key]
	if f == nil {
		f = &flowRoutes{key: key}
		f.place = r.order.PushFront(f)
		r.flows[key] = f
		if r.order.Len() > maxFlows {
			oldest := r.order.Back().Value.(*flowRoutes)
			r.order.Remove(oldest.place)
			delete(r.flows, oldest.key)
		}
	} else {
		r.order.MoveToFront(f.place)
	}
	latest := len(f.routes) > 0 && slices.EqualFunc(f.routes[0], stops, func(e join.Exporter, s Stop) bool { return e == s.Exporter })
	if latest && now.Sub(f.learned) < learnAgain {
		return
	}
	if f.learned = now; !latest && stops[len(stops)-1].Role == record.Decapsulating {
		route := make([]join.Exporter, len(stops))
		for i := range stops {
			route[i] = stops[i].Exporter
		}
		f.routes = append([][]join.Exporter{route}, f.routes[:min(len(f.routes), maxRoutes-1)]...)
	}
	for i := range stops {
		for k := i + 1; k < len(stops); k++ {
			if stops[k].Exporter != stops[i].Exporter && !stops[i].Time.IsZero() && !stops[k].Time.IsZero() {
				r.learn(step{place{key.Namespace, stops[i].Exporter}, stops[k].Exporter}, stops[i].Time, &stops[k], k == i+1, now)
			}
		}
	}
}

func (r *Routes) learn(s step, from time.Time, to *Stop, next bool, now time.Time) {
	took := to.Time.Sub(from)
	d := r.steps[s]
	if d == nil {
		if len(r.steps) >= maxSteps || len(r.after[s.place]) >= maxAfter {
			return
		}
		d = &delays{least: took, most: took, newLeast: took, newMost: took, began: now}
		r.steps[s] = d
		r.after[s.place] = append(r.after[s.place], s.to)
	}
	if now.Sub(d.began) > delayWindow {
		d.least, d.most, d.newLeast, d.newMost, d.began = d.newLeast, d.newMost, took, took, now
	}
	d.newLeast, d.newMost = min(d.newLeast, took), max(d.newMost, took)
	d.least, d.most = min(d.least, took), max(d.most, took)
	d.seen, d.next, d.end = to.Time, d.next || next, d.end || to.Role == record.Decapsulating
}

// Expected is an exporter that was seen after another one.
type Expected struct {
	Exporter    join.Exporter
	Least, Most time.Duration // by which its time differed
	Seen        time.Time     // of the latest packet, by its clock
	Next, End   bool          // no exporter was between; it was the decapsulating node
}

// After are the exporters that were seen after one: on the latest ways of the flow or,
// if these do not have it, in the namespace.
func (r *Routes) After(key FlowKey, last join.Exporter) (all []Expected) {
	at := place{key.Namespace, last}
	if f := r.flows[key]; f != nil {
		for _, route := range f.routes {
			i := slices.Index(route, last)
			if i < 0 {
				continue
			}
			for n, e := range route[i+1:] {
				all = r.expect(all, step{at, e}, n == 0)
			}
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, e := range r.after[at] {
		if d := r.steps[step{at, e}]; d != nil {
			all = r.expect(all, step{at, e}, d.next)
		}
	}
	return all
}

func (r *Routes) expect(all []Expected, s step, next bool) []Expected {
	d := r.steps[s]
	if d == nil || slices.ContainsFunc(all, func(e Expected) bool { return e.Exporter == s.to }) {
		return all
	}
	return append(all, Expected{s.to, d.least, d.most, d.seen, next, d.end})
}
