// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
)

// mtuTexts are those of the warnings about MTUs.
func mtuTexts(ws []health.Warning) (list []string) {
	for _, w := range ws {
		if w.Code == health.MTUTooSmall && w.Severity == health.Info {
			list = append(list, w.Text)
		}
	}
	return list
}

// An agent that only observes, and a dry run, say which headers would not fit.
func TestPlannedMTUIsWarnedOf(t *testing.T) {
	yaml := strings.Replace(agenttest.TunnelConfig, "node: {", "node: {mode: observe, ", 1)
	h := newHarness(t, yaml)
	h.Start()
	if ws := mtuTexts(h.Status().Warnings); len(ws) != 0 {
		t.Errorf("1700 suffices: %q", ws)
	}
	before := h.Datapath.Applications()
	for _, mtu := range []int{1530, 1540} {
		h.System.SetLinks(func(links map[string]config.Link) { links["eth1"] = config.Link{Index: 3, MTU: mtu, Up: true} })
		agenttest.Eventually(t, "the warnings", func() bool { return len(mtuTexts(h.Status().Warnings)) == 3 })
	}
	if ws := mtuTexts(h.Status().Warnings); !slices.ContainsFunc(ws, func(text string) bool {
		return strings.HasPrefix(text, "in mode full, encapsulation one would add ")
	}) {
		t.Errorf("%q", ws)
	}
	agenttest.Eventually(t, "three lines", func() bool { return len(lines(h, "would add")) >= 3 })
	if h.Datapath.Applications() != before {
		t.Error("an MTU alone made a new generation")
	}

	c, err := config.Parse("f", []byte(agenttest.TunnelConfig))
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := c.Resolve(h.System)
	if err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "the same warnings of the dry run", func() bool {
		dry := planned(resolved.Node)
		return len(dry) == 3 && slices.Equal(mtuTexts(dry), mtuTexts(h.Status().Warnings))
	})
}
