// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/ioam"
)

// proving is a node of a proof's path; its place follows.
const proving = "proof of transit: "

// proofNodes is how many nodes the path has; each has the same work.
const proofNodes = 4

// proofKeys are the same in every run. The number of nodes is right and the stream has no
// end, so there is no error.
func proofKeys() []*pot.Key {
	keys, _ := pot.Generate(proofNodes, rand.NewChaCha8([32]byte{1}))
	return keys
}

func provingAt(node int) string { return fmt.Sprint(proving, node) }

// proofConfigs are the nodes of a path.
func proofConfigs() map[string]model.NodeConfig {
	configs := make(map[string]model.NodeConfig)
	for i, key := range proofKeys() {
		c := nodeConfig()
		c.Namespaces[0].Proof = &model.Proof{Key: key}
		if key.Encapsulates() {
			c.Encapsulations = []model.Encapsulation{{
				Name: "measured", Interface: ours, Mode: model.ModeInline,
				Match:   model.Match{Destination: netip.PrefixFrom(harness.Destination, 64).Masked()},
				Options: []model.InsertedOption{{Proof: &model.ProofOption{Namespace: namespace}}},
			}}
		}
		configs[provingAt(i)] = c
	}
	return configs
}

// proofOption is an option as it arrives at the last node. Its number is a time.
func proofOption(number uint64) []byte {
	p := ioam.ProofOfTransit{Namespace: namespace, PktID: number}
	for _, key := range proofKeys()[:proofNodes-1] {
		p.Cumulative = key.Update(p.PktID, p.Cumulative)
	}
	return append([]byte{byte(ioam.OptionIOAM), 2 + ioam.ProofLen, 0, byte(ioam.IOAMProofOfTransit)}, p.Append(nil)...)
}

// proofCases measure what a proof costs at each node of its path. All packets have the
// same number, so the verifying node accepts the first one.
func proofCases() []costCase {
	const in2006, in2555 = 1 << 56, 1 << 60
	frame, ahead := padded(110, proofOption(in2006)), padded(110, proofOption(in2555))
	var cases []costCase
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC} {
		cases = append(cases,
			costCase{hook, "proof of transit", model.OutcomePotUpdated, provingAt(1), frame, harness.SKB{}, 60},
			costCase{hook, "proof of transit", model.OutcomePotReplayed, provingAt(proofNodes - 1), frame, harness.SKB{}, 0},
			costCase{hook, "proof of transit", model.OutcomePotAhead, provingAt(proofNodes - 1), ahead, harness.SKB{}, 0},
			costCase{hook, "proof of transit", model.OutcomePotRejected, provingAt(proofNodes - 1),
				harness.With(frame, atOption+20, 0, 0, 0, 0), harness.SKB{}, 0})
	}
	return append(cases, costCase{
		datapath.HookEgressTC, "proof of transit", model.OutcomeEncapInserted, provingAt(0),
		harness.Plain(harness.Destination, 78), harness.ArrivedAt(other), 0,
	})
}
