// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"net/netip"
	"slices"
	"time"
)

// Evidence is what a place rests on.
type Evidence string

// Evidences.
const (
	EvidenceNone     Evidence = "none"      // the place is not known
	EvidenceHopLimit Evidence = "hop-limit" // which nodes reply when hop limits end there
	EvidenceCopy     Evidence = "copy"      // likewise, and the last one that is reached returned a copy of a probe
	EvidenceError    Evidence = "error"     // a node says that it cannot deliver the probes
)

// place is where probes of some flows of a destination vanish.
type place struct {
	after, before int // positions; after 0 is this node, before 0 is not known
	evidence      Evidence
	lastError     nodeError
	refused       bool // the destination's kernel replies, its agent does not
	neverAnswered bool // no probe of the flows was ever answered

	path          *path
	texts         [2]string // of after and before
	keys          [2]string // the same without names
	flows         int
	since         time.Duration
	reportAt      time.Duration // when it is reported; there may be more flows until then
	reported      bool
	flowsReported int
	endsAt        time.Duration // when it is over, once no flow is left
	unanswered    uint64
}

// EventKind is what an event is about.
type EventKind int

// Kinds of events.
const (
	Loss EventKind = iota
	Recovered
	PathChange
	Unanswered
	Abandoned // the flows had Loss or Unanswered, and are probed no more: it is not known whether they still have
)

// eventKinds is how many kinds there are.
const eventKinds = int(Abandoned) + 1

// Event is something that happened to the flows of a destination.
type Event struct {
	Kind        EventKind
	At, Since   time.Time
	Destination Destination
	Path        string    // the nodes
	From        string    // of a PathChange, the nodes before
	Named       [2]string // of a PathChange, From and Path with names
	After       string    // node that probes reach; "": not known
	Before      string    // the next one that would reply; "": not known
	AfterHop    int
	Evidence    Evidence
	Error       string     // what a node said
	ErrorFrom   netip.Addr // zero: this node
	Refused     bool       // the destination's kernel replies, its agent does not
	Flows       int
	FlowsOf     int
	Unanswered  uint64 // probes
	Lasted      time.Duration
	Never       bool // of an Abandoned: Unanswered began it
}

const (
	mostPlaces = 8    // of a destination
	mostEvents = 1024 // that were not read yet
	// settleTime is the longest time for which more flows are awaited before a place is reported.
	settleTime = 250 * time.Millisecond
	// movePause is the least time between two events about paths of a destination.
	movePause = 5 * time.Second
	mostMoves = 16
)

// recent are places that were found lately, which other paths may share.
type recent struct {
	list [32]struct {
		path *path
		at   time.Duration
		place
	}
	next int
}

// recentFor is how long a result may be used for other paths.
const recentFor = 2 * time.Second

func (r *recent) add(p *path, one *place, now time.Duration) {
	if one.evidence == EvidenceNone || one.before == 0 {
		return
	}
	at := &r.list[r.next%len(r.list)]
	r.next++
	at.path, at.at, at.place = p, now, *one
}

// of is a recent place that a path has, too: it passes the same nodes up to there.
func (r *recent) of(p *path, now time.Duration) *place {
	for i := range r.list {
		one := &r.list[i]
		if one.path != nil && now-one.at < recentFor && one.path != p && p.shares(one.path, one.before) {
			return &one.place
		}
	}
	return nil
}

