// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

// usualFor is how long what was usual is taken over.
const usualFor = time.Hour

// savedQueues are the baselines of queues as they are kept for the next agent.
type savedQueues struct {
	Time   instant.Time          `json:"time"` // when a packet was timed last
	Queues map[string]savedUsual `json:"queues"`
}

// savedUsual is a usual: 95th percentiles of waits, the oldest first.
type savedUsual struct {
	P95  []int64 `json:"p95_ns"`
	Slow []int64 `json:"slow_ns,omitempty"`
}

// Save is what Restore takes; nil: nothing is known. It changes only when packets were timed.
func (q *QueueWatch) Save(now time.Time) []byte {
	e := q.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.baselines.interval != q.interval { // it learned something, or an interval passed without packets
		q.interval = e.baselines.interval
		for _, one := range e.baselines.of {
			if one.used == e.baselines.interval {
				q.timed = now
			}
		}
	}
	if q.timed.IsZero() {
		return nil
	}
	out := savedQueues{Time: instant.Of(q.timed.UTC()), Queues: make(map[string]savedUsual)}
	for key, one := range e.baselines.of {
		if len(one.held.p95) > 0 {
			at := one.held.next % len(one.held.p95)
			out.Queues[key.source] = savedUsual{slices.Concat(one.held.p95[at:], one.held.p95[:at]), one.held.slow}
		}
	}
	b, err := json.Marshal(out)
	if err != nil { // there is nothing in it that JSON cannot have
		return nil
	}
	return b
}

// Restore takes over what an earlier watch saved, if packets were timed within the last hour. It takes all or
// nothing.
func (q *QueueWatch) Restore(saved []byte, now time.Time) error {
	var in savedQueues
	if err := json.Unmarshal(saved, &in); err != nil {
		return fmt.Errorf("read what was usual: %w", err)
	}
	if len(in.Queues) > mostPairs {
		return errTooMuch
	}
	for name, one := range in.Queues {
		bad := func(ns int64) bool { return ns < 0 || ns > mostDelay }
		if len(name) > mostName || len(one.P95) == 0 || len(one.P95) > baselineIntervals || len(one.Slow) >= newNormal ||
			slices.ContainsFunc(one.P95, bad) ||
			slices.ContainsFunc(one.Slow, bad) {
			return fmt.Errorf("what was usual in the queue of %.20q is impossible", name)
		}
	}
	if age := now.Sub(in.Time.Time); age > usualFor || age < -time.Minute {
		return nil
	}
	e := q.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.baselines.of == nil {
		e.baselines.of = make(map[hopKey]*baseline)
	}
	for name, one := range in.Queues {
		if len(e.baselines.of) >= mostBaselines {
			break
		}
		e.baselines.of[hopKey{ends{source: name}, "queue", 0}] = &baseline{held: usual{p95: one.P95, slow: one.Slow}}
	}
	q.timed = in.Time.Time
	return nil
}
