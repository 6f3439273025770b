// SPDX-License-Identifier: Apache-2.0

package edgetoedge

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/ioam"
)

// history is what an encapsulating node has numbered, and what became of it.
type history struct {
	*rand.Rand
	arrivals []uint64 // numbers in their order of arrival, not cut to 32 bits
	lost     uint64   // of those between the first and the last that came
	again    uint64   // packets that came more than once
}

// newHistory loses, duplicates and delays packets, none of them beyond the window.
func newHistory(r *rand.Rand, first uint64, packets int) *history {
	h := &history{Rand: r}
	type flight struct {
		number uint64
		at     float64
	}
	loss, double, late := r.Float64()*0.3, r.Float64()*0.3, r.Float64()*400
	var flights []flight
	lost := make([]bool, packets)
	for i := range packets {
		lost[i] = r.Float64() < loss && i > 0 && i < packets-1
		if lost[i] {
			continue
		}
		copies := 1
		if r.Float64() < double {
			copies += 1 + r.IntN(2)
		}
		for range copies {
			at := float64(i)
			if r.IntN(4) == 0 {
				at += r.Float64() * late
			}
			flights = append(flights, flight{first + uint64(i), at})
		}
		h.again += uint64(copies - 1)
	}
	for _, l := range lost {
		if l {
			h.lost++
		}
	}
	slices.SortStableFunc(flights, func(a, b flight) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	for _, f := range flights {
		h.arrivals = append(h.arrivals, f.number)
	}
	return h
}

// reordered counts the packets that came for the first time after one with a higher
// number, by comparing each with all before it.
func (h *history) reordered() (n uint64) {
	for i, number := range h.arrivals {
		before := h.arrivals[:i]
		if !slices.Contains(before, number) && slices.ContainsFunc(before, func(b uint64) bool { return int64(b-number) > 0 }) {
			n++
		}
	}
	return n
}

func option(kind ioam.EdgeToEdgeType, number uint64) ioam.EdgeToEdge {
	if kind.Has(ioam.EdgeToEdgeSequence32) {
		number = uint64(uint32(number))
	}
	return ioam.EdgeToEdge{Type: kind, Sequence: number}
}

// Random histories: loss, duplication and reordering are what they were made of, for
// numbers of both sizes and across the wrap of 32 bits.
func TestFlowAgainstHistory(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		kind := []ioam.EdgeToEdgeType{ioam.EdgeToEdgeSequence32, ioam.EdgeToEdgeSequence64}[seed%2]
		first := []uint64{0, 1, 1000, 1<<32 - 200, 1<<32 - 1, 1 << 33}[r.IntN(6)]
		h := newHistory(r, first, 50+r.IntN(500))
		var f Flow
		for _, number := range h.arrivals {
			f.Add(option(kind, number), 0, false)
		}
		want := Totals{
			Packets: uint64(len(h.arrivals)), Unique: uint64(len(h.arrivals)) - h.again, Duplicates: h.again, Reordered: h.reordered(),
		}
		want.Expected = want.Unique + h.lost
		if f.Totals != want {
			t.Fatalf("seed %d, %v from %d: %+v, want %+v", seed, kind, first, f.Totals, want)
		}
	}
}

// Numbers that begin again are no loss, wherever they do.
func TestFlowBeginsAgain(t *testing.T) {
	for _, c := range []struct {
		name         string
		before, then uint64
		kind         ioam.EdgeToEdgeType
	}{
		{"from far above to 0", 1_000_000, 0, ioam.EdgeToEdgeSequence32},
		{"from far above to 0, wide", 1_000_000, 0, ioam.EdgeToEdgeSequence64},
		{"far ahead", 5, 1 << 40, ioam.EdgeToEdgeSequence64},
		{"half the numbers ahead", 5, 1<<31 - 5, ioam.EdgeToEdgeSequence32},
		{"just below the window", 5000, 5000 - 1100, ioam.EdgeToEdgeSequence32},
	} {
		var f Flow
		for i := range uint64(100) {
			f.Add(option(c.kind, c.before+i), 0, false)
		}
		for i := range uint64(100) {
			f.Add(option(c.kind, c.then+i), 0, false)
		}
		f.Add(option(c.kind, c.then), 0, false) // the first of the new ones is known
		want := Totals{Packets: 201, Expected: 200, Unique: 200, Duplicates: 1, Late: 1, Restarts: 1}
		if f.Totals != want {
			t.Errorf("%s: %+v, want %+v", c.name, f.Totals, want)
		}
	}
}

// Numbers of a short flow that begin again repeat those of the window. A few of them may as
// well be duplicates.
func TestShortFlowBeginsAgain(t *testing.T) {
	for _, numbers := range []uint64{2, Repeated, Repeated + 1, 100, Window<<groupBits - 1, Window << groupBits} {
		for _, kind := range []ioam.EdgeToEdgeType{ioam.EdgeToEdgeSequence32, ioam.EdgeToEdgeSequence64} {
			var f Flow
			for range 2 {
				for n := range numbers {
					f.Add(option(kind, n), 0, false)
				}
			}
			want := Totals{Packets: 2 * numbers, Expected: 2 * numbers, Unique: 2 * numbers, Duplicates: 1, Restarts: 1}
			if numbers <= Repeated {
				want = Totals{Packets: 2 * numbers, Expected: numbers, Unique: numbers, Duplicates: numbers}
			}
			if f.Totals != want {
				t.Errorf("%d numbers, %v: %+v, want %+v", numbers, kind, f.Totals, want)
			}
		}
	}
}

