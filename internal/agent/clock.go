// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// clockPeriod is how often the agent polls what no event reports.
const clockPeriod = time.Second

// taiClock keeps TAI − UTC current in the data plane, and the numbers of proofs of transit,
// which follow the time.
type taiClock struct {
	idle
	*core
	offset atomic.Int64 // nanoseconds, as set in the data plane
	logged string       // the last error of FollowClock in the log
}

// open gives the data plane the offset before the first packet.
func (c *taiClock) open() error {
	clock, err := c.system.Clock()
	if err != nil { // timestamps are then off by the leap seconds at most
		c.log.Warn("the TAI offset is unknown; assuming 0", "error", err)
	}
	if err := c.datapath.SetTAIOffset(clock.TAIOffset); err != nil {
		return err
	}
	c.offset.Store(int64(clock.TAIOffset))
	return nil
}

func (c *taiClock) run(ctx context.Context) error {
	c.tasks.every(ctx, clockPeriod, c.follow)
	return nil
}

func (c *taiClock) follow() {
	if err := c.datapath.FollowClock(); err != nil && err.Error() != c.logged { // the next second tries again
		c.logged = err.Error()
		c.log.Warn("the numbers of proofs of transit could not follow the clock", "error", err)
	}
	clock, err := c.system.Clock()
	if err != nil {
		c.log.Debug("the clock's state is unknown", "error", err)
		return
	}
	if int64(clock.TAIOffset) == c.offset.Load() {
		return
	}
	if err := c.datapath.SetTAIOffset(clock.TAIOffset); err != nil {
		c.log.Warn("the TAI offset could not be set in the data plane", "error", err)
		return
	}
	c.offset.Store(int64(clock.TAIOffset))
	c.log.Info("the offset of TAI from UTC changed", "offset", clock.TAIOffset)
}

// ofRecords is the clock by which this node writes times.
func (c *taiClock) ofRecords() record.Clock {
	return record.Clock{Format: c.state.Load().resolved.Node.TimestampFormat, TAIOffset: time.Duration(c.offset.Load())}
}
