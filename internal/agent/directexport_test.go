// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// The agent warns of exports without a receiver, and of those that cannot be joined.
func TestVainExportsAreWarnedOf(t *testing.T) {
	const rule = "encapsulations: [{name: a, interface: eth1, mode: inline, options: [{dex: {namespace: 123, trace-type: 0x800000, extension-flags: FLAGS}}]}]\n"
	for _, tt := range []struct {
		name, mode, flags, exporters string
		unsent, unjoined             bool
	}{
		{"no receiver", "every", "[]", "", true, false},
		{"an exporter gets them", "every", "[]", "export: [{kind: jsonl}]\n", false, false},
		{"this node exports nothing", "none", "[]", "", false, false},
		{"numbers alone", "none", "[sequence]", "", false, true},
		{"a Flow-ID alone", "none", "[flow-id]", "", false, false},
		{"both", "none", "[flow-id, sequence]", "", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := strings.Replace(baseConfig, "{id: 123,", "{id: 123, export: "+tt.mode+",", 1)
			h := newHarness(t, config+strings.Replace(rule, "FLAGS", tt.flags, 1)+tt.exporters)
			h.start()
			if got := h.warned(health.ExportsUnsent); got != tt.unsent {
				t.Errorf("exports_unsent: %v", got)
			}
			if got := h.warned(health.SequenceUnjoined); got != tt.unjoined {
				t.Errorf("sequence_unjoined: %v", got)
			}
		})
	}
}

// Flows of an interval are bounded, too (RFC 9326 §3.1.2): by export-rate, over the
// time since the last interval ended. The excess is counted.
func TestFlowsWithinRate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	rated := strings.Replace(exporting(path), "node: {", "node: {export-rate: 20, export-interval: 1s, ", 1)
	h := newHarness(t, rated)
	h.datapath.flows.Store(50)
	h.start()
	eventually(t, "two intervals have ended", func() bool { return only[*flows](h).suppressed.Load() >= 2*20 })
	if err := h.end(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written, suppressed := uint64(strings.Count(string(b), "\n")), only[*flows](h).suppressed.Load()
	intervals := (written + suppressed) / 50
	if written != 20*intervals || written+suppressed != 50*intervals {
		t.Errorf("%d flows were exported and %d suppressed in %d intervals, want 20 of 50", written, suppressed, intervals)
	}
	if _, all, err := only[*losses](h).total(); err != nil || all != suppressed {
		t.Errorf("%d suppressed in all (%v), want %d", all, err, suppressed)
	}
	if f := only[*losses](h).facts(); f.Suppressed != suppressed || f.Ignored != flowPackets*suppressed {
		t.Errorf("collectors get reports of %d records and %d packets, want %d of %d packets each", f.Suppressed, f.Ignored, suppressed, flowPackets)
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
