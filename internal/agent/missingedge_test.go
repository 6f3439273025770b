// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/health"
)

// A missing interface that is an edge may be there under another name, without a program: that is an
// error, unless it filters nothing.
func TestMissingEdgeIsAnError(t *testing.T) {
	for yaml, want := range map[string]health.Severity{
		"{name: late0, role: [ingress, egress]}":                                health.Degraded,
		"{name: late0}":                                                         health.Error,
		"{name: late0, role: [egress], boundary: strip}":                        health.Error,
		"{name: late0, boundary: ignore}":                                       health.Degraded,
		"{name: late0, boundary: {default: ignore, namespaces: {123: strip}}}":  health.Error,
		"{name: late0, boundary: {default: ignore, namespaces: {123: ignore}}}": health.Degraded,
	} {
		h := newHarness(t, strings.Replace(agenttest.BaseConfig, "interfaces:\n", "interfaces:\n  - "+yaml+"\n", 1))
		h.Start()
		found := false
		for _, w := range h.Status().Warnings {
			if w.Code == health.InterfaceMissing && w.Interface == "late0" {
				if found = true; w.Severity != want {
					t.Errorf("%s: %v, want %v: %s", yaml, w.Severity, want, w.Text)
				}
			}
		}
		if !found {
			t.Errorf("%s: no warning", yaml)
		}
	}
}
