// SPDX-License-Identifier: Apache-2.0

package instant

import (
	"encoding/json"
	"testing"
	"time"
)

func TestNineDigits(t *testing.T) {
	east := time.FixedZone("east", 3600)
	for _, tt := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 11, 21, 5, 21, 0, 0, time.UTC), "2026-11-21T05:21:00.000000000Z"},
		{time.Date(2026, 11, 21, 5, 21, 0, 500_000_000, time.UTC), "2026-11-21T05:21:00.500000000Z"},
		{time.Date(2026, 11, 21, 5, 21, 0, 123_450, time.UTC), "2026-11-21T05:21:00.000123450Z"},
		{time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC), "2026-11-21T05:21:00.000000001Z"},
		{time.Date(2026, 11, 21, 5, 21, 0, 1, east), "2026-11-21T04:21:00.000000001Z"},
	} {
		text, err := json.Marshal(Of(tt.at))
		if err != nil || string(text) != `"`+tt.want+`"` {
			t.Errorf("%v: %s, %v", tt.at, text, err)
		}
		var back Time
		if err := json.Unmarshal(text, &back); err != nil || !back.Equal(tt.at) {
			t.Errorf("%s is read as %v, %v", text, back, err)
		}
		if got := Format(tt.at); got != tt.want {
			t.Errorf("%v: %s", tt.at, got)
		}
	}
}

// What wrote fewer digits, as earlier versions did, is read.
func TestReadsFewerDigits(t *testing.T) {
	var got Time
	if err := json.Unmarshal([]byte(`"2026-11-21T05:21:00.5+01:00"`), &got); err != nil || got.String() != "2026-11-21T04:21:00.500000000Z" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestYearsOutsideRFC3339(t *testing.T) {
	for _, year := range []int{-1, 0, 10_000, 292_000} {
		if got := Of(time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC)); !got.IsZero() {
			t.Errorf("year %d: %v", year, got)
		}
	}
	edge := time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("west", -3600))
	if got := Of(edge); !got.IsZero() {
		t.Errorf("it is 10000 in UTC: %v", got)
	}
}
