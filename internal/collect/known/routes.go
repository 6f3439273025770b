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
	maxAfter  = 64  // exporters after one
	maxRoutes = 32  // of a flow, the latest
	maxStops  = 128 // on all routes of a flow
)

// routeAge is for how long a way is remembered that no packet of the flow took again.
const routeAge = time.Hour

// learnAgain is how soon another packet of a flow that took the same way is looked at.
const learnAgain = 50 * time.Millisecond

// delayWindow is how long the least and greatest delays hold, at least.
const delayWindow = time.Minute

// Stop is a node of a path.
type Stop struct {
	Exporter join.Exporter
	Role     record.NodeRole
	Time     time.Time // when it saw the packet, by its clock; zero: not known
	HopLimit uint8     // that the packet had; 0: not known
}

// silent is how many nodes between two stops reported nothing, as far as hop limits say.
func silent(from, to *Stop) int {
	if from.HopLimit == 0 || to.HopLimit == 0 {
		return 0
	}
	return max(0, int(from.HopLimit)-int(to.HopLimit)-1)
}

// FlowKey is a flow of a namespace.
type FlowKey struct {
	Namespace ioam.NamespaceID
	FlowID    uint32
	Source    [16]byte
}

// Routes is which exporters were seen after which, by flow and in the namespace.
type Routes struct {
	flows      map[FlowKey]*flowRoutes
	order      *list.List // of flows, the latest seen first
	lastForgot time.Time  // when there were too many flows for the last time
	now        time.Time  // of the last path
	after      map[place][]join.Exporter
	steps      map[step]*delays
	full       bool           // there were too many steps
	crowded    map[place]bool // places with too many exporters after them
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
	key        FlowKey
	routes     []route   // the latest first
	lastForgot time.Time // when there were too many ways, or the flow had been forgotten; zero: never
	learned    time.Time
	place      *list.Element
}

// route is the nodes of a way, and when a packet took it for the last time.
type route struct {
	stops     []join.Exporter
	lastTaken time.Time
}

func (r *route) equals(stops []Stop) bool {
	return slices.EqualFunc(r.stops, stops, func(e join.Exporter, s Stop) bool { return e == s.Exporter })
}

// delays are the differences of two exporters' times for a packet: travel and clocks.
type delays struct {
	least, most       time.Duration // of this window and the one before
	newLeast, newMost time.Duration
	began             time.Time
	seen              time.Time // of the latest packet, by the clock of the second exporter
	next              bool      // no exporter was between them
	silent            int       // the most nodes between them that reported nothing
	end               bool      // the second one was the decapsulating node
}

// NewRoutes makes Routes without any.
func NewRoutes() *Routes {
	return &Routes{
		flows:   map[FlowKey]*flowRoutes{},
		order:   list.New(),
		after:   map[place][]join.Exporter{},
		steps:   map[step]*delays{},
		crowded: map[place]bool{},
	}
}

// Learn takes the nodes of a path, in its order.
func (r *Routes) Learn(key FlowKey, stops []Stop, now time.Time) {
	f := r.flows[key]
	r.now = now
	if f == nil {
		f = &flowRoutes{key: key, lastForgot: r.lastForgot}
		f.place = r.order.PushFront(f)
		r.flows[key] = f
		if r.order.Len() > maxFlows {
			oldest := r.order.Back().Value.(*flowRoutes)
			r.order.Remove(oldest.place)
			delete(r.flows, oldest.key)
			r.lastForgot = now
		}
	} else {
		r.order.MoveToFront(f.place)
	}
	if len(f.routes) > 0 && f.routes[0].equals(stops) && now.Sub(f.learned) < learnAgain {
		return
	}
	if f.learned = now; stops[len(stops)-1].Role == record.Decapsulating {
		f.recordRoute(stops, now)
	}
	for i := range stops {
		for k := i + 1; k < len(stops); k++ {
			if stops[k].Exporter != stops[i].Exporter && !stops[i].Time.IsZero() && !stops[k].Time.IsZero() {
				r.learn(step{place{key.Namespace, stops[i].Exporter}, stops[k].Exporter}, &stops[i], &stops[k], k == i+1, now)
			}
		}
	}
}

// recordRoute records that a packet took a way. It forgets ways that no packet took for long. If
// there are too many, it forgets the one that was not taken for the longest time.
func (f *flowRoutes) recordRoute(stops []Stop, now time.Time) {
	if i := slices.IndexFunc(f.routes, func(r route) bool { return r.equals(stops) }); i >= 0 {
		again := f.routes[i].stops
		copy(f.routes[1:], f.routes[:i])
		f.routes[0] = route{again, now}
	} else {
		latest := route{make([]join.Exporter, len(stops)), now}
		for i := range stops {
			latest.stops[i] = stops[i].Exporter
		}
		f.routes = slices.Insert(f.routes, 0, latest)
	}
	n := 0
	for i, r := range f.routes {
		if n += len(r.stops); now.Sub(r.lastTaken) > routeAge {
			f.routes = slices.Delete(f.routes, i, len(f.routes))
			return
		}
		if i > 0 && (i == maxRoutes || n > maxStops) {
			f.routes, f.lastForgot = slices.Delete(f.routes, i, len(f.routes)), now
			return
		}
	}
}

func (r *Routes) learn(s step, from, to *Stop, next bool, now time.Time) {
	took := to.Time.Sub(from.Time)
	d := r.steps[s]
	if d == nil {
		switch {
		case len(r.steps) >= maxSteps:
			r.full = true
			return
		case len(r.after[s.place]) >= maxAfter:
			r.crowded[s.place] = true
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
	if next {
		d.silent = max(d.silent, silent(from, to))
	}
}

// Expected is an exporter that was seen after another one.
type Expected struct {
	Exporter    join.Exporter
	Least, Most time.Duration // by which its time differed
	Seen        time.Time     // of the latest packet, by its clock; zero: no time is known
	Next, End   bool          // no exporter was between; it was the decapsulating node
	Silent      int           // of the next one: the most nodes between that reported nothing
}

// After are the exporters that were seen after one: on the ways of the flow or, if these do
// not have it, or some were forgotten, in the namespace. It reports whether these are all.
func (r *Routes) After(key FlowKey, last join.Exporter) (list []Expected, all bool) {
	at := place{key.Namespace, last}
	if f := r.flows[key]; f != nil && (f.lastForgot.IsZero() || r.now.Sub(f.lastForgot) > routeAge) {
		for _, route := range f.routes {
			i := slices.Index(route.stops, last)
			if i < 0 {
				continue
			}
			for n, e := range route.stops[i+1:] {
				list = r.expect(list, step{at, e}, n == 0)
			}
		}
	}
	if len(list) > 0 {
		return list, true
	}
	for _, e := range r.after[at] {
		if d := r.steps[step{at, e}]; d != nil {
			list = r.expect(list, step{at, e}, d.next)
		}
	}
	return list, !r.full && !r.crowded[at]
}

func (r *Routes) expect(list []Expected, s step, next bool) []Expected {
	if s.to == s.exporter || slices.ContainsFunc(list, func(e Expected) bool { return e.Exporter == s.to }) {
		return list
	}
	d := r.steps[s]
	if d == nil {
		return append(list, Expected{Exporter: s.to, Next: next})
	}
	return append(list, Expected{s.to, d.least, d.most, d.seen, next, d.end, d.silent})
}
