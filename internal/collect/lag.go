// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
)

// lag says whether exporters are behind: a collector has just begun, and gets postcards that had waited at their
// exporter. Those of other exporters about the same packets may come later still, because exporters come back one after
// the other. So packets wait longer than for a postcard that is lost: else each would be two, cut in the middle.
type lag struct {
	wait, hold time.Duration
	until      time.Time // the end of the collector's first time
	seen       bool      // a postcard came that had waited
}

// newLag is for a collector that begins now.
func newLag(c join.Config, now time.Time) lag {
	return lag{wait: cmp.Or(max(c.Wait, 0), join.DefaultWait), hold: c.Hold, until: now.Add(c.Hold)}
}

// observed takes a postcard of a packet that its exporter observed, and exported in a message, both by its clock,
// in whole seconds.
func (l *lag) observed(at, exported time.Time) {
	l.seen = l.seen || !at.IsZero() && exported.Sub(at) > l.wait+time.Second
}

// lasts reports whether exporters are behind now. A sender that says so cannot make packets wait for longer than the
// collector's first time.
func (l *lag) lasts(now time.Time) bool { return l.seen && l.hold > l.wait && now.Before(l.until) }
