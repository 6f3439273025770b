// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"time"
)

// tasks runs the periodic work of services. It remembers when each began: the service
// manager restarts an agent with one that never ends.
type tasks struct {
	mu    sync.Mutex
	since map[*task]time.Time // of those that run now
}

type task struct{ period time.Duration } // not empty, so that each has a distinct address

// every calls work once per period until the context ends.
func (t *tasks) every(ctx context.Context, period time.Duration, work func()) {
	own := &task{period}
	for sleep(ctx, period) {
		t.begin(own)
		work()
		t.end(own)
	}
}

func (t *tasks) begin(own *task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since == nil {
		t.since = make(map[*task]time.Time)
	}
	t.since[own] = time.Now()
}

func (t *tasks) end(own *task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.since, own)
}

// longest is how long the oldest running task has run, 0 without one.
func (t *tasks) longest(now time.Time) (longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, since := range t.since {
		longest = max(longest, now.Sub(since))
	}
	return longest
}
