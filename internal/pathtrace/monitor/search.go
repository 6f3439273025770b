// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/pathtrace/copies"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/ioam"
)

const (
	// suspected and vanished are how many probes in a row must be overdue before a search for the
	// place begins, and before a flow counts as lost.
	suspected, vanished = 2, 3
	// mostRounds of hop limits are tried in a search.
	mostRounds = 5
	// mostTries of a position.
	mostTries = 3
	// mostSearches run at once. Paths that fail meanwhile wait.
	mostSearches = 64
	// ahead is how many positions a search tries at once where the path is not known.
	ahead = 4
	// together is how long apart paths may fail that fail by the same cause.
	together = 500 * time.Millisecond
	// unansweredAfter is how long a destination, or a flow, may take to answer at first.
	unansweredAfter = 5 * time.Second
	// surveyTries, surveyPause and surveyAgain are how the nodes that reply to hop limits are
	// learned while nothing is wrong.
	surveyTries = 3
	surveyPause = time.Second
	surveyAgain = time.Minute
	// closedLimit is the hop limit of probes to a port at which nothing listens.
	closedLimit = 254
	// mostWalks wait for replies.
	mostWalks = 8192
	walkTime  = 2 * time.Second
)

// search looks for the place where the probes of a path vanish.
type search struct {
	flow        int           // whose probes' hop limits end on the way
	since       time.Duration // when the first probe was sent that is not answered
	pathUnknown bool          // no answer ever showed the path
	rounds      int
	next        time.Duration
	tries       [maxHops + 1]int
	replied     [maxHops + 1]bool
	copied      [maxHops + 1]bool // the node returned a copy of a probe
	closed      int               // probes to a port at which nothing listens
	refused     bool
	lastError   nodeError // of a node on the way since
	found       *place    // nil: not yet
}

// walk is a probe whose hop limit is to end on the way.
type walk struct {
	d    *destination
	p    *path
	flow int
	hop  uint8
	sent time.Duration
}

// walks are those that wait for replies, by number.
type walks map[uint32]walk

// handleWalkReply takes what came back for such a probe: from a node on the way, or from the destination.
func (m *Monitor) handleWalkReply(d *destination, id message.ID, from netip.Addr, reached bool, now time.Duration) {
	w, ok := m.walks[id.Number]
	if !ok || w.d != d || w.flow != int(id.Flow) || w.hop != id.HopLimit {
		m.counts.Late++
		return
	}
	delete(m.walks, id.Number)
	s := w.p.search
	if s != nil && w.sent < s.since {
		s = nil // it shows how it was before
	}
	if reached {
		switch {
		case s == nil:
		case w.hop == closedLimit:
			s.refused = true
		default:
			s.replied[min(int(w.hop), len(w.p.hops))] = true
		}
		return
	}
	at := int(w.hop)
	if at < 1 || at > len(w.p.hops) {
		return
	}
	w.p.shown[at-1] = shown{from, now}
	if n := m.nodes.of(w.p, at); n != nil {
		n.answered, n.address = max(n.answered, w.sent), from
	}
	if s != nil {
		s.replied[at] = true
	}
}

// copied takes a copy that a node on the way returned, given its Hop-by-Hop header. There may be
// several of a probe, so it stays.
func (m *Monitor) copied(from netip.Addr, header []byte, now time.Duration) {
	way, number, ok := copies.Find(header, m.config.Namespace, m.nonce)
	if !ok {
		return // of another probe
	}
	w, ok := m.walks[number]
	if !ok || w.hop != copies.HopLimit {
		m.counts.Late++
		return
	}
	_, last, ok := copies.There(way)
	if at := copies.HopLimit - int(last); ok && at >= 1 && at <= len(w.p.hops) {
		m.counts.Copies++
		if w.p.shown[at-1].at == 0 { // it shows who is there, not that it replies to hop limits
			w.p.shown[at-1].address = from
		}
		if s := w.p.search; s != nil && w.sent >= s.since {
			s.copied[at] = true
		}
		return
	}
	m.counts.Malformed++
}

// responds reports whether the node at a position of a path replied to hop limits before.
func (m *Monitor) responds(p *path, at int) bool {
	if p.shown[at-1].at > 0 {
		return true
	}
	n := m.nodes.of(p, at)
	return n != nil && n.answered > 0
}

