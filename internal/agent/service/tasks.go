// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"sync"
	"time"
)

// PollPeriod is how often the agent polls what no event reports.
const PollPeriod = time.Second

// SamplePeriod is how often counters are sampled to warn of their growth.
const SamplePeriod = 5 * PollPeriod

// Tasks runs the periodic work of services. It remembers when each began: the service
// manager restarts an agent with one that never ends.
type Tasks struct {
	mu    sync.Mutex
	since map[*task]time.Time // of those that run now
}

type task struct{ _ byte } // not empty, so that each has a distinct address

// Every calls work once per period until the context ends, when it is [Due].
func (t *Tasks) Every(ctx context.Context, period time.Duration, work func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-Due(period):
		}
		end := t.Begin(time.Now())
		work()
		end()
	}
}

// Begin notes that a task has run since a time, until end.
func (t *Tasks) Begin(since time.Time) (end func()) {
	own := &task{}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since = make(map[*task]time.Time)
	}
	t.since[own] = since
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.since, own)
	}
}

// Longest is how long the oldest running task has run, 0 without one.
func (t *Tasks) Longest(now time.Time) (longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, since := range t.since {
		longest = max(longest, now.Sub(since))
	}
	return longest
}

var began = time.Now()

// Due tells when periodic work is due next, after half to one and a half periods: all work of a period at the same
// moments, so that an idle processor wakes up once for all of it.
func Due(period time.Duration) <-chan time.Time {
	ran := time.Since(began)
	return time.After((ran + period).Round(period) - ran)
}

// Sleep waits; false: the context has ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
