// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// exportRule is an encapsulation with a Direct Export; MATCH is a placeholder for more
// keys.
const exportRule = "encapsulations: [{name: a, interface: eth1, mode: encap, tunnel: {source: 2001:db8::1, destination: 2001:db8:9::1}, " +
	"MATCH options: [{dex: {namespace: 123, trace-type: 0x800000}}]}]\n"

// A node that may insert Direct Exports into exports, because it does not know the
// collectors of other nodes, warns of that.
func TestUnknownCollectors(t *testing.T) {
	const to = "match: {destination: 2001:db8:2::/64},"
	for _, tt := range []struct {
		name, match, config string
		warned              bool
	}{
		{"no exporter", to, "", true},
		{"a file", to, "export: [{kind: jsonl}]\n", true},
		{"an exporter", to, "export: [{kind: ipfix, address: \"udp://[2001:db8::9]\"}]\n", false},
		{"a collector of others", to, "collectors: [\"udp://[2001:db8::9]\"]\n", false},
		{"no collector in the domain", to, "collectors: []\n", false},
		{"neither UDP nor TCP", "match: {next-header: icmpv6},", "", false},
		{"TCP", "match: {next-header: tcp},", "", true},
		{"what this node sends", "match: {source: 2001:db8::5},", "", false},
		{"what another sends", "match: {source: 2001:db8::e},", "", true},
		{"a name without an address", to, "collectors: [\"udp://nobody.invalid\"]\n", true},
		{"a name, and no Direct Export", to, "collectors: [\"udp://nobody.invalid\"]\n#trace", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := agenttest.BaseConfig + strings.Replace(exportRule, "MATCH", tt.match, 1) + tt.config
			if strings.HasSuffix(tt.config, "#trace") {
				text = strings.Replace(text, "dex: {namespace: 123, trace-type: 0x800000}", "trace: {namespace: 123, type: 0x800000, size: 4}", 1)
			}
			h := newHarness(t, text)
			h.System.Elsewhere = mustAddr("2001:db8::e")
			h.Start()
			if got := h.Warned(health.CollectorsUnknown); got != tt.warned {
				t.Errorf("warned: %v", got)
			}
		})
	}
}

// Collectors of other nodes are in the data plane besides this node's own, and stay
// there when the configuration changes at runtime.
func TestCollectorsOfOthers(t *testing.T) {
	h := newHarness(
		t,
		agenttest.BaseConfig+"export: [{kind: ipfix, address: \"udp://[2001:db8::1]:4000\"}]\n"+
			"collectors: [\"tls://[2001:db8::2]\", \"udp://collector.invalid\"]\n",
	)
	h.System.SetCollectors(mustAddr("2001:db8::3"))
	h.Start()
	want := []model.Collector{
		{Address: mustAddr("2001:db8::1"), Port: 4000, Protocol: ioam.NextHeaderUDP},
		{Address: mustAddr("2001:db8::2"), Port: 4740, Protocol: ioam.NextHeaderTCP},
		{Address: mustAddr("2001:db8::3"), Port: 4739, Protocol: ioam.NextHeaderUDP},
	}
	if got := h.Datapath.Running().Node.Collectors; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := failure(h.Client.AddEncapsulation(t.Context(), derivedRule())); err != nil {
		t.Fatal(err)
	}
	if got := h.Datapath.Running().Node.Collectors; !slices.Equal(got, want) {
		t.Errorf("after a change: %v, want %v", got, want)
	}
	h.Crash()
	h.Start()
	if got := h.Datapath.Running().Node; !slices.Equal(got.Collectors, want) || len(got.Encapsulations) != 1 {
		t.Errorf("of the next agent: %v and %d encapsulations", got.Collectors, len(got.Encapsulations))
	}
}

// Hints appear only in a diagnosis, not in status or metrics.
func TestHintsAreForDoctor(t *testing.T) {
	const there = "2001:db8::e"
	exporter := func(address string) string { return fmt.Sprintf("export: [{kind: ipfix, address: %q}]\n", address) }
	every := strings.Replace(agenttest.BaseConfig, "{id: 123,", "{id: 123, export: every,", 1)
	for _, tt := range []struct {
		name, text string
		code       health.Code
		warned     bool
	}{
		{"UDP", agenttest.BaseConfig + exporter("udp://["+there+"]"), health.ExportsUnsecured, true},
		{"TCP to a name", agenttest.BaseConfig + exporter("tcp://collector.invalid"), health.ExportsUnsecured, true},
		{"TLS", agenttest.BaseConfig + exporter("tls://["+there+"]"), health.ExportsUnsecured, false},
		{"loopback", agenttest.BaseConfig + exporter("udp://[::1]"), health.ExportsUnsecured, false},
		{"an address of this node", agenttest.BaseConfig + exporter("udp://[2001:db8::5]"), health.ExportsUnsecured, false},
		{"a file", agenttest.BaseConfig + "export: [{kind: jsonl}]\n", health.ExportsUnsecured, false},
		{"all", every + exportRule, health.ExportsUnselective, true},
		{"all, of every source", every + strings.Replace(exportRule, "MATCH", "match: {destination: 2001:db8::/32, source: \"::/0\"},", 1), health.ExportsUnselective, true},
		{"flows", every + strings.Replace(exportRule, "MATCH", "flows: 1/2,", 1), health.ExportsUnselective, false},
		{"packets", every + strings.Replace(exportRule, "MATCH", "frequency: 1/2,", 1), health.ExportsUnselective, false},
		{"one host", every + strings.Replace(exportRule, "MATCH", "match: {destination: 2001:db8::7},", 1), health.ExportsUnselective, false},
		{"one port", every + strings.Replace(exportRule, "MATCH", "match: {destination-port: 53},", 1), health.ExportsUnselective, false},
		{"every packet, by default 1 in 100", every + "export: [{kind: jsonl}]\n", health.ExportsLimited, true},
		{"every packet, without a limit", strings.Replace(every, "node: {", "node: {export-limit: 1/1, ", 1) + "export: [{kind: jsonl}]\n", health.ExportsLimited, false},
		{"sums, limited", strings.Replace(every, "every", "aggregate", 1) + "export: [{kind: jsonl}]\n", health.ExportsLimited, false},
		{"flows are summed up", strings.Replace(every, "every", "aggregate", 1) + exportRule, health.ExportsUnselective, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, strings.Replace(tt.text, "MATCH", "", 1))
			h.System.Elsewhere = netip.MustParseAddr(there)
			h.System.SetCollectors(netip.MustParseAddr(there))
			h.Start()
			if got := h.Warned(tt.code); got != tt.warned {
				t.Errorf("warnings: %v", got)
			}
			for _, w := range h.Status().Warnings {
				if w.Severity == health.Hint {
					t.Errorf("status has %+v", w)
				}
			}
		})
	}
}
