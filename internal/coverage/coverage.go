// SPDX-License-Identifier: Apache-2.0

// Package coverage remembers when an interface at which packets of measured flows may
// pass was not counted, or not from one program without a break. Counters of a block are
// complete only if no such time overlaps it (RFC 9341 §5: all packets of the block are
// counted).
package coverage

import (
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
	most = 1024
)

// Log is the gaps of a node. Its methods may be called from several goroutines; those of a
// nil Log do nothing.
type Log struct {
	change sync.Mutex // of gaps, and while others are told
	tell   func(since int64)

	mu   sync.Mutex
	gaps []Gap // in the order in which they were noted
}

// New makes a log. With each change, it tells since when all is counted: Open while
// something is not.
func New(tell func(since int64)) *Log { return &Log{tell: tell} }

// Note notes a gap that is over.
func (l *Log) Note(g Gap) {
	if l == nil || g.Ways == 0 {
		return
	}
	l.update(g.To, func() {
		for i := range l.gaps {
			if old := &l.gaps[i]; old.same(&g) && old.To != Open && old.overlaps(g.From, g.To) {
				old.From, old.To = min(old.From, g.From), max(old.To, g.To)
				return
			}
		}
		l.add(g)
	})
}

// Begin notes a gap that lasts. If it lasts already, it goes on.
func (l *Log) Begin(g Gap) {
	if l == nil || g.Ways == 0 {
		return
	}
	g.To = Open
	l.update(Open, func() {
		if i := l.open(&g); i >= 0 {
			l.gaps[i].Ways |= g.Ways
			return
		}
		l.add(g)
	})
}

// End ends a gap with this interface and reason, if it lasts.
func (l *Log) End(name string, why loss.Reasons, at int64) {
	if l == nil {
		return
	}
	l.update(at, func() {
		if i := l.open(&Gap{Interface: name, Why: why}); i >= 0 {
			l.gaps[i].To = max(at, l.gaps[i].From)
		}
	})
}

// KeepOpen ends all gaps with a reason but those of some interfaces.
func (l *Log) KeepOpen(names []string, why loss.Reasons, at int64) {
	for _, g := range l.Lasting() {
		if g.Why == why && !slices.Contains(names, g.Interface) {
			l.End(g.Interface, why, at)
		}
	}
}

// same reports whether two gaps differ in their times alone.
func (g *Gap) same(o *Gap) bool {
	return g.Interface == o.Interface && g.Flow == o.Flow && g.Why == o.Why && g.Ways == o.Ways
}

// open is where the gap is that lasts, or −1.
func (l *Log) open(g *Gap) int {
	return slices.IndexFunc(l.gaps, func(o Gap) bool {
		return o.To == Open && o.Interface == g.Interface && o.Flow == g.Flow && o.Why == g.Why
	})
}

// add adds a gap, and forgets old ones. Where there is no room, the two oldest become one
// of both times and all flows: what is not complete stays so.
func (l *Log) add(g Gap) {
	horizon := time.Now().Add(-keep).UnixNano()
	l.gaps = slices.DeleteFunc(l.gaps, func(o Gap) bool { return o.To < horizon })
	if len(l.gaps) >= most {
		a, b := &l.gaps[0], l.gaps[1]
		a.From, a.To, a.Ways, a.Why, a.Flow = min(a.From, b.From), max(a.To, b.To), a.Ways|b.Ways, a.Why|b.Why, ""
		l.gaps = slices.Delete(l.gaps, 1, 2)
	}
	l.gaps = append(l.gaps, g)
}

// update changes the gaps, and tells since when there is none. Who is told may ask the log.
func (l *Log) update(since int64, change func()) {
	l.change.Lock()
	defer l.change.Unlock()
	l.mu.Lock()
	change()
	if slices.ContainsFunc(l.gaps, func(g Gap) bool { return g.To == Open }) {
		since = Open
	}
	l.mu.Unlock()
	if l.tell != nil {
		l.tell(since)
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
	for i := range l.gaps {
		if g := &l.gaps[i]; g.Ways&ways != 0 && (g.Flow == "" || g.Flow == flow) && g.overlaps(from, to) {
			why |= g.Why
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
	for _, g := range l.gaps {
		if g.To >= at {
			list = append(list, g)
		}
	}
	return list
}

// Lasting are the gaps that last.
func (l *Log) Lasting() []Gap { return l.Since(Open) }
