// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// ofDrops are the warnings of counters of packets.
var ofDrops = []health.Code{
	health.DroppedAtEdge, health.ProofsRejected, health.RemovalFailed,
	health.NamespaceUnknown, health.TraceOverflow, health.EncapSkipped,
}

// Packets that this node drops by policy are reported with the interface, once in the
// log, but not those dropped before the agent started.
func TestDropsAreWarnedOf(t *testing.T) {
	config := func(role string) string {
		return "node: {id: 2}\nmetrics: {listen: none}\ninterfaces: [{name: eth0, role: [" + role + "]}, {name: eth1}]\n"
	}
	type counts = [model.NumOutcomes]uint64
	in, out := &counts{}, &counts{}
	in[model.OutcomeBoundaryDropped], out[model.OutcomeBoundaryTunnelDropped] = 50, 50
	dropped, rejected, none, failed := &counts{}, &counts{}, &counts{}, &counts{}
	dropped[model.OutcomePotDropped], rejected[model.OutcomePotRejected] = 20, 20
	failed[model.OutcomeDecapFailed] = 1
	unknown, full, skipped, few := &counts{}, &counts{}, &counts{}, &counts{}
	unknown[model.OutcomeNamespaceUnknown], full[model.OutcomeTraceOverflow] = 50, 50
	skipped[model.OutcomeEncapSkippedRouterAlert], few[model.OutcomeNamespaceUnknown] = 50, 9
	for _, tt := range []struct {
		name, role               string
		ingress, egress, options *counts
		code                     health.Code
		says                     string // "" is no warning
	}{
		{"nothing", "", none, none, none, health.DroppedAtEdge, ""},
		{"no ingress role", "egress", in, none, none, health.DroppedAtEdge, "eth0 dropped 50 packets that arrived in the last minute"},
		{"no egress role", "ingress", none, out, none, health.DroppedAtEdge, "eth0 dropped 50 packets that were to leave"},
		{"the roles by now", "ingress, egress", in, out, none, health.DroppedAtEdge, ""},
		{"rejected proofs", "ingress", none, none, rejected, health.ProofsRejected, "their packets went on"},
		{"dropped for their proofs", "ingress", dropped, none, rejected, health.ProofsRejected, "20 packets were dropped (pot_dropped)"},
		{"a removal that failed on arrival", "ingress", failed, none, none, health.RemovalFailed, "the header of a packet at eth0 in the last minute (decap_failed)"},
		{"a removal that failed on departure", "", none, failed, none, health.RemovalFailed, "the header of a packet at eth0"},
		{"an unknown namespace", "ingress", none, none, unknown, health.NamespaceUnknown, "50 IOAM options came to eth0 in the last minute"},
		{"a few of an unknown namespace", "ingress", none, none, few, health.NamespaceUnknown, ""},
		{"full traces", "ingress", none, none, full, health.TraceOverflow, "50 traces came to eth0"},
		{"skipped packets", "egress", none, skipped, none, health.EncapSkipped, "they have a Router Alert (encap_skipped_router_alert 50)"},
		{"right proofs", "ingress", none, none, none, health.ProofsRejected, ""},
	} {
		h := newHarness(t, config(tt.role))
		c := datapath.Counters{Index: 2, Name: "eth0"}
		for _, direction := range []*counts{&c.Ingress, &c.Egress} { // before this agent
			for o := range direction {
				direction[o] = 1000
			}
		}
		h.Datapath.SetCounters(c)
		h.Start()
		if h.Warned(health.DroppedAtEdge) || h.Warned(health.ProofsRejected) || h.Warned(health.RemovalFailed) {
			t.Errorf("%s: warned of what came before the agent", tt.name)
		}
		for o := range model.NumOutcomes {
			c.Ingress[o] += tt.ingress[o]
			c.Egress[o] += tt.egress[o]
			c.IngressOptions[o] += tt.options[o]
		}
		h.Datapath.SetCounters(c)
		found := 0
		for _, w := range h.agent.warnings() {
			if !slices.Contains(ofDrops, w.Code) {
				continue
			}
			found++
			if tt.says == "" || w.Code != tt.code || w.Interface != "eth0" || !strings.Contains(w.Text, tt.says) {
				t.Errorf("%s: %+v", tt.name, w)
			}
		}
		want := 0
		if tt.says != "" {
			want = 1
		}
		if found != want {
			t.Errorf("%s: %d warnings, want %d", tt.name, found, want)
		}
		if err := h.End(); err != nil {
			t.Fatal(err)
		}
		for range 3 { // as the clock does
			logDrops(t, h)
		}
		if n := strings.Count(h.Log.String(), "warning="+string(tt.code)); n != want {
			t.Errorf("%s: %d lines, want %d:\n%s", tt.name, n, want, h.Log)
		}
	}
}

// Offloaded packets without a header are hinted at where an encapsulation needs a number for each
// segment, and not in the log.
func TestOffloadedPacketsAreHintedAt(t *testing.T) {
	for option, want := range map[string]bool{
		"{e2e: {namespace: 123, type: 0x7000}}":              true,
		"{trace: {namespace: 123, type: 0xc00000, size: 8}}": false,
	} {
		h := newHarness(t, agenttest.BaseConfig+"encapsulations: [{name: numbered, interface: eth1, mode: inline, options: ["+option+"]}]\n")
		c := []datapath.Counters{{Index: 2, Name: "eth0"}, {Index: 3, Name: "eth1"}}
		h.Datapath.SetCounters(c...)
		h.Start()
		for i := range c {
			c[i].Egress[model.OutcomeEncapSkippedGSO] = 40
		}
		h.Datapath.SetCounters(c...)
		var found []health.Warning
		for _, w := range h.agent.diagnosis() {
			if w.Code == health.OffloadUnnumbered {
				found = append(found, w)
			}
		}
		if (len(found) == 1) != want || want && (found[0].Interface != "eth1" || !strings.Contains(found[0].Text, "40 large packets") ||
			!strings.Contains(found[0].Text, "encapsulation numbered")) {
			t.Errorf("%s: %+v", option, found)
		}
		logDrops(t, h)
		if strings.Contains(h.Log.String(), string(health.OffloadUnnumbered)) {
			t.Errorf("%s", h.Log)
		}
	}
}

// logDrops logs what began to be dropped.
func logDrops(t *testing.T, h *harness) {
	t.Helper()
	counters, err := h.Datapath.Counters()
	if err != nil {
		t.Fatal(err)
	}
	only[*drops](h).logBegin(counters)
}
