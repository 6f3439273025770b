// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/ioam"
)

// State is what is known of a destination.
type State struct {
	Destination
	Answered     int  // flows
	Lost         int  // flows of which answers vanished
	EverAnswered bool // a probe was answered
	Flows        int
	Sent         uint64
	Unanswered   uint64   // probes, since the beginning
	LastMinute   Recently // probes of which that is known
	Windows      []Recently
	Paths        []Path
	Places       []Place
	NodeError    string // what a node said last, if flows are not answered
}

// Recently is how many probes of a time were lost.
type Recently struct{ Finished, Lost uint64 }

// Path is a path with what is known of it.
type Path struct {
	Key      string // tells it apart from others of the destination
	Named    string // the same with names, for people
	Hops     []Hop
	Flows    int // that take it now
	Received uint64
	Lost     uint64
	Overflow bool // the trace had no room for all nodes
	Trips    metrics.Histogram
}

// Hop is a node of a path.
type Hop struct {
	ID              *ioam.NodeID
	Name            string // "": not known
	Ingress, Egress *ioam.InterfaceID
	Address         netip.Addr // that replied when a hop limit ended there, or the destination's
	Silent          bool       // nothing in the trace
}

// Place is where probes of some flows vanish.
type Place struct {
	After, Before string
	AfterHop      int
	Evidence      Evidence
	Error         string
	Refused       bool
	Never         bool // they were never answered
	Flows         int
	Since         time.Time
	Path          string
}

// States are those of all destinations, in the order of the configuration.
func (m *Monitor) States() []State {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	list := make([]State, 0, len(m.destinations))
	for _, d := range m.destinations {
		list = append(list, m.state(d, now))
	}
	return list
}

func (m *Monitor) state(d *destination, now time.Duration) State {
	s := State{Destination: d.Destination, EverAnswered: d.everAnswered, Flows: len(d.flows), Sent: d.sent, Unanswered: d.lost}
	for i := range d.flows {
		f := &d.flows[i]
		switch n, _ := f.overdue(); {
		case f.place != nil && f.place.reported:
			s.Lost++
		case f.path != nil && n < vanished:
			s.Answered++
		}
	}
	settled, lost := d.windows.last(now, int(time.Minute/windowSpan))
	s.LastMinute = Recently{settled, lost}
	for i := windowCount - 1; i >= 0; i-- {
		one := &d.windows.list[(d.windows.at-int64(i)+windowCount*1000)%windowCount]
		s.Windows = append(s.Windows, Recently{uint64(one.settled), uint64(one.lost)})
	}
	for _, p := range d.paths {
		s.Paths = append(s.Paths, m.pathReport(d, p))
	}
	slices.SortStableFunc(s.Paths, func(a, b Path) int { return cmp.Compare(b.Flows, a.Flows) })
	for _, one := range d.places {
		if one.reported && one.flows > 0 {
			s.Places = append(s.Places, Place{
				After: one.texts[0], Before: one.texts[1], AfterHop: one.after, Evidence: one.evidence, Error: one.lastError.text,
				Refused: one.refused, Never: one.neverAnswered,
				Flows: one.flows, Since: m.at(one.since), Path: one.path.nodes(),
			})
		}
	}
	if s.Answered < s.Flows {
		s.NodeError = d.lastError.text
	}
	return s
}

func (m *Monitor) pathReport(d *destination, p *path) Path {
	out := Path{
		Key: p.key, Named: m.named(d, p), Flows: p.flows, Received: p.received, Lost: p.lost, Overflow: p.overflow,
		Trips: p.trips.Histogram(),
	}
	for i, h := range p.hops {
		one := Hop{Name: m.nameOf(&h), Silent: h.silent, Address: p.shown[i].address}
		if i == len(p.hops)-1 {
			one.Address = d.Address
		}
		if h.id != ioam.NodeIDUnavailable {
			one.ID = &h.id
		}
		if !h.silent && h.ingress != ioam.InterfaceIDUnavailable {
			one.Ingress = &h.ingress
		}
		if !h.silent && h.egress != ioam.InterfaceIDUnavailable {
			one.Egress = &h.egress
		}
		out.Hops = append(out.Hops, one)
	}
	return out
}

// Counts are what happened until now.
func (m *Monitor) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}

// Quantile is a value that a share of the round trips do not exceed, 0 if there are none. It is
// the upper bound of an exponential bucket, so it is too great by 4.4% at most.
func Quantile(h metrics.Histogram, share float64) time.Duration {
	e, total := h.Native, Count(h)
	if total == 0 {
		return 0
	}
	rank, n := uint64(math.Ceil(share*float64(total))), e.Zero
	if n >= rank {
		return 0
	}
	for _, b := range e.Buckets {
		if n += b.Count; n >= rank {
			return time.Duration(math.Exp2(math.Ldexp(float64(b.Index+1), -e.Scale)) * float64(time.Second))
		}
	}
	return 0
}

// Count is how many round trips a histogram has.
func Count(h metrics.Histogram) (n uint64) {
	if h.Native == nil {
		return 0
	}
	n = h.Native.Zero
	for _, b := range h.Native.Buckets {
		n += b.Count
	}
	return n
}

// Merge adds up the exponential buckets of two histograms, at the smaller scale of both.
func Merge(a, b metrics.Histogram) metrics.Histogram {
	if a.Native == nil || b.Native == nil {
		if a.Native == nil {
			return b
		}
		return a
	}
	out := a.Native.Sound()
	out.Add(b.Native.Sound())
	return metrics.Histogram{Sum: a.Sum + b.Sum, Native: out}
}
