// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

// UnservedInterfaces looks for packets of measured flows at interfaces that are not served: their
// blocks are not complete.
type UnservedInterfaces struct {
	service.Idle
	d       Dependencies
	changed atomic.Int64  // since when interfaces or flows may differ from what is looked at, ns of UTC; 0: they do not
	until   atomic.Int64  // when the last look began
	wake    chan struct{} // they have changed
	logged  string
}

// NewUnservedInterfaces makes the service, which looks while flows are measured.
func NewUnservedInterfaces(d Dependencies) *UnservedInterfaces {
	return &UnservedInterfaces{d: d, wake: make(chan struct{}, 1)}
}

func (u *UnservedInterfaces) Prepare(p *service.Plan) error {
	p.OnCommit(u.Changed)
	return nil
}

// Changed lets the interfaces be followed that there are now.
func (u *UnservedInterfaces) Changed() {
	u.differs(time.Now().UnixNano())
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// differs notes since when what is looked at is not all.
func (u *UnservedInterfaces) differs(since int64) {
	for {
		earlier := u.changed.Load()
		if earlier != 0 && earlier <= since || u.changed.CompareAndSwap(earlier, since) {
			return
		}
	}
}

// NotedUntil is until when gaps are noted, not after now. Of the time before the first look, as of that
// without an agent, nothing is known, nor will be.
func (u *UnservedInterfaces) NotedUntil(now time.Time) time.Time {
	arrives := func(f model.MeasuredFlow) bool { return f.Direction != model.DirectionOut }
	if !slices.ContainsFunc(u.d.State.Load().Resolved.Node.Measurement.Flows, arrives) {
		return now
	}
	if until := service.InstantOf(u.until.Load()); !until.IsZero() && until.Before(now) {
		now = until
	}
	if changed := service.InstantOf(u.changed.Load()); !changed.IsZero() && changed.Before(now) {
		now = changed
	}
	return now
}

// burstTime is how long interfaces come and go in a burst: one look follows all of them.
const burstTime = 100 * time.Millisecond

// slowestLook is the longest time between two looks. A block's packets must have been looked
// at when it is read, half a block after its end.
const slowestLook = time.Second

// always is a time before any block: of what an earlier agent did not see, nothing is known.
const always = 1

func (u *UnservedInterfaces) Run(ctx context.Context) error {
	var taps *datapath.Taps
	defer func() {
		if taps != nil {
			taps.Close()
		}
	}()
	for last := time.Now(); ; {
		if !u.await(ctx) {
			return nil
		}
		if how := u.d.State.Load().Resolved.Node.Measurement; taps == nil && len(how.Flows) > 0 {
			taps = u.d.Datapath.NewTaps()
			u.differs(always)
		}
		if taps != nil {
			last = u.recordUnserved(taps, last)
			u.until.Store(last.UnixNano())
		}
	}
}

// await waits until the next look is due: at once when interfaces or flows have changed, and
// once for many such changes.
func (u *UnservedInterfaces) await(ctx context.Context) bool {
	period := slowestLook
	if how := configured(u.d.State.Load()); len(how.Flows) > 0 {
		period = min(how.Block/8, slowestLook)
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(period):
		return true
	case <-u.wake:
		return service.Sleep(ctx, burstTime)
	}
}

// tapSet looks at the packets of interfaces; see [datapath.Taps].
type tapSet interface {
	Read() []datapath.Unserved
	Follow(noticed time.Time) (left int, err error)
}

// recordUnserved records the packets since the last look, and follows changes of the interfaces.
func (u *UnservedInterfaces) recordUnserved(t tapSet, last time.Time) time.Time {
	began := time.Now()
	found, gaps := t.Read(), []coverage.Gap(nil)
	ended := time.Now() // packets are noted while others are read
	for _, each := range found {
		from := last
		if !each.Since.IsZero() && each.Since.Before(from) {
			from = each.Since
		}
		gaps = append(gaps, coverage.Gap{
			Interface: each.Interface, Flow: each.Flow, Ways: coverage.Arrivals, Why: loss.UnservedInterface, From: from.UnixNano(),
			To: ended.UnixNano(),
		})
	}
	u.d.Datapath.Coverage().Add(gaps...)
	noticed := u.changed.Swap(0)
	if noticed == 0 {
		return began
	}
	left, err := t.Follow(time.Unix(0, noticed))
	if err != nil {
		u.differs(noticed) // it is tried again
	} else if left > 0 {
		err = problem.New(
			fmt.Sprintf("%d interfaces are not looked at, because %d are", left, datapath.MostTaps),
			"name under interfaces those by which flows arrive",
		)
	}
	text := fmt.Sprint(err)
	if err != nil && text != u.logged {
		u.d.Log.Warn("packets of measured flows may pass uncounted, and not be noticed", "error", err)
	}
	u.logged = text
	return began
}
