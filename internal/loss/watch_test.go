// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// watched is the result of a block: so many packets were sent and lost, with a mean delay
// in ms if it is not 0. Counters that are not exact look as if all was lost.
func watched(verdict Verdict, sent, lost, delay uint64) *Result {
	s := Segment{Verdict: verdict}
	if verdict.Exact() {
		s.Packets = Tally{Sent: Number{sent, true}, Received: Number{sent - lost, true}, Lost: Number{lost, true}}
	} else {
		s.Packets = Tally{Sent: Number{1000, true}, Received: Number{0, true}}
	}
	if delay > 0 {
		s.Mean = Sample{Delay: time.Duration(delay) * time.Millisecond, Packets: sent}
	}
	return &Result{Flow: 7, Whole: s}
}

// duplicated is a block in which more packets came than were sent, and at least so many were
// lost.
func duplicated(sent, lost uint64) *Result {
	return &Result{Flow: 7, Whole: Segment{Verdict: Duplicated,
		Packets: Tally{Sent: Number{sent, true}, Received: Number{sent + 5, true}, Duplicated: Number{5, true}, LostMin: Number{lost, true}}}}
}

func thresholds(loss Share, delay time.Duration, blocks uint) Thresholds {
	return Thresholds{MaxLoss: &loss, MaxDelay: &delay, NoDataAfter: blocks}
}

// Each step takes a block, and says what the flow is beyond after it.
func TestWatch(t *testing.T) {
	type step struct {
		result      *Result
		block, flow Crossings
	}
	var (
		fine, uncertain, idle, none = watched(Measured, 1000, 1, 5), watched(Uncertain, 0, 0, 0), watched(Idle, 0, 0, 0), watched(NoData, 0, 0, 0)
		lossy, slow                 = watched(Measured, 1000, 2, 0), watched(Measured, 1000, 0, 6)
		loss, delay, noData, not    = Crossings{Loss: true}, Crossings{Delay: true}, Crossings{NoData: true}, Crossings{}
		dup, dupLossy               = duplicated(1000, 1), duplicated(1000, 2)
		dups, both                  = Crossings{Duplicated: true}, Crossings{Duplicated: true, Loss: true}
	)
	began := watched(Uncertain, 0, 0, 0)
	began.Whole.From.Reasons = Restarted | ClockWorse
	for name, steps := range map[string][]step{
		"exactly at the thresholds":      {{fine, not, not}, {fine, not, not}},
		"uncertain blocks prove nothing": {{uncertain, not, not}, {none, not, not}, {fine, not, not}},
		"the ingress began":              {{began, not, not}, {none, not, not}, {began, not, not}, {none, not, not}, {fine, not, not}, {began, not, not}, {fine, not, not}},
		"the ingress begins in each":     {{began, not, not}, {began, not, not}, {began, not, not}, {began, noData, noData}, {began, noData, noData}, {fine, not, not}},
		"loss, and calm blocks":          {{lossy, loss, loss}, {fine, not, loss}, {fine, not, loss}, {fine, not, not}},
		"loss again":                     {{lossy, loss, loss}, {fine, not, loss}, {fine, not, loss}, {lossy, loss, loss}, {fine, not, loss}, {fine, not, loss}, {fine, not, not}},
		"loss, and silence":              {{lossy, loss, loss}, {idle, not, loss}, {fine, not, loss}, {idle, not, not}},
		"delay, and silence":             {{slow, delay, delay}, {idle, not, delay}, {idle, not, delay}, {idle, not, not}},
		"duplicates hide losses":         {{dup, dups, dups}, {fine, not, dups}, {idle, not, dups}, {dup, dups, dups}, {fine, not, dups}, {fine, not, dups}, {fine, not, not}},
		"duplicates are not calm":        {{lossy, loss, loss}, {dup, dups, both}, {dup, dups, both}, {dup, dups, both}, {dup, dups, both}, {fine, not, both}, {fine, not, both}, {fine, not, not}},
		"duplicates, and losses":         {{dupLossy, both, both}, {dup, dups, both}},
		"duplicates are known":           {{none, not, not}, {none, not, not}, {dup, dups, dups}, {none, not, dups}, {none, not, dups}, {none, noData, Crossings{Duplicated: true, NoData: true}}},
		"uncertain is not calm":          {{lossy, loss, loss}, {uncertain, not, loss}, {uncertain, not, loss}, {uncertain, noData, Crossings{Loss: true, NoData: true}}, {fine, not, loss}},
		"delay, not known with loss":     {{slow, delay, delay}, {watched(Measured, 1000, 1, 0), not, delay}, {watched(Measured, 1000, 1, 0), not, delay}, {watched(Measured, 1000, 1, 0), not, delay}, {fine, not, delay}, {fine, not, delay}, {fine, not, not}},
		"no data":                        {{none, not, not}, {uncertain, not, not}, {none, noData, noData}, {none, noData, noData}, {idle, not, not}, {none, not, not}},
	} {
		w := NewWatch(thresholds(1000, 5*time.Millisecond, 3))
		for i, s := range steps {
			if block := w.AddResult(s.result); block != s.block || w.Beyond() != s.flow {
				t.Errorf("%s, step %d: block %+v, flow %+v; want %+v, %+v", name, i, block, w.Beyond(), s.block, s.flow)
			}
		}
	}
	// The mean of all packets is judged where it is known, else that of the marked ones.
	mean, marked := watched(Measured, 1000, 0, 6), watched(Measured, 1000, 1, 0)
	mean.Whole.DoubleMarked = Sample{Delay: time.Millisecond, Packets: 1}
	marked.Whole.DoubleMarked = Sample{Delay: 6 * time.Millisecond, Packets: 1}
	for _, r := range []*Result{mean, marked} {
		if got := NewWatch(thresholds(1000, 5*time.Millisecond, 3)).AddResult(r); got != delay {
			t.Errorf("mean %v, marked %v: %+v", r.Whole.Mean, r.Whole.DoubleMarked, got)
		}
	}
	w := NewWatch(Thresholds{})
	for _, r := range []*Result{lossy, slow, none, none, none, none} {
		if got := w.AddResult(r); got != (Crossings{}) || w.Beyond() != (Crossings{}) {
			t.Errorf("without thresholds: %+v, %+v", got, w.Beyond())
		}
	}
}

