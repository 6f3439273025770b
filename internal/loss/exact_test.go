// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tallied counts what occurred, so that a test can assert that everything did.
type tallied struct {
	verdicts                      [NumVerdicts]int
	reasons                       Reasons
	wrong                         int // counters that are not the truth, and uncertain
	lost, duplicated              int // exact blocks with
	mean, doubled, octets, unsure int
	bounds, ranges, hidden        int // of losses where packets were duplicated; of mean delays; duplicates that no counter shows
}

// check compares a segment with the truth.
func (n *tallied) check(t *testing.T, h *history, r *Result, s *Segment) {
	t.Helper()
	n.verdicts[s.Verdict]++
	n.reasons |= s.Reasons()
	for _, e := range []End{s.From, s.To} {
		if e.Reasons&OtherPath != 0 && e.Reasons&^(OtherPath|ClockWorse) != 0 {
			t.Fatalf("point %d counted wrong, so its count shows no other path: %q", e.Point, e.Reasons)
		}
	}
	from, to := h.indexOf(s.From.Point), h.indexOf(s.To.Point)
	a, b := h.truth[from][r.Block], h.truth[to][r.Block]
	if !s.Verdict.Exact() {
		if s.Packets.Lost.Known || s.Octets.Lost.Known || s.Mean.Packets > 0 || s.MeanRange.Packets > 0 {
			t.Fatalf("not exact, with numbers: %+v", s)
		}
		if _, ok := s.Packets.Ratio(); ok {
			t.Fatalf("uncertain, with a ratio: %+v", s)
		}
		if s.Verdict == Duplicated {
			n.checkDuplicated(t, h, r, s)
			return
		}
		if s.Packets.Duplicated.Known || s.Packets.LostMin.Known || s.DoubleMarked.Packets > 0 {
			t.Fatalf("uncertain, with numbers: %+v", s)
		}
		if s.Packets.Sent != (Number{a.packets, true}) || s.Packets.Received != (Number{b.packets, true}) {
			n.wrong++
		}
		if (s.Verdict == NoData) != (s.From.Reasons&Missing != 0 && s.To.Reasons&Missing != 0) || s.Reasons() == 0 {
			t.Fatalf("%v because of %q and %q", s.Verdict, s.From.Reasons, s.To.Reasons)
		}
		return
	}
	want := Tally{
		Sent:       Number{a.packets, true},
		Received:   Number{b.packets, true},
		Lost:       Number{a.packets - b.packets, true},
		Duplicated: Number{0, true},
	}
	if a.packets > b.packets {
		n.lost++
	}
	if diff := cmp.Diff(want, s.Packets); diff != "" {
		t.Fatalf(
			"block %d of %d, points %d to %d, %v, timing %+v, faults %+v: %s",
			r.Block-h.first,
			h.blocks,
			from,
			to,
			s.Verdict,
			h.flow.Timing,
			h.faults,
			diff,
		)
	}
	if (s.Verdict == Idle) != (a.packets == 0 && b.packets == 0) {
		t.Fatalf("%v with %d packets sent and %d received", s.Verdict, a.packets, b.packets)
	}
	n.checkFate(t, s, a, b)
	n.checkOctets(t, s, a, b)
	n.checkDelays(t, s, a, b)
}

// checkDuplicated checks what is said of a block with duplicates: that there were any, how
// many at least, and how many packets of those sent did not come to each point.
func (n *tallied) checkDuplicated(t *testing.T, h *history, r *Result, s *Segment) {
	t.Helper()
	n.duplicated++
	from, to := h.indexOf(s.From.Point), h.indexOf(s.To.Point)
	a, b := h.truth[from][r.Block], h.truth[to][r.Block]
	copies, missing := uint64(0), uint64(0)
	for i := from; i <= to; i++ {
		at := h.truth[i][r.Block]
		copies = max(copies, at.packets-uint64(len(at.times)))
	}
	for id := range a.times {
		for i := from + 1; i <= to; i++ {
			if h.truth[i][r.Block].times[id] == nil {
				missing++
				break
			}
		}
	}
	p := &s.Packets
	if p.Sent != (Number{a.packets, true}) || p.Received != (Number{b.packets, true}) || !p.Duplicated.Known || !p.LostMin.Known ||
		s.Octets.Lost.Known {
		t.Fatalf("%+v, %d sent, %d received", s, a.packets, b.packets)
	}
	if p.Duplicated.Value == 0 || p.Duplicated.Value > copies || p.LostMin.Value > missing {
		t.Fatalf(
			"points %d to %d: at least %d lost, %d duplicated; truly %d and %d",
			from,
			to,
			p.LostMin.Value,
			p.Duplicated.Value,
			missing,
			copies,
		)
	}
	if p.LostMin.Value > 0 {
		n.bounds++
	}
}