// placeOf says where the probes of a path vanish; nil: that is not known yet.
func (m *Monitor) placeOf(d *destination, p *path, s *search, now time.Duration) *place {
	if s.lastError.at >= s.since && s.lastError.text != "" && (s.lastError.hop > 0 || !s.lastError.from.IsValid()) {
		return &place{after: s.lastError.hop, evidence: EvidenceError, lastError: s.lastError, neverAnswered: s.pathUnknown}
	}
	if s.pathUnknown {
		if s.rounds < mostRounds {
			return nil
		}
		return &place{after: m.reached(d, p, s), evidence: EvidenceNone, refused: s.refused, neverAnswered: true}
	}
	reached := m.reached(d, p, s)
	if r := m.recent.of(p, now); r != nil && reached < r.before { // many paths share a link
		return &place{after: r.after, before: r.before, evidence: r.evidence, lastError: r.lastError}
	}
	hops := make([]asked, len(p.hops))
	for i := range hops {
		hops[i] = m.asked(p, i+1)
	}
	after, before, ok := locate(hops, reached)
	switch {
	case s.refused:
		return &place{evidence: EvidenceNone, refused: true}
	case ok && before == len(hops) && !d.answeredSince(s.since) && s.closed < leastTries && s.rounds < mostRounds:
		return nil // it may be the destination's agent
	case ok:
		if s.copied[after] && !s.replied[after] {
			return &place{after: after, before: before, evidence: EvidenceCopy}
		}
		return &place{after: after, before: before, evidence: EvidenceHopLimit}
	case s.rounds >= mostRounds:
		return &place{evidence: EvidenceNone}
	}
	return nil
}

// notePlace notes the place at which the probes of a path vanish, and which flows do.
func (m *Monitor) notePlace(d *destination, p *path, one *place, now time.Duration) {
	s := p.search
	m.recent.add(p, one, now)
	one.path, one.since = p, s.since
	if one.evidence != EvidenceNone || one.neverAnswered && one.after > 0 {
		one.texts[0], one.keys[0] = m.place(d, p, one.after), placeKey(d, p, one.after)
		if one.before > 0 {
			one.texts[1], one.keys[1] = m.place(d, p, one.before), placeKey(d, p, one.before)
		}
	}
	same := slices.IndexFunc(d.places, func(o *place) bool {
		return o.evidence == one.evidence && o.keys == one.keys && o.refused == one.refused && o.neverAnswered == one.neverAnswered &&
			o.lastError.text == one.lastError.text
	})
	switch {
	case same >= 0:
		one = d.places[same]
	case len(d.places) >= mostPlaces:
		one = d.places[len(d.places)-1]
	default:
		d.places = append(d.places, one)
	}
	s.found = one
	for i := range d.flows {
		f := &d.flows[i]
		if n, _ := f.overdue(); n >= vanished && f.place == nil && (f.path == p || one.neverAnswered && f.path == nil) {
			m.lose(f, one, now)
		}
	}
}

// lose counts a flow for the place at which its probes vanish.
func (m *Monitor) lose(f *flow, one *place, now time.Duration) {
	f.place = one
	if one.flows == 0 && !one.reported {
		one.reportAt = now + min(settleTime, m.config.Interval)
	}
	one.flows++
	if f.overdueSince < one.since {
		one.since = f.overdueSince
	}
}

// recovered takes a flow out of its place: it is answered, after the given number of probes that were not.
func (m *Monitor) recovered(f *flow, missing int, now time.Duration) {
	one := f.place
	f.place = nil
	one.flows--
	one.unanswered += uint64(missing)
	if one.flows == 0 {
		one.endsAt = now + min(2*m.config.Interval, 2*settleTime)
	}
}

// report makes the events of a destination that are due.
func (m *Monitor) report(d *destination, now time.Duration) {
	d.places = slices.DeleteFunc(d.places, func(one *place) bool {
		switch {
		case one.flows > 0 && !one.reported && now >= one.reportAt:
			one.reported, one.flowsReported = true, one.flows
			e := m.event(d, Loss, one, now)
			for i := range d.flows {
				if d.flows[i].place == one {
					n, _ := d.flows[i].overdue()
					e.Unanswered += uint64(n)
				}
			}
			m.emit(e)
		case one.flows > 0:
			one.flowsReported = max(one.flowsReported, one.flows)
		case !one.reported:
			return now >= one.reportAt && !d.sought(one) // it was over before
		case now >= one.endsAt:
			e := m.event(d, Recovered, one, now)
			e.Flows, e.Unanswered, e.Lasted = one.flowsReported, one.unanswered, one.endsAt-min(2*m.config.Interval, 2*settleTime)-one.since
			m.emit(e)
			return true
		}
		return false
	})
	m.tellMoves(d, now)
}