// suspect begins searches of the paths whose flows are not answered.
func (m *Monitor) suspect(d *destination, now time.Duration) {
	wait := d.wait(m.config.Timeout)
	for i := range d.flows {
		f := &d.flows[i]
		n, since := f.overdue()
		if n < suspected {
			continue
		}
		p := f.path
		if p == nil {
			if now-max(since, d.began) < max(unansweredAfter, 3*m.config.Timeout) {
				continue
			}
			p = d.blindPath()
		}
		switch s := p.search; {
		case s == nil:
			m.begin(d, p, i, since, now)
		case s.found != nil && n >= vanished && f.place == nil:
			m.lose(f, s.found, now)
		case s.found == nil:
			s.since = min(s.since, since)
		}
	}
	for _, p := range d.searched() {
		m.search(d, p, wait, now)
	}
}

// begin begins a search, unless too many are under way.
func (m *Monitor) begin(d *destination, p *path, flow int, since, now time.Duration) {
	s := &search{flow: flow, since: since, pathUnknown: d.flows[flow].path == nil, next: now}
	if d.lastError.at >= since && d.lastError.flow == flow {
		s.lastError = d.lastError
	}
	if len(m.active) < mostSearches {
		p.search = s
		m.active = append(m.active, p)
	}
}

// end takes a search that has a result, or needs none, from the active ones.
func (m *Monitor) end(p *path) {
	m.active = slices.DeleteFunc(m.active, func(o *path) bool { return o == p })
}

// asked is what was asked at a position since probes of a path vanish, by its own search and by
// those of others that pass the same nodes up to there: a node replies only so often.
func (m *Monitor) asked(p *path, at int) asked {
	s := p.search
	a := asked{responds: at == len(p.hops) || m.responds(p, at), tries: s.tries[at], replied: s.replied[at]}
	for _, o := range m.active {
		if o != p && !o.search.pathUnknown && o.search.since >= s.since-together && p.shares(o, at) {
			a.tries += o.search.tries[at]
			a.replied = a.replied || o.search.replied[at]
		}
	}
	return a
}

// searched are the paths with a search.
func (d *destination) searched() (list []*path) {
	for _, p := range d.paths {
		if p.search != nil {
			list = append(list, p)
		}
	}
	if d.unknownPath != nil && d.unknownPath.search != nil {
		list = append(list, d.unknownPath)
	}
	return list
}

// blindPath stands for all paths that no answer has shown.
func (d *destination) blindPath() *path {
	if d.unknownPath == nil {
		d.unknownPath = &path{hops: make([]hop, maxHops), shown: make([]shown, maxHops), key: "unknown"}
		for i := range d.unknownPath.hops {
			d.unknownPath.hops[i] = hop{id: ioam.NodeIDUnavailable, silent: true}
		}
	}
	return d.unknownPath
}

// vanishing reports whether a flow of a path is not answered, and since when.
func (d *destination) vanishing(p *path) (lost int, since time.Duration) {
	for i := range d.flows {
		f := &d.flows[i]
		if f.path != p && !(p == d.unknownPath && f.path == nil) {
			continue
		}
		if n, at := f.overdue(); n >= suspected {
			if lost++; since == 0 || at < since {
				since = at
			}
		}
	}
	return lost, since
}

// search goes on with one.
func (m *Monitor) search(d *destination, p *path, wait, now time.Duration) {
	s := p.search
	if lost, _ := d.vanishing(p); lost == 0 {
		switch {
		case s.found == nil:
			m.end(p)
			p.search = nil
		case s.found.flows == 0:
			p.search = nil
		}
		return
	}
	if now < s.next {
		return
	}
	if s.found != nil {
		return
	}
	if one := m.placeOf(d, p, s, now); one != nil {
		m.end(p)
		m.notePlace(d, p, one, now)
		return
	}
	if s.rounds++; s.rounds <= mostRounds {
		m.round(d, p, s, now)
	}
	s.next = now + wait + 10*time.Millisecond
}

