// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math"
	"strings"
	"testing"
	"time"
)

// line is a flow with that many points, numbered from 1.
func line(points int) *Flow {
	f := &Flow{ID: 7, Timing: plan}
	for i := range points {
		f.Points = append(f.Points, PointID(i+1))
	}
	return f
}

// usual is what points select.
var usual = Selection{Block: 1000, Path: 1, Marking: 1}

// counted are reports of a flow's points that counted so many packets, of 100 octets and
// with a delay of 1 ms from point to point.
func counted(packets ...uint64) (list []Report) {
	for i, n := range packets {
		list = append(list, Report{Present: true, Reading: Reading{
			Flow: 7, Point: PointID(i + 1), Block: 4, Packets: n, Octets: 100 * n, Timed: true, TimeSum: int64(n) * int64(i) * int64(ms),
			ClockError: int64(plan.ClockDifference / 2),
		}, Selection: usual})
	}
	return list
}

// Every reason, at the end that has it.
func TestReasons(t *testing.T) {
	const limit = int64(10 * ms)
	for _, tt := range []struct {
		name     string
		change   func(from, to *Report)
		from, to Reasons
	}{
		{"nothing", func(_, _ *Report) {}, 0, 0},
		{"no reading of the first", func(from, _ *Report) { *from = Report{} }, Missing, 0},
		{"no reading of the second", func(_, to *Report) { *to = Report{} }, 0, Missing},
		{"two different readings", func(from, _ *Report) { from.Contradicting = true }, Contradicting, 0},
		{"counting began", func(from, _ *Report) { from.Reading.Flags = Began }, Restarted, 0},
		{"counting was interrupted", func(_, to *Report) { to.Reading.Flags = Interrupted }, 0, Restarted},
		{"read outside the window", func(_, to *Report) { to.Reading.Flags = OutsideWindow }, 0, GuardViolated},
		{"late", func(_, to *Report) { to.Reading.Late = 1 }, 0, GuardViolated},
		{"out of turn", func(_, to *Report) { to.Reading.OutOfTurn = 1 }, 0, ColourOutOfTurn},
		{"bleached", func(_, to *Report) { to.Reading.Unmarked = 1 }, 0, ColourMissing},
		{"one clock is worse", func(_, to *Report) { to.Reading.ClockError = limit/2 + 1 }, 0, ClockWorse},
		{"one clock is worse, the other better", func(from, to *Report) { from.Reading.ClockError, to.Reading.ClockError = limit, 0 }, 0, 0},
		{"both clocks are worse", func(from, to *Report) { from.Reading.ClockError, to.Reading.ClockError = math.MaxInt64, math.MaxInt64 }, ClockWorse, ClockWorse},
		{"a clock is not known", func(from, _ *Report) { from.Reading.ClockError = math.MinInt64 }, ClockWorse, 0},
		{"another selection", func(_, to *Report) { to.Selection.Criteria = NewCriteria(new(uint8), nil) }, 0, OtherSelection},
		{"the second does not say what it selects", func(_, to *Report) { to.Selection = Selection{} }, 0, OtherSelection},
		{"the first does not say what it selects", func(from, _ *Report) { from.Selection = Selection{} }, OtherSelection, 0},
		{"neither says what it selects", func(from, to *Report) { from.Selection, to.Selection = Selection{}, Selection{} }, OtherSelection, OtherSelection},
		{"packets are shared at some points only", func(from, to *Report) { from.Selection.Takers, to.Selection.Takers = Partial, Partial }, OtherSelection, OtherSelection},
		{"another selection without counters", func(_, to *Report) { to.Present, to.Selection.Block = false, 2000 }, 0, Missing | OtherSelection},
		{"several", func(from, to *Report) {
			from.Contradicting, from.Reading.Flags, to.Reading.Unmarked, to.Reading.Late = true, Began|OutsideWindow, 3, 4
		}, Contradicting | Restarted | GuardViolated, GuardViolated | ColourMissing},
	} {
		reports := counted(10, 9)
		tt.change(&reports[0], &reports[1])
		r := Compute(line(2), 4, reports)
		s := r.Whole
		want := Uncertain
		if tt.from|tt.to == 0 {
			want = Measured
		}
		if s.Verdict != want || s.From.Reasons != tt.from || s.To.Reasons != tt.to || s.Packets.Lost.Known != (want == Measured) ||
			r.Segments != nil {
			t.Errorf("%s: %v, %q, %q, %+v", tt.name, s.Verdict, s.From.Reasons, s.To.Reasons, s.Packets)
		}
	}
	if got := AllReasons.Names(); len(got) != 13 || got[8] != "other_selection" || got[12] != "path_unknown" ||
		strings.Join(got, ",") != AllReasons.String() ||
		Reasons(0).Names() != nil {
		t.Errorf("%v", got)
	}
}

