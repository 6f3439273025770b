// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A difference is said in words, at the point that has it; all others select as the first does.
func TestUnlike(t *testing.T) {
	zero, label := uint8(0), uint32(5)
	for _, tt := range []struct {
		name   string
		change func(ingress, other *Selection)
		want   string // of the second of three points
	}{
		{"nothing", func(_, _ *Selection) {}, ""},
		{"silent", func(_, o *Selection) { *o = Selection{} }, "it does not say which packets it selects"},
		{"block", func(_, o *Selection) { o.Block = 2000 }, "blocks of 2s instead of 1s"},
		{"path", func(_, o *Selection) { o.Path++ }, "another source, segment list (segments, mode, psp, container) or destination"},
		{"class", func(_, o *Selection) { o.Criteria = NewCriteria(&zero, nil) }, "traffic class 0x00 instead of any"},
		{"label", func(i, o *Selection) { i.Criteria = NewCriteria(&zero, &label); o.Criteria = NewCriteria(&zero, nil) }, "flow label any instead of 0x00005"},
		{"a taker", func(_, o *Selection) { o.Takers = 9 }, "a narrower flow there takes packets from it"},
		{"no taker", func(i, _ *Selection) { i.Takers = 9 }, "no narrower flow there takes packets from it"},
		{"takers", func(i, o *Selection) { i.Takers, o.Takers = 9, 8 }, "other narrower flows there take packets from it"},
		{"at some points", func(_, o *Selection) { o.Takers = Partial }, "another flow there has some of its packets at a part of the nodes only"},
		{"what a later version compares", func(_, o *Selection) { o.Criteria |= 1 << 29 }, "it selects other packets"},
		{"marking", func(_, o *Selection) { o.Marking++ }, "another mark (carrier, octet, mask, even, odd, delay marks)"},
		{"two", func(_, o *Selection) { o.Block, o.Marking = 500, 7 }, "blocks of 500ms instead of 1s, another mark (carrier, octet, mask, even, odd, delay marks)"},
	} {
		reports := counted(10, 10, 10)
		ingress, other := &reports[0].Selection, &reports[1].Selection
		tt.change(ingress, other)
		reports[2].Selection = *ingress
		r := Compute(line(3), 4, reports)
		if got := r.Segments[0].To.Difference; got != tt.want || r.Segments[1].From.Difference != got || r.Segments[1].To.Difference != "" ||
			r.Whole.Verdict != Measured {
			t.Errorf("%s: %q, want %q; the whole way %v", tt.name, got, tt.want, r.Whole.Verdict)
		}
		if uncertain := r.Segments[0].Verdict == Uncertain; uncertain != (tt.want != "") || uncertain != (r.Segments[1].Verdict == Uncertain) {
			t.Errorf("%s: %v, %v", tt.name, r.Segments[0].Verdict, r.Segments[1].Verdict)
		}
	}
}

// Points that select differently are never compared, whatever the difference: Unlike has words
// exactly if the two do not agree, and then no part of the way between such points is exact.
func TestEveryDifferenceCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9341))
	random := func() Selection {
		s := usual
		values := map[*uint32][]uint32{
			&s.Block:    {1000, 500},
			&s.Path:     {1, 2},
			&s.Criteria: {0, 1 << 28, 1 << 29, 3 << 20, 7, hasClass, hasLabel | 7},
			&s.Takers:   {0, 7, 8, Partial},
			&s.Marking:  {0, 1, 2},
		}
		for field, list := range values {
			if r.IntN(4) == 0 {
				*field = list[r.IntN(len(list))]
			}
		}
		return s
	}
	exact := 0
	for range 20000 {
		reports := counted(2000, 2000, 1000)
		for i := range reports {
			reports[i].Selection = random()
		}
		a, b := reports[0].Selection, reports[1].Selection
		if agree := a.agrees(b); agree != (a.Unlike(b) == "") || agree != b.agrees(a) {
			t.Fatalf("%+v and %+v: agree %v, %q", a, b, agree, a.Unlike(b))
		}
		got := Compute(line(3), 4, reports)
		for s := range got.parts {
			from, to := reports[s.From.Point-1].Selection, reports[s.To.Point-1].Selection
			if !s.Verdict.Exact() {
				continue
			}
			if exact++; from != to || from.Takers == Partial || !from.Known() {
				t.Fatalf("%+v and %+v of %+v: %v", from, to, a, s.Verdict)
			}
		}
	}
	if exact == 0 {
		t.Error("nothing is exact")
	}
	partial := usual
	partial.Takers = Partial
	if got := usual.Unlike(partial); got != "at the node it is compared with, "+
		"another flow has some of its packets at a part of the nodes only" {
		t.Error(got)
	}
}