// sought reports whether a search has the place as its result.
func (d *destination) sought(one *place) bool {
	return slices.ContainsFunc(d.searched(), func(p *path) bool { return p.search.found == one })
}

// event is one about a place.
func (m *Monitor) event(d *destination, kind EventKind, one *place, now time.Duration) Event {
	e := Event{
		Kind: kind, At: m.at(now), Since: m.at(one.since), Destination: d.Destination, Path: one.path.nodes(),
		After: one.texts[0], Before: one.texts[1], AfterHop: one.after,
		Evidence: one.evidence, Error: one.lastError.text, ErrorFrom: one.lastError.from, Refused: one.refused, Flows: one.flows,
		FlowsOf: len(d.flows),
	}
	if kind == Loss && one.neverAnswered {
		e.Kind = Unanswered
	}
	if kind == Recovered {
		e.Path = ""
		for i := range d.flows {
			if p := d.flows[i].path; p != nil {
				e.Path = p.nodes()
				break
			}
		}
	}
	return e
}

// abandon reports, of each place that was reported, that probes no longer show whether it still holds.
func (m *Monitor) abandon(d *destination, now time.Duration) {
	for _, one := range d.places {
		if !one.reported {
			continue
		}
		e := m.event(d, Abandoned, one, now)
		e.Never, e.Lasted = one.neverAnswered, now-one.since
		m.emit(e)
	}
}

// Abandon tells for all destinations what is not known any more, for a caller that has ended Run.
func (m *Monitor) Abandon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	for _, d := range m.destinations {
		m.abandon(d, now)
		d.places = nil
	}
}

// rename gives a destination another name. What was reported under the old one ends, and is reported again.
func (m *Monitor) rename(d *destination, to Destination, now time.Duration) {
	if d.Destination == to {
		return
	}
	m.abandon(d, now)
	d.Destination = to
	for _, one := range d.places {
		if one.reported {
			one.reported, one.reportAt = false, now
		}
		for i, at := range [...]int{one.after, one.before} {
			if one.texts[i] != "" {
				one.texts[i] = m.place(d, one.path, at)
			}
		}
	}
}

// emit keeps an event until it is taken.
func (m *Monitor) emit(e Event) {
	m.counts.Events[e.Kind]++
	if len(m.events) < mostEvents {
		m.events = append(m.events, e)
	}
}

// Events takes the events since the last call.
func (m *Monitor) Events() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.events
	m.events = nil
	return list
}

// moves are flows that took another path, and are not reported yet.
type moves struct {
	list       []move
	reportAt   time.Duration
	nextReport time.Duration
}

type move struct {
	from, to *path
	flows    int
}

func (v *moves) add(from, to *path, now time.Duration) {
	if len(v.list) == 0 {
		v.reportAt = max(now+settleTime, v.nextReport)
	}
	for i := range v.list {
		if v.list[i].from == from && v.list[i].to == to {
			v.list[i].flows++
			return
		}
	}
	if len(v.list) < mostMoves {
		v.list = append(v.list, move{from, to, 1})
	}
}

// tellMoves makes an event for each pair of paths between which flows moved, and did not move
// back since: flows that go back and forth are counted, not reported.
func (m *Monitor) tellMoves(d *destination, now time.Duration) {
	v := &d.moves
	if len(v.list) == 0 || now < v.reportAt {
		return
	}
	for _, one := range v.list {
		flows := one.flows
		for _, other := range v.list {
			if other.from == one.to && other.to == one.from {
				flows -= other.flows
			}
		}
		if flows <= 0 {
			continue
		}
		m.emit(Event{
			Kind: PathChange, At: m.at(now), Since: m.at(v.reportAt - settleTime), Destination: d.Destination,
			From: one.from.nodes(), Path: one.to.nodes(), Named: [2]string{m.named(d, one.from), m.named(d, one.to)},
			Flows: min(flows, len(d.flows)), FlowsOf: len(d.flows),
		})
	}
	*v = moves{nextReport: now + movePause}
}
