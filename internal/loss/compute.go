// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// MaxPoints is the most points that a flow may have.
const MaxPoints = 16

// Flow is what is measured: packets that pass points in order. The first point is the
// ingress, the last one the egress, the others are transit points.
type Flow struct {
	ID     FlowID
	Points []PointID // two to MaxPoints, no point twice
	Timing Timing
	// Assumed: points that do not say which packets they select are taken to select those of
	// the first point.
	Assumed bool
}

// Validate reports why a flow cannot be measured.
func (f *Flow) Validate() error {
	if n := len(f.Points); n < 2 || n > MaxPoints {
		return problem.New(fmt.Sprintf("flow %d has %d points", f.ID, n), fmt.Sprintf("give it from 2 to %d", MaxPoints))
	}
	for i, p := range f.Points {
		if slices.Contains(f.Points[:i], p) {
			return problem.New(fmt.Sprintf("flow %d has point %d twice", f.ID, p), "count at each point once")
		}
	}
	if err := f.Timing.Validate(); err != nil {
		return fmt.Errorf("flow %d: %w", f.ID, err)
	}
	return nil
}

// Report is what is known of a point's counters of a block.
type Report struct {
	Reading       Reading
	Present       bool // the point reported
	Contradicting bool // and reported something else, too
	Selection     Selection
}

// judged is a report that was compared with those of the other points.
type judged struct {
	Report
	unlike  string // how its selection differs from that of the flow's first point, in words
	assumed bool   // that it does not
}

// own are the reasons that the report shows by itself.
func (r *judged) own() (out Reasons) {
	switch {
	case !r.Present:
		out = Missing
	case r.Contradicting:
		out = r.Reading.reasons() | Contradicting
	default:
		out = r.Reading.reasons()
	}
	if r.unlike != "" {
		out |= OtherSelection
	}
	return out
}

// Result is the result of one block of a flow.
type Result struct {
	Flow     FlowID
	Block    int64
	Start    int64 // nanoseconds of UTC since 1970
	Length   time.Duration
	Whole    Segment   // from the ingress to the egress
	Segments []Segment // between neighbours; empty unless there are transit points
	Timing   Timing    // the plan of the flow's blocks

	// Tested is of the test packets that took the flow's way in this block. Compute does not
	// set it.
	Tested Tested
}

// Tested is the mean one-way delay of test packets, by clocks that are known to be no further
// apart than planned.
type Tested struct {
	Sample
	Clocks time.Duration // how far they may be apart
}

// Segment is the result for a part of a flow's way.
type Segment struct {
	From, To        End
	Verdict         Verdict
	Assumed         Assumptions // on which the verdict rests
	Packets, Octets Tally

	// Mean is the mean delay of all packets, from the sums of their times (RFC 9341
	// §3.2.1.1). It is known only if as many packets came as were sent.
	Mean Sample
	// DoubleMarked is the mean delay of the packets with a second mark (RFC 9341 §3.2.2),
	// and the delay of the packet if there is one. It is known only if the ends counted
	// as many.
	DoubleMarked Sample
	// MeanRange bounds the mean delay of the packets that came, where others were lost.
	MeanRange Range
}

// Reasons are the reasons of both ends.
func (s *Segment) Reasons() Reasons { return s.From.Reasons | s.To.Reasons }

// End is an end of a segment.
type End struct {
	Point      PointID
	Reasons    Reasons
	ClockError int64 // as in a Reading; UnknownClock without one
	// Difference says in words how the packets that the point selects differ from those of the
	// flow; "" unless OtherSelection is among Reasons.
	Difference string
}

// Number is a number that may be unknown.
type Number struct {
	Value uint64
	Known bool
}

// octets are those that a point counted, if it knows them.
func (r *Reading) octets() Number {
	if r.UnsureOctets > 0 {
		return Number{}
	}
	return Number{r.Octets, true}
}

// Tally compares the counters of two points. Lost is known only if the verdict is exact.
// Of octets, they are unknown also if a point could not count octets exactly, or the
// second one counted more.
type Tally struct {
	Sent, Received Number // counted at the first and at the second point
	Lost           Number // missing at the second point
	Duplicated     Number // the least number: 0 if the verdict is exact; known also if it is Duplicated
	LostMin        Number // if it is Duplicated: the least number that did not arrive at one of the points
}

// Ratio is the share of packets that were lost, 0 to 1; false if it is unknown, or no
// packet was sent.
func (t *Tally) Ratio() (float64, bool) {
	if !t.Lost.Known || t.Sent.Value == 0 {
		return 0, false
	}
	return float64(t.Lost.Value) / float64(t.Sent.Value), true
}

// compare sets what follows from the counters: how many were lost is not known if more
// were received than sent.
func (t *Tally) compare() {
	sent, received := t.Sent.Value, t.Received.Value
	if t.Lost = (Number{}); received <= sent {
		t.Lost = Number{sent - received, true}
	}
	t.Duplicated = Number{received - min(sent, received), true}
}

// Sample is a one-way delay: the time of arrival by one clock less the time of departure
// by another. The errors of both clocks are in the segment's ends.
type Sample struct {
	Delay   time.Duration
	Packets uint64 // whose mean delay it is; 0: unknown
}