// checkFate compares the loss with what became of each packet.
func (n *tallied) checkFate(t *testing.T, s *Segment, a, b *seen) {
	t.Helper()
	if uint64(len(a.times)) != a.packets || uint64(len(b.times)) != b.packets {
		n.hidden++ // a duplicate instead of a lost packet
		return
	}
	lost, sum, came := uint64(0), int64(0), int64(0)
	for id, at := range a.times {
		if at2 := b.times[id]; at2 == nil {
			lost++
		} else {
			sum += at2[0] - at[0]
			came++
		}
	}
	for id := range b.times {
		if a.times[id] == nil {
			return // it bypassed the first point, and as many the second one
		}
	}
	if lost != s.Packets.Lost.Value {
		t.Fatalf("lost %+v, truly %d", s.Packets.Lost, lost)
	}
	if bound := s.MeanRange; bound.Packets > 0 {
		n.ranges++
		if mean := float64(sum) / float64(came); bound.Packets != uint64(came) || mean < float64(bound.Least) || mean > float64(bound.Most) {
			t.Fatalf("mean from %v to %v of %d, truly %v of %d", bound.Least, bound.Most, bound.Packets, mean, came)
		}
	}
}

func (n *tallied) checkOctets(t *testing.T, s *Segment, a, b *seen) {
	t.Helper()
	if !s.Octets.Lost.Known {
		n.unsure++
		if s.Octets.Sent.Known && s.Octets.Received.Known && s.Octets.Received.Value <= s.Octets.Sent.Value {
			t.Fatalf("octets lost are unknown: %+v", s.Octets)
		}
		return
	}
	n.octets++
	if s.Octets.Sent.Value != a.octets || s.Octets.Received.Value != b.octets ||
		s.Octets.Lost.Value-s.Octets.Duplicated.Value != a.octets-b.octets {
		t.Fatalf("%+v, want %d and %d", s.Octets, a.octets, b.octets)
	}
}

func (n *tallied) checkDelays(t *testing.T, s *Segment, a, b *seen) {
	t.Helper()
	if s.Mean.Packets > 0 && (s.Packets.Lost.Value > 0 || s.Packets.Duplicated.Value > 0) {
		t.Fatalf("a mean delay with loss: %+v", s)
	}
	if mean, count, ok := meanOf(a.times, b.times); ok {
		n.mean++
		if s.Mean != (Sample{time.Duration(mean), uint64(count)}) {
			t.Fatalf("mean %+v, want %d of %d", s.Mean, mean, count)
		}
	}
	if mean, count, ok := meanOf(a.doubled, b.doubled); ok {
		n.doubled++
		if s.DoubleMarked != (Sample{time.Duration(mean), uint64(count)}) {
			t.Fatalf("double marked %+v, want %d of %d", s.DoubleMarked, mean, count)
		}
	}
	if s.DoubleMarked.Packets > 0 && len(a.doubled) == 0 {
		t.Fatalf("a sample of no packet: %+v", s.DoubleMarked)
	}
}

func (h *history) indexOf(p PointID) int {
	for i, q := range h.flow.Points {
		if p == q {
			return i
		}
	}
	return -1
}

// histories are kinds of histories, with the reasons that occur in them.
var histories = []struct {
	name   string
	faults faults
	want   Reasons
}{
	{"clean", faults{}, 0},
	{"idle", faults{idleOnly: true}, 0},
	{"loss and duplicates", faults{loss: 0.02, duplicates: 0.02}, OtherPath | PathUnknown},
	{"many duplicates", faults{loss: 0.02, duplicates: 0.1}, OtherPath | PathUnknown},
	{"missing", faults{loss: 0.01, missing: 0.3, repeats: 0.2}, Missing | PathUnknown},
	{"contradictions", faults{contradictions: 0.2, repeats: 0.2}, Contradicting},
	{"restart", faults{loss: 0.01, restart: true}, Restarted | PathUnknown},
	{"late", faults{late: 0.02, loss: 0.01}, GuardViolated | ColourOutOfTurn | PathUnknown},
	{"read outside the window", faults{strange: true}, GuardViolated},
	{"clock behind", faults{slow: true}, GuardViolated | ColourOutOfTurn},
	{"clock ahead", faults{fast: true}, GuardViolated | ColourOutOfTurn},
	{"clock ahead, and says so", faults{fast: true, honest: true}, GuardViolated | ColourOutOfTurn | ClockWorse},
	{"clock blocks off, and says so", faults{astray: true, loss: 0.02, duplicates: 0.02}, ClockWorse | OtherPath | PathUnknown},
	{"bleached", faults{bleach: 0.01, loss: 0.01}, ColourMissing | PathUnknown},
	{"other path", faults{bypass: 0.1}, OtherPath},
	{"other path for all", faults{bypass: 1}, OtherPath},
	{"a point selects fewer packets", faults{narrow: true, loss: 0.01}, OtherSelection | PathUnknown},
	{"other path, and duplicates", faults{bypass: 0.1, duplicates: 0.1, bypassAndMore: true}, OtherPath | PathUnknown},
	{"other path, loss and duplicates", faults{bypass: 0.05, loss: 0.02, duplicates: 0.05, bypassAndMore: true}, OtherPath | PathUnknown},
	{"octets unsure", faults{unsureOctets: true, loss: 0.01}, 0},
	{"everything", faults{loss: 0.01, duplicates: 0.01, narrow: true, bleach: 0.002, missing: 0.02, repeats: 0.1, contradictions: 0.02, restart: true, unsureOctets: true}, AllReasons &^ (ClockWorse | GuardViolated | ColourOutOfTurn | Uncovered)},
}

