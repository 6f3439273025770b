// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// fastConfig lets eth0 forward fast.
var fastConfig = strings.Replace(baseConfig, "role: [ingress, egress]}", "role: [ingress, egress], forwarding: fast}", 1)

// TestRoutesAreWatched checks that routes are watched only while interfaces need it.
func TestRoutesAreWatched(t *testing.T) {
	h := newHarness(t, baseConfig)
	h.start()
	if n := h.system.watches.Load(); n != 0 {
		t.Errorf("%d watches, and no interface forwards fast", n)
	}
	for range 2 {
		h.write(fastConfig)
		if err := h.agent.Reload(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "routes are watched", func() bool { return h.system.watches.Load() == 1 })
		if c := h.datapath.running(); len(c.Fast) != 1 || !c.Fast[model.IfIndex(h.status().Interfaces[0].Index)] || c.NextHops != 16384 {
			t.Errorf("the data plane was given %v, %d", c.Fast, c.NextHops)
		}
		if got := h.status().Interfaces; got[0].Forwarding != "fast" || got[1].Forwarding != "stack" {
			t.Errorf("status shows %q, %q", got[0].Forwarding, got[1].Forwarding)
		}
		h.write(baseConfig)
		if err := h.agent.Reload(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "routes are not watched", func() bool { return h.system.watches.Load() == 0 })
	}
}

// TestStackForwardsAll checks that the status has the reason while the stack forwards
// all packets.
func TestStackForwardsAll(t *testing.T) {
	h := newHarness(t, fastConfig)
	h.system.odd = "rule 100 suppresses routes"
	h.start()
	eventually(t, "it is warned", func() bool {
		return slices.ContainsFunc(h.status().Warnings, func(w health.Warning) bool {
			return w.Code == health.FastSuspended && strings.Contains(w.Text, "rule 100 suppresses routes")
		})
	})
	h.write(baseConfig)
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is to go fast, so nothing is warned of", func() bool { return !h.warned(health.FastSuspended) })
}

// TestRoutesCannotBeWatched checks for a warning and another try.
func TestRoutesCannotBeWatched(t *testing.T) {
	h := newHarness(t, fastConfig)
	h.system.blind = errors.New("no netlink here")
	h.start()
	eventually(t, "it is warned", func() bool { return h.warned(health.RoutesUnwatched) })
	h.system.mu.Lock()
	h.system.blind = nil
	h.system.mu.Unlock()
	eventually(t, "routes are watched", func() bool {
		return h.system.watches.Load() == 1 && !h.warned(health.RoutesUnwatched)
	})
}
