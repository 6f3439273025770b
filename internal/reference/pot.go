// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/ioam"
)

// A verifying node has places for groups of numbers: number/proofStep modulo proofPlaces. A
// number stands for proofUnit nanoseconds of UTC.
const proofPlaces, proofStep, proofUnit = 4096, 16, 16

// accepted is what a verifying node remembers of a profile: the last group of each place, and
// all numbers.
type accepted struct {
	groups  [proofPlaces]uint64
	numbers map[uint64]bool
}

// NumberProofs sets the number of the next packet that gets a proof of a namespace. A
// new node begins at 0.
func (n *Node) NumberProofs(namespace ioam.NamespaceID, next uint64) {
	n.proofNumbers[namespace] = next
}

// potModule is Proof of Transit, POT-Type 0 (RFC 9197 §4.5.1).
type potModule struct{}

// isProofOfTransit expects an option of at least 2 bytes. An option of another POT-Type
// is of no module: "the node MUST NOT change, add to, or remove the contents" (RFC 9197
// §4.5).
func isProofOfTransit(option ioam.Option) bool {
	if option.Type != ioam.OptionIOAM || ioam.IOAMType(option.Data[1]) != ioam.IOAMProofOfTransit {
		return false
	}
	return len(option.Data) < 2+ioam.ProofHeaderLen || ioam.POTType(option.Data[4]) == ioam.POTType0
}

func (potModule) check(option ioam.Option) (fault model.Outcome, sound bool) {
	_, err := ioam.DecodeProofOfTransit(option.Data[2:])
	return model.OutcomeMalformedOptionLength, err == nil
}

// proofOf returns a checked option's proof and what this node does with it, or the
// outcome if it does nothing.
func (n *Node) proofOf(option ioam.Option) (ioam.ProofOfTransit, *model.Proof, model.Outcome, bool) {
	p, _ := ioam.DecodeProofOfTransit(option.Data[2:])
	namespace, ok := n.namespaces[p.Namespace]
	switch {
	case !ok:
		return p, nil, model.OutcomeNamespaceUnknown, false
	case namespace.Proof == nil || namespace.Proof.Key == nil:
		return p, nil, model.OutcomeOptionUnsupported, false
	}
	return p, namespace.Proof, 0, true
}

// ingress adds this node's share, and verifies at the last node.
func (potModule) ingress(n *Node, option ioam.Option, v *visit) model.Outcome {
	p, proof, outcome, ok := n.proofOf(option)
	if !ok {
		return outcome
	}
	v.proved = true
	outcome = n.prove(&p, proof, v.time-n.TAIOffset)
	binary.BigEndian.PutUint64(option.Data[2+12:], p.Cumulative)
	switch outcome {
	case model.OutcomePotTooOld, model.OutcomePotAhead, model.OutcomePotReplayed, model.OutcomePotInvalid, model.OutcomePotRejected:
		v.refused = v.refused || proof.DropRejected
	}
	return outcome
}

// prove updates a proof, and verifies it with the key of the last node; now is of UTC.
func (n *Node) prove(p *ioam.ProofOfTransit, proof *model.Proof, now int64) model.Outcome {
	key := proof.Key
	if !pot.Valid(p.PktID) || !pot.Valid(p.Cumulative) {
		return model.OutcomePotInvalid
	}
	p.Cumulative = key.Update(p.PktID, p.Cumulative)
	switch {
	case !key.Verifies():
		return model.OutcomePotUpdated
	case !key.Proves(p.PktID, p.Cumulative):
		return model.OutcomePotRejected
	}
	known, ok := n.accepted[key.Profile]
	if !ok {
		known = &accepted{numbers: make(map[uint64]bool)}
		n.accepted[key.Profile] = known
	}
	return known.acceptNumber(p.PktID, now+proof.MostAhead().Nanoseconds())
}

// acceptNumber records a number, whose proof is right, unless it is too old, replayed or of a later
// time than most.
func (a *accepted) acceptNumber(number uint64, most int64) model.Outcome {
	group := number / proofStep
	last := &a.groups[group%proofPlaces]
	switch {
	case group < *last:
		return model.OutcomePotTooOld
	case group > *last && number > uint64(most)/proofUnit:
		return model.OutcomePotAhead
	case a.numbers[number]:
		return model.OutcomePotReplayed
	}
	*last, a.numbers[number] = group, true
	return model.OutcomePotAccepted
}

// egress has nothing to do.
func (potModule) egress(n *Node, option ioam.Option, _ *visit) model.Outcome {
	if _, _, outcome, ok := n.proofOf(option); !ok {
		return outcome
	}
	return model.OutcomeUntouched
}

// remove has nothing to report: ingress has verified.
func (potModule) remove(*Node, ioam.Option, *visit) {}

// insert starts a proof with the next number.
func (potModule) insert(n *Node, o model.InsertedOption, _ *visit) (ioam.Option, model.Outcome) {
	p := ioam.ProofOfTransit{Namespace: o.Proof.Namespace}
	if namespace, ok := n.namespaces[p.Namespace]; ok && namespace.Proof.Key != nil {
		p.PktID = n.proofNumbers[p.Namespace] % pot.Prime
		p.Cumulative = namespace.Proof.Key.Update(p.PktID, 0)
		n.proofNumbers[p.Namespace]++
	}
	return p.Option(), 0
}

// insertsProof reports whether the rule inserts a proof.
func insertsProof(e *model.Encapsulation) bool {
	for _, o := range e.Options {
		if o.Proof != nil {
			return true
		}
	}
	return false
}
