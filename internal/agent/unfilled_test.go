// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/health"
)

// Options that a node inserts and does not fill show in its status, not only in a
// diagnosis.
func TestUnfilledTracesShow(t *testing.T) {
	rule := func(option string) string {
		return "encapsulations: [{name: a, interface: eth1, mode: inline, options: [" + option + "]}]\n"
	}
	for _, tt := range []struct {
		name, option string
		code         health.Code // "" is none
	}{
		{"filled", "{trace: {namespace: 123, type: 0xc00000, size: 8}}", ""},
		{"unknown", "{trace: {namespace: 7, type: 0xc00000, size: 8}}", health.NamespaceUnfilled},
		{"unknown, of a Direct Export", "{dex: {namespace: 7, trace-type: 0xc00000}}", health.NamespaceUnfilled},
		{"too small", "{trace: {namespace: 123, type: 0xc00000, size: 4}}", health.TraceTooSmall},
	} {
		h := newHarness(t, strings.Replace(agenttest.BaseConfig, "node: {", "node: {compatibility: mainline, ", 1)+rule(tt.option))
		h.Start()
		for _, code := range []health.Code{health.NamespaceUnfilled, health.TraceTooSmall} {
			if got := h.Warned(code); got != (code == tt.code) {
				t.Errorf("%s: %s %v", tt.name, code, got)
			}
		}
	}
}