// Only a point that says nothing is taken to select the same, and the result says so.
func TestAssumedSelection(t *testing.T) {
	f := line(3)
	f.Assumed = true
	reports := counted(10, 10, 9)
	reports[1].Selection = Selection{}
	r := Compute(f, 4, reports)
	if r.Segments[0].Verdict != Measured || r.Segments[0].Assumed != AssumedSelection || r.Segments[1].Assumed != AssumedSelection ||
		r.Whole.Assumed != 0 {
		t.Errorf("%+v", r)
	}
	reports[1].Selection = usual
	reports[1].Selection.Path++
	if r = Compute(f, 4, reports); r.Segments[0].Verdict != Uncertain || r.Segments[0].Assumed != 0 {
		t.Errorf("another selection: %+v", r)
	}
	if a := AssumedSelection; !slices.Equal(a.Names(), []string{"selection"}) || AssumptionsNamed(a.Names()) != a {
		t.Errorf("%v", AssumedSelection.Names())
	}
}

// What a point selects may come before its counters, and apart; a change of it contradicts.
func TestSelect(t *testing.T) {
	b := newBench(t, few)
	if err := b.AddFlow(*line(2), in(50)); err != nil {
		t.Fatal(err)
	}
	other := usual
	other.Takers = 3
	for i, second := range [][]Selection{{usual, usual}, {usual, other}, {}, {other}, {{}}} {
		block := int64(50 + i)
		at := in(block + 1)
		for _, s := range second {
			b.Select(7, 2, block, s, at)
		}
		b.Select(7, 1, block, usual, at)
		b.Select(7, 3, block, other, at) // no point
		b.Select(8, 1, block, other, at) // no flow
		b.Add(reading(1, block, 5), at)
		b.Add(reading(2, block, 5), at)
		b.Select(7, 1, block+2, other, at) // of the future
	}
	b.Flush()
	got := map[int64]string{}
	for _, r := range b.results {
		got[r.Block] = r.Whole.Verdict.String() + " " + r.Whole.Reasons().String()
	}
	for block, want := range map[int64]string{50: "measured ", 51: "uncertain contradicting,other_selection", 52: "uncertain other_selection",
		53: "uncertain other_selection", 54: "uncertain other_selection"} {
		if got[block] != want {
			t.Errorf("block %d: %q, want %q", block, got[block], want)
		}
	}
}

// What was said of a block without counters is not taken for what is said of another one after the
// clock went back.
func TestSelectAfterTheClockWentBack(t *testing.T) {
	b := newBench(t, few)
	if err := b.AddFlow(*line(2), in(50)); err != nil {
		t.Fatal(err)
	}
	other := usual
	other.Takers = 3
	for block := int64(50); block < 55; block++ { // all places
		for point := PointID(1); point <= 2; point++ {
			b.Select(7, point, block, other, in(block))
		}
	}
	for block := int64(20); block < 25; block++ {
		for point := 1; point <= 2; point++ {
			b.Select(7, PointID(point), block, usual, in(block+1))
			b.Add(reading(point, block, 5), in(block+1))
		}
		b.Advance(in(block + 1))
	}
	if got := b.said(); b.Counters().Restarts != 1 || !strings.HasSuffix(got, "22 measured, 23 measured, 24 measured") ||
		strings.Contains(got, "uncertain") {
		t.Errorf("%d restarts: %s", b.Counters().Restarts, got)
	}
}

func TestSelectionOctets(t *testing.T) {
	class, label := uint8(0xb8), uint32(0xfffff)
	s := Selection{Block: 1500, Path: 1 << 31, Criteria: NewCriteria(&class, &label), Takers: Partial, Marking: 4}
	b := s.Append(nil)
	if got := DecodeSelection(b, 1500*time.Millisecond); len(b) != SelectionLen || got != s {
		t.Errorf("%x: %+v, want %+v", b, got, s)
	}
	if got := DecodeSelection(make([]byte, SelectionLen), time.Second); got.Known() || got != (Selection{}) {
		t.Errorf("%+v", got)
	}
	if got := s.class() + s.label(); !strings.Contains(got, "0xb80xfffff") {
		t.Error(got)
	}
}
