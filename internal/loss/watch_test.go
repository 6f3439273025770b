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
	)
	began := watched(Uncertain, 0, 0, 0)
	began.Whole.From.Reasons = Restarted | ClockWorse
	for name, steps := range map[string][]step{
		"exactly at the thresholds":      {{fine, not, not}, {fine, not, not}},
		"uncertain blocks prove nothing": {{uncertain, not, not}, {none, not, not}, {fine, not, not}},
		"the ingress began":              {{began, not, not}, {began, not, not}, {began, not, not}, {began, not, not}, {none, not, not}, {began, not, not}, {none, not, not}, {none, noData, noData}},
		"loss, and calm blocks":          {{lossy, loss, loss}, {fine, not, loss}, {fine, not, loss}, {fine, not, not}},
		"loss again":                     {{lossy, loss, loss}, {fine, not, loss}, {fine, not, loss}, {lossy, loss, loss}, {fine, not, loss}, {fine, not, loss}, {fine, not, not}},
		"silence is not calm":            {{lossy, loss, loss}, {idle, not, loss}, {idle, not, loss}, {idle, not, loss}, {idle, not, loss}},
		"uncertain is not calm":          {{lossy, loss, loss}, {uncertain, not, loss}, {uncertain, not, loss}, {uncertain, noData, Crossings{Loss: true, NoData: true}}, {fine, not, loss}},
		"delay, not known with loss":     {{slow, delay, delay}, {watched(Measured, 1000, 1, 0), not, delay}, {watched(Measured, 1000, 1, 0), not, delay}, {watched(Measured, 1000, 1, 0), not, delay}, {fine, not, delay}, {fine, not, delay}, {fine, not, not}},
		"no data":                        {{none, not, not}, {uncertain, not, not}, {none, noData, noData}, {none, noData, noData}, {idle, not, not}, {none, not, not}},
	} {
		w := NewWatch(thresholds(1000, 5*time.Millisecond, 3))
		for i, s := range steps {
			if block := w.Take(s.result); block != s.block || w.Beyond() != s.flow {
				t.Errorf("%s, step %d: block %+v, flow %+v; want %+v, %+v", name, i, block, w.Beyond(), s.block, s.flow)
			}
		}
	}
	// The mean of all packets is judged where it is known, else that of the marked ones.
	both, marked := watched(Measured, 1000, 0, 6), watched(Measured, 1000, 1, 0)
	both.Whole.DoubleMarked = Sample{Delay: time.Millisecond, Packets: 1}
	marked.Whole.DoubleMarked = Sample{Delay: 6 * time.Millisecond, Packets: 1}
	for _, r := range []*Result{both, marked} {
		if got := NewWatch(thresholds(1000, 5*time.Millisecond, 3)).Take(r); got != delay {
			t.Errorf("mean %v, marked %v: %+v", r.Whole.Mean, r.Whole.DoubleMarked, got)
		}
	}
	w := NewWatch(Thresholds{})
	for _, r := range []*Result{lossy, slow, none, none, none, none} {
		if got := w.Take(r); got != (Crossings{}) || w.Beyond() != (Crossings{}) {
			t.Errorf("without thresholds: %+v, %+v", got, w.Beyond())
		}
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
		if worst := tt.r.WorstSegment(); worst != nil {
			got = worst.To.Point
		}
		if got != tt.want {
			t.Errorf("%+v: to point %d, want %d", tt.r, got, tt.want)
		}
	}
}
