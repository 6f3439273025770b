// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/ipfix"
)

// Bounds of what is kept of exporters.
const (
	mostExporters = 1 << 14
	// mostSessionsOfOne is how many sessions of one exporter have counts of their own; of earlier ones, the sums are kept.
	mostSessionsOfOne = 8
	// clockSpan is for how long, at least, a clock is judged by the message that says most about it.
	clockSpan = 30 * time.Second
)

// Exporter is an observation domain that sends, as far as the collector sees it.
type Exporter struct {
	Address netip.Addr
	Domain  uint32
	Name    string // "": it has sent none

	First, Last time.Time // when messages came, by the collector's clock
	Exported    time.Time // when the last one was sent, by the exporter's

	Messages, Records, Malformed uint64
	Missed                       uint64 // records that did not come
	Awaited                      uint64 // records that did not come in their turn, and may still come
	Breaks                       uint64 // times when any number of records may be missing
	Sessions                     []ExporterSession

	// Ahead is how much the exporter's clock is at least ahead of the collector's: the time in a message, by the
	// exporter's clock, minus the time of its arrival, by the collector's. The time on the way makes it smaller, so
	// that a good clock has a small negative value. It is the greatest of the last half minute to minute.
	Ahead time.Duration
	// Lag is how old the newest postcard of the last message was when it came, by both clocks; zero: none has come.
	Lag time.Duration
}

// ExporterSession is a transport session of an exporter.
type ExporterSession struct {
	Transport ipfix.Transport
	Last      time.Time
	Templates int
}

// exporters are those that have sent.
type exporters struct {
	all     map[join.Exporter]*exporterState
	ignored uint64    // messages of exporters beyond the limit
	swept   time.Time // when those that are silent were last forgotten to make room
}

type exporterState struct {
	Exporter
	sessions []sessionState
	before   ipfix.SequenceState // of sessions that no longer have counts of their own

	window  time.Time     // when the present half minute began
	now     time.Duration // the greatest Ahead in it
	earlier time.Duration // and in the one before
	newest  time.Time     // of the postcards of the present message
}

type sessionState struct {
	session *ipfix.Session
	counted ipfix.SequenceState
	last    time.Time
}

// message notes a message, and returns the state of its exporter; nil: there are too many.
func (e *exporters) message(a *arrival, from join.Exporter) *exporterState {
	s := e.all[from]
	if s == nil && len(e.all) >= mostExporters {
		e.makeRoom(a.at)
	}
	switch {
	case s == nil && len(e.all) >= mostExporters:
		e.ignored++
		return nil
	case s == nil:
		if e.all == nil {
			e.all = map[join.Exporter]*exporterState{}
		}
		s = &exporterState{Exporter: Exporter{Address: from.Addr, Domain: from.Domain, First: a.at}}
		e.all[from] = s
	}
	m := a.message
	s.Last, s.Exported = a.at, m.ExportTime
	s.Messages, s.Records = s.Messages+1, s.Records+uint64(m.Records)
	for i := range m.Problems {
		if m.Problems[i].Cause != ipfix.CauseSequenceGap {
			s.Malformed += uint64(m.Problems[i].Count)
		}
	}
	s.newest = time.Time{}
	s.judge(m.ExportTime, a.at)
	s.of(a.session).counted = m.Counted
	s.of(a.session).last = a.at
	return s
}

// changesNothing reports whether a message changes nothing that is known of its exporter: it is of a known session, and
// follows the one before without a gap or an error.
func (e *exporters) changesNothing(a *arrival, from join.Exporter) bool {
	s := e.all[from]
	return s != nil && len(a.message.Problems) == 0 && slices.ContainsFunc(s.sessions, func(one sessionState) bool {
		return one.session == a.session && one.counted == a.message.Counted
	})
}

// makeRoom forgets exporters that have been silent for an hour. It looks for them once a minute at most.
func (e *exporters) makeRoom(now time.Time) {
	if since := now.Sub(e.swept); since >= 0 && since < time.Minute {
		return
	}
	e.swept = now
	for from, s := range e.all {
		if now.Sub(s.Last) > time.Hour {
			delete(e.all, from)
		}
	}
}

// of is the state of a session.
func (s *exporterState) of(session *ipfix.Session) *sessionState {
	for i := range s.sessions {
		if s.sessions[i].session == session {
			return &s.sessions[i]
		}
	}
	if len(s.sessions) == mostSessionsOfOne {
		oldest := slices.IndexFunc(s.sessions, func(one sessionState) bool {
			return !slices.ContainsFunc(s.sessions, func(other sessionState) bool { return other.last.Before(one.last) })
		})
		s.before = added(s.before, s.sessions[oldest].counted)
		s.sessions = slices.Delete(s.sessions, oldest, oldest+1)
	}
	s.sessions = append(s.sessions, sessionState{session: session})
	return &s.sessions[len(s.sessions)-1]
}

// added is the sum of two. What a session that is over still awaited does not come.
func added(sum, over ipfix.SequenceState) ipfix.SequenceState {
	sum.Missed += over.Missed + over.Awaited()
	sum.Breaks += over.Breaks
	return sum
}

// judge compares the time that the exporter wrote into a message with the time of the message's arrival.
func (s *exporterState) judge(wrote, came time.Time) {
	ahead := wrote.Sub(came)
	switch passed := came.Sub(s.window); {
	case s.window.IsZero() || passed < 0 || passed >= 2*clockSpan:
		s.window, s.now, s.earlier = came, ahead, ahead
	case passed >= clockSpan:
		s.window, s.now, s.earlier = came, ahead, s.now
	default:
		s.now = max(s.now, ahead)
	}
}

// observed notes when a node observed what it reports.
func (s *exporterState) observed(at, came time.Time) {
	if s == nil || at.IsZero() {
		return
	}
	if at.After(s.newest) {
		s.newest = at
		s.Lag = came.Sub(at)
		s.judge(at, came)
	}
}

// Exporters are all exporters, by address and domain. ignored are messages of more than are kept.
func (c *Collector) Exporters() (list []Exporter, ignored uint64) { return c.joining.exporting() }

func (c *joining) exporting() (list []Exporter, ignored uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for from, s := range c.exporters.all {
		one := s.Exporter
		one.Name = c.names.node(from)
		one.Ahead = max(s.now, s.earlier)
		one.Missed, one.Breaks = s.before.Missed, s.before.Breaks
		for _, of := range s.sessions {
			one.Missed, one.Breaks = one.Missed+of.counted.Missed, one.Breaks+of.counted.Breaks
			if templates, open := of.session.Templates(from.Domain); open {
				one.Awaited += of.counted.Awaited()
				one.Sessions = append(one.Sessions, ExporterSession{of.session.Transport(), of.last, templates})
			} else {
				one.Missed += of.counted.Awaited()
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Exporter) int { return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Domain, b.Domain)) })
	return list, c.exporters.ignored
}