// A stretch names its first block and its last, whatever is between, and begins anew after
// calm blocks.
func TestStretch(t *testing.T) {
	w := NewWatch(thresholds(1000, time.Second, 1))
	at := func(block int64, r *Result) {
		own := *r
		own.Block, own.Start = block, 10*block
		w.AddResult(&own)
	}
	lossy, fine := watched(Measured, 1000, 2, 0), watched(Measured, 1000, 0, 0)
	at(1, fine)
	at(2, lossy)
	at(3, fine)
	at(4, watched(NoData, 0, 0, 0))
	at(5, watched(NoData, 0, 0, 0))
	at(6, lossy)
	if s := w.Loss(); s.First != 20 || s.Last.Block != 6 || s.Blocks != 2 {
		t.Errorf("%+v", s)
	}
	if s := w.NoData(); s.Blocks != 0 {
		t.Errorf("%+v", s)
	}
	for block := range int64(3) {
		at(7+block, fine)
	}
	if s := w.Loss(); s.Blocks != 0 {
		t.Errorf("after calm blocks: %+v", s)
	}
	at(10, lossy)
	if s := w.Loss(); s.First != 100 || s.Last.Block != 10 || s.Blocks != 1 {
		t.Errorf("%+v", s)
	}
}

// With losses, the mean delay of the whole way is not known; what is certain shows whether it
// is beyond a threshold.
func TestSlowness(t *testing.T) {
	whole := func(lost uint64, bound Range, segments ...Segment) *Result {
		r := watched(Measured, 1000, lost, 0)
		r.Whole.MeanRange, r.Segments = bound, segments
		r.Whole.From.Point, r.Whole.To.Point = 0, PointID(max(1, len(segments)))
		for i := range r.Segments {
			r.Segments[i].From.Point, r.Segments[i].To.Point = PointID(i), PointID(i+1)
		}
		return r
	}
	mean := func(d time.Duration, packets uint64) Segment {
		return Segment{Mean: Sample{d * time.Millisecond, packets}}
	}
	within := func(least, most time.Duration) Range {
		return Range{least * time.Millisecond, most * time.Millisecond, 900}
	}
	tested := whole(1, Range{})
	tested.Tested = Tested{Sample{6 * time.Millisecond, 5}, 3 * time.Millisecond}
	fast := whole(1, Range{})
	fast.Tested = Tested{Sample{4 * time.Millisecond, 5}, 0}
	exact := watched(Measured, 1000, 0, 4) // the mean decides
	exact.Tested, exact.Segments = tested.Tested, []Segment{mean(7, 1000), mean(-3, 1000)}
	apart := whole(1, Range{}, Segment{}, mean(3, 999), mean(3, 999)) // each clock is near the one between them
	apart.Timing.ClockDifference, apart.Segments[1].From.ClockError, apart.Segments[2].To.ClockError = 5, 4, 4
	for name, tt := range map[string]struct {
		r            *Result
		slow, known  bool
		of           Slowness
		nothingKnown bool
	}{
		"nothing":               {r: whole(1, Range{}), nothingKnown: true},
		"certainly slow":        {whole(1, within(6, 90)), true, true, Slowness{0, 1, 6 * time.Millisecond, true, false}, false},
		"certainly fast":        {whole(1, within(-3, 5)), false, true, Slowness{0, 1, -3 * time.Millisecond, true, false}, false},
		"not known":             {whole(1, within(4, 6)), false, false, Slowness{0, 1, 4 * time.Millisecond, true, false}, false},
		"a segment":             {whole(1, within(-9, 9), mean(6, 1000), Segment{}), true, true, Slowness{0, 1, 6 * time.Millisecond, false, false}, false},
		"a lossy segment":       {whole(1, Range{}, Segment{}, Segment{MeanRange: within(7, 9)}), true, true, Slowness{1, 2, 7 * time.Millisecond, true, false}, false},
		"a fast segment":        {whole(1, Range{}, mean(4, 1000), Segment{}), false, false, Slowness{0, 1, 4 * time.Millisecond, false, false}, false},
		"two segments in a row": {whole(1, Range{}, Segment{}, mean(3, 999), mean(3, 999)), true, true, Slowness{1, 3, 6 * time.Millisecond, false, false}, false},
		"of other packets":      {whole(1, Range{}, mean(3, 1000), Segment{}, mean(3, 998)), false, false, Slowness{0, 1, 3 * time.Millisecond, false, false}, false},
		"slow test packets":     {tested, true, true, Slowness{0, 1, 6 * time.Millisecond, false, true}, false},
		"fast test packets":     {fast, false, false, Slowness{0, 1, 4 * time.Millisecond, false, true}, false},
		"the mean":              {exact, false, true, Slowness{0, 0, 4 * time.Millisecond, false, false}, false},
		"ends too far apart":    {apart, false, false, Slowness{1, 2, 3 * time.Millisecond, false, false}, false},
	} {
		slow, known := tt.r.SlowerThan(5 * time.Millisecond)
		of, ok := tt.r.Slowness()
		if slow != tt.slow || known != tt.known || of != tt.of || ok == tt.nothingKnown {
			t.Errorf("%s: %v, %v, %+v, %v", name, slow, known, of, ok)
		}
		if clocks := tt.r.ClocksOf(of); of.Tested && clocks != tt.r.Tested.Clocks {
			t.Errorf("%s: the clocks are %v apart", name, clocks)
		}
		if got := NewWatch(thresholds(1000, 5*time.Millisecond, 3)).AddResult(tt.r); got.Delay != tt.slow {
			t.Errorf("%s: block %+v", name, got)
		}
	}
	uncertain := whole(1, Range{}, mean(6, 1000), Segment{})
	uncertain.Whole.Verdict = Uncertain
	if got := NewWatch(thresholds(1000, 5*time.Millisecond, 3)).AddResult(uncertain); got != (Crossings{Delay: true}) {
		t.Errorf("an uncertain block with a slow segment: %+v", got)
	}
}