// Compute compares the reports of a block, which are in the order of the flow's points.
// Points without a report are missing.
func Compute(f *Flow, block int64, reports []Report) Result {
	all := make([]judged, len(f.Points))
	for i := range min(len(all), len(reports)) {
		all[i].Report = reports[i]
	}
	out := Result{Flow: f.ID, Block: block, Start: f.Timing.Start(block), Length: f.Timing.Length, Timing: f.Timing}
	last := len(all) - 1
	if last < 1 {
		return out
	}
	compareSelections(all, f.Assumed)
	w := way{all, f.Timing}
	out.Whole = f.segment(w, 0, last)
	if last == 1 {
		return out
	}
	out.Segments = make([]Segment, last)
	for i := range out.Segments {
		out.Segments[i] = f.segment(w, i, i+1)
	}
	out.Whole.boundBy(w)
	return out
}

// segment compares two points.
func (f *Flow) segment(w way, from, to int) Segment {
	a, b := &w.points[from], &w.points[to]
	s := Segment{From: f.end(a, from), To: f.end(b, to)}
	if !a.Present && !b.Present {
		return s
	}
	if a.Present {
		s.Packets.Sent, s.Octets.Sent = Number{a.Reading.Packets, true}, a.Reading.octets()
	}
	if b.Present {
		s.Packets.Received, s.Octets.Received = Number{b.Reading.Packets, true}, b.Reading.octets()
	}
	if a.Present && b.Present {
		f.Timing.compareClocks(&s.From, &s.To)
		w.doubtPath(&s, from, to)
	}
	s.assumeOf(a)
	s.assumeOf(b)
	switch {
	case s.Reasons() != 0:
		s.Verdict = Uncertain
		return s
	case b.Reading.Packets > a.Reading.Packets:
		s.Verdict = Duplicated
	case a.Reading.Packets == 0:
		s.Verdict = Idle
	default:
		s.Verdict = Measured
	}
	s.deriveLosses()
	if a.Reading.Timed && b.Reading.Timed {
		sent, came := Marked{a.Reading.Packets, a.Reading.TimeSum}, Marked{b.Reading.Packets, b.Reading.TimeSum}
		s.Mean, s.MeanRange = f.Timing.meanDelay(sent, came), f.Timing.meanRange(sent, came)
	}
	s.DoubleMarked = f.Timing.meanDelay(a.Reading.DoubleMarked, b.Reading.DoubleMarked)
	return s
}

// deriveLosses sets what follows from the verdict and the counters.
func (s *Segment) deriveLosses() {
	if !s.Verdict.Exact() && s.Verdict != Duplicated {
		return
	}
	s.Packets.compare()
	if s.Octets.Sent.Known && s.Octets.Received.Known {
		s.Octets.compare()
	}
	if s.Verdict == Duplicated {
		s.Packets.Lost, s.Octets.Lost = Number{}, Number{}
		s.Packets.LostMin.Known = true
	}
}

// end describes a point, without the comparison of its clock with another.
func (f *Flow) end(r *judged, i int) End {
	e := End{Point: f.Points[i], Reasons: r.own(), ClockError: UnknownClock, Difference: r.unlike}
	if r.Present {
		e.ClockError = max(r.Reading.ClockError, UnknownClock)
	}
	return e
}

// compareClocks notes that the clocks of two ends may differ by more than allowed, at
// the end or ends to blame.
func (t Timing) compareClocks(from, to *End) {
	if _, near := t.Apart(from.ClockError, to.ClockError); near {
		return
	}
	for _, e := range []*End{from, to} {
		if e.ClockError < 0 || e.ClockError > int64(t.ClockDifference)/2 {
			e.Reasons |= ClockWorse
		}
	}
}

// meanDelay is the mean delay of packets, rounded toward zero. It is unknown when counts
// differ, and when there are enough packets for a sum to wrap unnoticed.
func (t Timing) meanDelay(from, to Marked) Sample {
	n := from.Packets
	if n == 0 || n != to.Packets || n > math.MaxInt64/uint64(t.MaxDelay+t.ClockDifference+1) {
		return Sample{}
	}
	sum := int64(uint64(to.TimeSum) - uint64(from.TimeSum))
	return Sample{Delay: time.Duration(sum / int64(n)), Packets: n}
}

// Range is what a mean delay is between, and of how many packets; 0: unknown.
type Range struct {
	Least, Most time.Duration
	Packets     uint64
}

// meanRange bounds the mean delay of the packets that came, where some were lost. The sum of
// the departures has those of lost packets, too. These lie in the block, at most a guard
// before or after it by the first point's clock, or they would not have been counted in it:
//
//	sum of delays = arrivals − departures of all + departures of the lost
func (t Timing) meanRange(from, to Marked) Range {
	n := to.Packets
	if n == 0 || from.Packets <= n || from.Packets > math.MaxInt64/uint64(4*t.Length) {
		return Range{}
	}
	lost := int64(from.Packets - n)
	sum := int64(uint64(to.TimeSum) - uint64(from.TimeSum))
	least, most := sum-lost*int64(t.Guard()), sum+lost*int64(t.Length+t.MinDelay+t.Guard())
	return Range{Least: time.Duration(floor(least, int64(n))), Most: time.Duration(-floor(-most, int64(n))), Packets: n}
}