// Single numbers from far away are late, and change nothing else, also two consecutive ones
// between which others come.
func TestFlowStrays(t *testing.T) {
	var f Flow
	for _, number := range []uint64{5000, 5001, 3, 5002, 4, 5004, 1 << 50, 5003, 1<<50 + 1, 5004} {
		f.Add(option(ioam.EdgeToEdgeSequence64, number), 0, false)
	}
	want := Totals{Packets: 10, Expected: 5, Unique: 5, Duplicates: 1, Reordered: 1, Late: 4}
	if f.Totals != want {
		t.Errorf("%+v, want %+v", f.Totals, want)
	}
}

// A packet of each interval that is late by an interval is reported lost once, and no
// packet more.
func TestLossesBalance(t *testing.T) {
	var l Losses
	key := Key{Namespace: 1}
	for i, c := range []struct {
		expected, unique, lost uint64
	}{{10, 9, 1}, {10, 11, 0}, {10, 9, 0}, {10, 9, 1}, {0, 0, 0}, {0, 3, 0}, {0, 0, 0}, {5, 2, 0}, {5, 4, 1}} {
		if lost := l.AddTotals(key, Totals{Expected: c.expected, Unique: c.unique}); lost != c.lost {
			t.Errorf("interval %d: %d lost, want %d", i, lost, c.lost)
		}
		l.EndInterval()
	}
	l.AddTotals(key, Totals{Unique: 7})
	l.EndInterval()
	l.EndInterval() // the flow has left the table
	if lost := l.AddTotals(key, Totals{Expected: 1}); lost != 1 {
		t.Errorf("%d lost of a forgotten flow, want 1", lost)
	}
}

func TestDelay(t *testing.T) {
	const offset = int64(37 * time.Second)
	sent := time.Date(2026, 11, 23, 12, 0, 0, 123_456_789, time.UTC).UnixNano() + offset
	for _, format := range []ioam.TimestampFormat{ioam.TimestampPOSIX, ioam.TimestampPTP, ioam.TimestampNTP} {
		for _, took := range []time.Duration{0, time.Millisecond, 3 * time.Second, -time.Millisecond, 60 * time.Second} {
			e := ioam.EdgeToEdge{Type: 0x7000}
			e.Seconds, e.Fraction = format.Fields(sent, offset)
			got, known := Delay(e, format, sent+int64(took), offset)
			if diff := got - took; !known || diff < 0 || diff > time.Microsecond {
				t.Errorf("%v: %v, %v, want %v", format, got, known, took)
			}
		}
		e := ioam.EdgeToEdge{Type: 0x7000}
		e.Seconds, e.Fraction = format.Fields(sent, offset)
		if _, known := Delay(e, format, sent+int64(MostDelay)+2000, offset); known {
			t.Errorf("%v: a delay beyond the bound is known", format)
		}
		e.Type = ioam.EdgeToEdgeTimestampFraction
		if _, known := Delay(e, format, sent, offset); known {
			t.Errorf("%v: a delay without seconds is known", format)
		}
		e.Type, e.Seconds = 0x7000, 1<<32-1
		if _, known := Delay(e, format, sent, offset); known {
			t.Errorf("%v: a delay without time is known", format)
		}
	}
}

// Zero is a time that the encapsulating node does not know (RFC 5905 §6), also where it could be one.
func TestDelayOfZero(t *testing.T) {
	const second = int64(time.Second)
	for format, beginning := range map[ioam.TimestampFormat]int64{
		ioam.TimestampPTP: 0, ioam.TimestampPOSIX: 0, ioam.TimestampNTP: 1<<32 - 2_208_988_800,
	} {
		e := ioam.EdgeToEdge{Type: 0x3000}
		if got, known := Delay(e, format, (beginning+30)*second, 0); known {
			t.Errorf("%v: %v", format, got)
		}
		e.Seconds = 1
		if got, known := Delay(e, format, (beginning+30)*second, 0); !known || got != 29*time.Second {
			t.Errorf("%v, a second later: %v, %v", format, got, known)
		}
	}
}

// The seconds of a timestamp begin anew between encapsulation and decapsulation.
func TestDelayAcrossEras(t *testing.T) {
	const offset = int64(37 * time.Second)
	for format, end := range map[ioam.TimestampFormat]int64{
		ioam.TimestampPTP: 1 << 32, ioam.TimestampPOSIX: 1 << 32, ioam.TimestampNTP: 1<<32 - 2_208_988_800,
	} {
		sent := end*int64(time.Second) - int64(time.Millisecond)
		if format != ioam.TimestampPTP {
			sent += offset
		}
		e := ioam.EdgeToEdge{Type: 0x3000}
		e.Seconds, e.Fraction = format.Fields(sent, offset)
		if e.Seconds != 1<<32-1 {
			t.Fatalf("%v: %d seconds", format, e.Seconds)
		}
		sent -= int64(time.Second) // all ones mean "not available"
		e.Seconds, e.Fraction = format.Fields(sent, offset)
		if got, known := Delay(e, format, sent+int64(2*time.Second), offset); !known || got < 2*time.Second ||
			got > 2*time.Second+time.Microsecond {
			t.Errorf("%v: %v, %v", format, got, known)
		}
	}
}

func TestTunnelHash(t *testing.T) {
	if TunnelHash([16]byte{}, [16]byte{}) == 0 {
		t.Error("0 is no tunnel")
	}
	a, b := [16]byte{1}, [16]byte{15: 1}
	if TunnelHash(a, b) == TunnelHash(b, a) {
		t.Error("the ends are not told apart")
	}
}
