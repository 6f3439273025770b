// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a history gives back is what was added, whatever happened in a block.
func TestHistoryGivesBack(t *testing.T) {
	for i, tt := range histories {
		h := newHistory(rand.New(rand.NewPCG(uint64(i), 7)), tt.faults)
		h.run()
		kept := NewHistory(1<<20, time.Hour)
		results := h.results(t)
		for n, r := range results {
			if n%3 == 0 {
				r.Tested = Tested{Sample{time.Duration(h.within(1e9)), 1 + h.Uint64N(9)}, time.Duration(h.Int64N(1e6))}
			}
			kept.Add(uint32(n), uint8(n), r)
		}
		n := 0
		all := kept.Read(0)
		all.Each(func(k *Kept) bool {
			want := *results[n]
			want.Flow, want.Timing = 0, Timing{}
			if diff := cmp.Diff(want, k.Result); diff != "" || k.Flow != uint32(n) || k.Marks != uint8(n) {
				t.Fatalf("%s, result %d: %s", tt.name, n, diff)
			}
			n++
			return true
		})
		if n != len(results) || all.IsCut {
			t.Errorf("%s: %d of %d results, cut: %v", tt.name, n, len(results), all.IsCut)
		}
	}
}

// A history takes no more than its room, and no longer than its time; it says from when on it
// has all results.
func TestHistoryIsBounded(t *testing.T) {
	f := line(4)
	r := Compute(f, 0, counted(1_000_000, 999_000, 999_000, 998_000))
	add := func(h *History, block int64, flows uint32) {
		for flow := range flows {
			own := r
			own.Block, own.Start = block, f.Timing.Start(block)
			h.Add(flow, 0, &own)
		}
	}
	small, long := NewHistory(1<<20, time.Hour), NewHistory(1<<30, 10*time.Second)
	for block := range int64(1000) {
		add(small, block, 100)
		add(long, block, 10)
		if n := small.Octets(); n > 1<<20 {
			t.Fatalf("%d octets", n)
		}
	}
	for name, h := range map[string]*History{"room": small, "time": long} {
		m := h.Read(0)
		first := map[uint32]int64{}
		last := int64(-1)
		m.Each(func(k *Kept) bool {
			if _, ok := first[k.Flow]; !ok {
				first[k.Flow] = k.Result.Block
			}
			last = k.Result.Block
			return true
		})
		if !m.IsCut || last != 999 {
			t.Fatalf("%s: cut %v, last %d", name, m.IsCut, last)
		}
		for flow, block := range first {
			if f.Timing.Start(block) > m.Cut+int64(f.Timing.Length) {
				t.Errorf("%s: flow %d has blocks from %d on, and is said to have all after %d", name, flow, block, m.Cut)
			}
		}
	}
	// The time is exact to a chunk.
	if m := long.Read(0); m.Cut < f.Timing.Start(999)-int64(20*time.Second) {
		t.Errorf("results after %d are kept", m.Cut)
	}
	n := 0
	recent := small.Read(f.Timing.Start(998))
	recent.Each(func(k *Kept) bool { n++; return true })
	if n != 200 {
		t.Errorf("%d results of two blocks", n)
	}
	recent.Each(func(*Kept) bool { n++; return n < 205 })
	if n != 205 {
		t.Errorf("went on to %d", n)
	}
}

// After a clock that was far ahead, the history keeps what comes, and says since when it has all.
func TestHistoryAfterTheClockWasSetBack(t *testing.T) {
	f := line(4)
	r := Compute(f, 0, counted(1_000_000, 999_000, 999_000, 998_000))
	h := NewHistory(1<<20, time.Hour)
	const day = 24 * 36000 // blocks
	add := func(from, to int64) {
		for block := from; block < to; block++ {
			own := r
			own.Block, own.Start = block, f.Timing.Start(block)
			h.Add(1, 0, &own)
			if block == from+500 {
				own = noResult(f, from+400, 100) // of a flow without results since; it is no earlier
				h.Add(2, 0, &own)
			}
		}
	}
	add(1000, 2000)
	add(1000+day, 12_000+day) // ahead
	add(2000, 5000)
	if m := h.Read(0); !m.IsCut || m.Cut > f.Timing.Start(2000) {
		t.Errorf("cut %d: what is gone was before the clock was set back", m.Cut/int64(f.Timing.Length))
	}
	add(5000, 14_000)
	m := h.Read(f.Timing.Start(10_000))
	n := 0
	m.Each(func(k *Kept) bool {
		if k.Result.Block < day && k.Flow == 1 {
			n++
		}
		return true
	})
	if n != 4000 || m.Cut > f.Timing.Start(10_000) {
		t.Errorf("%d results of 4000 of the last blocks, cut %d", n, m.Cut/int64(f.Timing.Length))
	}
	add(14_000, 50_000) // what is ahead ends as all does
	if n := h.Octets(); n > 1<<20 {
		t.Errorf("%d octets", n)
	}
	m = h.Read(f.Timing.Start(49_900))
	m.Each(func(k *Kept) bool {
		if k.Result.Block >= day {
			t.Fatalf("block %d is kept", k.Result.Block)
		}
		return true
	})
	if m.Cut >= f.Timing.Start(49_900) {
		t.Errorf("cut %d", m.Cut/int64(f.Timing.Length))
	}
}

// noResult is of several blocks of which nothing is known.
func noResult(f *Flow, first, blocks int64) Result {
	r := Compute(f, first, nil)
	r.Length = time.Duration(blocks) * r.Length
	return r
}

// A result takes few octets.
func TestHistoryIsCompact(t *testing.T) {
	for points, want := range map[int]int{2: 64, 4: 160} {
		reports := counted([]uint64{250_000, 249_900, 249_900, 249_900}[:points]...)
		for i := range reports {
			reports[i].Reading.Octets, reports[i].Reading.ClockError = 1400*reports[i].Reading.Packets, 5_000_000
		}
		r := Compute(line(points), 179_570_000, reports)
		var e encoder
		b := e.append(nil, 65_000, 0, &r)
		r.Block++
		if n := len(e.append(b, 65_001, 0, &r)) - len(b); n > want {
			t.Errorf("%d points: %d octets", points, n)
		} else {
			t.Logf("%d points: %d octets", points, n)
		}
	}
}
