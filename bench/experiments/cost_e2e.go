// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"net/netip"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The nodes at both edges.
const (
	numbering     = "edge to edge: first node"
	numberingTime = "edge to edge: first node, with time"
	measuringEdge = "edge to edge: last node"
)

// nextDestination is the Next Header value of Destination Options (RFC 8200 §4.6).
const nextDestination = 60

// edgeConfigs are the nodes that number and measure flows from edge to edge.
func edgeConfigs() map[string]model.NodeConfig {
	first := func(kind ioam.EdgeToEdgeType) model.NodeConfig {
		c := nodeConfig()
		c.Encapsulations = []model.Encapsulation{{
			Name: "measured", Interface: ours, Mode: model.ModeInline,
			Match:   model.Match{Destination: netip.PrefixFrom(harness.Destination, 64).Masked()},
			Options: []model.InsertedOption{{EdgeToEdge: &model.EdgeToEdgeOption{Namespace: namespace, Type: kind}}},
		}}
		return c
	}
	last := nodeConfig()
	last.Namespaces[0].Remove, last.Namespaces[0].EdgeToEdge = true, true
	return map[string]model.NodeConfig{
		numbering: first(ioam.EdgeToEdgeSequence32), measuringEdge: last,
		numberingTime: first(ioam.EdgeToEdgeSequence32 | ioam.EdgeToEdgeTimestampSeconds | ioam.EdgeToEdgeTimestampFraction),
	}
}

// edgeFrame is a frame of 94 or 102 bytes whose packet has the option.
func edgeFrame(kind ioam.EdgeToEdgeType) []byte {
	e := ioam.EdgeToEdge{Namespace: namespace, Type: kind, Sequence: 7}
	option := append([]byte{byte(ioam.OptionIOAMStatic), byte(2 + e.Len()), 0, byte(ioam.IOAMEdgeToEdge)}, e.Append(nil)...)
	return harness.Ethernet(
		harness.IPv6(harness.Source, harness.Destination, nextDestination, hopByHop(harness.NextUDP, harness.UDP(24), option)),
	)
}

// edgeCases measure insertion and removal. All packets that are removed have one number,
// so they count as duplicates.
func edgeCases() []costCase {
	plain := harness.Plain(harness.Destination, 78)
	cases := []costCase{
		{datapath.HookEgressTC, "edge to edge, a number", model.OutcomeEncapInserted, numbering, plain, harness.ArrivedAt(other), 60},
		{datapath.HookEgressTC, "edge to edge, a number and the time", model.OutcomeEncapInserted, numberingTime, plain, harness.ArrivedAt(other), 0},
	}
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC} {
		cases = append(cases,
			costCase{hook, "edge to edge, a number", model.OutcomeInlineRemoved, measuringEdge, edgeFrame(0x4000), harness.SKB{}, 0},
			costCase{hook, "edge to edge, a number and the time", model.OutcomeInlineRemoved, measuringEdge, edgeFrame(0x7000), harness.SKB{}, 0},
			costCase{hook, "edge to edge", model.OutcomeMalformedSequences, measuringEdge, edgeFrame(0xc000), harness.SKB{}, 0})
	}
	return cases
}
