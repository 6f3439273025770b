// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/model"
)

// Flows of an interval are bounded, too (RFC 9326 §3.1.2): by export-rate, over the
// time since the last interval ended. The excess is counted.
func TestFlowsWithinRate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	rated := strings.Replace(exporting(path), "node: {", "node: {export-rate: 20, export-interval: 1s, ", 1)
	h := newHarness(t, rated)
	h.Datapath.Flows.Store(50)
	h.Start()
	agenttest.Eventually(t, "two intervals have ended", func() bool { return h.flows.suppressed.Load() >= 2*20 })
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written, suppressed := uint64(strings.Count(string(b), "\n")), h.flows.suppressed.Load()
	intervals := (written + suppressed) / 50
	if written != 20*intervals || written+suppressed != 50*intervals {
		t.Errorf("%d flows were exported and %d suppressed in %d intervals, want 20 of 50", written, suppressed, intervals)
	}
	if _, all, err := h.losses.total(); err != nil || all != suppressed {
		t.Errorf("%d suppressed in all (%v), want %d", all, err, suppressed)
	}
	if f := h.losses.facts(); f.Suppressed != suppressed || f.Ignored != agenttest.FlowPackets*suppressed {
		t.Errorf(
			"collectors get reports of %d records and %d packets, want %d of %d packets each",
			f.Suppressed,
			f.Ignored,
			suppressed,
			agenttest.FlowPackets,
		)
	}
}

func TestFlowAllowance(t *testing.T) {
	var f flowAllowance
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		want  uint64
	}{
		{0, 50},                     // before: an interval
		{2 * time.Second, 20},       // the time since
		{10 * time.Millisecond, 10}, // never 0
		{time.Hour, 50},             // no longer than an interval
		{2500 * time.Millisecond, 25},
	} {
		now = now.Add(step.after)
		if got := f.grant(now, 10, 5*time.Second); got != step.want {
			t.Errorf("%v later: %d flows, want %d", step.after, got, step.want)
		}
	}
	if got := new(flowAllowance).grant(now, 0, time.Second); got != model.DefaultExportRate {
		t.Errorf("without a rate: %d flows", got)
	}
}
