// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// fastConfig lets eth0 forward fast.
var fastConfig = strings.Replace(agenttest.BaseConfig, "role: [ingress, egress]}", "role: [ingress, egress], forwarding: fast}", 1)

// TestRoutesAreWatched checks that routes are watched only while interfaces need it.
func TestRoutesAreWatched(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	if n := h.System.Watches.Load(); n != 0 {
		t.Errorf("%d watches, and no interface forwards fast", n)
	}
	for range 2 {
		h.Write(fastConfig)
		if err := h.agent.Reload(); err != nil {
			t.Fatal(err)
		}
		agenttest.Eventually(t, "routes are watched", func() bool { return h.System.Watches.Load() == 1 })
		if c := h.Datapath.Running(); len(c.Fast) != 1 || !c.Fast[model.IfIndex(h.Status().Interfaces[0].Index)] || c.NextHops != 16384 {
			t.Errorf("the data plane was given %v, %d", c.Fast, c.NextHops)
		}
		if got := h.Status().Interfaces; got[0].Forwarding != "fast" || got[1].Forwarding != "stack" {
			t.Errorf("status shows %q, %q", got[0].Forwarding, got[1].Forwarding)
		}
		h.Write(agenttest.BaseConfig)
		if err := h.agent.Reload(); err != nil {
			t.Fatal(err)
		}
		agenttest.Eventually(t, "routes are not watched", func() bool { return h.System.Watches.Load() == 0 })
	}
}

// TestStackForwardsAll checks that the status has the reason while the stack forwards
// all packets.
func TestStackForwardsAll(t *testing.T) {
	h := newHarness(t, fastConfig)
	h.System.StackForwards = "rule 100 suppresses routes"
	h.Start()
	agenttest.Eventually(t, "it is warned", func() bool {
		return slices.ContainsFunc(h.Status().Warnings, func(w health.Warning) bool {
			return w.Code == health.FastSuspended && strings.Contains(w.Text, "rule 100 suppresses routes")
		})
	})
	h.Write(agenttest.BaseConfig)
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "nothing is to go fast, so nothing is warned of", func() bool { return !h.Warned(health.FastSuspended) })
}

// TestRoutesCannotBeWatched checks for a warning and another try.
func TestRoutesCannotBeWatched(t *testing.T) {
	h := newHarness(t, fastConfig)
	h.System.RoutesUnwatched = errors.New("no netlink here")
	h.Start()
	agenttest.Eventually(t, "it is warned", func() bool { return h.Warned(health.RoutesUnwatched) })
	h.System.Mu.Lock()
	h.System.RoutesUnwatched = nil
	h.System.Mu.Unlock()
	agenttest.Eventually(t, "routes are watched", func() bool {
		return h.System.Watches.Load() == 1 && !h.Warned(health.RoutesUnwatched)
	})
}