// A path without a transit point is no loss, and neither a loss nor a duplicate is certain
// where packets may have passed a point by.
func TestOtherPath(t *testing.T) {
	const missing = math.MaxUint64
	for _, tt := range []struct {
		packets []uint64
		// of the whole way and each segment: m measured, d duplicated, i idle, n no data; uncertain: o another path, p path unknown, u neither
		want string
	}{
		{[]uint64{100, 0, 100}, "moo"},
		{[]uint64{100, 60, 90}, "moo"},
		{[]uint64{100, 90, 90}, "mmm"},
		{[]uint64{100, 90, 80}, "mmm"},
		{[]uint64{100, 0, 0}, "mmi"},
		{[]uint64{0, 0, 0}, "iii"},
		{[]uint64{100, 90, 0, 90, 90}, "mmoom"},
		{[]uint64{100, 50, 60, 40}, "moom"},
		{[]uint64{100, 90, 90, 95}, "momo"}, // between two that the same packets bypass
		// Duplicates.
		{[]uint64{100, 100, 101}, "dmd"},
		{[]uint64{100, 101, 101}, "ddm"},
		{[]uint64{5000, 5000, 4995, 5005}, "dmpp"},
		{[]uint64{100, 110, 97}, "ddm"}, // as many fewer came than were sent as are lost at least
		{[]uint64{100, 110, 90, 95}, "ddpp"},
		{[]uint64{100, 0, 101}, "dpp"},
		// A missing end does not make the other segments doubtful; only what it would tell is not known.
		{[]uint64{100, 99, missing}, "upu"},
		{[]uint64{100, 100, missing}, "umu"},
		{[]uint64{100, 99, 99, missing}, "upmu"},
		{[]uint64{100, 90, 95, missing}, "uoou"},
		{[]uint64{missing, 90, 100}, "uup"},
		{[]uint64{missing, 100, 100}, "uum"},
		{[]uint64{missing, 100, 90}, "uum"},
		{[]uint64{missing, 100, 90, 95}, "uuoo"},
		{[]uint64{100, missing, 100}, "muu"},
		{[]uint64{100, missing, 101}, "duu"},
		{[]uint64{missing, missing, 100}, "unu"},
	} {
		reports := counted(tt.packets...)
		for i, n := range tt.packets {
			if n == missing {
				reports[i] = Report{}
			}
		}
		r := Compute(line(len(reports)), 4, reports)
		got := ""
		for _, s := range append([]Segment{r.Whole}, r.Segments...) {
			switch why := s.Reasons(); {
			case why&OtherPath != 0 && s.Verdict == Uncertain:
				got += "o"
			case why&PathUnknown != 0 && s.Verdict == Uncertain:
				got += "p"
			default:
				got += map[Verdict]string{NoData: "n", Uncertain: "u", Measured: "m", Idle: "i", Duplicated: "d"}[s.Verdict]
			}
			if !s.Verdict.Exact() && (s.Packets.Lost.Known || s.Octets.Lost.Known || s.Mean.Packets > 0) {
				t.Errorf("%v: %+v", tt.packets, s)
			}
		}
		if got != tt.want {
			t.Errorf("%v: %s, want %s", tt.packets, got, tt.want)
		}
	}
}

