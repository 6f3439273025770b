// SPDX-License-Identifier: Apache-2.0

// Package coverage remembers when an interface at which packets of measured flows may
// pass was not counted, or not from one program without a break. Counters of a block are
// complete only if no such time overlaps it (RFC 9341 §5: all packets of the block are
// counted).
package coverage

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
)

// Ways are the directions in which an interface's packets would have been counted.
type Ways uint8

// The ways.
const (
	Arrivals   Ways = 1 << iota // of flows with the direction in or transit
	Departures                  // of flows with the direction out
	Both       = Arrivals | Departures
)

// Gap is a time in which an interface was not counted.
type Gap struct {
	Interface string
	Source    string // tells gaps of one interface and reason apart that end for themselves
	Flow      string // the only flow whose packets passed there; "": any may have
	Ways      Ways
	Why       loss.Reasons
	From, To  int64 // ns of UTC; To is Open while it lasts
}

// Open is the end of a gap that has none yet.
const Open = math.MaxInt64

// overlaps reports whether a gap concerns a time, whose ends belong to it.
func (g *Gap) overlaps(from, to int64) bool { return g.From <= to && g.To >= from }

// Bounds of what is remembered.
const (
	// keep is how long a gap is remembered after its end. Blocks are read within three
	// block lengths of their beginning, and are at most an hour long.
	keep = 4 * time.Hour
	most = 1024 // of all flows
	each = 16   // of one flow, besides
)

// Log is the gaps of a node. Its methods may be called from several goroutines; those of a
// nil Log do nothing.
type Log struct {
	change   sync.Mutex // of gaps, and while onChange runs
	onChange func(since int64)

	mu    sync.Mutex
	open  []Gap            // that last: at most one of each interface, reason and source
	gaps  []Gap            // of all flows that are over, in the order in which they were added
	flows map[string][]Gap // of one flow alone, likewise
}

// New makes a log. It calls onChange at each change, with the time since which all is counted: Open
// while something is not.
func New(onChange func(since int64)) *Log { return &Log{onChange: onChange} }

// Add adds gaps that are over.
func (l *Log) Add(gaps ...Gap) {
	gaps = slices.DeleteFunc(slices.Clone(gaps), func(g Gap) bool { return g.Ways == 0 })
	if l == nil || len(gaps) == 0 {
		return
	}
	end := gaps[0].To
	for i := range gaps {
		end = max(end, gaps[i].To)
	}
	l.update(end, func() {
		for _, g := range gaps {
			switch {
			case g.Flow == "":
				l.gaps = join(l.gaps, g, most)
			default:
				if l.flows == nil {
					l.flows = make(map[string][]Gap)
				}
				l.flows[g.Flow] = join(l.flows[g.Flow], g, each)
			}
		}
	})
}

// Begin notes a gap of all flows that lasts. If it lasts already, it goes on, since the earlier
// of both times.
func (l *Log) Begin(g Gap) {
	if l == nil || g.Ways == 0 {
		return
	}
	g.To, g.Flow = Open, ""
	l.update(Open, func() {
		if i := l.lasts(g.Interface, g.Source, g.Why); i >= 0 {
			old := &l.open[i]
			old.Ways, old.From = old.Ways|g.Ways, min(old.From, g.From)
			return
		}
		l.open = append(l.open, g)
	})
}

// End ends the gap with this interface, source and reason, if it lasts.
func (l *Log) End(name, source string, why loss.Reasons, at int64) {
	if l == nil {
		return
	}
	l.update(at, func() {
		if i := l.lasts(name, source, why); i >= 0 {
			g := l.open[i]
			l.open = slices.Delete(l.open, i, i+1)
			g.To = max(at, g.From)
			l.gaps = join(l.gaps, g, most)
		}
	})
}

// KeepOpen ends all gaps with a reason but those of some interfaces.
func (l *Log) KeepOpen(names []string, why loss.Reasons, at int64) {
	for _, g := range l.Lasting() {
		if g.Why == why && !slices.Contains(names, g.Interface) {
			l.End(g.Interface, g.Source, why, at)
		}
	}
}

// lasts is where the gap is that lasts, or −1.
func (l *Log) lasts(name, source string, why loss.Reasons) int {
	return slices.IndexFunc(l.open, func(o Gap) bool { return o.Interface == name && o.Source == source && o.Why == why })
}

// same reports whether two gaps that are over differ in their times alone.
func (g *Gap) same(o *Gap) bool {
	return g.Interface == o.Interface && g.Why == o.Why && g.Ways == o.Ways
}

// join adds a gap that is over to a list, or extends the gap of the list that it continues. Where there
// is no room, the two oldest gaps become one that covers both: no time that was not counted is forgotten.
func join(list []Gap, g Gap, most int) []Gap {
	for i := range list {
		if old := &list[i]; old.same(&g) && old.overlaps(g.From, g.To) {
			old.From, old.To = min(old.From, g.From), max(old.To, g.To)
			return list
		}
	}
	list = forget(list)
	if len(list) >= most {
		a, b := &list[0], list[1]
		a.From, a.To, a.Ways, a.Why = min(a.From, b.From), max(a.To, b.To), a.Ways|b.Ways, a.Why|b.Why
		list = slices.Delete(list, 1, 2)
	}
	return append(list, g)
}

// forget removes what is old.
func forget(list []Gap) []Gap {
	horizon := time.Now().Add(-keep).UnixNano()
	return slices.DeleteFunc(list, func(o Gap) bool { return o.To < horizon })
}

// update changes the gaps, and calls onChange with the time since which there is none. onChange may ask the log.
func (l *Log) update(since int64, change func()) {
	l.change.Lock()
	defer l.change.Unlock()
	l.mu.Lock()
	change()
	horizon := time.Now().Add(-keep).UnixNano()
	maps.DeleteFunc(l.flows, func(_ string, list []Gap) bool { return list[len(list)-1].To < horizon })
	if len(l.open) > 0 {
		since = Open
	}
	l.mu.Unlock()
	if l.onChange != nil {
		l.onChange(since)
	}
}

// Within is why the counters of a flow are not complete between two times; 0: they are, as
// far as interfaces are concerned.
func (l *Log) Within(flow string, ways Ways, from, to int64) (why loss.Reasons) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range [][]Gap{l.open, l.gaps, l.flows[flow]} {
		for i := range list {
			if g := &list[i]; g.Ways&ways != 0 && g.overlaps(from, to) {
				why |= g.Why
			}
		}
	}
	return why
}

// Since are the gaps that last, or ended after a time.
func (l *Log) Since(at int64) (list []Gap) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	since := func(gaps []Gap) {
		for _, g := range gaps {
			if g.To >= at {
				list = append(list, g)
			}
		}
	}
	since(l.open)
	since(l.gaps)
	for _, gaps := range l.flows {
		since(gaps)
	}
	return list
}

// Lasting are the gaps that last.
func (l *Log) Lasting() []Gap { return l.Since(Open) }

// CompleteSince is since when, until a time, no gap of all flows was: Open, if one was then.
func (l *Log) CompleteSince(until int64) (since int64) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range [][]Gap{l.open, l.gaps} {
		for i := range list {
			switch g := &list[i]; {
			case g.overlaps(until, until):
				return Open
			case g.To < until:
				since = max(since, g.To+1)
			}
		}
	}
	return since
}
