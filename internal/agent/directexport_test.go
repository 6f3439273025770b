// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/health"
)

// Exports that nobody gets, or that nobody can join, are warned of.
func TestVainExportsAreWarnedOf(t *testing.T) {
	const rule = "encapsulations: [{name: a, interface: eth1, mode: inline, options: [{dex: {namespace: 123, trace-type: 0x800000, extension-flags: FLAGS}}]}]\n"
	for _, tt := range []struct {
		name, mode, flags, exporters string
		unsent, unjoined             bool
	}{
		{"nobody gets them", "every", "[]", "", true, false},
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
