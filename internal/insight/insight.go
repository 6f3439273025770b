// SPDX-License-Identifier: Apache-2.0

// Package insight makes rollups of records: which ways the traffic between prefixes went in each
// interval, how long each hop held it, how long it took to the next, and where it was lost. It keeps
// them for an hour, knows what is usual at each hop, and says what differs. It knows neither agents nor
// collectors, and reads no clock: its caller says when a record came.
package insight

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// Bounds of the open interval. Together they are at most 18 MiB: mostHops with a histogram of each kind
// over all delays that are taken (8 octets for each of 580 buckets).
const (
	mostPairs    = 128
	mostPaths    = 16  // of a pair; further ones share an entry
	mostMeasured = 256 // measured flows of a pair; of further ones, nothing is known
	// mostMeasuredHops bounds the points of all measured flows, and the flows. They do not count among
	// mostHops, because they have no histograms.
	mostMeasuredHops = 2048
	mostHops         = 1024
	mostPathHops     = 32 // of a path; a longer one counts among the further ones
	mostAddresses    = 8192
	mostName         = 64 // octets of a name that a record has
	// mostDelay is the greatest difference of two clocks that is taken as a delay, as with Edge-to-Edge.
	mostDelay = 1 << 36
)

// UnknownClock is the error of clocks that is not known.
const UnknownClock = -1

// Other is the name of what had no room for an entry of its own.
const Other = "other"

// NamedPrefix is a prefix that operators know by a name.
type NamedPrefix struct {
	Name   string
	Prefix netip.Prefix
}

// Settings are what an engine is made with. Zero values have a default.
type Settings struct {
	Interval time.Duration // 10 s
	Keep     time.Duration // an hour
	Octets   int           // of the intervals that are kept, compressed: 8 MiB
	Rate     int           // records in a second that are taken: 100,000
	Prefixes []NamedPrefix // other addresses are grouped by /64
}

func (s Settings) withDefaults() Settings {
	s.Interval = cmp.Or(s.Interval, 10*time.Second)
	s.Keep = cmp.Or(s.Keep, time.Hour)
	s.Octets = cmp.Or(s.Octets, 8<<20)
	s.Rate = cmp.Or(s.Rate, 100_000)
	return s
}

// Engine takes records and makes intervals. Several goroutines may use it.
type Engine struct {
	settings Settings

	closing  sync.Mutex // held while an interval ends and is kept; before mu
	mu       sync.Mutex
	open     Interval
	began    time.Time // of the open interval
	until    time.Time // up to which it was watched, or not
	watching bool
	second   int64 // in which taken were taken
	taken    int   // in this second
	clock    int64 // by which a difference of two clocks may be wrong, in ns; below 0: unknown
	hops     int   // of all paths
	// Of all measured flows.
	measured, measuredHops int
	pairs                  map[ends]*pair
	addresses              map[addresses]*pair // of packets, so that prefixes are looked up once
	rest                   *pair
	baselines              baselines
	watches                watches
	ended                  []ended // and are still to be kept
	kept                   kept
	scratch                []Hop
	closed                 func(*Interval) // gets intervals that end
	totals                 Totals
}

// ended is an interval and its last moment.
type ended struct {
	interval *Interval
	at       time.Time
}

// ends are the names of two prefixes.
type ends struct{ source, destination string }

type addresses struct{ source, destination netip.Addr }

// pair is a Pair with what finds its paths.
type pair struct {
	Pair
	paths map[uint64]*Path
	flows map[flowKey]*Path
	rest  *Path
	known knownFlows
}

// flowKey is a measured flow: it may have no name.
type flowKey struct {
	name string
	id   uint32
}

func newPair(e ends) *pair {
	return &pair{Pair: Pair{Source: e.source, Destination: e.destination}, paths: make(map[uint64]*Path), flows: make(map[flowKey]*Path)}
}

// New makes an engine whose first interval begins at a time. Nothing is watched yet.
func New(s Settings, now time.Time) *Engine {
	e := &Engine{
		settings:  s.withDefaults(),
		pairs:     make(map[ends]*pair),
		addresses: make(map[addresses]*pair),
		rest:      newPair(ends{Other, Other}),
		clock:     UnknownClock,
	}
	e.kept.settings = e.settings
	e.begin(now)
	return e
}

func (e *Engine) begin(now time.Time) {
	e.began, e.until = now, now
	e.open = Interval{Start: instant.Of(now.UTC())}
}

