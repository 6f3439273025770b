// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync"
	"sync/atomic"
	"time"
)

// changeLock is a mutex that remembers when it was locked.
type changeLock struct {
	mu    sync.Mutex
	since atomic.Pointer[time.Time] // nil: not locked
}

// Lock implements sync.Locker.
func (l *changeLock) Lock() {
	l.mu.Lock()
	now := time.Now()
	l.since.Store(&now)
}

// Unlock implements sync.Locker.
func (l *changeLock) Unlock() {
	l.since.Store(nil)
	l.mu.Unlock()
}

// heldFor is how long the lock has been held, 0 when it is not.
func (l *changeLock) heldFor(now time.Time) time.Duration {
	if since := l.since.Load(); since != nil {
		return now.Sub(*since)
	}
	return 0
}
