// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// firstNumber is the first PktID in tests, of a time before fixedTime: a group of the window
// does not begin with it. lastNumber is the furthest ahead that is accepted then, unless the
// configuration says otherwise.
const (
	firstNumber = 1<<56 + 1_000_003
	lastNumber  = uint64(fixedTime-int64(taiUTC)+1e9) / 16
)

// testKeys are the keys of a profile of four nodes, the same in every run.
func testKeys(t testing.TB, profile uint64) []*pot.Key {
	t.Helper()
	keys, err := pot.Generate(4, rand.NewChaCha8([32]byte{byte(profile)}))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// proofKeys are the keys of the namespaces in random configurations.
var proofKeys = func() map[ioam.NamespaceID][]*pot.Key {
	keys := make(map[ioam.NamespaceID][]*pot.Key)
	for i, id := range namespaceIDs[1:4] {
		var err error
		if keys[ioam.NamespaceID(id)], err = pot.Generate(3, rand.NewChaCha8([32]byte{byte(i), 99})); err != nil {
			panic(err)
		}
	}
	return keys
}()

// proving is a random part in the proofs of a namespace, or none.
func (g generator) proving(id ioam.NamespaceID) *model.Proof {
	keys := proofKeys[id]
	if g.IntN(3) == 0 {
		return nil
	}
	key := keys[g.IntN(len(keys))]
	if g.IntN(3) == 0 {
		key = keys[len(keys)-1]
	}
	return &model.Proof{Key: key, DropRejected: key.Verifies() && g.IntN(3) == 0, ClockDifference: time.Duration(difference(id))}
}

// difference is by how much clocks may differ in a namespace, in ns.
func difference(id ioam.NamespaceID) uint64 { return [...]uint64{1e9, 10e6, 60e9}[id%3] }

// proof is a Proof of Transit option, mostly as it arrives at some node of the path.
func (g generator) proof() []byte {
	p := ioam.ProofOfTransit{Namespace: ioam.NamespaceID(namespaceIDs[g.IntN(len(namespaceIDs))]), Flags: byte(g.IntN(2))}
	p.PktID = firstNumber + g.Uint64N(8)
	switch g.IntN(12) {
	case 0, 2:
		p.PktID -= 65536 // the same place of the window
	case 3:
		p.PktID -= 65400 + g.Uint64N(512)
	case 4:
		p.PktID = lastNumber - 20 + g.Uint64N(40) + (difference(p.Namespace)-1e9)/16
	case 1:
		p.PktID = []uint64{0, pot.Prime - 1, pot.Prime, 1<<64 - 1, g.Uint64()}[g.IntN(5)]
	}
	if keys := proofKeys[p.Namespace]; keys != nil && pot.Valid(p.PktID) {
		for _, k := range keys[:[]int{2, 2, 2, 1, 3}[g.IntN(5)]] {
			p.Cumulative = k.Update(p.PktID, p.Cumulative)
		}
	}
	switch g.IntN(20) {
	case 0:
		p.Cumulative = []uint64{0, pot.Prime - 1, pot.Prime, 1<<64 - 1, g.Uint64()}[g.IntN(5)]
	case 1:
		p.Cumulative ^= 1 << g.IntN(64)
	}
	option := append([]byte{0x31, 22, 0, 2}, p.Append(nil)...)
	switch g.IntN(30) {
	case 0:
		option[0] = 0x11
	case 1:
		option[6] = byte(g.IntN(3)) // POT-Type
	case 2:
		option = option[:4+4*g.IntN(6)]
		option[1] = byte(len(option) - 2)
	case 3:
		option = append(option, g.bytes(4)...)
		option[1] += 4
	}
	return option
}

// forgetProofs makes numbers begin again, and forgets those that were accepted, as a new
// reference node.
func (p *programs) forgetProofs(t testing.TB, cfg model.NodeConfig, node *reference.Node) {
	t.Helper()
	m, ok := p.maps[bpf.MapProofs]
	if !ok || m.MaxEntries() == 1 {
		return
	}
	slots, err := readSlots(m)
	if err != nil {
		t.Fatal(err)
	}
	for slot, profile := range slots {
		if err := m.Put(uint32(slot), bpf.ABIProof{Profile: profile, Next: firstNumber}); err != nil {
			t.Fatal(err)
		}
		if err := p.maps[bpf.MapProofBlocks].Put(uint32(slot), make([]bpf.ABIProofBlock, ebpf.MustPossibleCPU())); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range cfg.Namespaces {
		node.NumberProofs(ns.ID, firstNumber)
	}
}

// hasProved reports whether a proof was treated.
func hasProved(options []model.Outcome) bool {
	return slices.ContainsFunc(options, func(o model.Outcome) bool {
		return o == model.OutcomePotUpdated || o == model.OutcomePotAccepted || o >= model.OutcomePotTooOld && o <= model.OutcomePotRejected
	})
}

// provedFrame is a frame with a proof that arrives at a node of a path, after some of
// the nodes before.
func provedFrame(p ioam.ProofOfTransit) []byte {
	option := append([]byte{0x31, 22, 0, 2}, p.Append(nil)...)
	return frameOf(craft.HopByHop, craft.Options(craft.UDP, 2, option), craft.Datagram(4242, 9, []byte("waymark.")...))
}

// proofIn is the proof in a frame of provedFrame.
func proofIn(t testing.TB, frame []byte) ioam.ProofOfTransit {
	t.Helper()
	p, err := ioam.DecodeProofOfTransit(frame[atTrace:])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// keyed gives the node a key of namespace 123, by its place on the path.
func keyed(node int) func(*model.NodeConfig) {
	keys, err := pot.Generate(4, rand.NewChaCha8([32]byte{77}))
	return func(c *model.NodeConfig) {
		if err != nil {
			panic(err)
		}
		c.Namespaces[0].Proof = &model.Proof{Key: keys[node]}
	}
}

// proof makes a frame with a proof of namespace 123.
func proof(number, cumulative uint64) func([]byte) []byte {
	return func([]byte) []byte {
		return provedFrame(ioam.ProofOfTransit{Namespace: 123, PktID: number, Cumulative: cumulative})
	}
}

// proofAfter sets the Cumulative to what a node makes of it.
func proofAfter(node int, number, cumulative uint64) func([]byte) []byte {
	var c model.NodeConfig
	c.Namespaces = make([]model.Namespace, 1)
	keyed(node)(&c)
	return set(atTrace+12, binary.BigEndian.AppendUint64(nil, c.Namespaces[0].Proof.Key.Update(number, cumulative))...)
}
