// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

// believedAfter is how long a clock has been ahead, at most, when ages are judged by it. backAfter is how long it has been
// behind: a machine without a clock of its own begins in the past, and is right when it has reached a server.
const (
	believedAfter = 24 * time.Hour
	backAfter     = 10 * time.Minute
)

// ageClock is the time by which the age of files is judged: the clock, or less while that has been far ahead of the
// time that passed only for a short time. A clock that is set far ahead for a moment, or when the collector starts,
// would otherwise remove every file at once.
type ageClock struct {
	base     time.Time     // the time at the start, as far as it is believed
	near     time.Duration // by how much the clock may be ahead and is believed at once
	believed time.Duration // how long it is ahead until it is believed
	apart    time.Duration // what the clock has been ahead of the base and what passed, or behind (< 0), at least; 0: it is near
	since    time.Duration // since the start, when it began to be
}

// newAgeClock begins at a time. A clock that is ahead by an eighth of the age can remove no more than that.
func newAgeClock(base time.Time, age, elapsed time.Duration) ageClock {
	return ageClock{base: base.Add(-elapsed), near: age / 8, believed: min(age/16, believedAfter)}
}

// own is the time that is believed, which the clock may be apart from.
func (c *ageClock) own(elapsed time.Duration) time.Time { return c.base.Add(elapsed) }

// at is the time by which ages are judged: the earlier one of the clock and the time that is believed.
//
// What is believed in the end is the least that the clock has been apart meanwhile. So a clock that gains on the time
// that passes, as that of a machine that is suspended each night, is believed, too. A clock that is behind also moves the
// base, or it would be believed at once the next time that it is ahead.
func (c *ageClock) at(now time.Time, elapsed time.Duration) time.Time {
	apart := now.Sub(c.own(elapsed))
	if apart.Abs() <= c.near {
		c.base, c.apart = c.base.Add(apart), 0
		return now
	}
	switch {
	case c.apart == 0 || (apart < 0) != (c.apart < 0):
		c.apart, c.since = apart, elapsed
	case apart.Abs() < c.apart.Abs():
		c.apart = apart
	}
	wait := c.believed
	if apart < 0 {
		wait = min(wait, backAfter)
	}
	if elapsed-c.since >= wait {
		c.base, c.apart = c.base.Add(c.apart), 0
		return c.at(now, elapsed) // the rest may be near now
	}
	if own := c.own(elapsed); own.Before(now) {
		return own
	}
	return now
}

// latest is the time that was believed when ages were last judged, or of the newest file; without files, the time that is given.
func (c *catalog) latest(without time.Time) time.Time {
	at := c.Judged.Time
	if !at.IsZero() {
		return at
	}
	for _, e := range c.Files {
		for _, one := range []time.Time{e.Opened, e.Closed} {
			if one.After(at) {
				at = one
			}
		}
	}
	if at.IsZero() {
		return without
	}
	return at
}

// retain removes the files that are older than records are kept, and the oldest ones while all have more
// bytes than they may. A clock that is set back removes nothing, nor does one that is far ahead for a moment.
func (s *Store) retain() {
	elapsed := s.options.Elapsed()
	oldest := s.age.at(s.now(), elapsed).Add(-s.options.Age)
	s.catalog.Judged = instant.Of(s.age.own(elapsed)) // not the clock's time, which may be wrong for a moment
	s.catalog.forgetMissing(oldest)
	for _, e := range slices.Clone(s.catalog.Files) {
		if e.State == Open || !e.over().Before(oldest) {
			continue
		}
		s.remove(e, ofAge, "it is older than "+s.options.Age.String())
	}
	for s.options.Bytes > 0 && s.bytes() > s.options.Bytes {
		if !s.removeOldest(ofSize, fmt.Sprintf("the files of the store may have %s (store.size)", megabytes(uint64(s.options.Bytes)))) {
			return
		}
	}
}

// longest is how long a file is written, at most.
const longest = 24 * time.Hour

// over is when a file was closed, or was to be: it may have been closed while the clock was far ahead.
func (e *Entry) over() time.Time {
	if end := e.Opened.Add(longest); e.Closed.IsZero() || e.Closed.After(end.Add(time.Hour)) {
		return end
	}
	return e.Closed
}

func (s *Store) bytes() (total int64) {
	for _, e := range s.catalog.Files {
		total += e.Bytes
	}
	return total
}
