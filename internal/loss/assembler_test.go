// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// bench is an assembler with its results.
type bench struct {
	*Assembler
	results []*Result
}

func newBench(t testing.TB, limits Limits) *bench {
	t.Helper()
	b := &bench{}
	a, err := NewAssembler(limits, func(r *Result) { b.results = append(b.results, r) })
	if err != nil {
		t.Fatal(err)
	}
	b.Assembler = a
	return b
}

// said are the results since the last call: "BLOCK VERDICT" each, in order.
func (b *bench) said() string {
	var list []string
	for _, r := range b.results {
		list = append(list, fmt.Sprintf("%d %v", r.Block, r.Whole.Verdict))
	}
	b.results = nil
	return strings.Join(list, ", ")
}

func (b *bench) flow(t testing.TB, points int, now int64) {
	t.Helper()
	f := line(points)
	f.Assumed = true
	if err := b.AddFlow(*f, now); err != nil {
		t.Fatal(err)
	}
}

func reading(point int, block int64, packets uint64) Reading {
	return Reading{Flow: 7, Point: PointID(point), Block: block, Packets: packets, ClockError: 0}
}

// in is a time in a block of the plan.
func in(block int64) int64 { return plan.Start(block) + int64(ms) }

var few = Limits{Flows: 2, Blocks: 10, Wait: 200 * ms}

