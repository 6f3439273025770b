// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"time"

	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/record"
)

// slowness finds nodes and segments that are slower than usual, as isSlow says. One interval alone is no
// event: its 95th percentile stays high after a single hiccup. It takes three looks in a row, each at values
// that are new, or two intervals.
type slowness struct {
	suspects map[suspectKey]*suspect
	begun    map[slowKey]*slowSince
}

// Bounds: a suspect has a histogram.
const (
	mostSuspects = 256
	slowLooks    = 3
	slowClosed   = 2
)

// suspectKey is a hop of a path, and which of its two times.
type suspectKey struct {
	hopKey
	held bool
}

// slowKey is what an event is about: a segment, or a node with its interfaces. Several paths have it.
type slowKey struct {
	place, next Place
	held        bool
}

type suspect struct {
	seen   exponential.Delays // of the open interval, at the last look
	looks  int                // slow ones in a row
	closed int                // slow intervals in a row
	since  time.Time
}

type slowSince struct {
	Finding
	slow, quiet bool // seen in the interval that ends
	p95, usual  int64
	worst       int64 // the greatest 95th percentile of a look or an interval
	unseen      int
}

func (w *watches) slowKeyOf(p *Path, i int, held bool) slowKey {
	if held {
		return slowKey{place: p.Hops[i].Place, held: true}
	}
	place, next := segmentPlaces(p.Hops, i)
	return slowKey{place, next, false}
}

// measured are the two times of a hop, with what is usual and by how much clocks may be wrong. Those of a
// segment are left out where it is not known how much that is.
func (h *Hop) measured(b *Baseline, clock int64, fn func(d *exponential.Delays, usual, clock int64, held bool)) {
	if b == nil {
		return
	}
	if b.Held != nil && h.Held.Count() >= leastPackets {
		fn(&h.Held, *b.Held, 0, true)
	}
	if b.ToNext != nil && h.ToNext.Count() >= leastPackets && clock >= 0 {
		fn(&h.ToNext, *b.ToNext, clock, false)
	}
}

// lookSlow looks at the open interval.
func (e *Engine) lookSlow(now time.Time) {
	s := &e.watches.slow
	for _, p := range e.pairs {
		for _, path := range p.Paths {
			for i := range path.Hops {
				h := &path.Hops[i]
				if max(h.Held.Max(), h.ToNext.Max()) < slowExcess { // as nearly all
					continue
				}
				one := e.baselines.of[hopKey{ends{p.Source, p.Destination}, path.ID, i}]
				if one == nil {
					continue
				}
				h.measured(
					e.baselines.steady(hopKey{ends{p.Source, p.Destination}, path.ID, i}, one.now()),
					e.clock,
					func(d *exponential.Delays, usual, clock int64, held bool) {
						key := suspectKey{hopKey{ends{p.Source, p.Destination}, path.ID, i}, held}
						if p95, slow := s.look(key, d, usual, clock, now); slow {
							e.beginSlow(path, i, key, p95, usual, d.Count(), now)
						}
					},
				)
			}
		}
	}
}

// look reports whether a hop was slow in enough looks, and its 95th percentile in the last one.
func (s *slowness) look(key suspectKey, d *exponential.Delays, usual, clock int64, now time.Time) (p95 int64, slow bool) {
	one := s.suspects[key]
	if p95 = d.Quantile(0.95); !isSlow(p95, usual, clock) {
		if one != nil {
			one.looks = 0
		}
		return p95, false
	}
	if one == nil {
		if len(s.suspects) >= mostSuspects {
			return p95, false
		}
		if s.suspects == nil {
			s.suspects = make(map[suspectKey]*suspect)
		}
		one = &suspect{since: now}
		s.suspects[key] = one
	}
	fresh := d.Since(&one.seen)
	if fresh.Count() < leastPackets {
		return p95, false
	}
	one.seen = d.Clone()
	if p95 = fresh.Quantile(0.95); !isSlow(p95, usual, clock) {
		one.looks = 0
		return p95, false
	}
	if one.looks++; one.looks == 1 && one.closed == 0 {
		one.since = now
	}
	return p95, one.looks >= slowLooks
}

