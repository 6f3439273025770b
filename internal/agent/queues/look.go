// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"time"

	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/instant"
)

const (
	// lookFor is how long after a question the queues are measured for the one who asked.
	lookFor = 5 * time.Second
	// keepEach is the time between two copies of the totals.
	keepEach = 10 * time.Second
	// keepCopies are the copies that are kept: of the last minute.
	keepCopies = 7
)

// keptTotals is what had been counted at a time.
type keptTotals struct {
	at     time.Time
	totals map[string]*totals
}

// keep keeps a copy of the totals while queues are measured.
func (q *Queues) keep(now time.Time) {
	if n := len(q.kept); n > 0 && now.Sub(q.kept[n-1].at) < keepEach {
		return
	}
	q.kept = append(q.kept, keptTotals{now, q.copiesLocked()})
	if len(q.kept) > keepCopies {
		q.kept = append(q.kept[:0], q.kept[1:]...)
	}
}

// Look says what packets waited since a time, or in the part of it that is known: while queues were measured, and at
// most about a minute. nil: nothing is known. If the question is from someone who watches, queues are measured from now on, until some
// seconds after the last look.
func (q *Queues) Look(live bool, since time.Time) *insight.Queues {
	q.mu.Lock()
	if live && !q.ended {
		q.looked = time.Now()
		if q.meter == nil {
			q.wakeUp()
		}
	}
	if q.meter == nil || len(q.kept) == 0 {
		q.mu.Unlock()
		return nil
	}
	before, after := q.kept[0], q.copiesLocked()
	for _, one := range q.kept {
		if !one.at.After(since) {
			before = one
		}
	}
	q.mu.Unlock()
	now := time.Now()
	out := &insight.Queues{Since: instant.Of(before.at), Interfaces: []insight.InterfaceQueue{}}
	for _, one := range q.between(before.totals, after, now, now.Sub(before.at)).Interfaces {
		queue := insight.InterfaceQueue{Interface: one.Interface, Dropped: one.Dropped, Unfit: one.Unfit}
		if one.Packets > 0 {
			queue.Waits = &insight.Quantiles{
				Count: one.Packets, P50: one.P50, P95: one.P95, P99: one.P99, Max: one.Max,
				Sum: after[one.Interface].total - of(before.totals, one.Interface).total,
			}
		}
		out.Interfaces = append(out.Interfaces, queue)
	}
	return out
}

// of are the totals of an interface, or none.
func of(all map[string]*totals, name string) *totals {
	if t := all[name]; t != nil {
		return t
	}
	return &totals{}
}
