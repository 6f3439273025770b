// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// plan is the timing of most tests: a guard of 30 ms in blocks of 100 ms.
var plan = Timing{Length: 100 * ms, ClockDifference: 10 * ms, MinDelay: 5 * ms, MaxDelay: 25 * ms}

func TestTimingIsValidated(t *testing.T) {
	if plan.Guard() != 30*ms || plan.Validate() != nil {
		t.Errorf("guard %v, %v", plan.Guard(), plan.Validate())
	}
	for _, tt := range []struct {
		change func(*Timing)
		want   string // in the error; "": valid
	}{
		{func(t *Timing) { t.Length = MinBlock - 1 }, "choose a length"},
		{func(t *Timing) { t.Length = MaxBlock + 1 }, "choose a length"},
		{func(t *Timing) { t.Length = MaxBlock }, ""},
		{func(t *Timing) { t.ClockDifference = -1 }, "negative"},
		{func(t *Timing) { t.MinDelay = -1 }, "negative"},
		{func(t *Timing) { t.MinDelay = t.MaxDelay + 1 }, "less than the least"},
		{func(t *Timing) { t.MinDelay = 0; t.ClockDifference = 25*ms - 1 }, ""},
		{func(t *Timing) { t.MinDelay = 0; t.ClockDifference = 25 * ms }, "half a block"},
		{func(t *Timing) { t.ClockDifference = math.MaxInt64 }, "half a block"},
		{func(t *Timing) { t.MaxDelay = math.MaxInt64 }, "half a block"},
		{func(t *Timing) { t.MinDelay, t.MaxDelay = t.Length+1, t.Length+1 }, "no delay longer"},
		// The example of RFC 9341's predecessors: NTP, and 100 ms of delay.
		{func(t *Timing) { *t = Timing{Length: time.Second, ClockDifference: 10 * ms, MaxDelay: 100 * ms} }, ""},
	} {
		p := plan
		tt.change(&p)
		if err := p.Validate(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", p, err, tt.want)
		}
	}
}

func TestBlocks(t *testing.T) {
	for at, want := range map[int64]int64{0: 0, 99_999_999: 0, 100_000_000: 1, -1: -1, -100_000_000: -1, -100_000_001: -2,
		1_763_900_000_050_000_000: 17_639_000_000} {
		if got := plan.Block(at); got != want || at >= 0 && (plan.Start(got) > at || plan.Start(got+1) <= at) {
			t.Errorf("%d: block %d, want %d", at, got, want)
		}
	}
	if ColourOf(6) != 0 || ColourOf(7) != 1 || ColourOf(-1) != 1 {
		t.Error("colours do not alternate")
	}
}

// A block's packets have arrived when its counters are read, and the next block of its
// colour has not begun.
func TestWindow(t *testing.T) {
	const block = 8
	end := plan.Start(block + 1)
	for _, tt := range []struct {
		ingress  bool
		from, to int64
	}{{true, end + int64(30*ms), end + int64(70*ms)}, {false, end + int64(35*ms), end + int64(75*ms)}} {
		if from, to := plan.Window(block, tt.ingress); from != tt.from || to != tt.to {
			t.Errorf("ingress %v: %d to %d, want %d to %d", tt.ingress, from, to, tt.from, tt.to)
		}
	}
	// By a receiver's clock: what is sent first and last, at the extremes of clock and delay.
	from, to := plan.Window(block, false)
	last := end - 1 + int64(plan.MaxDelay+plan.ClockDifference)
	next := plan.Start(block+2) + int64(plan.MinDelay-plan.ClockDifference)
	if last >= from || next < to {
		t.Errorf("the last packet comes at %d, the next block at %d; read from %d to %d", last, next, from, to)
	}
	for _, at := range []int64{last, plan.Start(block) + int64(plan.MinDelay-plan.ClockDifference)} {
		if b, turn := plan.Assign(at, ColourOf(block)); b != block || turn != InTurn {
			t.Errorf("a packet at %d is of block %d, %v", at, b, turn)
		}
		if first, last := plan.Around(at); first > block || last < block {
			t.Errorf("a packet at %d is of blocks %d to %d", at, first, last)
		}
	}
}

func TestAssign(t *testing.T) {
	const even, odd = 0, 1
	at := func(d time.Duration) int64 { return plan.Start(8) + int64(plan.MinDelay+d) }
	for _, tt := range []struct {
		at     time.Duration
		colour Colour
		block  int64
		turn   Turn
	}{
		{0, even, 8, InTurn}, {50 * ms, even, 8, InTurn}, {100*ms - 1, even, 8, InTurn},
		{0, odd, 7, InTurn}, {30*ms - 1, odd, 7, InTurn},
		{30 * ms, odd, 7, Late}, {50*ms - 1, odd, 7, Late},
		{50 * ms, odd, 9, OutOfTurn}, {70*ms - 1, odd, 9, OutOfTurn},
		{70 * ms, odd, 9, InTurn}, {100*ms - 1, odd, 9, InTurn}, {100 * ms, odd, 9, InTurn},
	} {
		if block, turn := plan.Assign(at(tt.at), tt.colour); block != tt.block || turn != tt.turn {
			t.Errorf("%v, colour %d: block %d, %d; want %d, %d", tt.at, tt.colour, block, turn, tt.block, tt.turn)
		}
	}
	for d, want := range map[time.Duration][2]int64{0: {7, 8}, 30*ms - 1: {7, 8}, 30 * ms: {8, 8}, 69 * ms: {8, 8}, 70 * ms: {8, 9}} {
		if first, last := plan.Around(at(d)); [2]int64{first, last} != want {
			t.Errorf("%v: blocks %d to %d, want %v", d, first, last, want)
		}
	}
}

func TestDifferenceOfCounters(t *testing.T) {
	for _, tt := range []struct {
		width               Width
		after, before, want uint64
	}{
		{Width64, 5, 3, 2}, {Width64, 1, math.MaxUint64, 2}, {Width64, 7, 7, 0},
		{Width32, 5, 3, 2}, {Width32, 1, math.MaxUint32, 2}, {Width32, 1<<40 | 1, math.MaxUint32, 2}, {Width32, 3, 4, math.MaxUint32},
		{8, 2, 250, 8}, {0, 1, math.MaxUint64, 2}, {200, 1, math.MaxUint64, 2},
	} {
		if got := tt.width.Difference(tt.after, tt.before); got != tt.want {
			t.Errorf("%d bits, %d after %d: %d, want %d", tt.width, tt.after, tt.before, got, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	for v := range NumVerdicts {
		var back Verdict
		if err := back.UnmarshalText([]byte(v.String())); err != nil || back != v {
			t.Errorf("%v is read as %v, %v", v, back, err)
		}
	}
	for m := range NumMethods {
		var back Method
		if err := back.UnmarshalText([]byte(m.String())); err != nil || back != m {
			t.Errorf("%v is read as %v, %v", m, back, err)
		}
	}
	if new(Verdict).UnmarshalText([]byte("unknown")) == nil || new(Method).UnmarshalText([]byte("unknown")) == nil {
		t.Error("an unknown name is accepted")
	}
	for r := range AllReasons + 1 {
		r &= AllReasons
		if back := ReasonsNamed(append(r.Names(), "of a later version", "")); back != r {
			t.Errorf("%v is read as %v", r, back)
		}
	}
}
