// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// TestInsertedIsRemovable inserts options inline into packets with headers of all kinds, sound
// and broken. Of each packet that got options, the node at the end of the domain removes all
// of them.
func TestInsertedIsRemovable(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	seen := make(map[model.Outcome]int)
	ends := testConfig()
	ends.Namespaces = []model.Namespace{{ID: 123, Remove: true, EdgeToEdge: true}, {ID: 200, Remove: true}, {ID: 300, Remove: true}}
	for range 40_000 {
		packet := unsoundPacket(r)
		config := encapConfig(model.ModeInline)
		config.Interfaces[1].MTU = 65535
		config.Encapsulations[0].Options = randomInsertion(r)
		frame := egressFrame(packet)
		frame.Ingress = 0 // also of a packet with IOAM
		inserted := mustNode(t, config).Egress(frame)
		seen[inserted.Outcome]++
		if inserted.Outcome < model.OutcomeEncapInserted || inserted.Outcome > model.OutcomeEncapOverflow {
			continue
		}
		left := mustNode(t, ends).Ingress(Frame{Data: inserted.Data, Link: LinkNone, Interface: ifIngress, Time: testTime})
		if left.Outcome != model.OutcomeInlineRemoved && left.Outcome != model.OutcomeOptionsRemoved {
			t.Fatalf("%x got %+v:\n%x\nthen %v", packet, config.Encapsulations[0].Options, inserted.Data, left.Outcome)
		}
		for _, id := range []ioam.NamespaceID{123, 200, 300} {
			if slices.Contains(namespacesIn(left.Data), id) {
				t.Fatalf("%x got\n%x\nand namespace %d stays in\n%x", packet, inserted.Data, id, left.Data)
			}
		}
	}
	for _, o := range []model.Outcome{model.OutcomeEncapInserted, model.OutcomeEncapSkippedUnremovable, model.OutcomeEncapSkippedOptions, model.OutcomeEncapSkippedHBH} {
		if seen[o] < 20 {
			t.Errorf("%d packets ended as %v: the test is too narrow: %v", seen[o], o, seen)
		}
	}
}

// namespacesIn are the namespaces of sound options in a packet's headers.
func namespacesIn(ip []byte) (ids []ioam.NamespaceID) {
	next, rest := ioam.NextHeader(ip[6]), ip[ipv6.HeaderLen:]
	for next == ioam.NextHeaderHopByHop || next == ioam.NextHeaderDestination {
		header, err := ioam.DecodeExtensionHeader(rest)
		if err != nil {
			return ids
		}
		for option, err := range header.Options() {
			if err == nil && option.IsIOAM() && len(option.Data) >= 4 {
				ids = append(ids, ioam.NamespaceID(option.Data[2])<<8|ioam.NamespaceID(option.Data[3]))
			}
		}
		next, rest = header.NextHeader, rest[len(header.Bytes):]
	}
	return ids
}

// unsoundPacket has a Hop-by-Hop header, a Destination Options header, both, or others.
func unsoundPacket(r *rand.Rand) []byte {
	next := []byte{craft.NoNext, craft.UDP, 0, 60, 43}[r.IntN(5)]
	body := append([]byte{craft.NoNext, 0, 4, 0, 0, 0, 0, 0}, make([]byte, 16)...) // of any of these types
	if r.IntN(2) == 0 {
		body, next = append(unsoundOptions(r, next, true), body...), 60
	}
	if r.IntN(2) == 0 {
		body, next = append(unsoundOptions(r, next, false), body...), 0
	}
	return ipv6Packet(ioam.NextHeader(next), body)
}

// unsoundOptions is a header with options of others, mostly sound, and padding.
func unsoundOptions(r *rand.Rand, next byte, edges bool) []byte {
	var options []byte
	for range r.IntN(5) {
		for r.IntN(6) > 0 && len(options)%4 != 2 { // most IOAM is aligned
			options = append(options, 0)
		}
		switch size := r.IntN(12); {
		case r.IntN(3) > 0:
			options = append(append(options, 0x1e, byte(size)), make([]byte, size)...)
		case r.IntN(3) == 0:
			options = append(options, make([]byte, 20*r.IntN(2))...)
		case edges:
			options = append(options, 0x11, []byte{10, 10, 6, 7}[r.IntN(4)], 0, 3, 3, 0xe7, 0x40, 0, 0, 0, 0, 7)
		default:
			options = append(options, 0x31, []byte{14, 14, 10, 2}[r.IntN(4)], 0, 0, 3, 0xe7, 8, 1, 0x80, 0, 0, 0, 0, 0, 0, 0)
		}
	}
	for r.IntN(8) == 0 && len(options) < 700 {
		options = append(append(options, 0x1e, 200), make([]byte, 200)...)
	}
	return craft.Options(next, 0, options)
}
