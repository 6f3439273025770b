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
	if h.Note(key, good, at(0)) != None || h.Note(key, good, at(1)) != None {
		t.Error("a good hook is repaired")
	}
	if got := h.Note(key, off, at(2)); got != Reattach {
		t.Errorf("off: %v", got)
	}
	if s := h.State(key); s.Off != at(1) || !s.Away.IsZero() {
		t.Errorf("off: %+v", s)
	}
	h.Repaired(key, true, nil, at(2))
	h.Note(key, good, at(3))
	if s := h.State(key); !s.Off.IsZero() || s.Last != (Gap{key, at(1), at(3)}) || s.Repairs != 1 {
		t.Errorf("back: %+v", s)
	}
	if got := h.Note(key, away, at(4)); got != Reposition {
		t.Errorf("away: %v", got)
	}
	h.Repaired(key, true, errors.New("no"), at(4))
	if s := h.State(key); s.Away != at(3) || s.Fault != "no" {
		t.Errorf("away: %+v", s)
	}
	h.Keep(func(Key) bool { return false })
	want := []Gap{{Key: key, Since: at(1)}, {key, at(1), at(3)}, {Key: key, Since: at(3)}, {key, at(3), at(4)}}
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
		h.Note(key, good, at(0))
		for i := 1; i <= 300; i++ {
			if h.Note(key, away, at(i)) == Reposition {
				repairs++
				h.Repaired(key, tt.filters, nil, at(i))
			}
		}
		if repairs > tt.most || repairs < tt.few {
			t.Errorf("edge %v: %d repairs in 300 s, want %d to %d", tt.filters, repairs, tt.few, tt.most)
		}
		h.Note(key, good, at(301))
		h.Note(key, good, at(600))
		if s := h.State(key); s.Repairs != 0 {
			t.Errorf("after calm: %+v", s)
		}
		if h.Note(key, away, at(601)) != Reposition {
			t.Error("after calm, the first repair waits")
		}
	}
}

// A hook that counts nothing while its device does is bypassed, until it counts again.
func TestBypassed(t *testing.T) {
	var gaps []Gap
	h := New(func(g Gap) { gaps = append(gaps, g) })
	h.Note(key, good, at(0))
	for i, c := range []struct {
		device, hook uint64
		bypassed     bool
	}{
		{1000, 500, false}, {1000, 500, false}, {1010, 500, false}, {1019, 500, false}, {1030, 500, true}, {1040, 500, true}, {1050, 500, true},
		{1060, 501, false}, {1070, 502, false}, {1070, 502, false}, {10, 502, false}, {11, 502, false},
	} {
		h.Note(key, good, at(i*2))
		h.Count(key, Traffic{Device: c.device, Hook: c.hook}, at(i*2))
		if s := h.State(key); !s.Bypassed.IsZero() != c.bypassed {
			t.Errorf("step %d: %+v, want bypassed %v", i, s, c.bypassed)
		}
	}
	want := []Gap{{Key: key, Since: at(2)}, {key, at(2), at(14)}}
	if !slices.Equal(gaps, want) {
		t.Errorf("gaps %+v, want %+v", gaps, want)
	}
}