func TestResultsWhenAllReportedOrDue(t *testing.T) {
	b := newBench(t, few)
	b.flow(t, 2, in(50))
	add := func(r Reading, now int64, want Fate) {
		t.Helper()
		if got := b.Add(r, now); got != want {
			t.Errorf("block %d: %v, want %v", r.Block, got, want)
		}
	}
	said := func(want string) {
		t.Helper()
		if got := b.said(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	add(reading(2, 51, 10), in(52), Taken) // the egress is first, and a block is skipped
	add(reading(1, 51, 10), in(52), Taken)
	add(reading(1, 51, 10), in(52), Repeated)
	said("")
	b.Advance(in(52))
	said("51 measured")
	add(reading(1, 51, 10), in(52), Repeated)
	add(reading(1, 51, 11), in(52), Contradicted) // too late to change the result
	add(reading(1, 50, 10), in(53), Taken)
	b.Advance(in(53))
	said("")
	b.Advance(in(54) - int64(2*ms)) // block 50 may be read until 52 begins; 200 ms later is the deadline
	said("")
	b.Advance(in(54))
	said("50 uncertain")
	add(reading(2, 50, 10), in(54), Past)
	add(reading(1, 52, 0), in(54), Taken)
	add(reading(1, 52, 1), in(54), Contradicted)
	add(reading(2, 52, 0), in(54), Taken)
	add(reading(2, 52, 0), in(54), Repeated)
	add(reading(1, 53, 0), in(54), Taken)
	add(reading(2, 53, 0), in(54), Taken)
	b.Advance(in(54))
	said("52 uncertain, 53 idle")
	add(reading(2, 55, 0), in(54), Future)
	add(reading(2, math.MaxInt64, 0), in(54), Future)
	add(reading(2, math.MinInt64, 0), in(54), Past)
	add(reading(2, 49, 0), in(54), Past)
	add(reading(3, 54, 0), in(54), UnknownPoint)
	other := reading(1, 54, 0)
	other.Flow = 8
	add(other, in(54), UnknownFlow)
	b.Advance(in(58))
	said("54 no-data")
	want := Counters{
		Readings: [NumFates]uint64{Taken: 7, Repeated: 3, Contradicted: 2, UnknownFlow: 1, UnknownPoint: 1, Past: 3, Future: 2},
		Results:  [NumVerdicts]uint64{NoData: 1, Uncertain: 2, Measured: 1, Idle: 1},
	}
	if got := b.Counters(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A reading makes room by itself without a call of Advance.
func TestAddMakesRoom(t *testing.T) {
	b := newBench(t, few)
	b.flow(t, 2, in(50))
	for block := int64(50); block < 60; block++ {
		if fate := b.Add(reading(1, block, 1), in(block+1)); fate != Taken {
			t.Errorf("block %d: %v", block, fate)
		}
	}
	if got := b.said(); got != "50 uncertain, 51 uncertain, 52 uncertain, 53 uncertain, 54 uncertain" &&
		got != "50 uncertain, 51 uncertain, 52 uncertain, 53 uncertain, 54 uncertain, 55 uncertain" {
		t.Errorf("%q", got)
	}
}

// Nothing that arrived is lost at the end, and blocks between have a result.
func TestFlush(t *testing.T) {
	b := newBench(t, few)
	b.flow(t, 2, in(50))
	b.Add(reading(1, 51, 1), in(53))
	b.Add(reading(1, 53, 1), in(53))
	b.Add(reading(2, 53, 1), in(53))
	if b.Waiting() != 2 {
		t.Errorf("%d blocks wait", b.Waiting())
	}
	b.Flush()
	if got := b.said(); got != "50 no-data, 51 uncertain, 52 no-data, 53 measured" || b.Waiting() != 0 {
		t.Errorf("%q, %d wait", got, b.Waiting())
	}
	b.Flush()
	b.Advance(in(54))
	if got := b.said(); got != "" {
		t.Errorf("%q", got)
	}
	b.Add(reading(1, 54, 1), in(55)) // it goes on
	b.RemoveFlow(7)
	b.RemoveFlow(7)
	if got := b.said(); got != "54 uncertain" {
		t.Errorf("%q", got)
	}
	if fate := b.Add(reading(1, 55, 1), in(56)); fate != UnknownFlow {
		t.Errorf("%v", fate)
	}
	b.flow(t, 2, in(60))
}

// Time that leaps emits a bounded number of results, and counts the other blocks. Time
// that goes back begins again.
func TestTimeLeaps(t *testing.T) {
	b := newBench(t, few)
	b.flow(t, 2, in(50))
	b.Add(reading(1, 51, 1), in(52))
	b.Advance(in(1_000_000))
	if n, c := len(b.results), b.Counters(); n > 10 || c.Results[Uncertain] != 1 || c.Skipped+uint64(n) != 1_000_000-50-3 {
		t.Errorf("%d results, %+v", n, c)
	}
	b.said()
	b.Advance(math.MaxInt64)
	b.said()
	last := plan.Block(math.MaxInt64) - 1
	b.Add(reading(1, last, 1), math.MaxInt64)
	b.Advance(math.MinInt64) // before 1970: taken as 1970
	if got, c := b.said(), b.Counters(); !strings.HasSuffix(got, fmt.Sprintf("%d uncertain", last)) || c.Restarts != 1 {
		t.Errorf("%q, %+v", got, c)
	}
	b.Advance(in(100))
	b.said()
	if fate := b.Add(reading(1, 99, 1), in(100)); fate != Taken {
		t.Errorf("%v", fate)
	}
	b.Add(reading(2, 99, 1), in(100))
	b.Advance(in(99)) // a little back is no restart
	if got, c := b.said(), b.Counters(); got != "99 measured" || c.Restarts != 1 {
		t.Errorf("%q, %+v", got, c)
	}
}

func TestLimits(t *testing.T) {
	for _, l := range []Limits{{}, {Flows: 1}, {Blocks: 1}, {Flows: 1, Blocks: 1, Wait: -1}} {
		if _, err := NewAssembler(l, nil); err == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
	b := newBench(t, few)
	for _, tt := range []struct {
		change func(*Flow)
		want   string // in the error; "": none
	}{
		{func(f *Flow) { f.Points = f.Points[:1] }, "points"},
		{func(f *Flow) { f.Points = make([]PointID, MaxPoints+1) }, "points"},
		{func(f *Flow) { f.Points = []PointID{1, 2, 1} }, "twice"},
		{func(f *Flow) { f.Timing.Length = 0 }, "flow 7: blocks of 0s"},
		{func(*Flow) {}, ""},
		{func(*Flow) {}, "there already"},
		{func(f *Flow) { f.ID = 8; f.Timing.Length = time.Minute }, ""},
		{func(f *Flow) { f.ID = 9 }, "no more"},
	} {
		f := line(2)
		tt.change(f)
		if err := b.AddFlow(*f, in(50)); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	b = newBench(t, Limits{Flows: 1, Blocks: 10, Wait: 800 * ms})
	if err := b.AddFlow(*line(2), 0); err == nil || !strings.Contains(err.Error(), "lengthen the blocks") {
		t.Errorf("%v", err)
	}
	if Fate(99).String() != "unknown" || Verdict(99).String() != "unknown" || Method(99).String() != "unknown" || Past.String() != "past" ||
		DoubleMarking.String() != "double-marking" {
		t.Error("names")
	}
}

// FuzzAssembler calls the assembler in any order with any numbers. With a clock that only
// goes forward, each block has one result, and every reading that was taken is in one.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add([]byte("\x00\x01\x00\x10\x01\x02\x00\x10\x04\x00\x00\x20\x05\x00\x00\x00"), true)
	f.Add([]byte("\x00\x01\xff\xff\x06\x02\x00\x10\x07\x00\x00\x20\x02\x00\x80\x00"), false)
	f.Fuzz(func(t *testing.T, ops []byte, forward bool) {
		b := newBench(t, few)
		now, calls, advances := in(50), uint64(0), 0
		b.flow(t, 3, now)
		for ; len(ops) >= 4; ops = ops[4:] {
			n := int64(int16(binary.BigEndian.Uint16(ops[2:])))
			switch op := ops[0] % 8; op {
			case 0, 1, 2, 3:
				r := reading(int(ops[1]%5), plan.Block(now)+n%16, uint64(ops[1]/5))
				r.Flags, r.Unmarked = Flags(op), uint64(n&1)
				if n == math.MinInt16 {
					r.Block = math.MinInt64 + n
				}
				b.Add(r, now)
				calls++
			case 4:
				now += int64(ms) * max(0, n)
				b.Advance(now)
				advances++
			case 5:
				b.Flush()
			case 6:
				now += int64(ms) * max(0, n%300)
			case 7:
				if !forward {
					now = int64(uint64(n)<<48 | uint64(ops[1]))
					b.Advance(now)
					advances++
				}
			}
		}
		b.Flush()
		c := b.Counters()
		var readings, results uint64
		for _, n := range c.Readings {
			readings += n
		}
		for _, n := range c.Results {
			results += n
		}
		if readings != calls || results != uint64(len(b.results)) || b.Waiting() != 0 {
			t.Fatalf("%d calls, %d results, %d wait: %+v", calls, len(b.results), b.Waiting(), c)
		}
		if most := 2*len(b.order[0].ring)*(advances+1) + 20*int(calls); len(b.results) > most {
			t.Fatalf("%d results", len(b.results))
		}
		if forward {
			oneResultEach(t, b.results, c)
		}
	})
}

func oneResultEach(t *testing.T, results []*Result, c Counters) {
	t.Helper()
	var blocks []int64
	var present uint64
	for _, r := range results {
		blocks = append(blocks, r.Block)
		for i, s := range r.Segments {
			if s.From.Reasons&Missing == 0 {
				present++
			}
			if i == len(r.Segments)-1 && s.To.Reasons&Missing == 0 {
				present++
			}
		}
	}
	slices.Sort(blocks)
	if n := len(slices.Compact(slices.Clone(blocks))); n != len(blocks) {
		t.Fatalf("a block has two results: %v", blocks)
	}
	if n := len(blocks); n > 0 && uint64(blocks[n-1]-blocks[0]+1) > uint64(n)+c.Skipped+12 {
		t.Fatalf("blocks without a result: %v, %+v", blocks, c)
	}
	if present != c.Readings[Taken] {
		t.Fatalf("%d readings were taken, %d are in results", c.Readings[Taken], present)
	}
}
