// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
	"testing"
)

func TestParsePlace(t *testing.T) {
	for _, text := range []string{"first", "last", "before cil_from_netdev", "after handle_ingress.v2", "before " + strings.Repeat("a", 127)} {
		if p, err := ParsePlace(text); err != nil || p.String() != text {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "First", "before", "before ", "after  x", "before a b", "after a/b", "before é", "beside x", "before " +
		strings.Repeat("a", 128), " first"} {
		if p, err := ParsePlace(text); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
}

// A program that sits down in its seat has its place, wherever the others are.
func TestSeatHolds(t *testing.T) {
	places := []Place{{}, {Kind: PlaceLast}, {Kind: PlaceBefore, Program: "b"}, {Kind: PlaceAfter, Program: "b"}}
	for _, others := range [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {"a", "b", "c"}, {"b", "a", "b"}, {"a", "b", "b", "c"}} {
		for _, p := range places {
			held := 0
			for seat := range len(others) + 1 {
				holds := p.Holds(others[:seat], others[seat:])
				if holds {
					held++
				}
				if seat == p.Seat(others) && !holds {
					t.Errorf("%v among %v: seat %d does not hold", p, others, seat)
				}
			}
			if held == 0 {
				t.Errorf("%v among %v: no seat holds", p, others)
			}
		}
	}
	long := Place{Kind: PlaceAfter, Program: "cil_from_network_device"}
	if !long.Holds([]string{"cil_from_networ"}, nil) || long.Holds(nil, []string{"cil_from_networ"}) {
		t.Error("a long name is not compared by the part that the kernel keeps")
	}
	for _, tt := range []struct {
		place  string
		others []string
		want   int
	}{
		{"first", []string{"a", "b"}, 0}, {"last", []string{"a", "b"}, 2}, {"before b", []string{"a", "b", "b"}, 1},
		{"after b", []string{"a", "b", "b", "c"}, 3}, {"after x", []string{"a"}, 0}, {"before x", []string{"a"}, 0},
	} {
		p, _ := ParsePlace(tt.place)
		if got := p.Seat(tt.others); got != tt.want {
			t.Errorf("%s among %s: seat %d, want %d", tt.place, slices.Clone(tt.others), got, tt.want)
		}
	}
}
