// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"testing"
	"time"
)

// Sequence numbers of one domain over UDP: what is missed and out of its turn after each
// message, and after the time for late ones.
func TestSequence(t *testing.T) {
	type step struct {
		number, records uint32
		counted         bool
		missed          uint32
		outOfOrder      bool
	}
	for name, c := range map[string]struct {
		steps  []step
		missed uint32 // by the gaps that were not filled
		breaks uint64
	}{
		"in order":                  {[]step{{5, 3, true, 0, false}, {8, 0, true, 0, false}, {8, 2, true, 0, false}}, 0, 0},
		"wraps":                     {[]step{{1<<32 - 1, 3, true, 0, false}, {2, 1, true, 0, false}}, 0, 0},
		"gap":                       {[]step{{0, 3, true, 0, false}, {10, 1, true, 0, false}, {11, 1, true, 0, false}}, 7, 0},
		"gap over the wrap":         {[]step{{1<<32 - 2, 1, true, 0, false}, {4, 1, true, 0, false}}, 5, 0},
		"changed places":            {[]step{{0, 3, true, 0, false}, {5, 1, true, 0, false}, {3, 2, true, 0, true}, {6, 1, true, 0, false}}, 0, 0},
		"twice":                     {[]step{{0, 3, true, 0, false}, {0, 3, true, 0, true}, {3, 3, true, 0, false}, {6, 1, true, 0, false}}, 0, 0},
		"late, and twice":           {[]step{{0, 3, true, 0, false}, {5, 1, true, 0, false}, {3, 2, true, 0, true}, {3, 2, true, 0, true}, {6, 1, true, 0, false}}, 0, 0},
		"two late":                  {[]step{{0, 3, true, 0, false}, {9, 1, true, 0, false}, {3, 3, true, 0, true}, {6, 3, true, 0, true}, {10, 1, true, 0, false}}, 0, 0},
		"in reverse":                {[]step{{0, 3, true, 0, false}, {9, 1, true, 0, false}, {6, 3, true, 0, true}, {3, 3, true, 0, true}, {10, 1, true, 0, false}}, 0, 0},
		"one of two late":           {[]step{{0, 3, true, 0, false}, {9, 1, true, 0, false}, {5, 2, true, 0, true}, {10, 1, true, 0, false}}, 4, 0},
		"late over the wrap":        {[]step{{1<<32 - 3, 1, true, 0, false}, {4, 1, true, 0, false}, {1<<32 - 2, 6, true, 0, true}, {5, 1, true, 0, false}}, 0, 0},
		"late, longer than its gap": {[]step{{0, 3, true, 0, false}, {5, 1, true, 0, false}, {4, 9, true, 0, true}, {6, 1, true, 0, false}}, 1, 0},
		"restart": {[]step{{900, 1, true, 0, false}, {0, 1, true, 0, true}, {1, 1, true, 0, true}, {2, 1, true, 0, true}, {3, 1, true, 0, true},
			{4, 1, true, 0, true}, {5, 1, true, 0, true}, {6, 1, true, 0, true}, {7, 1, true, 0, true}, {10, 1, true, 0, false}}, 2, 1},
		"gap, and restart": {[]step{{890, 1, true, 0, false}, {900, 1, true, 0, false}, {0, 1, true, 0, true}, {1, 1, true, 0, true}, {2, 1, true, 0, true}, {3, 1, true, 0, true},
			{4, 1, true, 0, true}, {5, 1, true, 0, true}, {6, 1, true, 0, true}, {7, 1, true, 9, true}, {8, 1, true, 0, false}}, 9, 1},
		"restart after many records": {[]step{{3 << 30, 1, true, 0, false}, {40, 2, true, 0, true}, {42, 1, true, 0, false}, {50, 1, true, 0, false}}, 7, 1},
		"great gap over the wrap":    {[]step{{1<<32 - 70000, 1, true, 0, false}, {40, 1, true, 0, false}}, 70039, 0},
		"records not counted":        {[]step{{0, 3, true, 0, false}, {3, 1, false, 0, false}, {90, 1, true, 0, false}, {91, 1, true, 0, false}}, 0, 1},
		"late after not counted":     {[]step{{0, 5, true, 0, false}, {5, 5, false, 0, false}, {30, 4, true, 0, false}, {34, 1, true, 0, false}, {36, 1, false, 0, false}, {37, 1, false, 0, false}, {38, 1, true, 0, false}}, 1, 3},
		"gap, and not counted":       {[]step{{0, 3, true, 0, false}, {5, 1, false, 0, false}, {90, 1, true, 0, false}}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var q sequence
			for i, s := range c.steps {
				if missed, outOfOrder := q.follow(s.number, s.records, s.counted, false, exportTime); missed != s.missed || outOfOrder != s.outOfOrder {
					t.Errorf("step %d: missed %d, out of order %v", i, missed, outOfOrder)
				}
			}
			if early := q.giveUpOld(exportTime.Add(reorderTime)); early != 0 {
				t.Errorf("%d are missed before their time is over", early)
			}
			q.giveUpOld(exportTime.Add(reorderTime + 1))
			if q.state.Breaks != c.breaks {
				t.Errorf("%d breaks, want %d", q.state.Breaks, c.breaks)
			}
			if q.state.Missed != uint64(c.missed) || q.state.Awaited() != 0 {
				t.Errorf("missed %d in all, want %d: %+v", q.state.Missed, c.missed, q.state)
			}
		})
	}
}

