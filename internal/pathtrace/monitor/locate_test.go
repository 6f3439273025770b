// SPDX-License-Identifier: Apache-2.0

package monitor

import "testing"

// Where probes vanish, from what hop limits showed: a letter for each position. R replied since,
// S replied before and not to two probes since, s was asked once only, - never replied. The last one
// is the destination.
func TestLocate(t *testing.T) {
	for _, tt := range []struct {
		hops          string
		reached       int
		after, before int
		ok            bool
	}{
		{"RSS", 0, 1, 2, true},
		{"SSS", 0, 0, 1, true},
		{"RRS", 0, 2, 3, true},
		{"S", 0, 0, 1, true}, // a neighbour: there is only one link
		{"R--SS", 0, 1, 4, true},
		{"R---S", 0, 1, 5, true},
		{"---S", 0, 0, 0, false}, // nobody ever replied: the place is not known
		{"---S", 2, 2, 4, true},  // but others get to the second
		{"RsS", 0, 0, 0, false},  // not asked often enough
		{"RSs", 0, 0, 0, false},  // the destination, too
		{"-RS", 0, 2, 3, true},   // a later node replies, so the silent one is reached
		{"SRS", 0, 2, 3, true},   // beyond a limit of errors, not lost
		{"SSR", 0, 0, 0, false},  // the destination is reached
		{"SSS", 3, 0, 0, false},  // by other flows, too
		{"SSSS", 2, 2, 3, true},  // other flows get there by the same way
		{"RS-SsS", 0, 0, 0, false},
	} {
		var hops []asked
		for _, c := range tt.hops {
			hops = append(
				hops,
				map[rune]asked{'R': {true, 1, true}, 'S': {true, leastTries, false}, 's': {true, 1, false}, '-': {false, 3, false}}[c],
			)
		}
		if after, before, ok := locate(hops, tt.reached); after != tt.after || before != tt.before || ok != tt.ok {
			t.Errorf("%s, reached %d: after %d before %d, %v; want %d, %d, %v", tt.hops, tt.reached, after, before, ok, tt.after, tt.before, tt.ok)
		}
	}
}
