// SPDX-License-Identifier: Apache-2.0

// Package known keeps what exporters are known to have reported: for each exporter and
// namespace, of which time all postcards came, and of which time not, and why. From it
// follows whether a packet whose postcards ended was lost.
//
// An exporter says until when its postcards came before in the transport session, and
// how many it suppressed or lost (see [Report]); the collector adds what it missed or
// did not understand itself. Without such a report, nothing is known. All times are by
// the exporter's clock.
package known

import (
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Bounds of what senders can make a Base keep.
const (
	maxFeeds      = 4096
	maxNamespaces = 64  // of a feed
	maxSpans      = 128 // of a namespace
	maxEnded      = 1024
	maxFeedsOf    = 8 // of one exporter
)

// Feed is an observation domain in one transport session, by any key of the session.
type Feed struct {
	Session any
	Domain  uint32
}

// Report is what an exporter says of its postcards in a namespace: those about packets
// from Since until Until came before it in the session, except as many as the counters
// have grown since the report before.
type Report struct {
	Since, Until              time.Time
	Counted                   time.Time // when the counters had been read
	Served                    time.Time // since when the node's configuration is as it is
	Sampling                  uint32
	Suppressed, Lost, NotSent uint64
}

// Arrived describes a message of a feed.
type Arrived struct {
	First      bool   // it may be the first of its session: nothing was sent before it
	Gaps       uint64 // records so far that did not come in their turn
	Missed     uint64 // of these, that did not come in time
	Awaited    uint64 // of these, that may still come
	Breaks     uint64 // messages so far before which any number of records may be missing
	Understood bool   // all of its records were read
	Late       bool   // a later message came before it
}

// Base is what is known. The caller supplies the time where it is needed.
type Base struct {
	feeds     map[Feed]*feed
	exporters map[join.Exporter][]*feed
	ended     []*feed // whose exporters have no other, the oldest first
	swept     time.Time
}

// NewBase makes a Base that knows nothing.
func NewBase() *Base {
	return &Base{feeds: map[Feed]*feed{}, exporters: map[join.Exporter][]*feed{}}
}

// feed is what is known of a Feed.
type feed struct {
	key        Feed
	from       join.Exporter
	complete   bool // all messages since the start of the session came and were understood
	gaps       uint64
	missed     uint64
	breaks     uint64
	late       bool // the message that is read
	lastHeard  time.Time
	namespaces map[ioam.NamespaceID]*history
}

// history is what is known of a namespace in a feed.
type history struct {
	last        Report
	spans       []span // in the order of time
	doubt       record.Doubt
	provisional bool // the trouble is a gap that may be filled
}

// span is a time about which something is known: doubt is none if all postcards came.
type span struct {
	from, to    time.Time
	doubt       record.Doubt
	provisional bool
}

// Message takes a message, before the reports in it.
func (b *Base) Message(key Feed, from join.Exporter, m Arrived, now time.Time) {
	f := b.feeds[key]
	if f == nil {
		if f = b.begin(key, from, m.First, now); f == nil {
			return // nothing is known of it
		}
	}
	f.lastHeard = now
	if m.Gaps > f.gaps {
		f.noteDoubt(record.DoubtGap, m.Awaited > 0)
	}
	if m.Breaks > f.breaks {
		f.noteDoubt(record.DoubtGap, false)
	}
	if m.Missed > f.missed {
		f.endProvisional(false)
	} else if m.Awaited == 0 {
		f.endProvisional(true)
	}
	f.gaps, f.missed, f.breaks, f.late = m.Gaps, m.Missed, m.Breaks, m.Late
	if !m.Understood {
		f.noteDoubt(record.DoubtNotUnderstood, false)
	}
}

// NoteUnread notes that a record, or a whole message of a session, was not read.
func (b *Base) NoteUnread(session any) {
	for _, f := range b.feeds {
		if f.key.Session == session {
			f.noteDoubt(record.DoubtNotUnderstood, false)
		}
	}
}

// TroubleOf notes that a record of a feed was not read.
func (b *Base) TroubleOf(key Feed) {
	if f := b.feeds[key]; f != nil {
		f.noteDoubt(record.DoubtNotUnderstood, false)
	}
}

// noteDoubt concerns the time since the last report.
func (f *feed) noteDoubt(d record.Doubt, provisional bool) {
	f.complete = false
	for _, h := range f.namespaces {
		if h.doubt == record.DoubtNone || h.provisional && !provisional {
			h.doubt, h.provisional = d, provisional
		}
	}
}

// endProvisional ends what is provisional: a gap was filled, or will not be.
func (f *feed) endProvisional(filled bool) {
	for _, h := range f.namespaces {
		if h.provisional {
			h.provisional = false
			if filled {
				h.doubt = record.DoubtNone
			}
		}
		for i := range h.spans {
			if s := &h.spans[i]; s.provisional {
				s.provisional = false
				if filled {
					s.doubt = record.DoubtNone
				}
			}
		}
	}
}

// Report takes a report. One of a late message says nothing new.
func (b *Base) Report(key Feed, ns ioam.NamespaceID, r Report) {
	f := b.feeds[key]
	if f == nil || f.late {
		return
	}
	h := f.namespaces[ns]
	if h == nil {
		if len(f.namespaces) >= maxNamespaces {
			return
		}
		h = &history{}
		if f.namespaces[ns] = h; !f.complete {
			r.Since = r.Until // what came before the collector listened is not known
		}
		h.begin(r)
		return
	}
	if r.Until.Before(h.last.Until) || r.Served.Before(h.last.Served) || r.Sampling != h.last.Sampling {
		h.spans, h.doubt, h.provisional = nil, record.DoubtNone, false // the clock was set, or the node restarted
		r.Since = r.Until
		h.begin(r)
		return
	}
	from := h.last.Until
	if r.Since.After(from) {
		h.add(span{from: from, to: minTime(r.Since, r.Until), doubt: record.DoubtGap})
		from = r.Since
	}
	doubt, provisional := missingBy(h.last, r), false
	if h.doubt != record.DoubtNone && doubt == record.DoubtNone {
		doubt, provisional = h.doubt, h.provisional
	}
	h.add(span{from, r.Until, doubt, provisional})
	if !provisional && doubt != record.DoubtNone && doubt != h.doubt {
		h.add(span{from: r.Until, to: r.Counted, doubt: doubt}) // it may have been counted after Until
	}
	h.last, h.doubt, h.provisional = r, record.DoubtNone, false
}

func (h *history) begin(r Report) {
	h.last = r
	h.add(span{from: r.Since, to: r.Until})
}

// missingBy is which counter says that postcards are missing.
func missingBy(last, r Report) record.Doubt {
	switch {
	case r.Suppressed != last.Suppressed:
		return record.DoubtSuppressed
	case r.Lost != last.Lost:
		return record.DoubtDropped
	case r.NotSent != last.NotSent:
		return record.DoubtDropped
	}
	return record.DoubtNone
}

// add appends a span; what an earlier one says of its time holds.
func (h *history) add(s span) {
	if n := len(h.spans); n > 0 {
		last := &h.spans[n-1]
		if s.from.Before(last.to) {
			s.from = last.to
		}
		if s.from.Equal(last.to) && s.doubt == last.doubt && !s.provisional && !last.provisional && s.from.Before(s.to) {
			last.to = s.to
			return
		}
	}
	if !s.from.Before(s.to) {
		return
	}
	if len(h.spans) >= maxSpans {
		h.spans = append(h.spans[:0], h.spans[1:]...)
	}
	h.spans = append(h.spans, s)
}

// End ends the feeds of a session. What they said stays known as long as no other feed of
// the exporter takes their place.
func (b *Base) End(session any) {
	for key, f := range b.feeds {
		if key.Session == session {
			b.end(f)
		}
	}
}

func (b *Base) end(f *feed) {
	f.endProvisional(false)
	delete(b.feeds, f.key)
	if len(f.namespaces) == 0 || len(b.exporters[f.from]) > 1 {
		b.forget(f)
		return
	}
	if b.ended = append(b.ended, f); len(b.ended) > maxEnded {
		b.forget(b.ended[0])
		b.ended = b.ended[1:]
	}
}

// forget removes a feed from its exporter.
func (b *Base) forget(f *feed) {
	list := slices.DeleteFunc(b.exporters[f.from], func(other *feed) bool { return other == f })
	if b.exporters[f.from] = list; len(list) == 0 {
		delete(b.exporters, f.from)
	}
}

// begin makes a feed, unless there are too many.
func (b *Base) begin(key Feed, from join.Exporter, whole bool, now time.Time) *feed {
	if len(b.feeds) >= maxFeeds && !b.makeRoom(now) {
		return nil
	}
	f := &feed{key: key, from: from, complete: whole, namespaces: map[ioam.NamespaceID]*history{}}
	b.feeds[key] = f
	if list := b.exporters[from]; len(list) >= maxFeedsOf {
		b.end(slices.MinFunc(list, func(a, b *feed) int { return a.lastHeard.Compare(b.lastHeard) }))
	}
	b.exporters[from] = append(b.exporters[from], f)
	return f
}

// sweepSpan is the least time between two searches for feeds to end, so that forged
// senders do not cause one with each datagram.
const sweepSpan = 100 * time.Millisecond

// makeRoom ends feeds that never reported, or for long.
func (b *Base) makeRoom(now time.Time) bool {
	if d := now.Sub(b.swept); d >= 0 && d < sweepSpan {
		return false
	}
	b.swept = now
	for _, f := range b.feeds {
		if idle := now.Sub(f.lastHeard); idle > time.Hour || len(f.namespaces) == 0 && idle > time.Second {
			b.end(f)
		}
	}
	return len(b.feeds) < maxFeeds
}

// Answer is what is known of a time: nothing in doubt, or why it is.
type Answer struct {
	Doubt record.Doubt
	Since time.Time // of DoubtLate: the exporter has not reported since; of DoubtBegan, it is known only since
}

// better says which of two answers of one exporter holds: any feed may have had all.
func (a Answer) better(other Answer) bool {
	return a.Doubt == record.DoubtNone && other.Doubt != record.DoubtNone
}

// Of says whether all postcards of an exporter in a namespace about packets that it saw
// from one time to another came.
func (b *Base) Of(exporter join.Exporter, ns ioam.NamespaceID, from, to time.Time) Answer {
	answer := Answer{Doubt: record.DoubtUnheard}
	for _, f := range slices.Backward(b.exporters[exporter]) { // the latest first
		if h := f.namespaces[ns]; h != nil {
			if a := h.of(from, to); answer.Doubt == record.DoubtUnheard || a.better(answer) {
				answer = a
			}
		}
	}
	return answer
}

func (h *history) of(from, to time.Time) Answer {
	for i := len(h.spans) - 1; i >= 0 && from.Before(h.spans[i].to); i-- {
		if s := &h.spans[i]; s.doubt != record.DoubtNone && !to.Before(s.from) {
			return Answer{Doubt: s.doubt}
		}
	}
	switch {
	case len(h.spans) == 0 || from.Before(h.spans[0].from):
		return Answer{record.DoubtBegan, h.last.Until}
	case h.last.Until.Before(to):
		return Answer{record.DoubtLate, h.last.Until}
	}
	return Answer{}
}

// last is the latest report of an exporter about a namespace.
func (b *Base) last(exporter join.Exporter, ns ioam.NamespaceID) (last Report, ok bool) {
	for _, f := range b.exporters[exporter] {
		if h := f.namespaces[ns]; h != nil && (!ok || h.last.Until.After(last.Until)) {
			last, ok = h.last, true
		}
	}
	return last, ok
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
