// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// TestInsertedIsRemovable inserts options inline into packets with headers of all kinds, sound
// and broken. Of each packet that got options, the node at the end of the domain removes all
// of them, also after incremental traces have grown on the way.
func TestInsertedIsRemovable(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	seen := make(map[model.Outcome]int)
	ends := testConfig()
	ends.Namespaces = []model.Namespace{{ID: 123, Remove: true, EdgeToEdge: true}, {ID: 200, Remove: true}, {ID: 300, Remove: true}}
	hops := transitNodes(t)
	for range 40_000 {
		packet := unsoundPacket(r)
		config := encapConfig(model.ModeInline)
		config.Interfaces[1].MTU = 65535
		letGrow(&config)
		config.Encapsulations[0].Options = someIncremental(r, randomInsertion(r))
		frame := egressFrame(packet)
		frame.Ingress = 0 // also of a packet with IOAM
		inserted := mustNode(t, config).Egress(frame)
		seen[inserted.Outcome]++
		if inserted.Outcome < model.OutcomeEncapInserted || inserted.Outcome > model.OutcomeEncapOverflow {
			continue
		}
		arrives := inserted.Data
		if slices.ContainsFunc(config.Encapsulations[0].Options, grows) {
			arrives = pass(hops[:r.IntN(len(hops)+1)], arrives, seen)
		}
		left := mustNode(t, ends).Ingress(Frame{Data: arrives, Link: LinkNone, Interface: ifIngress, Time: testTime})
		if left.Outcome != model.OutcomeInlineRemoved && left.Outcome != model.OutcomeOptionsRemoved {
			t.Fatalf("%x got %+v:\n%x\nthen %v of\n%x", packet, config.Encapsulations[0].Options, inserted.Data, left.Outcome, arrives)
		}
		for _, id := range []ioam.NamespaceID{123, 200, 300} {
			if slices.Contains(namespacesIn(left.Data), id) {
				t.Fatalf("%x got\n%x\nand namespace %d stays in\n%x", packet, inserted.Data, id, left.Data)
			}
		}
	}
	for _, o := range []model.Outcome{model.OutcomeEncapInserted, model.OutcomeEncapSkippedUnremovable, model.OutcomeEncapSkippedOptions,
		model.OutcomeEncapSkippedHBH, model.OutcomeTraceGrown, model.OutcomeTraceOverflow} {
		if seen[o] < 20 {
			t.Errorf("%d packets ended as %v: the test is too narrow: %v", seen[o], o, seen)
		}
	}
}

// letGrow lets the traces of all namespaces grow at a node.
func letGrow(c *model.NodeConfig) {
	for i := range c.Namespaces {
		c.Namespaces[i].Incremental = true
	}
}

// someIncremental makes some traces incremental, with room for the data of several nodes.
func someIncremental(r *rand.Rand, list []model.InsertedOption) []model.InsertedOption {
	for _, o := range list {
		if o.Trace != nil && r.IntN(2) == 0 {
			o.Trace.Incremental, o.Trace.Type, o.Trace.Size = true, []ioam.TraceType{0x800000, 0xc00000, 0xf00000}[r.IntN(3)], 16+4*r.IntN(54)
		}
	}
	return list
}

// transitNodes are nodes in a row, at which traces grow.
func transitNodes(t *testing.T) (nodes []*Node) {
	for i := range 12 {
		config := transitConfig()
		config.ID = ioam.NodeID(50 + i)
		config.Interfaces[0].MTU, config.Interfaces[1].MTU = 65535, 65535
		config.Namespaces[2].Remove = false
		letGrow(&config)
		nodes = append(nodes, mustNode(t, config))
	}
	return nodes
}

// pass takes a packet through nodes.
func pass(nodes []*Node, packet []byte, seen map[model.Outcome]int) []byte {
	for _, n := range nodes {
		in := n.Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
		frame := egressFrame(in.Data)
		frame.Data[7]--
		out := n.Egress(frame)
		seen[out.Outcome]++
		packet = out.Data
	}
	return packet
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

// TestInsertionByHeaders: segments that are left, and headers that could not be removed again.
func TestInsertionByHeaders(t *testing.T) {
	unread := func(headers string) func() []byte {
		return func() []byte { return ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, headers)) }
	}
	edges := func(header string) func() []byte {
		return func() []byte { return ipv6Packet(ioam.NextHeaderDestination, craft.Hex(t, header)) }
	}
	segments := func(left byte) func() []byte {
		return func() []byte {
			return ipv6Packet(ioam.NextHeaderRouting, slices.Concat([]byte{17, 2, 4, left, 0, 0, 0, 0}, make([]byte, 16), udp(10)))
		}
	}
	for _, test := range []struct {
		name    string
		mode    model.Mode
		packet  func() []byte
		outcome model.Outcome
	}{
		{"segments left, encap", model.ModeEncap, segments(1), model.OutcomeEncapSkippedSegments},
		{"segments left, inline", model.ModeInline, segments(1), model.OutcomeEncapInserted},
		{"the last segment, encap", model.ModeEncap, segments(0), model.OutcomeEncapTunneled},
		{"a second Hop-by-Hop header, inline", model.ModeInline, unread("00000104 00000000 3b000104 00000000"), model.OutcomeEncapSkippedUnremovable},
		{"a second Hop-by-Hop header, encap", model.ModeEncap, unread("00000104 00000000 3b000104 00000000"), model.OutcomeEncapTunneled},
		{"a malformed trace, inline", model.ModeInline, unread("3b010100 310a0000 007b1000 80000000"), model.OutcomeEncapSkippedUnremovable},
		{"a malformed Edge-to-Edge option, inline", model.ModeInline, edges("3b010100 11060003 03e74000 01020000"), model.OutcomeEncapSkippedUnremovable},
		{"a malformed Edge-to-Edge option, encap", model.ModeEncap, edges("3b010100 11060003 03e74000 01020000"), model.OutcomeEncapTunneled},
		{"a sound Edge-to-Edge option, inline", model.ModeInline, edges("3b010100 110a0003 03e74000 00000007"), model.OutcomeEncapInserted},
		{"32 options with those inserted", model.ModeInline, unread("3b03 1e00" + strings.Repeat("00", 28)), model.OutcomeEncapInserted},
		{"33 options with those inserted", model.ModeInline, unread("3b04 1e07 00000000000000" + strings.Repeat("00", 29)), model.OutcomeEncapSkippedOptions},
	} {
		packet := test.packet()
		frame := egressFrame(packet)
		frame.Ingress = 0
		result := mustNode(t, encapConfig(test.mode)).Egress(frame)
		changed := test.outcome == model.OutcomeEncapInserted || test.outcome == model.OutcomeEncapTunneled
		if result.Outcome != test.outcome || bytes.Equal(result.Data, packet) == changed {
			t.Errorf("%s: %v, want %v; %x", test.name, result.Outcome, test.outcome, result.Data)
		}
	}
}