// Totals count since the engine was made.
type Totals struct {
	Records, LeftOut uint64 // that were taken, or were beyond the rate
	Intervals        uint64 // that ended
	Octets           int    // that the kept intervals take now
}

// Totals are what it has counted.
func (e *Engine) Totals() Totals {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.totals
	t.Records += e.open.Records
	t.LeftOut += e.open.LeftOut
	t.Octets = e.kept.octets
	return t
}

// OnClosed calls f with each interval when it ends. It must not ask the engine.
func (e *Engine) OnClosed(f func(*Interval)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = f
}

// SetPrefixes changes the names of prefixes, from the open interval on.
func (e *Engine) SetPrefixes(list []NamedPrefix) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settings.Prefixes = slices.Clone(list)
	clear(e.addresses)
}

// SetClockError sets by how much a difference of two nodes' clocks may be wrong, in ns; below 0, as at
// first: unknown.
func (e *Engine) SetClockError(ns int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clock = max(ns, UnknownClock)
}

// Watch notes that records are made from now on, or no longer.
func (e *Engine) Watch(now time.Time, watching bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance(now)
	e.watch(now)
	e.watching = watching
}

// watch counts the time since it was counted.
func (e *Engine) watch(now time.Time) {
	if d := now.Sub(e.until); d > 0 {
		e.until = now
		if e.watching {
			e.open.Watched += int64(d)
		}
	}
}

// Advance ends the open interval when its time is over. The caller calls it about every second.
func (e *Engine) Advance(now time.Time) {
	e.closing.Lock()
	defer e.closing.Unlock()
	e.mu.Lock()
	if now.Before(e.began) { // the clock was set back
		e.kept.forgetAfter(now)
		e.ended = slices.DeleteFunc(e.ended, func(one ended) bool { return one.at.After(now) })
		e.watches.setBack(now)
		e.carryOver()
		e.begin(now)
	}
	e.advance(now)
	e.mu.Unlock()
	e.keepEnded()
}

// advance ends the open interval when its time is over. What comes next, records too, is of the next one.
func (e *Engine) advance(now time.Time) {
	// Aligned to whole intervals of UTC, so that those of several nodes are comparable. The first one is
	// shorter.
	if end := now.Truncate(e.settings.Interval); end.After(e.began) {
		e.endAt(end)
	}
}

// endAt ends the open interval, and begins the next one.
func (e *Engine) endAt(at time.Time) {
	if v := e.end(at); v != nil {
		e.ended = append(e.ended, ended{v, at})
	}
	e.begin(at)
}

// Close ends the open interval, for an agent that ends.
func (e *Engine) Close(now time.Time) {
	e.closing.Lock()
	defer e.closing.Unlock()
	e.mu.Lock()
	e.advance(now)
	e.endAt(now)
	e.mu.Unlock()
	e.keepEnded()
}

// keepEnded compresses intervals that ended. Records are taken meanwhile: closing is held, and not mu.
func (e *Engine) keepEnded() {
	e.mu.Lock()
	list, closed := e.ended, e.closed
	e.ended = nil
	e.mu.Unlock()
	for _, one := range list {
		line, ok := compressed(one.interval, one.at)
		if ok {
			e.mu.Lock()
			e.kept.append(line)
			e.mu.Unlock()
		}
		if closed != nil {
			closed(one.interval)
		}
	}
}

// end returns the open interval, and makes the next one ready: the busiest half of all pairs and paths
// keep their place, so that those that come newly, as from forged addresses, cannot displace them.
func (e *Engine) end(at time.Time) *Interval {
	if !at.After(e.began) && e.open.Records == 0 {
		return nil
	}
	e.watch(at)
	v := e.snapshot(at)
	if v.Length >= int64(e.settings.Interval) { // a part of one would say less than it seems
		e.baselines.learn(v, e.clock)
		e.judge(v, at)
	} else {
		e.lookSlow(at)
		e.lookLosses(at) // what was lost is so, however short the interval
		e.baselines.show(v)
		e.watches.slow.anew()
	}
	e.totals.Records += v.Records
	e.totals.LeftOut += v.LeftOut
	e.totals.Intervals++
	clear(e.addresses)
	e.carryOver()
	return v
}

