// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// Flows have the right times although the agent's clocks differ from those of its programs by days.
func TestFlowsInTimeNamespace(t *testing.T) {
	t.Parallel()
	const pings = 20
	l, c := raiseCollecting(t, directExports(t, "export: every}", "export: aggregate}"))
	for node, ahead := range map[string]time.Duration{"porthos": 27 * time.Hour, "aramis": -10 * time.Minute} {
		e2e.RestartInTime(t, l, node, ahead)
	}
	began := time.Now()
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindPing, Count: pings, Interval: 10 * time.Millisecond, Size: 56})
	flows := awaitAmounts(t, c, 0, map[string]amount{"58 0": {pings, pings * (40 + 8 + 56)}})
	c.Stop()
	for _, f := range flows {
		const coarse = 50 * time.Millisecond
		if f.First.Before(began.Add(-coarse)) || f.Last.After(time.Now().Add(coarse)) || f.Last.Before(f.First.Time) {
			t.Errorf("%s: from %v to %v, want from %v on", f.Node, f.First, f.Last, began.UTC())
		}
	}
}
