// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Which rules give packets of one flow different headers, by what they insert and match.
func TestHeadersThatDiffer(t *testing.T) {
	here := netip.MustParseAddr("2001:db8::1")
	isOwn := func(a netip.Addr) bool { return a == here }
	trace := func(kind ioam.TraceType) []model.InsertedOption {
		return model.Traces(model.TraceOption{Namespace: 123, Type: kind, Size: 60})
	}
	udp, tcp := ioam.NextHeaderUDP, ioam.NextHeaderTCP
	for name, test := range map[string]struct {
		rule model.Encapsulation
		want bool
	}{
		"times":                     {model.Encapsulation{Options: trace(0xf00000)}, true},
		"the transit delay":         {model.Encapsulation{Options: trace(0x880000)}, true},
		"times of TCP":              {model.Encapsulation{Options: trace(0xf00000), Match: model.Match{NextHeader: &tcp}}, true},
		"times of UDP":              {model.Encapsulation{Options: trace(0xf00000), Match: model.Match{NextHeader: &udp}}, false},
		"of this node's packets":    {model.Encapsulation{Options: trace(0xf00000), Match: model.Match{Source: netip.PrefixFrom(here, 128)}}, false},
		"of packets to where it is": {model.Encapsulation{Options: trace(0xf00000), Interface: 1}, false},
		"ids":                       {model.Encapsulation{Options: trace(0xc00000), Frequency: model.Frequency{K: 1, N: 1}}, false},
		"ids in some packets":       {model.Encapsulation{Options: trace(0xc00000), Frequency: model.Frequency{K: 1, N: 10}}, true},
		"ids within a budget":       {model.Encapsulation{Options: trace(0xc00000), Budget: model.Budget{Packets: 1}}, true},
		"copies of some":            {model.Encapsulation{Options: model.Traces(model.TraceOption{Type: 0x800000, Size: 40, Loopback: 100})}, true},
		"Sequence Numbers":          {model.Encapsulation{Options: []model.InsertedOption{{DirectExport: &model.DirectExportOption{ExtensionFlags: ioam.ExtensionSequence}}}}, true},
		"a Flow-ID":                 {model.Encapsulation{Options: []model.InsertedOption{{DirectExport: &model.DirectExportOption{ExtensionFlags: ioam.ExtensionFlowID}}}}, false},
		"proofs":                    {model.Encapsulation{Options: []model.InsertedOption{{Proof: &model.ProofOption{Namespace: 123}}}}, true},
	} {
		if test.rule.Interface == 0 {
			test.rule.Interface = 2
		}
		if got := headersDiffer(model.NodeConfig{Encapsulations: []model.Encapsulation{test.rule}}, 1, isOwn); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for want, node := range map[bool]model.NodeConfig{
		true:  {Namespaces: []model.Namespace{{ID: 1}, {ID: 2, Remove: true}}},
		false: {Namespaces: []model.Namespace{{ID: 1}, {ID: 2}}, Decapsulations: []model.Decapsulation{{}}},
	} {
		if keepsTraces(node) != want {
			t.Errorf("%+v keeps traces: %v", node, !want)
		}
	}
}

// Without receive offload at the nodes after this one, segments keep their order, whatever
// their headers; the operator says so.
func TestOrderWithoutOffloadAfter(t *testing.T) {
	const file = `node: {id: 2RECEIVE}
interfaces: [{name: eth0, role: [ingress]}, {name: eth1, role: [egress]}]
namespaces: [{id: 123}]
encapsulations: [{name: a, interface: eth1, mode: inline, options: [{trace: {namespace: 123, type: 0xf00000, size: 60}}]}]
metrics: {listen: none}
`
	for setting, want := range map[string]bool{"": true, ", receive-offload: true": true, ", receive-offload: false": false} {
		h := newHarness(t, strings.Replace(file, "RECEIVE", setting, 1))
		h.Start() // its interfaces have GRO off
		if got := h.Warned(health.OrderAtRisk); got != want {
			t.Errorf("%q: warned %v", setting, got)
		}
	}
}