// The comparison is exact, as one with numbers of any size is.
func TestLostMoreThan(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	compare := func(lost, sent uint64, share Share) {
		t.Helper()
		tally := Tally{Sent: Number{sent, true}, Lost: Number{lost, true}}
		left := new(big.Int).Mul(new(big.Int).SetUint64(lost), big.NewInt(int64(All)))
		right := new(big.Int).Mul(new(big.Int).SetUint64(sent), big.NewInt(int64(share)))
		if got := tally.LostMoreThan(share); got != (left.Cmp(right) > 0) {
			t.Errorf("%d of %d, %d: %v", lost, sent, share, got)
		}
	}
	for range 10_000 {
		sent := random.Uint64() >> random.IntN(64)
		share := Share(random.Uint64N(uint64(All) + 1))
		product := new(big.Int).Mul(new(big.Int).SetUint64(sent), big.NewInt(int64(share)))
		edge := product.Div(product, big.NewInt(int64(All))).Uint64()
		for _, lost := range []uint64{random.Uint64N(sent/2 + 1), edge, edge + 1} {
			compare(lost, sent, share)
		}
	}
	compare(math.MaxUint64, math.MaxUint64, All)
	compare(0, 0, 0)
	if (&Tally{Sent: Number{10, true}, Lost: Number{Value: 10}}).LostMoreThan(0) {
		t.Error("a loss that is not known")
	}
}

func TestWorstSegment(t *testing.T) {
	segment := func(to PointID, lost uint64, known bool) Segment {
		return Segment{To: End{Point: to}, Packets: Tally{Lost: Number{lost, known}}}
	}
	for _, tt := range []struct {
		r    Result
		want PointID // at its end; 0: none
	}{
		{Result{Whole: segment(1, 5, true)}, 1},
		{Result{Whole: segment(1, 0, true)}, 0},
		{Result{Whole: segment(3, 9, true), Segments: []Segment{segment(1, 1, true), segment(2, 5, true), segment(3, 3, true)}}, 2},
		{Result{Whole: segment(2, 9, true), Segments: []Segment{segment(1, 6, true), segment(2, 3, true)}}, 1},
		{Result{Whole: segment(2, 9, true), Segments: []Segment{segment(1, 9, false), segment(2, 3, true)}}, 2},
		{Result{Whole: segment(2, 9, true), Segments: []Segment{segment(1, 9, false), segment(2, 0, true)}}, 0},
	} {
		got := PointID(0)
		if worst, n := tt.r.WorstSegment(); worst != nil {
			if got = worst.To.Point; n != worst.Packets.Lost.Value {
				t.Errorf("%d missing", n)
			}
		}
		if got != tt.want {
			t.Errorf("%+v: to point %d, want %d", tt.r, got, tt.want)
		}
	}
}
