// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
)

// The agent finds warnings before anybody asks, and says since when.
func TestWarningsSince(t *testing.T) {
	h := newHarness(t, "node: {id: 1}\ninterfaces: [{name: eth0, id: 1, role: [ingress]}, {name: eth9, id: 9, role: [ingress]}]\n")
	began := time.Now()
	h.Start()
	defer h.End()
	o := only[*onsets](h)
	since := func() time.Time {
		ws := h.agent.warnings()
		i := slices.IndexFunc(ws, func(w health.Warning) bool { return w.Code == health.InterfaceMissing })
		if i < 0 {
			t.Fatalf("%+v", ws)
		}
		return ws[i].Since.Time
	}
	o.diagnose() // as the clock does
	looked := time.Now()
	time.Sleep(10 * time.Millisecond)
	first := since()
	if first.Before(began) || first.After(looked) {
		t.Errorf("since %v, the agent looked from %v to %v", first, began, looked)
	}
	if again := since(); !again.Equal(first) {
		t.Errorf("since %v, then since %v", first, again)
	}
}
