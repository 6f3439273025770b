// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"
)

func TestLossTimes(t *testing.T) {
	var l lossTimes
	began := time.Date(2026, 11, 21, 5, 21, 0, 0, time.UTC)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	for _, tt := range []struct {
		now         time.Time
		total       uint64
		first, last time.Time
	}{
		{at(0), 0, time.Time{}, time.Time{}},
		{at(1), 3, at(1), at(1)},
		{at(2), 3, at(1), at(1)},
		{at(3), 4, at(1), at(3)},
		{at(4), 2, at(1), at(3)}, // an interface is no longer served
		{at(5), 3, at(1), at(5)},
	} {
		if first, last := l.noteTotal(tt.now, tt.total); !first.Equal(tt.first) || !last.Equal(tt.last) {
			t.Errorf("at %v: %v to %v, want %v to %v", tt.now, first, last, tt.first, tt.last)
		}
	}
}
