// SPDX-License-Identifier: Apache-2.0

// Package clock makes the timestamps of STAMP packets from this machine's clock, and
// says how good they are.
package clock

import (
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
	at     int64 // when the state was read
	state  health.Clock
	err    stamp.ErrorEstimate
}

// New makes a clock.
func New(format stamp.TimestampFormat) *Clock {
	c := &Clock{format: format, read: health.ReadClock}
	c.Look(Now())
	return c
}

// Now is the time in nanoseconds of UTC since 1970.
func Now() int64 { return time.Now().UnixNano() }

// Look reads the clock's state if it is no longer fresh.
func (c *Clock) Look(now int64) {
	if age := now - c.at; c.at != 0 && age >= 0 && age < period {
		return
	}
	c.at = now
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

// Estimate is the error estimate of the clock's timestamps.
func (c *Clock) Estimate() stamp.ErrorEstimate { return c.err }

// Source is what synchronizes the clock. The kernel does not say which protocol does;
// NTP is what nearly all machines use.
func (c *Clock) Source() stamp.SyncSource {
	if c.state.Synchronised {
		return stamp.SyncNTP
	}
	return stamp.SyncFreeRunning
}