// representative is the flow whose hop limits end on the way: one that is not answered.
func (d *destination) representative(p *path, s *search) int {
	is := func(f *flow) bool {
		n, _ := f.overdue()
		return n >= suspected && (f.path == p || s.pathUnknown && f.path == nil)
	}
	if is(&d.flows[s.flow]) {
		return s.flow
	}
	for i := range d.flows {
		if is(&d.flows[i]) {
			return i
		}
	}
	return s.flow
}

// round lets hop limits end at all positions that are not known to be reached.
func (m *Monitor) round(d *destination, p *path, s *search, now time.Duration) {
	s.flow = d.representative(p, s)
	reached, last := m.reached(d, p, s), len(p.hops)
	if s.pathUnknown {
		last = min(reached+ahead, maxHops)
	}
	for at := reached + 1; at <= last; at++ {
		if s.replied[at] || s.tries[at] >= mostTries {
			continue
		}
		end := at == len(p.hops)
		if n := m.nodes.of(p, at); !end && n != nil && !n.allow(now) {
			continue
		}
		if m.walk(d, p, s.flow, uint8(at), m.config.Port, now) {
			s.tries[at]++
		}
	}
	if m.asking != nil {
		m.walk(d, p, s.flow, copies.HopLimit, m.config.Port, now)
	}
	if !s.pathUnknown && !d.answeredSince(s.since) && s.closed < mostTries {
		if m.walk(d, p, s.flow, closedLimit, m.config.Port^1, now) {
			s.closed++
		}
	}
}

// answeredSince reports whether the destination answered a probe that was sent after a time.
func (d *destination) answeredSince(t time.Duration) bool {
	for _, p := range d.paths {
		if p.answered > t {
			return true
		}
	}
	return false
}

// reached is the position up to which probes get: its own replies say so, or answers to flows
// whose other path begins with the same nodes and interfaces.
func (m *Monitor) reached(d *destination, p *path, s *search) (at int) {
	for i := range s.replied {
		if s.replied[i] || s.copied[i] {
			at = max(at, i)
		}
	}
	if s.pathUnknown {
		return at
	}
	for _, other := range m.destinations {
		for _, o := range other.paths {
			if o == p || o.answered <= s.since {
				continue
			}
			for at+1 < len(p.hops) && p.shares(o, at+1) {
				at++
			}
		}
	}
	return at
}

// walk sends a probe with a hop limit, by the flow's socket.
func (m *Monitor) walk(d *destination, p *path, flow int, limit uint8, port uint16, now time.Duration) bool {
	if len(m.walks) >= mostWalks || !m.walkBucket.allow(now, 1) || !m.bucket.allow(now, 1) {
		m.counts.Suppressed++
		return false
	}
	m.walkNumber++
	id := message.ID{Nonce: m.nonce, Number: m.walkNumber, Flow: uint16(flow), HopLimit: limit}
	m.walks[id.Number] = walk{d, p, flow, limit, now}
	m.counts.HopLimited++
	o := outgoing{d: d, flow: flow, limit: limit, port: port, payload: message.AppendProbe(nil, id, m.config.Key)}
	if limit == copies.HopLimit && m.asking != nil {
		o.header = copies.Identify(slices.Clone(m.asking), m.nonce, id.Number)
	}
	m.queue = append(m.queue, o)
	return true
}

// survey learns which nodes reply to hop limits, while nothing is wrong.
func (m *Monitor) survey(d *destination, now time.Duration) {
	for _, p := range d.paths {
		if p.flows == 0 || p.search != nil || now < p.survey {
			continue
		}
		flow := 0
		for d.flows[flow].path != p {
			flow++
		}
		missing, fresh := false, now-surveyAgain/2
		for at := 1; at < len(p.hops); at++ {
			n := m.nodes.of(p, at)
			switch {
			case n != nil && n.answered > 0 && n.answered > fresh:
				p.shown[at-1] = shown{n.address, n.answered}
				continue
			case p.shown[at-1].at > 0 && p.shown[at-1].at > fresh:
				continue
			}
			missing = true
			if n == nil || (n.tried == 0 || now-n.tried >= surveyPause) && n.allow(now) {
				m.walk(d, p, flow, uint8(at), m.config.Port, now)
			}
		}
		if p.surveyed++; missing && p.surveyed%surveyTries != 0 {
			p.survey = now + surveyPause
		} else {
			p.survey, p.surveyed = now+surveyAgain, 0
		}
	}
}
