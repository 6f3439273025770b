// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"math"
	"testing"
	"time"
)

func TestHeld(t *testing.T) {
	const round = 10 * time.Millisecond
	for name, tt := range map[string]struct {
		arrived, left int64
		want          bool
	}{
		"at once":                {5, 5, true},
		"a while":                {5, 5 + int64(round)/2, true},
		"all the time":           {0, int64(round), true},
		"longer than that":       {0, int64(round) + 1, false},
		"left before it arrived": {6, 5, false},
		"a clock set by an hour": {0, int64(time.Hour), false},
		"beyond 64 bits":         {math.MinInt64, math.MaxInt64, false},
	} {
		held, ok := Held(tt.arrived, tt.left, round)
		if ok != tt.want || ok && int64(held) != tt.left-tt.arrived {
			t.Errorf("%s: %v, %v", name, held, ok)
		}
	}
}
