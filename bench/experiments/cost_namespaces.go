// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// inEach is the node that inserts a trace of each of nine namespaces.
const inEach = "a trace of each namespace"

// The largest header of the papers: a trace of one field in each of nine namespaces, with
// room for three hops. With the header of a tunnel, it adds 264 bytes.
const (
	largestHeader = "9 options of 9 namespaces (264 bytes)"
	// A node runs the programs at ingress and at egress; the aim is for each of them, like the
	// aims of a single trace.
	largestHeaderAtHook = largestHeader + ", aim for each hook"

	insertionAim264 = 250 // ns
	transitAim264   = 200 // ns
)

func largestOptions() []model.TraceOption { return pathInEach(mostOptions, fields(1)) }

func namespacesConfigs() map[string]model.NodeConfig {
	return map[string]model.NodeConfig{inEach: encapsulation(model.ModeEncap, largestOptions()...)}
}

// namespacesCases measure insertion of the largest header, and a node that the packet passes
// as the second one of three.
func namespacesCases() []costCase {
	inner := harness.Plain(harness.Destination, 78)
	passing := tunnelled(inner[harness.EthernetHeader:], header(largestOptions(), 1)...)
	cases := []costCase{
		{datapath.HookEgressTC, largestHeader, model.OutcomeEncapTunneled, inEach, inner, harness.ArrivedAt(other), insertionAim264},
	}
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC} {
		cases = append(cases, costCase{hook, largestHeaderAtHook, model.OutcomeTraceFilled, "transit", passing, harness.SKB{}, transitAim264})
	}
	return append(
		cases,
		costCase{
			datapath.HookEgressTC,
			largestHeaderAtHook,
			model.OutcomeTraceFilled,
			"transit",
			passing,
			harness.ArrivedAt(other),
			transitAim264,
		},
	)
}