// With more received than sent, at the end or on the way, what was lost is not known; what is
// missing at a point is.
func TestBoundsWithDuplicates(t *testing.T) {
	share := func(s Share) *Share { return &s }
	for _, tt := range []struct {
		packets         []uint64
		lost, duplicate uint64 // at least
		worst           PointID
	}{
		{[]uint64{1000, 1001}, 0, 1, 0},
		{[]uint64{0, 3}, 0, 3, 0},
		{[]uint64{5000, 5000, 4995, 5005}, 5, 5, 3},
		{[]uint64{1000, 1010, 997}, 3, 10, 3},
		{[]uint64{1000, 990, 1010, 1002}, 10, 10, 2},
	} {
		r := Compute(line(len(tt.packets)), 4, counted(tt.packets...))
		p := &r.Whole.Packets
		if r.Whole.Verdict != Duplicated || p.Lost.Known || p.LostMin != (Number{tt.lost, true}) || p.Duplicated != (Number{tt.duplicate, true}) {
			t.Errorf("%v: %v, %+v", tt.packets, r.Whole.Verdict, p)
		}
		if _, ok := p.Ratio(); ok || r.Whole.Octets.Lost.Known || r.Whole.Mean.Packets > 0 || r.Whole.MeanRange.Packets > 0 {
			t.Errorf("%v: %+v", tt.packets, r.Whole)
		}
		if got := NewWatch(Thresholds{MaxLoss: share(0)}).AddResult(&r); got != (Crossings{Loss: tt.lost > 0, Duplicated: true}) {
			t.Errorf("%v: %+v", tt.packets, got)
		}
		worst, _ := r.WorstSegment()
		if (worst == nil) != (tt.worst == 0) || worst != nil && worst.To.Point != tt.worst {
			t.Errorf("%v: worst %+v", tt.packets, worst)
		}
	}
}

