// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/stamp/query"
)

// A counter of a service that grows is warned of and logged once; what came before the agent, or
// ends, is not.
func TestShortfallsAreWarnedOf(t *testing.T) {
	h := newHarness(t, baseConfig)
	h.start()
	x := only[*shortfalls](h)
	if h.warned(health.RecordsUnread) {
		t.Error("warned without a cause")
	}
	only[*records](h).malformed.Add(9)
	if h.warned(health.RecordsUnread) {
		t.Error("warned of nine records")
	}
	only[*records](h).malformed.Add(1)
	if !h.warned(health.RecordsUnread) {
		t.Error("not warned of ten records")
	}
	if err := h.end(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // as the clock does
		x.logBegin()
	}
	if n := strings.Count(h.log.String(), "warning="+string(health.RecordsUnread)); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, h.log)
	}
	for range recentSamples { // a minute without another one
		x.note()
	}
	if ws := x.warnings(nil); len(ws) != 0 {
		t.Errorf("warned after the end: %+v", ws)
	}
}

// Answers to test packets with times that cannot be leave delays unmeasured, which is warned of.
func TestImpossibleTimesAreWarnedOf(t *testing.T) {
	h := newHarness(t, baseConfig)
	h.start()
	for i := range 10 {
		if h.warned(health.ProbesUntimed) {
			t.Errorf("warned of %d", i)
		}
		only[*delayMeter](h).heard(query.Sample{RoundTrip: 1, Impossible: true})
	}
	if !h.warned(health.ProbesUntimed) {
		t.Error("not warned of ten")
	}
}
