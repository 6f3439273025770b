// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/ioam"
)

// proofKeys are the keys of three nodes for each of a few namespaces, the same in every
// run.
var proofKeys = func() (all [4][]*pot.Key) {
	for i := range all {
		var err error
		if all[i], err = pot.Generate(3, rand.NewChaCha8([32]byte{byte(i)})); err != nil {
			panic(err)
		}
	}
	return all
}()

// randomProving is a part in the proofs of a namespace, or none.
func randomProving(s source, namespace int) *model.Proof {
	keys := proofKeys[namespace%len(proofKeys)]
	node := s.below(len(keys) + 2)
	if node >= len(keys) || namespace >= len(proofKeys) {
		return nil
	}
	return &model.Proof{Key: keys[node], DropRejected: keys[node].Verifies() && s.below(2) == 0}
}

// randomProof is mostly valid, and sometimes right.
func randomProof(s source) ioam.Option {
	p := ioam.ProofOfTransit{Namespace: oneOf[ioam.NamespaceID](s, 123, 200, 300, 7), Flags: uint8(s.below(2)), PktID: uint64(s.below(100))}
	if s.below(4) == 0 {
		p.PktID, p.Cumulative = oneOf(s, 0, pot.Prime-1, pot.Prime, 1<<64-1), oneOf(s, 0, pot.Prime-1, pot.Prime, 1<<64-1)
	} else {
		for _, key := range proofKeys[s.below(len(proofKeys))][:s.below(3)] {
			p.Cumulative = key.Update(p.PktID, p.Cumulative)
		}
	}
	option := p.Option()
	switch s.below(16) {
	case 0:
		option.Data = option.Data[:2+s.below(20)]
	case 1:
		option.Data = append(option.Data, randomBytes(s, s.below(6))...)
	case 2:
		option.Data[4] = uint8(s.below(256)) // POT-Type
	}
	return option
}

// proving is the test node with a key of namespace 123.
func proving(t *testing.T, key *pot.Key, change func(*model.NodeConfig)) *Node {
	t.Helper()
	config := testConfig()
	config.Namespaces[0].Proof = &model.Proof{Key: key}
	if change != nil {
		change(&config)
	}
	n, err := NewNode(config)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A proof beside a trace: the trace is filled, and of a removed header both are counted;
// a dropped packet is in no record.
func TestProofBesideTrace(t *testing.T) {
	keys := proofKeys[0]
	p := ioam.ProofOfTransit{Namespace: 123, PktID: 5}
	for _, key := range keys[:2] {
		p.Cumulative = key.Update(p.PktID, p.Cumulative)
	}
	trace := ioam.Trace{Namespace: 123, NodeLen: 1, RemainingLen: 1, Type: 0x800000, Data: make([]byte, 4)}
	header, err := ioam.AppendExtensionHeader(nil, ioam.NextHeaderNone, trace.Option(), p.Option())
	if err != nil {
		t.Fatal(err)
	}
	frame := Frame{Data: ipv6Packet(ioam.NextHeaderHopByHop, header), Link: LinkNone, Interface: ifIngress}
	for _, test := range []struct {
		name     string
		change   func(*model.NodeConfig)
		outcomes [2]model.Outcome // of the packet, the first and the second time
		options  [2][]model.Outcome
		verdict  Verdict // the second time
		record   bool
	}{
		{"stays", nil, [2]model.Outcome{model.OutcomeTraceFilled, model.OutcomePotReplayed},
			[2][]model.Outcome{{model.OutcomeTraceFilled, model.OutcomePotAccepted}, {model.OutcomeTraceFilled, model.OutcomePotReplayed}}, Pass, false},
		{"removed", func(c *model.NodeConfig) { c.Namespaces[0].Remove = true }, [2]model.Outcome{model.OutcomeInlineRemoved, model.OutcomeInlineRemoved},
			[2][]model.Outcome{{model.OutcomeTraceFilled, model.OutcomePotAccepted}, {model.OutcomeTraceFilled, model.OutcomePotReplayed}}, Pass, true},
		{"dropped", func(c *model.NodeConfig) { c.Namespaces[0].Remove, c.Namespaces[0].Proof.DropRejected = true, true },
			[2]model.Outcome{model.OutcomeInlineRemoved, model.OutcomePotDropped},
			[2][]model.Outcome{{model.OutcomeTraceFilled, model.OutcomePotAccepted}, {model.OutcomeTraceFilled, model.OutcomePotReplayed}}, Drop, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := proving(t, keys[2], test.change)
			for i, want := range test.outcomes {
				r := n.Ingress(frame)
				options := test.options[i]
				if r.Outcome != want || len(r.Options) != 2 || r.Options[0] != options[0] || r.Options[1] != options[1] {
					t.Errorf("time %d: %v, %v; want %v, %v", i, r.Outcome, r.Options, want, options)
				}
				if i == 1 && (r.Verdict != test.verdict || (r.Record != nil) != test.record) {
					t.Errorf("the second time: %v, record %v", r.Verdict, r.Record)
				}
			}
		})
	}
}

// An error about a packet with a proof is about a packet of this node, whatever the nodes
// on the way have added; it is not if another option is in its place.
func TestQuotedProof(t *testing.T) {
	config := testConfig()
	config.Namespaces[0].Proof = &model.Proof{Key: proofKeys[0][0]}
	config.Encapsulations = []model.Encapsulation{
		{Name: "a", Interface: ifEgress, Mode: model.ModeEncap, TunnelSource: tunnelSource, TunnelDestination: tunnelDestination,
			Options: []model.InsertedOption{{Proof: &model.ProofOption{Namespace: 123}}}},
	}
	n, err := NewNode(config)
	if err != nil {
		t.Fatal(err)
	}
	sent := n.Egress(Frame{Data: ipv6Packet(ioam.NextHeaderUDP, make([]byte, 20)), Link: LinkNone, Interface: ifEgress, Ingress: ifIngress})
	if sent.Outcome != model.OutcomeEncapTunneled {
		t.Fatalf("%v", sent.Outcome)
	}
	const option = 40 + 4
	for name, test := range map[string]struct {
		at    int
		value byte
		ours  bool
	}{
		"as sent": {option, 0x31, true}, "added to": {option + 23, 0x77, true}, "another namespace": {option + 5, 7, false},
		"flags": {option + 7, 1, false}, "another POT-Type": {option + 6, 1, false}, "another option-type": {option + 3, 1, false},
	} {
		quote := bytes.Clone(sent.Data)
		quote[test.at] = test.value
		if _, err := n.Quoted(quote); (err == nil) != test.ours {
			t.Errorf("%s: %v", name, err)
		}
	}
}
