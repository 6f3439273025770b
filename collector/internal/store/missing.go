// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

// missing is a time of which records were not written: the disk was full, or they came faster than they are written.
type missing struct {
	From    instant.Time `json:"from"`
	Until   instant.Time `json:"until,omitzero"` // none: it goes on
	Records uint64       `json:"records,omitempty"`
	Reason  string       `json:"reason"`
}

const (
	// writeDelay is how long before it is written a packet may have passed: its postcards were waited for.
	writeDelay = 10 * time.Second
	// mostMissing bounds how many times are kept: beyond it, the oldest two become one.
	mostMissing = 200
)

// misses is what is known of records that the sink lost.
type misses struct {
	counted uint64    // by the sink, at the last look
	looked  time.Time // at which time that was
	before  uint64    // the count when nothing could be written any more
}

func (m *missing) goesOn() bool { return m.Until.IsZero() }

// lastMissing is the latest time; nil: there is none.
func (c *catalog) lastMissing() *missing {
	if n := len(c.Missing); n > 0 {
		return &c.Missing[n-1]
	}
	return nil
}

func (c *catalog) addMissing(m missing) {
	c.Missing = append(c.Missing, m)
	if len(c.Missing) > mostMissing {
		c.Missing[1].From, c.Missing[1].Records = c.Missing[0].From, c.Missing[0].Records+c.Missing[1].Records
		c.Missing = slices.Delete(c.Missing, 0, 1)
	}
}

// endMissing ends the time of a collector that ended while nothing could be written: what waited is lost.
func (c *catalog) endMissing(now time.Time) {
	if m := c.lastMissing(); m != nil && m.goesOn() {
		m.Until = latest(m.From, now)
	}
}

// forgetMissing forgets what is older than records are kept.
func (c *catalog) forgetMissing(oldest time.Time) {
	c.Missing = slices.DeleteFunc(c.Missing, func(m missing) bool { return !m.goesOn() && m.Until.Before(oldest) })
}

// beginMissing notes that nothing is written from now on, also for the next collector.
func (s *Store) beginMissing(now time.Time) {
	s.misses.before = s.misses.counted
	s.catalog.addMissing(missing{From: instant.Of(now.Add(-writeDelay)), Reason: "nothing was written: " + s.fault})
	_ = s.catalog.write(s.options.Directory) // it may have no room, too
}

// written notes that all is written that waited. If nothing was lost meanwhile, nothing is missing.
func (s *Store) written() {
	if s.fault == "" {
		return
	}
	s.lookForMissed(s.now())
	s.fault, s.cure = "", ""
	m := s.catalog.lastMissing()
	if m == nil || !m.goesOn() {
		return
	}
	if m.Records = s.misses.counted - s.misses.before; m.Records == 0 {
		s.catalog.Missing = s.catalog.Missing[:len(s.catalog.Missing)-1]
	} else {
		m.Until = latest(m.From, s.now())
	}
	_ = s.catalog.write(s.options.Directory) // else a collector that is killed now says that the time goes on
}

// latest is a time, or the one before if the clock was set back meanwhile.
func latest(before instant.Time, now time.Time) instant.Time {
	if now.Before(before.Time) {
		return before
	}
	return instant.Of(now)
}

// lookForMissed notes the time of records that the sink has lost since the last look.
func (s *Store) lookForMissed(now time.Time) {
	counted := s.options.Missed()
	lost, from := counted-s.misses.counted, s.misses.looked.Add(-writeDelay)
	s.misses.counted, s.misses.looked = counted, now
	if lost == 0 || s.fault != "" { // then it is counted when something is written again
		return
	}
	if m := s.catalog.lastMissing(); m != nil && !m.Until.Before(from) {
		m.Until, m.Records = instant.Of(now), m.Records+lost
		return
	}
	s.catalog.addMissing(missing{
		From: instant.Of(from), Until: instant.Of(now), Records: lost, Reason: "records came faster than they are written",
	})
}

// missed are the gaps in a time by records that were not written.
func (s *Store) missed(from, until time.Time) (gaps []Gap) {
	now := s.published.Load()
	for i := range now.missing {
		m := &now.missing[i]
		g := Gap{From: m.From.Time, Until: m.Until.Time, Reason: m.Reason}
		if m.goesOn() {
			g.Until, g.Reason = s.now(), "nothing is written: "+now.fault
		} else if m.Records > 0 {
			g.Reason += fmt.Sprintf(" (%d records)", m.Records)
		}
		if g.From.Before(until) && g.Until.After(from) {
			gaps = append(gaps, g)
		}
	}
	return gaps
}
