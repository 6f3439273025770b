// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// unserved looks for packets of measured flows at interfaces that are not served: their
// blocks are not complete.
type unserved struct {
	idle
	*core
	changed atomic.Int64  // when interfaces or flows may have changed, ns of UTC; 0: they are as looked at
	until   atomic.Int64  // when the last look began
	now     chan struct{} // look now
	logged  string
}

func newUnserved(c *core) *unserved { return &unserved{core: c, now: make(chan struct{}, 1)} }

func (u *unserved) prepare(p *plan) error {
	p.commit(func() {
		u.note()
		select {
		case u.now <- struct{}{}:
		default:
		}
	})
	return nil
}

// looked is until when gaps are noted, not after now.
func (u *unserved) looked(now time.Time) time.Time {
	arrives := func(f model.MeasuredFlow) bool { return f.Direction != model.DirectionOut }
	if !slices.ContainsFunc(u.state.Load().resolved.Node.Measurement.Flows, arrives) {
		return now
	}
	if until := time.Unix(0, u.until.Load()); until.Before(now) {
		now = until
	}
	if changed := instantOf(u.changed.Load()); !changed.IsZero() && changed.Before(now) {
		now = changed
	}
	return now
}

func (u *unserved) note() { u.changed.CompareAndSwap(0, time.Now().UnixNano()) }

// slowestLook is the longest time between two looks. A block's packets must have been looked
// at when it is read, half a block after its end.
const slowestLook = time.Second

func (u *unserved) run(ctx context.Context) error {
	var taps *datapath.Taps
	defer func() {
		if taps != nil {
			taps.Close()
		}
	}()
	for last := time.Now(); ; {
		how := u.state.Load().resolved.Node.Measurement.WithDefaults()
		period := min(how.Block/8, slowestLook)
		if len(how.Flows) == 0 {
			period = slowestLook
		}
		select {
		case <-ctx.Done():
			return nil
		case <-u.now:
		case <-time.After(period):
		}
		if how = u.state.Load().resolved.Node.Measurement; taps == nil && len(how.Flows) > 0 {
			taps = u.datapath.NewTaps()
			u.note()
		}
		if taps != nil {
			last = u.look(taps, last)
			u.until.Store(last.UnixNano())
		}
	}
}

// look notes the packets since the last look, and follows changes of the interfaces.
func (u *unserved) look(taps *datapath.Taps, last time.Time) time.Time {
	now, gaps := time.Now(), []coverage.Gap(nil)
	for _, each := range taps.Read() {
		from := last
		if !each.Since.IsZero() && each.Since.Before(from) {
			from = each.Since
		}
		gaps = append(gaps, coverage.Gap{
			Interface: each.Interface, Flow: each.Flow, Ways: coverage.Arrivals, Why: loss.UnservedInterface, From: from.UnixNano(), To: now.UnixNano(),
		})
	}
	u.datapath.Coverage().Note(gaps...)
	noticed := u.changed.Swap(0)
	if noticed == 0 {
		return now
	}
	left, err := taps.Follow(time.Unix(0, noticed))
	if err == nil && left > 0 {
		err = fmt.Errorf("%d interfaces are not looked at, because %d are; name under interfaces those by which flows arrive", left, datapath.MostTaps)
	}
	if text := fmt.Sprint(err); err != nil && text != u.logged {
		u.log.Warn("packets of measured flows may pass uncounted, and not be noticed", "error", err)
		u.logged = text
	}
	return now
}
