// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// TestRandomMerges inserts random options into random headers, and removes some of them, then
// all. After each step, the headers are in order, and have what Linux accepts; the options
// that were there before are there, in order and aligned. In the end they are alone.
func TestRandomMerges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		own := [2][]byte{craft.RandomOptions(r, craft.NoNext), craft.RandomOptions(r, craft.NoNext)}
		packet := packetWith(own)
		config := encapConfig(model.ModeInline)
		rule := &config.Encapsulations[0]
		rule.Options = randomInsertion(r)
		inserted := mustNode(t, config).Egress(egressFrame(packet))
		if inserted.Outcome != model.OutcomeEncapInserted {
			t.Fatalf("%v: %x, %+v", inserted.Outcome, packet, rule.Options)
		}
		checkHeaders(t, inserted.Data, own, rule.Options, func(model.InsertedOption) bool { return true })

		onward := Frame{Data: inserted.Data, Link: LinkNone, Interface: ifIngress, Time: testTime}
		some := mustNode(t, testConfig()).Ingress(onward)
		checkHeaders(t, some.Data, own, rule.Options, func(o model.InsertedOption) bool { return namespaceInserted(o) != 300 })

		ends := testConfig()
		ends.Namespaces[0].Remove, ends.Namespaces[1].Remove = true, true
		onward.Data = some.Data
		all := mustNode(t, ends).Ingress(onward)
		checkHeaders(t, all.Data, own, rule.Options, func(model.InsertedOption) bool { return false })
	}
}

// packetWith is a packet with a Hop-by-Hop header, a Destination Options header, both or none.
func packetWith(headers [2][]byte) []byte {
	extension, first := headerPair(headers).before(ioam.NextHeaderNone)
	return ipv6Packet(first, append(extension, "payload"...))
}

func headerPair(own [2][]byte) headers {
	return headers{bytes.Clone(own[0]), bytes.Clone(own[1])}
}

// randomInsertion is one to three options of three namespaces.
func randomInsertion(r *rand.Rand) (list []model.InsertedOption) {
	for _, namespace := range []ioam.NamespaceID{123, 200, 300} {
		switch r.IntN(5) {
		case 0, 1:
			kind := []ioam.EdgeToEdgeType{0x4000, 0x7000, 0x8000, 0xb000}[r.IntN(4)]
			list = append(list, model.InsertedOption{EdgeToEdge: &model.EdgeToEdgeOption{Namespace: namespace, Type: kind}})
		case 2, 3:
			list = append(list, model.Traces(model.TraceOption{Namespace: namespace, Type: 0x800000, Size: 4 + 4*r.IntN(10)})...)
		}
	}
	if len(list) == 0 {
		return randomInsertion(r)
	}
	return list
}

func namespaceInserted(o model.InsertedOption) ioam.NamespaceID {
	if o.EdgeToEdge != nil {
		return o.EdgeToEdge.Namespace
	}
	return o.Trace.Namespace
}

// checkHeaders checks the headers of a packet: which options that were inserted are there, and
// behind them the packet's own.
func checkHeaders(t *testing.T, packet []byte, own [2][]byte, inserted []model.InsertedOption, stays func(model.InsertedOption) bool) {
	t.Helper()
	if length := len(packet) - ipv6.HeaderLen; int(packet[4])<<8|int(packet[5]) != length {
		t.Fatalf("payload length of %x, want %d", packet, length)
	}
	next, rest := ioam.NextHeader(packet[6]), packet[ipv6.HeaderLen:]
	for i, kind := range []ioam.NextHeader{ioam.NextHeaderHopByHop, ioam.NextHeaderDestination} {
		ours := slices.DeleteFunc(
			slices.Clone(inserted),
			func(o model.InsertedOption) bool { return (o.EdgeToEdge != nil) != (i == 1) || !stays(o) },
		)
		if own[i] == nil && len(ours) == 0 {
			continue
		}
		header, err := ioam.DecodeExtensionHeader(rest)
		if err != nil || next != kind {
			t.Fatalf("%x: no header of type %d: %v", packet, kind, err)
		}
		checkOptions(t, header.Bytes, own[i], ours)
		next, rest = header.NextHeader, rest[len(header.Bytes):]
	}
	if next != ioam.NextHeaderNone || string(rest) != "payload" {
		t.Fatalf("%x ends with %d %q", packet, next, rest)
	}
}

// checkOptions checks one of the headers.
func checkOptions(t *testing.T, header, own []byte, ours []model.InsertedOption) {
	t.Helper()
	got, want := others(header), others(own)
	if len(got) != len(ours)+len(want) || len(got) > maxStackOptions {
		t.Fatalf("%x has %d options, want %d and %d", header, len(got), len(ours), len(want))
	}
	for i, o := range ours {
		if got[i].Offset%4 != 0 || !got[i].IsIOAM() || 2+len(got[i].Data) != o.Len() {
			t.Fatalf("%x has %+v, want %+v", header, got[i], o)
		}
	}
	for i, o := range want {
		if is := got[len(ours)+i]; is.Type != o.Type || !bytes.Equal(is.Data, o.Data) || is.Offset%8 != o.Offset%8 {
			t.Fatalf("%x has %+v, want %+v", header, is, o)
		}
	}
	checkPadding(t, header, append(got, ioam.Option{Offset: len(header)}))
}
