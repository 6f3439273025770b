// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"

	"github.com/waymark-net/waymark/internal/model"
)

// TestFilterPriorities checks where our filter goes among others, and that it is in place there, so
// that a repair does not move it again and again.
func TestFilterPriorities(t *testing.T) {
	others := func(list ...filter) []filter { return list }
	ours := func(priority uint16, name string) filter {
		return filter{priority: priority, shares: true, OtherProgram: OtherProgram{Name: name}}
	}
	theirs := func(priority uint16) filter {
		return filter{priority: priority, OtherProgram: OtherProgram{Name: "theirs"}}
	}
	for _, tt := range []struct {
		place  string
		others []filter
		want   uint16
		seat   int
	}{
		{"first", nil, 1, 0},
		{"first", others(ours(1, "a"), theirs(2)), 1, 0},
		{"first", others(theirs(1), theirs(2), ours(3, "a")), 3, 2},
		{"before a", others(ours(1, "b"), ours(7, "a")), 1, 0},
		{"after a", others(ours(7, "a"), ours(7, "b"), theirs(8), ours(10, "c")), 9, 3},
		{"after a", others(theirs(1)), 2, 1},
		{"after a", others(ours(65535, "a")), 65535, 0},
		{"last", others(ours(7, "a")), 65534, 1},
		{"last", others(ours(65534, "a")), 65535, 1},
		{"last", others(theirs(65534)), 65535, 1},
		{"last", others(theirs(65534), theirs(65535)), 65533, 0},
	} {
		place, err := model.ParsePlace(tt.place)
		if err != nil {
			t.Fatal(err)
		}
		list := filterPriorities(place, tt.others)
		if len(list) == 0 || list[0] != tt.want {
			t.Errorf("%s among %+v: %v, want %d", tt.place, tt.others, list, tt.want)
		}
		if !holdsAmong(place, tt.others, tt.seat) {
			t.Errorf("%s among %+v: it is not in place where it came", tt.place, tt.others)
		}
	}
	full := make([]filter, 0, 1<<16)
	for p := 1; p < 1<<16; p++ {
		full = append(full, theirs(uint16(p)))
	}
	if list := filterPriorities(model.Place{}, full); len(list) != 0 || !holdsAmong(model.Place{}, full, 9) {
		t.Errorf("no priority is left, but %v", list)
	}
	if place := (model.Place{}); holdsAmong(place, others(theirs(1), ours(2, "a")), 2) {
		t.Error("it is in place though it could run earlier")
	}
}
