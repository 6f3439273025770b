// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/health"
)

// A router that inserts into what it forwards is warned, a host is not, nor a
// rule for the node's own packets.
func TestInlineOnRouterIsWarnedOf(t *testing.T) {
	const rule = "encapsulations: [{name: a, interface: eth1, mode: inline, match: {source: \"2001:db8::7/128\"}, " +
		"options: [{trace: {namespace: 123, type: 0x800000, size: 4}}]}]\n"
	for _, tt := range []struct {
		name              string
		router, elsewhere bool
		warned            bool
	}{
		{"router", true, true, true},
		{"router's own packets", true, false, false},
		{"host", false, true, false},
	} {
		h := newHarness(t, agenttest.BaseConfig+rule)
		h.System.Router = tt.router
		if tt.elsewhere {
			h.System.Elsewhere = mustAddr("2001:db8::7")
		}
		h.Start()
		if got := h.Warned(health.InlineForwarded); got != tt.warned {
			t.Errorf("%s: warned %v, want %v", tt.name, got, tt.warned)
		}
	}
}
