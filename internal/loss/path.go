// SPDX-License-Identifier: Apache-2.0

package loss

// doubtPath notes that packets may have passed one of a segment's ends by, so that what is
// missing there, or too much after it, proves neither a loss nor a duplicate:
//
//   - fewer packets at the second point than at the first, and more at a later one;
//   - more packets at the second point than at the first, and more at an earlier one.
//
// Where duplicates are proven on the way, they explain the same counters, and the reason is
// PathUnknown. It is also that where the way's last (or first) point would tell whether there
// were more, and its counters are missing or have a reason.
func doubtPath(s *Segment, all []judged, from, to int) {
	if all[from].own()|all[to].own() != 0 {
		return
	}
	sent, received, last := all[from].Reading.Packets, all[to].Reading.Packets, len(all)-1
	switch {
	case received < sent && to < last:
		s.To.Reasons |= doubt(all, all[to+1:], &all[last], received)
	case received > sent && from > 0:
		s.From.Reasons |= doubt(all, all[:from], &all[0], sent)
	}
}

// doubt is the reason not to trust a difference: other points counted more packets, or the
// last one of them cannot tell.
func doubt(all, others []judged, end *judged, packets uint64) Reasons {
	more := false
	for i := range others {
		more = more || others[i].isLeast() && others[i].Reading.Packets > packets
	}
	switch {
	case more && mostAfter(all) <= all[0].Reading.Packets:
		return OtherPath
	case more || end.own() != 0:
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

// mostAfter is the most packets that a point after the ingress counted, of those that can be
// trusted. More than the ingress counted prove duplicates. It is 0 if the ingress cannot be
// trusted.
func mostAfter(all []judged) (most uint64) {
	if all[0].own() != 0 {
		return 0
	}
	for i := range all[1:] {
		if p := &all[i+1]; p.own() == 0 {
			most = max(most, p.Reading.Packets)
		}
	}
	return most
}

// boundBy takes into account what points between the ends of the whole way counted: more
// packets than were sent prove duplicates, and then those that are missing at a point are
// missing whatever came after it.
func (s *Segment) boundBy(all []judged) {
	if !s.Verdict.Exact() && s.Verdict != Duplicated {
		return
	}
	sent := all[0].Reading.Packets
	most := mostAfter(all)
	if most <= sent {
		return
	}
	least := sent
	for i := range all {
		if all[i].own() == 0 {
			least = min(least, all[i].Reading.Packets)
		}
	}
	s.Verdict = Duplicated
	s.settle()
	s.Packets.Duplicated, s.Packets.LostMin = Number{most - sent, true}, Number{sent - least, true}
	s.Mean, s.MeanRange = Sample{}, Range{}
}
