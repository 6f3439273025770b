// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
)

// A path MTU that is smaller than its interface's is warned of while it is known.
func TestPathMTUIsWarnedOf(t *testing.T) {
	h := newHarness(t, agenttest.TunnelConfig)
	h.Start()
	h.System.TooBig <- agenttest.PacketTooBig(1500)
	agenttest.Eventually(t, "a warning", func() bool { return h.Warned(health.PathMTULowered) })
	if h.Warned(health.PathMTUUnwatched) {
		t.Error("warned wrongly")
	}
}

func TestPathMTUOfForeignSource(t *testing.T) {
	h := newHarness(t, agenttest.TunnelConfig)
	h.Start()
	if h.Warned(health.PathMTUUnwatched) {
		t.Error("warned, and the source is this node's")
	}
	h.System.Mu.Lock()
	h.System.Elsewhere = netip.MustParseAddr("2001:db8:ff::1")
	h.System.Mu.Unlock()
	if !h.Warned(health.PathMTUUnwatched) {
		t.Error("no warning that messages go elsewhere")
	}
}

// A served interface that is down is warned of while it is.
func TestInterfaceDownIsWarnedOf(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	for _, up := range []bool{true, false, true} {
		h.System.SetLinks(func(links map[string]config.Link) {
			l := links["eth0"]
			l.Up = up
			links["eth0"] = l
		})
		if warned := h.Warned(health.InterfaceDown); warned == up {
			t.Errorf("up %v, warned %v", up, warned)
		}
	}
}
