// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/collect/known"
)

// lag says whether exporters are behind: one that reported is silent, or postcards came that had waited at
// their exporter. Those of other exporters about the same packets may come later still, so packets wait for
// them longer than for a packet that was lost: else each would be two, cut in the middle.
type lag struct {
	wait, hold time.Duration
	began      time.Time // the first postcard
	until      time.Time // by late postcards
	looked     time.Time // when exporters were looked at
	silent     bool      // one was, then
}

func newLag(c join.Config) lag {
	wait := cmp.Or(max(c.Wait, 0), join.DefaultWait)
	return lag{wait: wait, hold: c.Hold}
}

// none reports whether packets never wait longer.
func (l *lag) none() bool { return l.hold <= l.wait }

// observed takes a postcard of a packet that its exporter observed, and exported in a message, both by its clock,
// in whole seconds. A collector that has just begun does not know yet who else will come back.
func (l *lag) observed(at, exported, now time.Time) {
	if l.none() {
		return
	}
	if l.began.IsZero() {
		l.began = now
	}
	if at.IsZero() || exported.Sub(at) <= l.wait+time.Second {
		return
	}
	l.until = now.Add(l.wait)
	if young := l.began.Add(l.hold); now.Before(young) {
		l.until = young
	}
}

// betweenLooks is the time between two looks at all exporters, of which there may be thousands.
const betweenLooks = 250 * time.Millisecond

// lasts reports whether exporters are behind now.
func (l *lag) lasts(base *known.Base, now time.Time) bool {
	if l.none() {
		return false
	}
	if d := now.Sub(l.looked); d < 0 || d >= betweenLooks {
		// Exporters report several times within the wait. One that is silent for longer than the hold is gone.
		l.looked, l.silent = now, base.Silent(now.Add(-l.hold), now.Add(-l.wait/2))
	}
	return l.silent || now.Before(l.until)
}
