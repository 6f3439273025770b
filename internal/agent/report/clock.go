// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/record"
)

// Clock keeps TAI − UTC current in the data plane, and the numbers of proofs of transit,
// which follow the time.
type Clock struct {
	service.Idle
	d      Dependencies
	offset atomic.Int64 // nanoseconds, as set in the data plane
	logged string       // the last error of FollowClock in the log
}

// NewClock makes the clock, whose offset Open sets.
func NewClock(d Dependencies) *Clock { return &Clock{d: d} }

// Open gives the data plane the offset before the first packet.
func (c *Clock) Open() error {
	clock, err := c.d.System.Clock()
	if err != nil { // timestamps are then off by the leap seconds at most
		c.d.Log.Warn("the TAI offset is unknown; assuming 0", "error", err)
	}
	if err := c.d.Datapath.SetTAIOffset(clock.TAIOffset); err != nil {
		return err
	}
	c.offset.Store(int64(clock.TAIOffset))
	return nil
}

func (c *Clock) Run(ctx context.Context) error {
	c.d.Tasks.Every(ctx, service.PollPeriod, c.follow)
	return nil
}

func (c *Clock) follow() {
	if err := c.d.Datapath.FollowClock(); err != nil && err.Error() != c.logged { // the next second tries again
		c.logged = err.Error()
		c.d.Log.Warn("the numbers of proofs of transit could not follow the clock", "error", err)
	}
	clock, err := c.d.System.Clock()
	if err != nil {
		c.d.Log.Debug("the clock's state is unknown", "error", err)
		return
	}
	if int64(clock.TAIOffset) == c.offset.Load() {
		return
	}
	if err := c.d.Datapath.SetTAIOffset(clock.TAIOffset); err != nil {
		c.d.Log.Warn("the TAI offset could not be set in the data plane", "error", err)
		return
	}
	c.offset.Store(int64(clock.TAIOffset))
	c.d.Log.Info("the offset of TAI from UTC changed", "offset", clock.TAIOffset)
}

// ofRecords is the clock by which this node writes times.
func (c *Clock) ofRecords() record.Clock {
	return record.Clock{Format: c.d.State.Load().Resolved.Node.TimestampFormat, TAIOffset: time.Duration(c.offset.Load())}
}
