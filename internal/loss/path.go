// SPDX-License-Identifier: Apache-2.0

package loss

// way is the points of a flow with what they reported of a block.
type way struct {
	points []judged
	timing Timing
}

// ingress and egress are the first and the last point.
func (w way) ingress() *judged { return &w.points[0] }
func (w way) egress() *judged  { return &w.points[len(w.points)-1] }

// near reports whether the clocks of two points are known to be no further apart than planned.
// Otherwise they may have counted packets of other blocks.
func (w way) near(a, b *judged) bool {
	_, near := w.timing.Apart(a.Reading.ClockError, b.Reading.ClockError)
	return near
}

// doubtPath notes that packets may have passed one of a segment's ends by, so that what is
// missing there, or too much after it, proves neither a loss nor a duplicate:
//
//   - fewer packets at the second point than at the first, and more at a later one;
//   - more packets at the second point than at the first, and more at an earlier one.
//
// Where duplicates are proven on the way, they explain the same counters, and the reason is
// PathUnknown. It is also that where the way's last (or first) point would tell whether there
// were more, and its counters are missing, have a reason, or are by a clock too far away. If
// there is no doubt because it is assumed to select the same packets, so is the result.
func (w way) doubtPath(s *Segment, from, to int) {
	a, b := &w.points[from], &w.points[to]
	if a.own()|b.own() != 0 || !w.near(a, b) {
		return // there is a reason already
	}
	sent, received := a.Reading.Packets, b.Reading.Packets
	switch {
	case received < sent && to < len(w.points)-1:
		s.To.Reasons |= w.doubt(w.points[to+1:], w.egress(), b)
		s.assumeOf(w.egress())
	case received > sent && from > 0:
		s.From.Reasons |= w.doubt(w.points[:from], w.ingress(), a)
		s.assumeOf(w.ingress())
	}
}

// doubt is the reason not to trust what a point lacks: other points counted more packets, or
// the last one of them cannot tell.
func (w way) doubt(others []judged, end, point *judged) Reasons {
	more, proven := false, false
	for i := range others {
		if other := &others[i]; other.isLeast() && other.Reading.Packets > point.Reading.Packets {
			more, proven = true, proven || w.near(other, point)
		}
	}
	switch {
	case proven && w.mostAfter().packets <= w.ingress().Reading.Packets:
		return OtherPath
	case more || end.own() != 0 || !w.near(end, point):
		return PathUnknown
	}
	return 0
}

// isLeast reports whether at least as many packets passed a point as it counted: what is wrong
// with its counters is only that some are missing in them.
func (r *judged) isLeast() bool {
	const missing = Restarted | GuardViolated | ColourMissing | ColourOutOfTurn | Uncovered
	return r.Present && r.own()&^missing == 0 && r.Reading.Flags&OutsideWindow == 0
}

// bound is what some point counted, and whether it is assumed that it selects the flow's packets.
type bound struct {
	packets uint64
	assumed bool
}

// trusted passes what the points after the ingress counted whose counters show no reason, by
// clocks near the ingress's; nothing if the ingress's own counters show one.
func (w way) trusted(yield func(bound) bool) {
	if w.ingress().own() != 0 {
		return
	}
	for i := range w.points[1:] {
		p := &w.points[i+1]
		if p.own() == 0 && w.near(w.ingress(), p) && !yield(bound{p.Reading.Packets, p.assumed}) {
			return
		}
	}
}

// mostAfter is the most packets that a point counted, of those that can be trusted. More than
// the ingress counted prove duplicates.
func (w way) mostAfter() (most bound) {
	for b := range w.trusted {
		if b.packets > most.packets || b.packets == most.packets && !b.assumed {
			most = b
		}
	}
	return most
}

// boundBy takes into account what points between the ends of the whole way counted: more
// packets than were sent prove duplicates, and then those that are missing at a point are
// missing whatever came after it.
func (s *Segment) boundBy(w way) {
	if !s.Verdict.Exact() && s.Verdict != Duplicated {
		return
	}
	sent, most := w.ingress().Reading.Packets, w.mostAfter()
	if most.packets <= sent {
		return
	}
	least := bound{packets: sent}
	for b := range w.trusted {
		if b.packets < least.packets || b.packets == least.packets && !b.assumed {
			least = b
		}
	}
	s.Verdict = Duplicated
	s.deriveLosses()
	s.Packets.Duplicated, s.Packets.LostMin = Number{most.packets - sent, true}, Number{sent - least.packets, true}
	s.Mean, s.MeanRange = Sample{}, Range{}
	if most.assumed || least.assumed {
		s.Assumed |= AssumedSelection
	}
}

// assumeOf notes that the result rests on what a point counted.
func (s *Segment) assumeOf(p *judged) {
	if p.assumed {
		s.Assumed |= AssumedSelection
	}
}
