// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Proofs is the proofs of a generation.
type Proofs struct {
	Profiles []uint64 // of the namespaces, in their order; 0: no proof
	inserts  bool     // some encapsulation has a proof
}

func compileProving(cfg model.NodeConfig) (x Proofs) {
	x.Profiles = make([]uint64, len(cfg.Namespaces))
	for i, ns := range cfg.Namespaces {
		if ns.Proof != nil && ns.Proof.Key != nil {
			x.Profiles[i] = slotName(ns.Proof.Key.Profile)
		}
	}
	for _, e := range cfg.Encapsulations {
		for _, o := range e.Options {
			x.inserts = x.inserts || o.Proof != nil
		}
	}
	return x
}

// slotName names a profile in the map; 0 is a free slot, and profiles are below 2^61.
func slotName(profile uint64) uint64 { return profile | 1<<63 }

// Any reports whether some namespace has a proof.
func (x Proofs) Any() bool {
	for _, profile := range x.Profiles {
		if profile != 0 {
			return true
		}
	}
	return false
}

// constants sets the read-only data of programs.
func (x Proofs) constants(node *bpf.ABINodeConfig) {
	node.HasProofs, node.InsertsProofs = bpf.Boolean(x.Any()), bpf.Boolean(x.inserts)
}

// compileProof fills in what the programs need of a namespace's proof, but for its slot.
func compileProof(proof *model.Proof, out *bpf.ABIIoamNamespace) {
	if proof == nil || proof.Key == nil {
		return
	}
	out.ProofFactor, out.ProofSummand = proof.Key.Terms()
	out.ProofAhead = uint64(proof.MostAhead())
	out.Proof = uint8(bpf.ABIProofRolePROOF_UPDATES)
	if proof.Key.Verifies() {
		out.Proof, out.ProofSecret = uint8(bpf.ABIProofRolePROOF_VERIFIES), proof.Key.Secret()
		out.ProofDrops = bpf.Boolean(proof.DropRejected)
	}
}

// appendProof appends one option, and lists what differs per packet.
func appendProof(header []byte, o model.ProofOption, p *bpf.ABIPatch) []byte {
	header = append(header, uint8(ioam.OptionIOAM), 2+ioam.ProofLen, 0, uint8(ioam.IOAMProofOfTransit))
	p.Kind, p.Proof = uint8(bpf.ABIOptionKindKIND_POT), uint16(len(header))
	return ioam.ProofOfTransit{Namespace: o.Namespace}.Append(header)
}
