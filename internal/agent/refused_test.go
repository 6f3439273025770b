// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// A tunnel's end that refuses packets reports that, with the counter and the cure, in
// the warnings and once in the log.
func TestRefusedTunnelsAreWarnedOf(t *testing.T) {
	const config = `
node: {id: 2}
metrics: {listen: none}
interfaces: [{name: eth0, role: [ingress, egress]}, {name: eth1}]
namespaces: [{id: 123}]
decapsulations: [{tunnel-destination: "2001:db8:ff::3", sources: ["2001:db8:ff::7"], bare: false}, {tunnel-destination: "2001:db8:ff::4"}]
`
	for _, tt := range []struct {
		name                string
		source, bare, taken uint64
		says                string // "" is no warning
		lacks               string
	}{
		{"nothing", 0, 0, 0, "", ""},
		{"all taken", 0, 0, 150, "", ""},
		{"a few of many", 3, 3, 1000, "", ""},
		{"wrong source", 150, 0, 0, "150 packets to 2001:db8:ff::3 were refused in the last minute (decap_refused_source)", "2001:db8:ff::4"},
		{"wrong namespace", 0, 20, 100, "20 packets to 2001:db8:ff::3, 2001:db8:ff::4 were refused in the last minute (decap_refused_bare)", "decap_refused_source"},
	} {
		h := newHarness(t, config)
		h.Start()
		var c datapath.Counters
		c.Index, c.Name = 2, "eth0"
		c.Ingress[model.OutcomeDecapRefusedSource], c.Ingress[model.OutcomeDecapRefusedBare],
			c.Ingress[model.OutcomeTunnelDecapsulated] = tt.source, tt.bare, tt.taken
		h.Datapath.SetCounters(c)
		if got := h.Warned(health.DecapRefused); got != (tt.says != "") {
			t.Errorf("%s: warned %v", tt.name, got)
		}
		for _, w := range h.agent.warnings() {
			if w.Code == health.DecapRefused &&
				(!strings.Contains(w.Text, tt.says) || tt.lacks != "" && strings.Contains(w.Text, tt.lacks) || w.Severity != health.Degraded) {
				t.Errorf("%s: %+v", tt.name, w)
			}
		}
		if err := h.End(); err != nil {
			t.Fatal(err)
		}
		for range 3 { // as the clock does
			only[*refusals](h).logBegin()
		}
		want := 0
		if tt.says != "" {
			want = 1
		}
		if n := strings.Count(h.Log.String(), "warning=decapsulation_refused"); n != want {
			t.Errorf("%s: %d lines, want %d:\n%s", tt.name, n, want, h.Log)
		}
	}
}
