// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
)

// lines are those of the log that have a word.
func lines(h *harness, word string) (list []string) {
	for line := range strings.Lines(h.Log.String()) {
		if strings.Contains(line, word) {
			list = append(list, line)
		}
	}
	return list
}

// An interface that disappears while the agent runs is logged as a reload would, each time, and its
// warning has the time of that line.
func TestVanishedInterfaceIsLogged(t *testing.T) {
	h := newHarness(t, strings.Replace(agenttest.BaseConfig, "{name: eth1, id: 202, role: [ingress, egress]}", "{name: eth1, id: 202}", 1))
	h.Start()
	before := map[string]config.Link{}
	h.System.SetLinks(func(links map[string]config.Link) { maps.Copy(before, links) })
	for n := range 2 {
		h.System.SetLinks(func(links map[string]config.Link) { delete(links, "eth1") })
		agenttest.Eventually(t, "the line", func() bool { return len(lines(h, "warning=interface_missing")) == n+1 })
		line := lines(h, "warning=interface_missing")[n]
		if !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "interface=eth1 cure=") {
			t.Error(line)
		}
		_, rest, _ := strings.Cut(line, "time=")
		stamp, _, _ := strings.Cut(rest, " ")
		at, err := time.Parse(time.RFC3339, stamp)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		for _, w := range h.agent.warnings() {
			if w.Code == health.InterfaceMissing && instant.Of(w.Since.Truncate(time.Millisecond)) != instant.Of(at) {
				t.Errorf("since %v, and the log says %v", w.Since, at)
			}
		}
		h.System.SetLinks(func(links map[string]config.Link) { maps.Copy(links, before) })
		agenttest.Eventually(t, "its return", func() bool { return !h.Warned(health.InterfaceMissing) })
	}
}

// A reload logs only what was not there before.
func TestReloadLogsWhatIsNew(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.System.ClockState = health.Clock{}
	h.Start()
	for range 2 {
		if err := h.agent.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(lines(h, "warning=clock_unsynchronised")); n != 1 {
		t.Errorf("%d lines about the clock, want 1:\n%s", n, h.Log)
	}
	h.Write(strings.Replace(agenttest.BaseConfig, "interfaces:\n", "interfaces:\n  - {name: late0}\n", 1))
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	if a, b := len(lines(h, "warning=clock_unsynchronised")), len(lines(h, "warning=interface_missing")); a != 1 || b != 1 {
		t.Errorf("%d lines about the clock and %d about the interface, want 1 and 1:\n%s", a, b, h.Log)
	}
}

// An address that is in use is logged once, whatever is reloaded and changed meanwhile.
func TestMetricsAddressInUseIsLoggedOnce(t *testing.T) {
	other, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	h := newHarness(t, strings.Replace(agenttest.BaseConfig, "{listen: none}", "{listen: \""+other.Addr().String()+"\"}", 1))
	h.Start()
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	h.System.SetLinks(func(links map[string]config.Link) { delete(links, "eth1") })
	agenttest.Eventually(t, "the change", func() bool { return len(lines(h, "interfaces, addresses or ids changed")) == 1 })
	if got := lines(h, "warning=metrics_unavailable"); len(got) != 1 || !h.Warned(health.MetricsUnavailable) {
		t.Errorf("%d lines, want 1:\n%s", len(got), h.Log)
	}
}