// beginSlow notes that a place is slow, if that is new.
func (e *Engine) beginSlow(path *Path, i int, key suspectKey, p95, usual int64, packets uint64, now time.Time) {
	s := &e.watches.slow
	about := e.watches.slowKeyOf(path, i, key.held)
	if one := s.begun[about]; one != nil {
		one.worst = max(one.worst, p95)
		return
	}
	if len(s.begun) >= mostSuspects {
		return
	}
	if s.begun == nil {
		s.begun = make(map[slowKey]*slowSince)
	}
	f := Finding{
		Event: record.EventSegmentSlow, At: now, Since: s.suspects[key].since, Source: key.source, Destination: key.destination,
		Place: about.place, Next: about.next, P95: p95, Usual: usual, Packets: packets, HeldIncluded: !key.held && path.Hops[i].HeldIncluded,
	}
	if key.held {
		f.Event = record.EventHeldLong
	}
	s.begun[about] = &slowSince{Finding: f, worst: p95}
	e.watches.add(f)
}

// closeSlow looks at an interval that ended, in which the hops have what was usual.
func (e *Engine) closeSlow(v *Interval, end time.Time) {
	s := &e.watches.slow
	seen := make(map[suspectKey]bool, len(s.suspects))
	for _, p := range v.Pairs {
		for _, path := range p.Paths {
			for i := range path.Hops {
				usual := e.baselines.steady(hopKey{ends{p.Source, p.Destination}, path.ID, i}, path.Hops[i].Baseline)
				path.Hops[i].measured(usual, e.clock, func(d *exponential.Delays, usual, clock int64, held bool) {
					key := suspectKey{hopKey{ends{p.Source, p.Destination}, path.ID, i}, held}
					p95 := d.Quantile(0.95)
					slow := isSlow(p95, usual, clock)
					if begun := s.begun[e.watches.slowKeyOf(path, i, held)]; begun != nil {
						begun.addDelay(p95, usual, slow)
					}
					if slow {
						seen[key] = true
						if s.closedSlow(key, end) {
							e.beginSlow(path, i, key, p95, usual, d.Count(), end)
						}
					}
				})
			}
		}
	}
	s.anew()
	for key := range s.suspects {
		if !seen[key] {
			delete(s.suspects, key)
		}
	}
	for key, one := range s.begun {
		e.closeBegun(key, one, v, end)
	}
}

// anew is called when the histograms of the open interval are emptied.
func (s *slowness) anew() {
	for _, one := range s.suspects {
		one.seen.Reset()
	}
}

// closedSlow counts an interval that was slow, and reports whether these are enough.
func (s *slowness) closedSlow(key suspectKey, end time.Time) bool {
	one := s.suspects[key]
	if one == nil {
		if len(s.suspects) >= mostSuspects {
			return false
		}
		if s.suspects == nil {
			s.suspects = make(map[suspectKey]*suspect)
		}
		one = &suspect{since: end}
		s.suspects[key] = one
	}
	one.closed++
	return one.closed >= slowClosed
}

func (s *slowSince) addDelay(p95, usual int64, slow bool) {
	switch {
	case slow:
		s.slow, s.worst = true, max(s.worst, p95)
	case !s.quiet || p95 > s.p95:
		s.quiet, s.p95, s.usual = true, p95, usual
	}
}

// closeBegun ends what was not slow in the whole interval, or was not seen for a minute.
func (e *Engine) closeBegun(key slowKey, one *slowSince, v *Interval, end time.Time) {
	slow, quiet := one.slow, one.quiet
	one.slow, one.quiet = false, false
	switch {
	case slow:
		one.unseen = 0
		return
	case quiet && v.Start.Before(one.At):
		return // it was slow in a part of it
	case !quiet:
		if one.unseen++; one.unseen < unseenIntervals {
			return
		}
		e.watches.add(endOf(one.Finding, record.EventNotSeen, end))
	default:
		f := endOf(one.Finding, record.EventSegmentUsual, end)
		if key.held {
			f.Event = record.EventHeldUsual
		}
		f.NewUsual = isSlow(one.p95, one.Usual, 0)
		f.P95, f.Usual, f.Worst = one.p95, one.usual, one.worst
		e.watches.add(f)
	}
	delete(e.watches.slow.begun, key)
}