// Whatever happens, numbers that are called exact are the truth.
func TestExactOrUncertain(t *testing.T) {
	const rounds = 200
	all := map[string]*tallied{}
	for _, tt := range histories {
		t.Run(tt.name, func(t *testing.T) {
			n := &tallied{}
			all[tt.name] = n
			for seed := range uint64(rounds) {
				h := newHistory(rand.New(rand.NewPCG(seed, 9341)), tt.faults)
				h.run()
				n.checkAll(t, h)
			}
			if n.reasons != tt.want {
				t.Errorf("reasons %q, want %q", n.reasons, tt.want)
			}
			if tt.want&^(OtherPath|PathUnknown) == 0 && n.wrong > 0 && tt.faults.bypass == 0 {
				t.Errorf("%d wrong counters", n.wrong)
			}
			if tt.want == 0 && n.verdicts[Uncertain]+n.verdicts[NoData] > 0 {
				t.Errorf("verdicts %v without a fault", n.verdicts)
			}
		})
	}
	for _, occurred := range []struct {
		what string
		n    int
	}{
		{"loss", all["loss and duplicates"].lost}, {"duplicates", all["loss and duplicates"].duplicated},
		{"bounds of losses among duplicates", all["many duplicates"].bounds}, {"bounds of mean delays", all["restart"].ranges}, {"hidden duplicates", all["loss and duplicates"].hidden},
		{"measured blocks among late packets", all["late"].verdicts[Measured]}, {"wrong counters of late packets", all["late"].wrong},
		{"wrong counters of clocks behind", all["clock behind"].wrong}, {"wrong counters of clocks ahead", all["clock ahead"].wrong},
		{"wrong counters of clocks blocks off", all["clock blocks off, and says so"].wrong}, {"duplicates beside clocks blocks off", all["clock blocks off, and says so"].duplicated},
		{"wrong counters of restarts", all["restart"].wrong}, {"wrong counters of missing marks", all["bleached"].wrong},
		{"wrong counters of narrow points", all["a point selects fewer packets"].wrong}, {"measured blocks before a point is narrow", all["a point selects fewer packets"].verdicts[Measured]},
		{"no data", all["missing"].verdicts[NoData]}, {"idle", all["idle"].verdicts[Idle]}, {"mean delays", all["clean"].mean},
		{"double marking", all["clean"].doubled}, {"octets", all["octets unsure"].octets}, {"unsure octets", all["octets unsure"].unsure},
		{"exact blocks among everything", all["everything"].verdicts[Measured]},
	} {
		if occurred.n == 0 {
			t.Errorf("no %s", occurred.what)
		}
	}
}

// checkAll checks all results of a history: one for each block.
func (n *tallied) checkAll(t *testing.T, h *history) {
	t.Helper()
	known := map[int64]bool{}
	for _, r := range h.results(t) {
		if known[r.Block] {
			t.Fatalf("block %d twice", r.Block)
		}
		known[r.Block] = true
		if r.Block < h.first-2 || r.Block >= h.first+h.blocks+2 { // no readings
			continue
		}
		n.check(t, h, r, &r.Whole)
		for i := range r.Segments {
			n.check(t, h, r, &r.Segments[i])
		}
	}
	for b := h.first - 2; b < h.first+h.blocks+2; b++ {
		if !known[b] {
			t.Fatalf("no result for block %d", b)
		}
	}
}
