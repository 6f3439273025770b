// SPDX-License-Identifier: Apache-2.0

// Package pot is the arithmetic of Proof of Transit (RFC 9197 §4.5): Shamir's secret
// sharing over the field of [Prime] (A. Shamir, "How to share a secret", 1979), in the
// way of draft-ietf-sfc-proof-of-transit.
//
// The nodes of a path share a secret: the constant term of a secret polynomial, of which
// each node knows the value at a point of its own. A second polynomial is public, but
// for its constant term, which is the number of the packet (PktID). Each node adds the
// sum of both at its point, times its Lagrange basis polynomial at 0, to the packet's
// Cumulative. When all of them have done so, each once, the Cumulative is the sum of the
// secret and the packet's number, which the last node verifies.
package pot

import (
	"fmt"
	"io"
	"slices"
)

// Numbers of nodes that a profile may have: the first encapsulates, the last verifies.
const (
	MinNodes = 2
	MaxNodes = 64
)

// Key is what one node of a profile knows.
type Key struct {
	Profile     uint64 // identifies the keys that belong together; not secret
	Node, Nodes int    // 1 is the encapsulating node, Nodes the verifying one

	share    uint64 // the value of the secret polynomial at this node's point
	public   uint64 // that of the public polynomial without its constant term
	lagrange uint64 // the basis polynomial of this node's point, at 0
	secret   uint64 // of the verifying node only: the constant term
}

// Encapsulates reports whether the node starts proofs.
func (k *Key) Encapsulates() bool { return k.Node == 1 }

// Verifies reports whether the node verifies proofs.
func (k *Key) Verifies() bool { return k.Node == k.Nodes }

// Role is "encapsulating", "transit" or "verifying".
func (k *Key) Role() string {
	switch {
	case k.Encapsulates():
		return "encapsulating"
	case k.Verifies():
		return "verifying"
	}
	return "transit"
}

// Format writes which key it is, whatever the verb: nothing secret.
func (k Key) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "key of node %d of %d of profile 0x%016x", k.Node, k.Nodes, k.Profile)
}

// Terms are the constants of the node's update: it adds factor·PktID + summand.
func (k *Key) Terms() (factor, summand uint64) {
	return k.lagrange, mul(add(k.share, k.public), k.lagrange)
}

// Secret is what the verifying node compares with; 0 at others.
func (k *Key) Secret() uint64 { return k.secret }

// Valid reports whether a number of a packet is an element of the field. The nodes of a
// profile neither send nor accept others.
func Valid(number uint64) bool { return number < Prime }

// Update is the node's contribution to a packet's Cumulative. Both numbers are
// [Valid].
func (k *Key) Update(pktID, cumulative uint64) uint64 {
	factor, summand := k.Terms()
	return add(cumulative, add(mul(factor, pktID), summand))
}

// Proves reports whether a Cumulative, after the verifying node's own update, proves
// that the packet passed every node once.
func (k *Key) Proves(pktID, cumulative uint64) bool {
	return cumulative == add(k.secret, pktID)
}

// Generate makes the keys of a profile, in the order of the path. random is nil but in
// tests.
func Generate(nodes int, random io.Reader) ([]*Key, error) {
	if nodes < MinNodes || nodes > MaxNodes {
		return nil, fmt.Errorf("a profile of %d nodes is not possible: give %d to %d", nodes, MinNodes, MaxNodes)
	}
	if random == nil {
		random = defaultRandom
	}
	profile, err := element(random)
	if err != nil {
		return nil, err
	}
	// With a degree of nodes − 1, no smaller number of nodes can interpolate.
	secret, err := randomPolynomial(random, nodes-1)
	if err != nil {
		return nil, err
	}
	public, err := randomPolynomial(random, nodes-1)
	if err != nil {
		return nil, err
	}
	public[0] = 0 // the packet's number takes its place
	points, err := distinctPoints(random, nodes)
	if err != nil {
		return nil, err
	}
	basis := lagrange(points)
	keys := make([]*Key, nodes)
	for i, x := range points {
		keys[i] = &Key{
			Profile: profile, Node: i + 1, Nodes: nodes,
			share: secret.at(x), public: public.at(x), lagrange: basis[i],
		}
	}
	keys[nodes-1].secret = secret[0]
	return keys, nil
}

// distinctPoints draws points, none of them 0, where the secret is.
func distinctPoints(random io.Reader, n int) ([]uint64, error) {
	points := make([]uint64, 0, n)
	for len(points) < n {
		x, err := element(random)
		if err != nil {
			return nil, err
		}
		if x != 0 && !slices.Contains(points, x) {
			points = append(points, x)
		}
	}
	return points, nil
}
