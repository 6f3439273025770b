// SPDX-License-Identifier: Apache-2.0

package service

import (
	"sync/atomic"
	"time"
)

// Changing is since when interfaces are changing: a change was noticed, or is made here, that is
// not in force yet. Packets may have come uncounted since.
type Changing struct {
	noticed       atomic.Int64 // ns of UTC, of the first one that is not being put in force; 0: there is none
	underway      atomic.Int64 // likewise, of those that are
	firstUnderway int64        // the first of these that was noticed, under the lock of changes
}

// Noticed notes a change that is not in force yet.
func (c *Changing) Noticed() { c.noticed.CompareAndSwap(0, time.Now().UnixNano()) }

// Begin begins to put in force what was noticed, and a change that is made here. It returns since
// when interfaces are changing; zero: they are not. The caller holds the lock of changes.
func (c *Changing) Begin(own bool) (since time.Time) {
	if at := c.noticed.Load(); at != 0 {
		c.underway.CompareAndSwap(0, at) // before it is taken from noticed, for those who ask
		if c.firstUnderway == 0 {
			c.firstUnderway = at
		}
		c.noticed.CompareAndSwap(at, 0)
	}
	if own {
		c.underway.CompareAndSwap(0, time.Now().UnixNano())
	}
	return InstantOf(c.underway.Load())
}

// End ends what began: it is in force, or what was noticed is still to be.
func (c *Changing) End(inForce bool) {
	if c.firstUnderway != 0 && !inForce {
		c.noticed.Store(c.firstUnderway)
	}
	c.underway.Store(0)
	c.firstUnderway = 0
}

// Since is when the first change was noticed that is not in force; zero: there is none.
func (c *Changing) Since() (since time.Time) {
	for _, at := range []int64{c.noticed.Load(), c.underway.Load(), c.noticed.Load()} { // in the order in which it moves
		if t := InstantOf(at); !t.IsZero() && (since.IsZero() || t.Before(since)) {
			since = t
		}
	}
	return since
}

// InstantOf is a time in ns of UTC; 0: none.
func InstantOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