// Numbers that do not come in time are missed. The next message of the session says so, or CountMissed, which knows
// ended sessions, too. The number of gaps that are waited for is bounded.
func TestGapsAreGivenUp(t *testing.T) {
	d := NewDecoder(DecoderConfig{Registry: registry(t)})
	s := open(t, d, key(UDP, 1), exportTime)
	at := func(s *Session, sequence uint32, after time.Duration) *Message {
		m, err := s.Decode(sets(t, sequence, portTemplate, portData), exportTime.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	at(s, 0, 0)
	checkProblems(t, at(s, 6, 0).Problems, NumCauses)
	checkProblems(t, at(s, 7, reorderTime).Problems, NumCauses)
	checkProblems(t, at(s, 8, reorderTime+1).Problems, CauseSequenceGap)
	late := at(s, 3, reorderTime+1)
	checkProblems(t, late.Problems, CauseSequenceOutOfOrder) // too late
	if late.Counted != (SequenceState{Gaps: 5, Missed: 5}) {
		t.Errorf("%+v", late.Counted)
	}
	at(s, 11, 2*reorderTime)
	if n := d.CountMissed(exportTime.Add(2 * reorderTime)); n != 0 {
		t.Errorf("%d settled before their time", n)
	}
	if n := d.CountMissed(exportTime.Add(4 * reorderTime)); n != 2 {
		t.Errorf("%d settled, want 2", n)
	}
	at(s, 15, 4*reorderTime)
	d.Close(key(UDP, 1))
	if n := d.CountMissed(exportTime.Add(4 * reorderTime)); n != 3 {
		t.Errorf("%d of a session that ended, want 3", n)
	}
	if n := d.CountMissed(exportTime.Add(9 * reorderTime)); n != 0 {
		t.Errorf("%d counted twice", n)
	}
	s = open(t, d, key(UDP, 2), exportTime)
	for i := range uint32(3 * maxGaps) {
		at(s, 2*i, 0)
	}
	if gaps := len(s.domains[7].sequence.gaps); gaps != maxGaps {
		t.Errorf("%d gaps wait, want %d", gaps, maxGaps)
	}
}

// A template that is refused, or changed by a message that is discarded, ends the one
// with its number: otherwise that would read data of other fields (RFC 7011 §8).
func TestRefusedTemplateEndsTheOld(t *testing.T) {
	for name, c := range map[string]struct {
		set     string // after portTemplate
		discard bool
		keeps   bool
	}{
		"one field is missing":         {"0002 000c 0100 0002 000b 0002", true, false},
		"field of length 0":            {"0002 0014 0100 0003 000b 0002 0007 0002 00d2 0000", false, false},
		"enterprise 0":                 {"0002 0014 0100 0002 000b 0002 8007 0002 00000000", false, false},
		"too many fields":              {"0002 0018 0100 0004 000b 0002 0007 0001 0007 0001 0007 0001", false, false},
		"no record fits":               {"0002 0010 0100 0002 000b 0002 0052 fffe", false, false},
		"options without scope":        {"0003 0012 0100 0002 0000 000b 0002 0007 0002", false, false},
		"the message ends too early":   {"0002 0010 0100 0002 000b 0002 0007 0002 0100 0009 0001 0002", true, false},
		"the same, in such a message":  {portTemplate + "0100 0009 0001 0002", true, true},
		"another one is refused":       {"0002 0010 0101 0002 000b 0002 0007 0000", false, true},
		"another one, and discarded":   {"0002 000c 0101 0002 000b 0002", true, true},
		"data that reach too far only": {"0100 0009 0001 0002", true, true},
	} {
		for _, transport := range []Transport{UDP, TCP} {
			t.Run(name+" over "+transport.String(), func(t *testing.T) {
				s := session(t, transport, Limits{Fields: 3})
				decode(t, s, sets(t, 0, portTemplate))
				if m, err := s.Decode(sets(t, 0, c.set), exportTime); (err != nil) != c.discard {
					t.Fatalf("%+v, %v", m, err)
				}
				want, next := CauseUnknownTemplate, uint32(0)
				if c.keeps {
					want, next = NumCauses, 1
				}
				checkProblems(t, decode(t, s, sets(t, 0, portData)).Problems, want)
				checkProblems(t, decode(t, s, sets(t, next, portTemplate, portData)).Problems, NumCauses) // a good one comes
			})
		}
	}
}

// The same of options templates.
func TestRefusedOptionsTemplateEndsTheOld(t *testing.T) {
	s := session(t, UDP, Limits{})
	decode(t, s, sets(t, 0, portTemplate, aboutTemplate))
	checkProblems(t, decode(t, s, sets(t, 0, "0003 0012 0102 0002 0003 0091 0002 00ad 0008")).Problems, CauseTemplateInvalid)
	checkProblems(t, decode(t, s, sets(t, 0, aboutData)).Problems, CauseUnknownTemplate)
}
