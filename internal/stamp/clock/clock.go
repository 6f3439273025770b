// SPDX-License-Identifier: Apache-2.0

// Package clock makes the timestamps of STAMP packets from this machine's clock, and
// says how good they are.
package clock

import (
	"math"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/stamp"
)

// period is how often the clock's state is read again.
const period = int64(time.Second)

// Clock makes timestamps in one format. It is not safe for concurrent use.
type Clock struct {
	format stamp.TimestampFormat
	read   func() (health.Clock, error)
	at     int64 // when the state was read, by the steady clock
	state  health.Clock
	err    stamp.ErrorEstimate

	times        func() (wall, monotonic int64)
	began, ahead int64 // wall less monotonic clock: at the beginning, and now
}

// New makes a clock.
func New(format stamp.TimestampFormat) *Clock {
	c := &Clock{format: format, read: health.ReadClock, times: times}
	c.began = c.difference()
	c.ahead = c.began
	c.Look(c.Now())
	return c
}

// Instant is a moment by two clocks.
type Instant struct {
	Wall   int64 // nanoseconds of UTC since 1970, for timestamps
	Steady int64 // the same by a clock that is never set, for durations
}

var start = time.Now()

// times reads both clocks of the kernel.
func times() (wall, monotonic int64) {
	t := time.Now()
	return t.UnixNano(), int64(t.Sub(start))
}

// tolerance is by how much the wall clock may differ from the monotonic one before this
// counts as a step. Both are slewed in the same way, so only steps and pauses between the two
// readings make a difference.
const tolerance = int64(time.Millisecond)

// Now is the time.
func (c *Clock) Now() Instant {
	wall, monotonic := c.times()
	if step := wall - monotonic - c.ahead; step > tolerance || step < -tolerance {
		c.ahead = c.difference()
	}
	return Instant{wall, wall - (c.ahead - c.began)}
}

// difference is the wall clock less the monotonic one. It reads several times, because a
// pause between the two readings makes the difference smaller.
func (c *Clock) difference() int64 {
	largest := int64(math.MinInt64)
	for range 3 {
		wall, monotonic := c.times()
		largest = max(largest, wall-monotonic)
	}
	return largest
}

// Look reads the clock's state if it is no longer fresh.
func (c *Clock) Look(now Instant) {
	if c.at != 0 && now.Steady-c.at < period {
		return
	}
	c.at = now.Steady
	state, err := c.read()
	if err != nil { // a clock about which nothing is known
		state = health.Clock{MaxError: time.Hour}
	}
	c.state, c.err = state, stamp.NewErrorEstimate(state.MaxError, state.Synchronised, c.format)
}

// Timestamp converts a time to the clock's format.
func (c *Clock) Timestamp(now int64) stamp.Timestamp {
	return c.format.Timestamp(now, c.state.TAIOffset)
}

// Nanoseconds converts a timestamp of another node, in the format of its error
// estimate.
func (c *Clock) Nanoseconds(t stamp.Timestamp, e stamp.ErrorEstimate) (int64, bool) {
	return e.Format().Nanoseconds(t, c.state.TAIOffset)
}

// TAIOffset is TAI − UTC, as the kernel knows it.
func (c *Clock) TAIOffset() time.Duration { return c.state.TAIOffset }

// Estimate is the error estimate of the clock's timestamps.
func (c *Clock) Estimate() stamp.ErrorEstimate { return c.err }

// Synchronized reports whether anything synchronizes the clock. The kernel does not say
// what does.
func (c *Clock) Synchronized() bool { return c.state.Synchronised }