// carryOver empties what is carried over, and forgets the rest.
func (e *Engine) carryOver() {
	list := make([]*pair, 0, len(e.pairs))
	for _, p := range e.pairs {
		if p.keepPaths() {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pair) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Destination, b.Destination))
	})
	e.hops, e.measured, e.measuredHops = 0, 0, 0
	clear(e.pairs)
	for _, p := range list[:min(len(list), mostPairs/2)] {
		n, measured := p.hops()
		if e.hops+n > mostHops/2 {
			continue
		}
		if e.measuredHops+measured > mostMeasuredHops {
			measured = 0
			clear(p.flows)
			p.Paths = slices.DeleteFunc(p.Paths, (*Path).measured)
		}
		e.hops, e.measured, e.measuredHops = e.hops+n, e.measured+len(p.flows), e.measuredHops+measured
		p.Packets, p.Loss = 0, Loss{}
		e.pairs[ends{p.Source, p.Destination}] = p
	}
	e.rest = newPair(ends{Other, Other})
}

// hops are those of paths, and the points of measured flows.
func (p *pair) hops() (n, measured int) {
	for _, path := range p.Paths {
		if path.measured() {
			measured += len(path.Hops)
		} else {
			n += len(path.Hops)
		}
	}
	return n, measured
}

// keepPaths empties the busiest half of the paths, and the measured flows, and forgets the rest; false: none was used.
func (p *pair) keepPaths() bool {
	used := p.Packets > 0 || p.Loss.Sent > 0
	list := slices.DeleteFunc(slices.Clone(p.Paths), func(path *Path) bool { return !path.used() || path == p.rest })
	slices.SortFunc(list, func(a, b *Path) int { return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.ID, b.ID)) })
	room := mostPaths / 2
	list = slices.DeleteFunc(list, func(path *Path) bool {
		if path.measured() {
			return false
		}
		room--
		return room < 0
	})
	keep := make(map[*Path]bool, len(list))
	for _, path := range list {
		path.reset()
		keep[path] = true
	}
	for key, path := range p.paths {
		if !keep[path] {
			delete(p.paths, key)
		}
	}
	for key, path := range p.flows {
		if !keep[path] {
			delete(p.flows, key)
		}
	}
	p.Paths, p.rest = list, nil
	return used || len(list) > 0
}

// snapshot is the open interval so far. Its parts are the engine's own unless it is copied.
func (e *Engine) snapshot(at time.Time) *Interval {
	v := e.open
	v.Length = int64(max(at.Sub(e.began), 0))
	all := make([]*pair, 0, len(e.pairs)+1)
	for _, p := range e.pairs {
		all = append(all, p)
	}
	v.Pairs = []*Pair{}
	for _, p := range append(all, e.rest) {
		out := &Pair{Source: p.Source, Destination: p.Destination, Packets: p.Packets, Loss: p.Loss, Paths: []*Path{}}
		for _, path := range p.Paths {
			if path.used() {
				c := emptyLike(path)
				c.merge(path)
				out.Paths = append(out.Paths, c)
			}
		}
		if out.Packets > 0 || out.Loss.Sent > 0 || len(out.Paths) > 0 {
			v.Pairs = append(v.Pairs, out)
		}
	}
	v.sort()
	return &v
}

// sort puts the busiest first, the rest last.
func (v *Interval) sort() {
	slices.SortFunc(v.Pairs, func(a, b *Pair) int {
		return cmp.Or(
			compareOther(a.Source, b.Source),
			cmp.Compare(b.Packets, a.Packets),
			cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Destination, b.Destination),
		)
	})
	for _, p := range v.Pairs {
		slices.SortFunc(p.Paths, func(a, b *Path) int {
			return cmp.Or(
				compareOther(a.ID, b.ID),
				cmp.Compare(b.Packets, a.Packets),
				cmp.Compare(a.ID, b.ID),
				cmp.Compare(a.Flow, b.Flow),
				cmp.Compare(a.FlowID, b.FlowID),
			)
		})
	}
}

func compareOther(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == Other:
		return 1
	case b == Other:
		return -1
	}
	return 0
}

// emptyLike is a path with the same hops, which has counted nothing.
func emptyLike(p *Path) *Path {
	out := &Path{ID: p.ID, Flow: p.Flow, FlowID: p.FlowID, Hops: make([]Hop, len(p.Hops))}
	for i := range p.Hops {
		out.Hops[i].Place = p.Hops[i].Place
	}
	return out
}

// Line is the interval as a line of JSON.
func (v *Interval) Line() []byte {
	b, err := json.Marshal(v)
	if err != nil { // there is nothing in it that JSON cannot have
		return nil
	}
	return append(b, '\n')
}

// clip shortens a name that a record has.
func clip(name string) string { return record.Printable(name[:min(len(name), mostName)]) }
