// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// A counter of a service that grows is warned of and logged once; what came before the agent, or
// ends, is not.
func TestShortfallsAreWarnedOf(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	x := only[*shortfalls](h)
	if h.Warned(health.RecordsUnread) {
		t.Error("warned without a cause")
	}
	for range 9 {
		h.Datapath.Records <- datapath.Record{} // no packet
	}
	agenttest.Eventually(t, "nine are read", func() bool { return h.Status().Records.Malformed == 9 })
	if h.Warned(health.RecordsUnread) {
		t.Error("warned of nine records")
	}
	h.Datapath.Records <- datapath.Record{}
	agenttest.Eventually(t, "ten are read", func() bool { return h.Status().Records.Malformed == 10 })
	if !h.Warned(health.RecordsUnread) {
		t.Error("not warned of ten records")
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // as the clock does
		x.logBegin()
	}
	if n := strings.Count(h.Log.String(), "warning="+string(health.RecordsUnread)); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, h.Log)
	}
	for range service.KeptSamples { // a minute without another one
		x.sampleTotals()
	}
	if ws := x.Warnings(nil); len(ws) != 0 {
		t.Errorf("warned after the end: %+v", ws)
	}
}

// Test packets whose times cannot be are counted by their metric, as all shortfalls are.
func TestImpossibleTimesAreWarnedOf(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	impossible := 0
	x := newShortfalls(&h.agent.core, func(g *metrics.Gatherer) {
		g.Add(service.Metric("delay_probes_total", "", "kind"), float64(impossible), "time_impossible")
	})
	x.sampleTotals()
	for ; impossible < 10; impossible++ {
		if ws := x.Warnings(nil); len(ws) != 0 {
			t.Errorf("warned of %d: %+v", impossible, ws)
		}
	}
	if ws := x.Warnings(nil); len(ws) != 1 || ws[0].Code != health.ProbesUntimed {
		t.Errorf("ten: %+v", ws)
	}
}

// Of probes that were not sent, the warning says which of two causes it was.
func TestProbesNotSentAreDivided(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	for kind, want := range map[string]string{"suppressed": "beyond probes.budget", "skipped": "the agent was late"} {
		n := 0
		x := newShortfalls(&h.agent.core, func(g *metrics.Gatherer) {
			g.Add(service.Metric("probe_packets_total", "", "kind"), float64(n), kind)
		})
		x.sampleTotals()
		n = 10
		if ws := x.Warnings(nil); len(ws) != 1 || ws[0].Code != health.ProbesSuppressed || !strings.Contains(ws[0].Text, want) {
			t.Errorf("%s: %+v, want one of %q", kind, ws, want)
		}
	}
}