// A point whose counters are incomplete says why; that it counted fewer than others shows no
// other path. This is so at all points in the block in which a measurement starts.
func TestNoOtherPathOfIncompleteCounters(t *testing.T) {
	all := []int{0, 1, 2, 3}
	for _, tt := range []struct {
		name    string
		packets []uint64
		began   []int        // points; negative: read outside the window
		want    [][2]Reasons // of each segment
	}{
		{"start, no packets", []uint64{0, 0, 0, 0}, all, [][2]Reasons{{Restarted, Restarted}, {Restarted, Restarted}, {Restarted, Restarted}}},
		{"start, each at its own time", []uint64{90, 60, 70, 80}, all, [][2]Reasons{{Restarted, Restarted}, {Restarted, Restarted}, {Restarted, Restarted}}},
		{"a transit point starts", []uint64{100, 60, 100, 100}, []int{1}, [][2]Reasons{{0, Restarted}, {Restarted, 0}, {}}},
		{"both ends start", []uint64{90, 90, 90, 90}, []int{0, 3}, [][2]Reasons{{Restarted, 0}, {}, {0, Restarted}}},
		{"the egress starts, one is missing before", []uint64{90, 90, 89, 80}, []int{3}, [][2]Reasons{{}, {0, PathUnknown}, {0, Restarted}}},
		{"the egress starts, and counted more", []uint64{90, 90, 70, 80}, []int{3}, [][2]Reasons{{}, {0, OtherPath}, {0, Restarted}}},
		{"the egress is read late, and counted more", []uint64{90, 90, 70, 80}, []int{-3}, [][2]Reasons{{}, {0, PathUnknown}, {0, GuardViolated}}},
		{"a transit point starts, the flow bypasses the other", []uint64{100, 60, 50, 100}, []int{1}, [][2]Reasons{{0, Restarted}, {Restarted, 0}, {OtherPath, 0}}},
	} {
		reports := counted(tt.packets...)
		for _, i := range tt.began {
			if i < 0 {
				reports[-i].Reading.Flags |= OutsideWindow // its counters may have packets of other blocks
				continue
			}
			reports[i].Reading.Flags |= Began
		}
		r := Compute(line(len(reports)), 4, reports)
		for i, s := range r.Segments {
			if got := [2]Reasons{s.From.Reasons, s.To.Reasons}; got != tt.want[i] {
				t.Errorf("%s: segment %d has %q, want %q", tt.name, i, got, tt.want[i])
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	const none = -1
	for _, tt := range []struct {
		sent, received, lost, duplicated uint64
		ratio                            float64
		verdict                          Verdict
	}{
		{100, 90, 10, 0, 0.1, Measured}, {100, 103, 0, 3, none, Duplicated}, {100, 0, 100, 0, 1, Measured}, {0, 0, 0, 0, none, Idle},
		{0, 2, 0, 2, none, Duplicated}, {math.MaxUint64, 0, math.MaxUint64, 0, 1, Measured},
	} {
		s := Compute(line(2), 4, counted(tt.sent, tt.received)).Whole
		ratio, ok := s.Packets.Ratio()
		if !ok {
			ratio = none
		}
		if s.Packets.Lost != (Number{tt.lost, tt.verdict != Duplicated}) || s.Packets.Duplicated != (Number{tt.duplicated, true}) ||
			ratio != tt.ratio ||
			s.Verdict != tt.verdict {
			t.Errorf("%d, %d: %v, %+v, %v", tt.sent, tt.received, s.Verdict, s.Packets, ratio)
		}
		if known := tt.sent == tt.received && tt.sent > 0; (s.Mean.Packets > 0) != known {
			t.Errorf("%d, %d: mean %+v", tt.sent, tt.received, s.Mean)
		}
	}
	r := Compute(line(2), 4, nil)
	if _, ok := r.Whole.Packets.Ratio(); ok || r.Whole.Verdict != NoData || r.Whole.Packets.Sent.Known || r.Whole.Reasons() != Missing ||
		r.Whole.From.ClockError != UnknownClock {
		t.Errorf("%+v", r.Whole)
	}
	if r.Start != int64(400*ms) || r.Length != 100*ms || r.Flow != 7 || r.Block != 4 {
		t.Errorf("%+v", r)
	}
	for points := range 2 { // an invalid flow
		if r := Compute(line(points), 4, counted(1, 2, 3)); r.Whole.Verdict != NoData {
			t.Errorf("%+v", r)
		}
	}
	unsure := counted(10, 9)
	unsure[1].Reading.UnsureOctets = 1
	if s := Compute(line(2), 4, unsure).Whole; s.Packets.Lost.Value != 1 || s.Octets.Lost.Known || s.Octets.Received.Known ||
		s.Octets.Sent != (Number{1000, true}) {
		t.Errorf("%+v, %+v", s.Packets, s.Octets)
	}
}

func TestDelays(t *testing.T) {
	mean := func(n uint64, from, to int64) Sample {
		reports := counted(n, n)
		reports[0].Reading.TimeSum, reports[1].Reading.TimeSum = from, to
		return Compute(line(2), 4, reports).Whole.Mean
	}
	for _, tt := range []struct {
		n        uint64
		from, to int64
		want     Sample
	}{
		{1, 10, 15, Sample{5, 1}}, {4, -10, 1, Sample{2, 4}}, {4, 1, -10, Sample{-2, 4}}, {3, 7, 7, Sample{0, 3}},
		{1000, math.MaxInt64 - 3, Sum(math.MaxInt64-3, 5000), Sample{5, 1000}}, // the sum wrapped
		{math.MaxUint64, 0, 0, Sample{}}, {1 << 40, 0, 1 << 41, Sample{}}, {1 << 27, 0, 1 << 50, Sample{1 << 23, 1 << 27}},
	} {
		if got := mean(tt.n, tt.from, tt.to); got != tt.want {
			t.Errorf("%d packets, %d to %d: %+v, want %+v", tt.n, tt.from, tt.to, got, tt.want)
		}
	}
	for _, tt := range []struct {
		from, to Marked
		want     Sample
	}{
		{Marked{1, 100}, Marked{1, 350}, Sample{250, 1}}, {Marked{2, 100}, Marked{2, 350}, Sample{125, 2}},
		{Marked{2, 100}, Marked{1, 350}, Sample{}}, {Marked{1, 100}, Marked{0, 0}, Sample{}}, {Marked{1, 100}, Marked{2, 900}, Sample{}},
		{Marked{}, Marked{}, Sample{}},
	} {
		reports := counted(10, 9)
		reports[0].Reading.DoubleMarked, reports[1].Reading.DoubleMarked = tt.from, tt.to
		s := Compute(line(2), 4, reports).Whole
		if s.DoubleMarked != tt.want || s.Mean.Packets > 0 {
			t.Errorf("%+v, %+v: %+v, mean %+v", tt.from, tt.to, s.DoubleMarked, s.Mean)
		}
	}
	untimed := counted(10, 10)
	untimed[0].Reading.Timed = false
	if s := Compute(line(2), 4, untimed).Whole; s.Mean.Packets > 0 {
		t.Errorf("%+v", s.Mean)
	}
}

func TestPeriod(t *testing.T) {
	var p Period
	if _, ok := p.Packets.Ratio(); ok {
		t.Error("an empty period has a ratio")
	}
	if s, _, _ := p.Delay(MeanOfSums); s != nil {
		t.Errorf("%+v", s)
	}
	for i, packets := range [][2]uint64{{10, 10}, {10, 10}, {100, 78}, {10, 13}, {0, 0}} {
		reports := counted(packets[0], packets[1])
		reports[1].Reading.TimeSum += int64(packets[1]) * int64(i)
		reports[i%2].Reading.ClockError = int64(i)
		reports[0].Reading.DoubleMarked, reports[1].Reading.DoubleMarked = Marked{1, 0}, Marked{1, int64(100 * i)}
		r := Compute(line(2), int64(math.MaxUint32-1+i), reports) // numbers of 32 bits wrap
		p.Add(r.Block, &r.Whole)
	}
	for _, reports := range [][]Report{nil, counted(5)} {
		r := Compute(line(2), 9, reports)
		p.Add(9, &r.Whole)
	}
	p.Add(9, &Segment{Verdict: 99})
	if p.Blocks != [NumVerdicts]uint64{1, 1, 3, 1, 2} || p.Packets != (Totals{120, 98, 22, 3, 0}) ||
		p.Octets != (Totals{12000, 9800, 2200, 300, 0}) ||
		p.Reasons != Missing {
		t.Errorf("%+v", p)
	}
	if ratio, ok := p.Packets.Ratio(); !ok || ratio != 22.0/120 {
		t.Errorf("ratio %v", ratio)
	}
	s, from, to := p.Delay(MeanOfSums)
	if s.Count != 2 || s.Min != int64(ms) || s.Max != int64(ms)+1 || *s.Jitter != 1 || from != int64(5*ms) || to != int64(5*ms) {
		t.Errorf("%+v, %d, %d", s, from, to)
	}
	if s, _, _ := p.Delay(DoubleMarking); s.Count != 5 || s.Mean != 200 || s.P95 < 399 || *s.Jitter != 100 {
		t.Errorf("%+v", s)
	}
	p.AddDelay(RoundTrip, 1, 5*time.Microsecond, 3, UnknownClock)
	p.AddDelay(RoundTrip, 2, 7*time.Microsecond, 4, 9)
	p.AddDelay(NumMethods, 2, 7, 4, 9)
	if s, from, to := p.Delay(RoundTrip); s.Count != 2 || s.Min != 5000 || from != 4 || to != UnknownClock {
		t.Errorf("%+v, %d, %d", s, from, to)
	}
	if s, _, _ := p.Delay(NumMethods); s != nil {
		t.Errorf("%+v", s)
	}
}
