// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/ioam"
)

// MaxProofs is how many namespaces of a node may have a proof of transit: each has a
// window of numbers in the data plane.
const MaxProofs = 16

// Proof is what a node does with the Proof of Transit options of a namespace (RFC 9197
// §4.5): it updates them on arrival; the verifying node also verifies them.
type Proof struct {
	Key          *pot.Key // nil where it is not known which one it is; this is valid, but nothing is updated
	DropRejected bool     // the verifying node drops packets whose option does not prove their path

	// ClockDifference is by how much the clocks of the first and the last node may differ: numbers
	// that are further ahead are not accepted, and not given. 0: [DefaultClockDifference].
	ClockDifference time.Duration
}

// Bounds of [Proof.ClockDifference]. An attacker who makes right proofs ahead can keep others from
// being accepted for that long. A number may be a millisecond ahead for its place in the window.
const (
	DefaultClockDifference = time.Second
	LeastClockDifference   = 10 * time.Millisecond
	MostClockDifference    = 10 * time.Minute
)

// MostAhead is how far a number may be ahead of a node's clock.
func (p *Proof) MostAhead() time.Duration {
	if p.ClockDifference == 0 {
		return DefaultClockDifference
	}
	return p.ClockDifference
}

// ProofOption is a Proof of Transit to insert, of POT-Type 0.
type ProofOption struct {
	Namespace ioam.NamespaceID
}

func (c NodeConfig) validateProofs(root faults) {
	profiles := map[uint64]int{}
	count := 0
	for i, namespace := range c.Namespaces {
		if namespace.Proof == nil {
			continue
		}
		if count++; count == MaxProofs+1 {
			root.in("namespaces[%d]", i).add("pot", "remove it from some", "more than %d namespaces have a proof of transit", MaxProofs)
		}
		f := root.in("namespaces[%d].pot", i)
		if d := namespace.Proof.ClockDifference; d != 0 && (d < LeastClockDifference || d > MostClockDifference) {
			f.add("clock-difference", fmt.Sprintf("use %v to %v", LeastClockDifference, MostClockDifference), "clocks may differ by %v", d)
		}
		key := namespace.Proof.Key
		if key == nil {
			continue
		}
		// A packet's number may be used once with a profile.
		if j, dup := seen(profiles, key.Profile, i); dup {
			f.add("key-file", "make other keys with: waymark pot generate --nodes N", "it is of the same profile as that of namespaces[%d]", j)
		}
		if namespace.Proof.DropRejected && !key.Verifies() {
			f.add("drop-rejected", "remove it, or use the last node's key",
				"the key is of node %d of %d (%s), which does not verify", key.Node, key.Nodes, key.Role())
		}
	}
}

func (c NodeConfig) validateProofOption(f faults, o ProofOption) {
	const cure = "give namespaces an entry with this id and pot: {key-file: …}, of node 1"
	for _, namespace := range c.Namespaces {
		if namespace.ID != o.Namespace {
			continue
		}
		switch proof := namespace.Proof; {
		case proof == nil:
			f.add("namespace", cure, "namespace %d has no pot", o.Namespace)
		case proof.Key != nil && !proof.Key.Encapsulates():
			f.add("namespace", fmt.Sprintf("use the key of node 1 of %d here, or remove the option", proof.Key.Nodes),
				"the key of namespace %d is of node %d of %d (%s)", o.Namespace, proof.Key.Node, proof.Key.Nodes, proof.Key.Role())
		}
		return
	}
	f.add("namespace", cure, "namespace %d is not configured", o.Namespace)
}
