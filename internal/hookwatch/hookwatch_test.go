// SPDX-License-Identifier: Apache-2.0

package hookwatch

import (
	"errors"
	"slices"
	"testing"
	"time"
)

var (
	key   = Key{Index: 7, Ingress: true}
	begin = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	good  = Look{Attached: true, InPlace: true}
	off   = Look{}
	away  = Look{Attached: true}
)

func at(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

// A program that was off its hook was so since the last look that found it there.
func TestGaps(t *testing.T) {
	var gaps []Gap
	h := New(func(g Gap) { gaps = append(gaps, g) })
	if h.Observe(key, good, at(0)) != None || h.Observe(key, good, at(1)) != None {
		t.Error("a good hook is repaired")
	}
	if got := h.Observe(key, off, at(2)); got != Reattach {
		t.Errorf("off: %v", got)
	}
	if s := h.State(key); s.OffSince != at(1) || !s.AwaySince.IsZero() {
		t.Errorf("off: %+v", s)
	}
	h.Repaired(key, true, nil, at(2))
	h.Observe(key, good, at(3))
	if s := h.State(key); !s.OffSince.IsZero() || s.Last != (Gap{key, Detached, at(1), at(3)}) || s.Repairs != 1 {
		t.Errorf("back: %+v", s)
	}
	if got := h.Observe(key, away, at(4)); got != Reposition {
		t.Errorf("away: %v", got)
	}
	h.Repaired(key, true, errors.New("no"), at(4))
	if s := h.State(key); s.AwaySince != at(3) || s.Fault != "no" {
		t.Errorf("away: %+v", s)
	}
	h.Keep(func(Key) bool { return false })
	want := []Gap{
		{Key: key, Cause: Detached, Since: at(1)},
		{key, Detached, at(1), at(3)},
		{Key: key, Cause: Displaced, Since: at(3)},
		{key, Displaced, at(3), at(4)},
	}
	if !slices.Equal(gaps, want) {
		t.Errorf("gaps %+v, want %+v", gaps, want)
	}
}

// Repairs do not become a fight: they pause longer and longer, at edges less long, and
// begin anew after calm.
func TestPauses(t *testing.T) {
	for _, tt := range []struct {
		filters   bool
		most, few int
	}{{true, 50, 35}, {false, 12, 8}} {
		h, repairs := New(nil), 0
		h.Observe(key, good, at(0))
		for i := 1; i <= 300; i++ {
			if h.Observe(key, away, at(i)) == Reposition {
				repairs++
				h.Repaired(key, tt.filters, nil, at(i))
			}
		}
		if repairs > tt.most || repairs < tt.few {
			t.Errorf("edge %v: %d repairs in 300 s, want %d to %d", tt.filters, repairs, tt.few, tt.most)
		}
		h.Observe(key, good, at(301))
		h.Observe(key, good, at(600))
		if s := h.State(key); s.Repairs != 0 {
			t.Errorf("after calm: %+v", s)
		}
		if h.Observe(key, away, at(601)) != Reposition {
			t.Error("after calm, the first repair waits")
		}
	}
}

// A hook that counts nothing while its device does is bypassed, until it counts again.
func TestBypassed(t *testing.T) {
	var gaps []Gap
	h := New(func(g Gap) { gaps = append(gaps, g) })
	h.Observe(key, good, at(0))
	for i, c := range []struct {
		device, hook uint64
		bypassed     bool
	}{
		{1000, 500, false}, {1000, 500, false}, {1010, 500, false}, {1019, 500, false}, {1030, 500, true}, {1040, 500, true}, {1050, 500, true},
		{1060, 501, false}, {1070, 502, false}, {1070, 502, false}, {10, 502, false}, {11, 502, false},
	} {
		h.Observe(key, good, at(i*2))
		h.Count(key, Traffic{Device: c.device, Hook: c.hook}, at(i*2))
		if s := h.State(key); !s.BypassedSince.IsZero() != c.bypassed {
			t.Errorf("step %d: %+v, want bypassed %v", i, s, c.bypassed)
		}
	}
	want := []Gap{{Key: key, Cause: Bypassed, Since: beforeFirstLook}, {key, Bypassed, beforeFirstLook, at(14)}}
	if !slices.Equal(gaps, want) {
		t.Errorf("gaps %+v, want %+v", gaps, want)
	}
}

// A bypass goes on while another gap of the hook begins and ends.
func TestCausesOverlap(t *testing.T) {
	lasting := map[Gap]bool{}
	h := New(func(g Gap) {
		which := Gap{Key: g.Key, Cause: g.Cause, Since: g.Since}
		if lasting[which] == g.Until.IsZero() {
			t.Errorf("%+v begins or ends twice", g)
		}
		lasting[which] = g.Until.IsZero()
	})
	for i := 0; i <= 20; i += 2 {
		look := good
		if i == 12 {
			look = off
		}
		h.Observe(key, look, at(i))
		h.Count(key, Traffic{Device: uint64(1000 + 100*i), Hook: 500}, at(i))
	}
	for which, lasts := range lasting {
		if lasts != (which.Cause == Bypassed) {
			t.Errorf("%+v lasts: %v", which, lasts)
		}
	}
	if len(lasting) != 2 || h.State(key).BypassedSince.IsZero() {
		t.Errorf("%v", lasting)
	}
}

// TestKnown: until when a hook is known to be executed follows from each look and comparison,
// and gaps begin not later than that.
func TestKnown(t *testing.T) {
	const off = -1
	for _, tt := range []struct {
		name  string
		steps [][2]int // packets of the device and the hook in each second; off: not on its hook
		known []int    // after each step
		gaps  [][2]int // seconds; a beginning of -1: since ever; an end of 0: lasts
	}{
		{"busy", [][2]int{{10, 10}, {10, 10}, {10, 10}}, []int{0, 0, 1}, nil},
		{"idle", [][2]int{{10, 10}, {10, 10}, {0, 0}, {0, 0}}, []int{0, 0, 2, 3}, nil},
		{"joined packets", [][2]int{{10, 10}, {10, 1}, {40, 1}, {40, 1}}, []int{0, 0, 1, 2}, nil},
		{"one that no hook sees", [][2]int{{9, 9}, {9, 9}, {0, 0}, {1, 0}, {0, 0}, {0, 0}}, []int{0, 0, 2, 0, 4, 5}, nil},
		{"bypassed after a packet in the same second", [][2]int{{9, 9}, {9, 9}, {9, 1}, {9, 0}, {9, 0}}, []int{0, 0, 1, 3, 4}, [][2]int{{1, 0}}},
		{"bypassed, slowly", [][2]int{{9, 9}, {9, 9}, {1, 0}, {1, 0}, {1, 0}, {1, 0}}, []int{0, 0, 0, 0, 4, 5}, [][2]int{{0, 0}}},
		{"bypassed, and nothing more comes", [][2]int{{9, 9}, {9, 9}, {9, 0}, {0, 0}, {0, 0}}, []int{0, 0, 2, 3, 4}, [][2]int{{0, 3}}},
		{"bypassed twice", [][2]int{{9, 9}, {9, 0}, {0, 0}, {0, 0}, {9, 0}, {9, 9}}, []int{0, 1, 2, 3, 4, 4}, [][2]int{{-1, 2}, {2, 5}}},
		{"off", [][2]int{{9, 9}, {9, 9}, {9, off}, {9, 9}}, []int{0, 0, 2, 2}, [][2]int{{1, 3}, {0, 3}}},
	} {
		var gaps [][2]int
		h := New(func(g Gap) {
			if from := max(int(g.Since.Sub(begin).Seconds()), -1); g.Until.IsZero() {
				gaps = append(gaps, [2]int{from, 0})
			} else {
				for i := range gaps {
					if gaps[i] == [2]int{from, 0} {
						gaps[i][1] = int(g.Until.Sub(begin).Seconds())
					}
				}
			}
		})
		var sum Traffic
		for i, n := range tt.steps {
			look := good
			if n[1] == off {
				look, n[1] = Look{}, 0
			}
			sum.Device, sum.Hook = sum.Device+uint64(n[0]), sum.Hook+uint64(n[1])
			h.Observe(key, look, at(i))
			h.Count(key, sum, at(i))
			if got := int(h.Known(at(i), time.Second).Sub(begin).Seconds()); got != tt.known[i] {
				t.Errorf("%s, step %d: known until %d, want %d", tt.name, i, got, tt.known[i])
			}
		}
		if !slices.Equal(gaps, tt.gaps) {
			t.Errorf("%s: gaps %v, want %v", tt.name, gaps, tt.gaps)
		}
	}
}

// A hook is known to be idle after a while, so that a pause of the traffic hides no bypass.
func TestQuiet(t *testing.T) {
	h := New(nil)
	for i, device := range []uint64{5, 10, 10, 10, 10} {
		h.Observe(key, good, at(i))
		h.Count(key, Traffic{Device: device, Hook: device}, at(i))
		if got, want := h.Known(at(i), 3*time.Second), at([]int{0, 0, 0, 0, 4}[i]); got != want {
			t.Errorf("step %d: known until %v, want %v", i, got, want)
		}
	}
}

// Packets that come while the counters are read are no bypass, whichever is read first.
func TestReadMeanwhile(t *testing.T) {
	h := New(func(g Gap) { t.Errorf("%+v", g) })
	h.Observe(key, good, at(0))
	h.Count(key, Traffic{Device: 10, Hook: 10, Meanwhile: 5}, at(0)) // not in Device yet
	h.Count(key, Traffic{Device: 15, Hook: 15}, at(1))
	h.Count(key, Traffic{Device: 20, Hook: 15, Meanwhile: 5}, at(2)) // in Device, and not in Hook yet
	h.Count(key, Traffic{Device: 20, Hook: 20}, at(3))
	h.Count(key, Traffic{Device: 20, Hook: 20}, at(4))
}

// What a hook has counted before its device did is no bypass; but it explains only as many packets as were counted
// lately, those that the program dropped not, and not for long after the hook's last one, however quiet it was since.
func TestLateDevice(t *testing.T) {
	const nothing = -1
	after := func(tenths int) time.Time { return begin.Add(time.Duration(tenths) * 100 * time.Millisecond) }
	type step struct {
		tenths                int // of a second
		device, hook, dropped uint64
		known                 int // until when
	}
	every := func(tenths, until int, device, more uint64, hook uint64) (list []step) {
		for at := tenths; at <= until; at += 2 {
			list = append(list, step{tenths: at, device: device, hook: hook, known: nothing})
			if at%10 == 0 { // five comparisons find nothing, one finds some
				device += more
			}
		}
		return list
	}
	for name, tt := range map[string]struct {
		steps []step
		since int // of the gap
	}{
		"a queue":           {[]step{{0, 0, 0, 0, 0}, {10, 10, 100, 0, 0}, {20, 60, 100, 0, 0}, {29, 100, 100, 0, 0}, {60, 100, 100, 0, 60}}, nothing},
		"the usual look":    {[]step{{0, 0, 0, 0, 0}, {20, 10, 100, 0, 0}, {41, 100, 100, 0, 0}}, nothing},
		"more than it held": {[]step{{0, 0, 0, 0, 0}, {10, 10, 100, 0, 0}, {20, 80, 100, 0, 0}, {29, 103, 100, 0, 29}}, 0},
		"dropped behind":    {[]step{{0, 0, 0, 0, 0}, {10, 10, 100, 0, 0}, {90, 20, 110, 0, 10}, {100, 30, 110, 0, 10}, {121, 33, 110, 0, 121}}, 10},
		"long ago":          {[]step{{0, 0, 0, 0, 0}, {10, 0, 1000, 0, 0}, {90, 5, 1005, 0, 10}, {91, 30, 1005, 0, 91}}, 10},
		"by the program":    {[]step{{0, 0, 0, 0, 0}, {10, 10, 100, 90, 0}, {20, 13, 100, 90, 20}}, 0},
		"a slow bypass":     {append([]step{{0, 0, 0, 0, 0}, {10, 10, 1010, 0, 0}}, every(12, 200, 10, 3, 1010)...), 0},
		"begun anew":        {[]step{{0, 0, 500, 0, 0}, {10, 10, 900, 0, 0}, {20, 5, 901, 0, 10}, {29, 8, 901, 0, 29}}, 10},
	} {
		var gaps []Gap
		h := New(func(g Gap) { gaps = append(gaps, g) })
		for _, s := range tt.steps {
			h.Observe(key, good, after(s.tenths))
			h.Count(key, Traffic{Device: s.device, Hook: s.hook, Dropped: s.dropped}, after(s.tenths))
			if got := h.Known(after(s.tenths), 3*time.Second); s.known != nothing && got != after(s.known) {
				t.Errorf("%s: after %d, known until %v, want %v", name, s.tenths, got, after(s.known))
			}
		}
		is := len(gaps) == 0
		if tt.since != nothing {
			is = len(gaps) > 0 && gaps[0] == Gap{Key: key, Cause: Bypassed, Since: after(tt.since)}
		}
		if !is {
			t.Errorf("%s: gaps %+v, want one since %d", name, gaps, tt.since)
		}
	}
}

// Without a look, or without counters to compare, nothing is known of later.
func TestUnknown(t *testing.T) {
	h, other := New(nil), Key{Index: 8}
	if h.Known(at(9), time.Second) != at(9) {
		t.Error("without hooks, something is unknown")
	}
	h.Observe(key, good, at(1))
	h.Count(key, Traffic{Device: 5, Hook: 5}, at(1))
	h.Observe(key, good, at(2))
	if got := h.Known(at(2), time.Second); got != at(1) {
		t.Errorf("looked at and not compared: known until %v", got)
	}
	h.Incomparable(key, at(2))
	if got := h.Known(at(2), time.Second); got != at(2) {
		t.Errorf("not to be compared: known until %v", got)
	}
	h.Fail(key)
	if got := h.Known(at(3), time.Second); got != at(2) {
		t.Errorf("a look failed: known until %v", got)
	}
	h.Fail(other)
	if got := h.Known(at(3), time.Second); !got.IsZero() {
		t.Errorf("a hook was never looked at, and is known until %v", got)
	}
	h.Observe(other, off, at(3)) // since when is not known
	if got := h.State(other).OffSince; got != at(3) {
		t.Errorf("off since %v", got)
	}
}

// What the first look finds may have been so for all the time in which no agent ran; a hook that
// has not counted yet may have been bypassed as long.
func TestFirstLook(t *testing.T) {
	for _, tt := range []struct {
		look  Look
		cause Cause
		state func(State) time.Time
	}{
		{off, Detached, func(s State) time.Time { return s.OffSince }},
		{away, Displaced, func(s State) time.Time { return s.AwaySince }},
		{good, Bypassed, func(s State) time.Time { return s.BypassedSince }},
	} {
		var gaps []Gap
		h := New(func(g Gap) { gaps = append(gaps, g) })
		h.Observe(key, tt.look, at(1))
		for i := 1; i <= 7 && tt.look == good; i += 2 {
			h.Count(key, Traffic{Device: uint64(1000 + 10*i), Hook: 5}, at(i))
		}
		if len(gaps) != 1 || gaps[0].Cause != tt.cause || gaps[0].Since.UnixNano() != 0 {
			t.Errorf("%s: gaps %+v, want one since ever", tt.cause, gaps)
		}
		if since := tt.state(h.State(key)); since != at(1) {
			t.Errorf("%s: noticed at %v, want %v", tt.cause, since, at(1))
		}
		h.Observe(key, good, at(8))
		h.Count(key, Traffic{Device: 2000, Hook: 6}, at(9))
		h.Count(key, Traffic{Device: 2001, Hook: 7}, at(11))
		h.Count(key, Traffic{Device: 3000, Hook: 7}, at(13))
		if last := gaps[len(gaps)-1]; last != (Gap{Key: key, Cause: Bypassed, Since: at(9)}) {
			t.Errorf("%s: a hook that has counted is bypassed: %+v", tt.cause, last)
		}
	}
}

// A chain that others changed between two looks, and left as it should be, is a gap that has ended;
// after the first look, and beside another gap, it is none of its own.
func TestChangedChain(t *testing.T) {
	var gaps []Gap
	h := New(func(g Gap) { gaps = append(gaps, g) })
	changed := Look{Attached: true, InPlace: true, Changed: true}
	h.Observe(key, changed, at(0))
	h.Observe(key, good, at(1))
	h.Observe(key, changed, at(2))
	h.Observe(key, away, at(3))
	h.Observe(key, changed, at(4))
	want := []Gap{
		{Key: key, Cause: Changed, Since: at(1)},
		{key, Changed, at(1), at(2)},
		{Key: key, Cause: Displaced, Since: at(2)},
		{key, Displaced, at(2), at(4)},
	}
	if !slices.Equal(gaps, want) {
		t.Errorf("gaps %+v, want %+v", gaps, want)
	}
	if s := h.State(key); s.Change != want[1] {
		t.Errorf("%+v", s.Change)
	}
}

// Of two that look at a hook at once, the one that began first may come last: what it read is older, and shows neither
// that the program is off its hook now, nor that it was executed since the other's look.
func TestLateLook(t *testing.T) {
	var gaps []Gap
	h := New(func(g Gap) { gaps = append(gaps, g) })
	for i := range 4 {
		h.Observe(key, good, at(i))
		h.Count(key, Traffic{Device: uint64(100 + 10*i), Hook: uint64(100 + 10*i)}, at(i))
	}
	if got := h.Observe(key, off, at(2)); got != None || len(gaps) != 0 {
		t.Errorf("%v, gaps %+v", got, gaps)
	}
	h.Count(key, Traffic{Device: 125, Hook: 125}, at(2))
	h.Observe(key, good, at(4))
	if got := h.Known(at(4), 9*time.Second); got != at(2) {
		t.Errorf("known until %v, want %v", got, at(2))
	}
}
