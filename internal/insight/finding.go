// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/record"
)

// Finding is what an engine found in what was seen: something began, ended, or happened. What the fields
// mean for an event is in the reference of events.
type Finding struct {
	Event       string // name, as package record has it
	Ends        string // of record.EventNotSeen: the event that began
	At, Since   time.Time
	Source      string // prefix, or its name
	Destination string
	FlowSegment       // of a measured flow, whose points are Place and Next
	Place       Place // the node; of a segment, with the interface of departure alone
	Next        Place // the next node, with the interface of arrival alone; that after a silent node
	Before      Place // the node before a silent one
	From, To    []Place

	HeldIncluded bool
	P95, Usual   int64
	NewUsual     bool  // it ended because what was slow is usual now
	Worst        int64 // of what ended, the greatest 95th percentile meanwhile
	Packets      uint64
	Flows        int
	Loss         Loss // of what ended: Lost since it began
	began        Loss // of what ended, when it began
	Moved        float64
	P99Change    *int64
}

// watches find what happened. They look at the open interval about every second, and at each one that ended.
type watches struct {
	slow   slowness
	losses losses
	silent silence
	found  []Finding
}

// mostFindings is how many findings are kept until they are taken.
const mostFindings = 4096

func (w *watches) add(f Finding) {
	if len(w.found) < mostFindings {
		w.found = append(w.found, f)
	}
}

// Judge looks at what was seen since it did so last, and gives what was found. The caller calls it about
// every second.
func (e *Engine) Judge(now time.Time) []Finding {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.After(e.began) {
		e.lookSlow(now)
		e.lookLosses(now)
		for _, p := range e.pairs {
			e.lookMoves(p, now)
			e.lookSilent(p, now)
		}
	}
	list := e.watches.found
	e.watches.found = nil
	return list
}

// judge looks at an interval that ended.
func (e *Engine) judge(v *Interval, end time.Time) {
	e.closeSlow(v, end)
	e.closeLosses(v, end)
	e.closeSilent(v, end)
	for _, p := range e.pairs {
		p.known.close(&p.Pair)
	}
}

// setBack is called when the clock is set back to a time. What began later than that began now: it would last less
// than nothing, and end only when its time comes again.
func (w *watches) setBack(now time.Time) {
	w.slow.anew()
	for _, one := range w.slow.suspects {
		one.since = earlier(one.since, now)
	}
	for _, one := range w.slow.begun {
		one.At = earlier(one.At, now)
	}
	for _, one := range w.losses.begun {
		one.At = earlier(one.At, now)
	}
	for _, one := range w.silent.begun {
		one.At = earlier(one.At, now)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

// unseenIntervals is how many intervals something that began may stay unseen.
const unseenIntervals = 6

// segmentPlaces are the ends of a segment: the interface by which packets leave a node, and that of the next
// node by which they arrive.
func segmentPlaces(hops []Hop, i int) (place, next Place) {
	place = hops[i].Place
	place.IngressID = 0
	if i+1 < len(hops) {
		next = hops[i+1].Place
		next.EgressID = 0
	}
	return place, next
}

// endOf makes the finding that ends another one.
func endOf(began Finding, event string, at time.Time) Finding {
	f := began
	f.Event, f.At, f.Since, f.Ends, f.began = event, at, began.At, "", began.Loss
	if event == record.EventNotSeen {
		f.Ends = began.Event
	}
	return f
}

// Name adds the names of nodes and interfaces, as far as they are known.
func (f *Finding) Name(names *nodenames.Names) {
	for _, p := range []*Place{&f.Place, &f.Next, &f.Before} {
		p.name(names)
	}
	for _, list := range []*[]Place{&f.From, &f.To} {
		*list = slices.Clone(*list) // it may be the engine's own
		for i := range *list {
			(*list)[i].name(names)
		}
	}
}

// Subject tells what findings are about by ids alone, because names may become known meanwhile.
func (f *Finding) Subject() string {
	switch {
	case f.FlowSegment.To > 0:
		return fmt.Sprintf("%s > %s, flow %s: %d > %d", f.Source, f.Destination, f.flow(), f.FlowSegment.To-1, f.FlowSegment.To)
	case f.Event == record.EventPathsMoved || f.Place == (Place{}):
		return f.Source + " > " + f.Destination
	case f.Next != (Place{}) && f.Before == (Place{}):
		return f.Place.key() + " > " + f.Next.key()
	}
	return f.Place.key()
}

// key is a place by the ids that are in packets, or by the name if there is no id.
func (p *Place) key() string {
	text := p.Node
	if p.NodeID != 0 {
		text = strconv.FormatUint(p.NodeID, 10)
	}
	if p.Wide {
		text = "wide " + text
	}
	if p.IngressID != 0 || p.EgressID != 0 {
		text += fmt.Sprintf(" %d>%d", p.IngressID, p.EgressID)
	}
	return text
}

// String is a place as people read it: the node, and the interfaces that are known.
func (p *Place) String() string {
	node := p.Node
	switch {
	case node == "" && p.NodeID != 0:
		node = fmt.Sprintf("node %d", p.NodeID)
	case node == "":
		node = "a node"
	}
	link := func(name string, id uint64) string {
		if name == "" && id != 0 {
			return strconv.FormatUint(id, 10)
		}
		return name
	}
	in, out := link(p.IngressName, p.IngressID), link(p.EgressName, p.EgressID)
	switch {
	case in != "" && out != "":
		return node + " " + in + ">" + out
	case in+out != "":
		return node + " " + in + out
	}
	return node
}
