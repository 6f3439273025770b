// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"maps"
	"testing"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// edgeType is a valid E2E-Type.
func (g generator) edgeType() ioam.EdgeToEdgeType {
	return []ioam.EdgeToEdgeType{0x4000, 0x7000, 0x8000, 0xb000, 0x3000}[g.IntN(5)]
}

// edgeToEdge is an Edge-to-Edge option, mostly valid, whose numbers are mostly near each
// other.
func (g generator) edgeToEdge() []byte {
	e := ioam.EdgeToEdge{
		Namespace: ioam.NamespaceID(namespaceIDs[g.IntN(len(namespaceIDs))]),
		Type:      []ioam.EdgeToEdgeType{0x7000, 0xb000}[g.IntN(2)],
	}
	if g.IntN(4) == 0 {
		e.Type = g.edgeType()
	}
	if g.IntN(8) == 0 {
		e.Type |= 0x0100 // undefined
	}
	e.Sequence = 1<<32 - 16 + g.Uint64N(40)
	switch g.IntN(10) {
	case 0:
		e.Sequence += g.Uint64N(2200) - 1100
	case 1, 2:
		e.Sequence = 1<<31 + g.Uint64N(3) // begins again, and again
	case 3:
		e.Sequence = []uint64{0, 1, 1<<64 - 1, 1 << 33, g.Uint64()}[g.IntN(5)]
	}
	e.Seconds, e.Fraction = ioam.TimestampFormat(g.IntN(3)).Fields(fixedTime-int64(g.IntN(1_000_000_000))+1_000_000, taiUTC.Nanoseconds())
	switch g.IntN(10) {
	case 0:
		e.Seconds = 1<<32 - 1
	case 1:
		e.Fraction = 1<<32 - 1
	case 2:
		e.Seconds = []uint32{0, 1 << 31, e.Seconds - 1099, e.Seconds - 1100, e.Seconds + 1100}[g.IntN(5)]
	}
	data := e.Append(nil)
	switch g.IntN(30) {
	case 0:
		data = data[:g.IntN(len(data)/4+1)*4]
	case 1:
		data[2] |= 0xc0
	case 2:
		data = append(data, 0, 0, 0, 0)
	}
	return append([]byte{[]byte{0x11, 0x31}[g.IntN(2)], byte(2 + len(data)), 0, 3}, data...)
}

// destinationOptions is a Destination Options header, mostly with Edge-to-Edge options.
func (g generator) destinationOptions(next byte) []byte {
	pad := 2
	if g.IntN(20) == 0 {
		pad = 0
	}
	var options []byte
	for range 1 + max(g.IntN(5)-3, 0) {
		switch g.IntN(16) {
		case 0:
			options = append(options, []byte{5, 0x1e, 0x5e, 0x9e, 0xde}[max(g.IntN(8)-3, 0)], 2, 0, 0)
		case 1:
			options = append(options, g.trace()...)
		case 2:
			options = append(
				options,
				[][]byte{{0x31, 2, 0, byte(g.IntN(5))}, g.proof(), g.incremental(), g.directExport(), g.foreignIOAM()}[g.IntN(5)]...)
		case 3, 4, 5:
			size := g.IntN(12)
			options = append(options, g.padding(g.IntN(5))...)
			options = append(options, []byte{0x12, 0x1e, 0x3e, 0x5e, 0xde}[g.IntN(5)], byte(size))
			options = append(options, g.bytes(size)...)
			options = append(options, g.padding(-(2+pad+len(options))&3)...) // 4n
		default:
			options = append(options, g.edgeToEdge()...)
		}
	}
	for range max(g.IntN(40)-38, 0) * 9 {
		options = append(options, 0x31, 2, 0, 9)
	}
	if g.IntN(30) == 0 {
		options = append(options, make([]byte, 25+g.IntN(15))...) // as many as the programs read, or more
	}
	if g.IntN(60) == 0 {
		options = append(options, make([]byte, 4)...)
		for range 60 {
			options = append(options, 1, 6, 0, 0, 0, 0, 0, 0) // longer than what is read
		}
	}
	return craft.Options(next, pad, options)
}

// edgesBehind is a packet with a Destination Options header after a Hop-by-Hop header, which
// mostly holds options of others.
func (g generator) edgesBehind() []byte {
	next := []byte{6, 17, 44, 0}[max(g.IntN(12)-8, 0)]
	body := append(g.destinationOptions(next), g.upper(next, 0)...)
	first := g.otherOptions
	switch g.IntN(8) {
	case 0, 1: // with the other header, up to what can be taken apart, or longer
		first = func(next byte) []byte { return craft.Options(next, 0, skipped(440+g.IntN(70))) }
	case 2, 3:
		first = g.hopByHop
	case 4: // a trace before it may grow, up to what can be taken apart with it
		grows := craft.Options(60, 2, g.incremental())
		first = func(byte) []byte { return grows }
		body = append(craft.Options(next, 0, skipped(480-len(grows)+2*g.IntN(20))), g.upper(next, 0)...)
	}
	header := craft.IPv6{Label: uint32(g.IntN(3)), HopLimit: 64, Source: addresses[g.IntN(4)], Destination: addresses[g.IntN(4)]}
	return header.With(first(60), body)
}

// forgetEdges makes the numbers of all flows begin again, and forgets those that came. CPUs
// see by the upper half of an entry's number that it has changed.
func (p *programs) forgetEdges(t testing.TB) {
	t.Helper()
	if m, ok := p.maps[bpf.MapE2ENumbers]; ok && m.MaxEntries() > 1 {
		p.forgotten++
		sets := make([]bpf.ABIE2eNumberSet, m.MaxEntries())
		for s := range sets {
			for w := range sets[s].Ways {
				sets[s].Ways[w].Next = p.forgotten << 48
			}
		}
		if _, err := m.BatchUpdate(numbersUpTo(m.MaxEntries()), sets, nil); err != nil {
			t.Fatal(err)
		}
	}
	if m, ok := p.maps[bpf.MapE2EFlows]; ok && m.MaxEntries() > 1 {
		if _, err := m.BatchUpdate(numbersUpTo(m.MaxEntries()), make([]bpf.ABIE2eFlowSet, m.MaxEntries()), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func numbersUpTo(n uint32) []uint32 {
	keys := make([]uint32, n)
	for i := range keys {
		keys[i] = uint32(i)
	}
	return keys
}

// compareEdges compares what the programs have counted of flows with what the reference
// node has.
func (p *programs) compareEdges(t testing.TB, want map[edgetoedge.Key]*edgetoedge.Flow) {
	t.Helper()
	expected := make(map[edgetoedge.Key]edgetoedge.Totals)
	for key, flow := range want {
		expected[key] = flow.Totals
	}
	got := make(map[edgetoedge.Key]edgetoedge.Totals)
	if m, ok := p.maps[bpf.MapE2EFlows]; ok && m.MaxEntries() > 1 {
		left, err := flows.ReadEdges(m, 0, func(f flows.EdgeFlow) { got[f.Key] = f.Totals })
		if err != nil || left != (edgetoedge.Totals{}) {
			t.Fatalf("%+v is left of other flows, %v", left, err)
		}
	}
	if !maps.Equal(got, expected) {
		for key, totals := range expected {
			if got[key] != totals {
				t.Errorf("flow %+v: counted\n%+v, want\n%+v", key, got[key], totals)
				return
			}
		}
		t.Errorf("%d flows, want %d", len(got), len(expected))
	}
}
