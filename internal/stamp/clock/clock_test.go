// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/stamp"
)

// A step of the wall clock moves timestamps, and no duration.
func TestStepOfWallClock(t *testing.T) {
	c := New(stamp.NTP)
	wall, monotonic := int64(1_800_000_000_000_000_000), int64(5_000)
	c.times = func() (int64, int64) { return wall, monotonic }
	c.began = c.difference()
	c.ahead = c.began
	begin := c.Now()
	for _, step := range []time.Duration{0, time.Hour, -2 * time.Hour, 900 * time.Microsecond, 0, 37 * time.Second} {
		before := c.Now()
		wall, monotonic = wall+int64(step)+1000, monotonic+1000
		now := c.Now()
		off := now.Steady - before.Steady - 1000
		if now.Wall != wall || time.Duration(off).Abs() > time.Duration(tolerance) {
			t.Errorf("after a step of %v: %+v, before %+v", step, now, before)
		}
	}
	if end := c.Now(); end.Steady-begin.Steady-6000 > tolerance {
		t.Errorf("%+v, began at %+v", end, begin)
	}
}

// A pause between the readings of the two clocks is no step for long.
func TestPauseBetweenReadings(t *testing.T) {
	c := New(stamp.NTP)
	var pauses []int64
	n := int64(1_800_000_000_000_000_000)
	c.times = func() (int64, int64) {
		wall := n
		if len(pauses) > 0 {
			n, pauses = n+pauses[0], pauses[1:]
		}
		return wall, n
	}
	c.began = c.difference()
	c.ahead = c.began
	pauses = []int64{int64(time.Second), 0, int64(time.Second), 0}
	if now := c.Now(); now.Wall != now.Steady {
		t.Errorf("%+v", now)
	}
}

func TestNow(t *testing.T) {
	c := New(stamp.PTP)
	a := c.Now()
	if b := c.Now(); b.Steady < a.Steady || time.Duration(b.Wall-time.Now().UnixNano()).Abs() > time.Minute {
		t.Errorf("%+v, then %+v", a, b)
	}
}
