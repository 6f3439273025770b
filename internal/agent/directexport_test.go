// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/health"
)

// The agent warns of exports without a receiver, and of those that cannot be joined.
func TestVainExportsAreWarnedOf(t *testing.T) {
	const rule = "encapsulations: [{name: a, interface: eth1, mode: inline, options: [{dex: {namespace: 123, trace-type: 0x800000, " +
		"extension-flags: FLAGS}}]}]\n"
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
			config := strings.Replace(agenttest.BaseConfig, "{id: 123,", "{id: 123, export: "+tt.mode+",", 1)
			h := newHarness(t, config+strings.Replace(rule, "FLAGS", tt.flags, 1)+tt.exporters)
			h.Start()
			if got := h.Warned(health.ExportsUnsent); got != tt.unsent {
				t.Errorf("exports_unsent: %v", got)
			}
			if got := h.Warned(health.SequenceUnjoined); got != tt.unjoined {
				t.Errorf("sequence_unjoined: %v", got)
			}
		})
	}
}
