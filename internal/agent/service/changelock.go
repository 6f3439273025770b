// SPDX-License-Identifier: Apache-2.0

package service

import (
	"sync"
	"sync/atomic"
	"time"
)

// ChangeLock is a mutex that remembers when it was locked.
type ChangeLock struct {
	mu    sync.Mutex
	since atomic.Pointer[time.Time] // nil: not locked
}

// Lock implements sync.Locker.
func (l *ChangeLock) Lock() { l.LockSince(time.Now) }

// LockSince locks, and remembers a time that is known when it is locked.
func (l *ChangeLock) LockSince(when func() time.Time) {
	l.mu.Lock()
	since := when()
	l.since.Store(&since)
}

// Unlock implements sync.Locker.
func (l *ChangeLock) Unlock() {
	l.since.Store(nil)
	l.mu.Unlock()
}

// HeldFor is how long the lock has been held, 0 when it is not.
func (l *ChangeLock) HeldFor(now time.Time) time.Duration {
	if since := l.since.Load(); since != nil {
		return now.Sub(*since)
	}
	return 0
}
