// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What a point counted by a clock that may be further away than planned is no bound and settles
// no doubt: it may be of another block.
func TestBoundsOfNearClocksOnly(t *testing.T) {
	near, halfway := int64(plan.ClockDifference/2), int64(plan.ClockDifference)
	for _, tt := range []struct {
		name    string
		packets []uint64
		clocks  []int64 // errors
		want    string  // of the whole way and of each segment, with what it is that is known
	}{
		{"good", []uint64{1000, 1200, 300, 1000}, []int64{near, near, near, near}, "duplicated 200 700; duplicated 200 0; uncertain path_unknown; uncertain path_unknown"},
		{"both transit points", []uint64{1000, 1200, 300, 1000}, []int64{near, UnknownClock, UnknownClock, near}, "measured 0 0; uncertain clock_worse; uncertain clock_worse; uncertain clock_worse"},
		{"the one that counted more", []uint64{1000, 1200, 300, 1000}, []int64{near, UnknownClock, near, near}, "measured 0 0; uncertain clock_worse; uncertain clock_worse; uncertain other_path"},
		{"the one that counted fewer", []uint64{1000, 1200, 300, 1000}, []int64{near, near, halfway, near}, "duplicated 200 0; duplicated 200 0; uncertain clock_worse; uncertain clock_worse"},
		{"the egress", []uint64{1000, 900, 800}, []int64{near, near, UnknownClock}, "uncertain clock_worse; uncertain path_unknown; uncertain clock_worse"},
		{"the egress, nothing is missing", []uint64{1000, 1000, 800}, []int64{near, near, UnknownClock}, "uncertain clock_worse; measured 0 0; uncertain clock_worse"},
		{"a later one that counted more", []uint64{1000, 900, 950, 800}, []int64{near, near, UnknownClock, near}, "measured 200 0; uncertain path_unknown; uncertain clock_worse; uncertain clock_worse"},
		{"the ingress", []uint64{1000, 900, 950}, []int64{UnknownClock, near, near}, "uncertain clock_worse; uncertain clock_worse; uncertain path_unknown"},
		{"near a neighbour, not the ingress", []uint64{1000, 1200, 1200, 1000}, []int64{halfway, near, near, 0}, "measured 0 0; uncertain clock_worse; measured 0 0; measured 200 0"},
	} {
		reports := counted(tt.packets...)
		for i := range reports {
			reports[i].Reading.ClockError = tt.clocks[i]
		}
		r := Compute(line(len(reports)), 4, reports)
		var list []string
		for s := range r.parts {
			what := fmt.Sprintf(" %d %d", max(s.Packets.Lost.Value, s.Packets.Duplicated.Value), s.Packets.LostMin.Value)
			if s.Verdict == Uncertain {
				what = " " + s.Reasons().String()
			}
			list = append(list, s.Verdict.String()+what)
		}
		if got := strings.Join(list, "; "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A bound, or a loss without doubt, that rests on a point of which the selection is assumed says so.
func TestAssumedBounds(t *testing.T) {
	const yes = AssumedSelection
	for _, tt := range []struct {
		packets []uint64
		silent  int           // the point that does not say what it selects
		want    []Assumptions // of the whole way and of each segment
	}{
		{[]uint64{1000, 1200, 300, 1000}, 1, []Assumptions{yes, yes, yes, 0}},
		{[]uint64{1000, 1200, 300, 1000}, 2, []Assumptions{yes, 0, yes, yes}},
		{[]uint64{1000, 1200, 1200, 1000}, 1, []Assumptions{0, yes, yes, 0}}, // the other one proves the same
		{[]uint64{1000, 900, 900, 800}, 1, []Assumptions{0, yes, yes, 0}},
		{[]uint64{1000, 900, 900, 800}, 3, []Assumptions{yes, yes, 0, yes}}, // the egress tells that none passed the second point by
	} {
		f, reports := line(4), counted(tt.packets...)
		f.Assumed, reports[tt.silent].Selection = true, Selection{}
		r := Compute(f, 4, reports)
		var got []Assumptions
		for s := range r.parts {
			got = append(got, s.Assumed)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v, point %d: %v, want %v", tt.packets, tt.silent, got, tt.want)
		}
	}
}
