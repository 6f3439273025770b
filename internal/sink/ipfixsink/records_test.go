// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// postcard is one of a transit node, with the fields of trace type 0xf80000.
func postcard(t testing.TB) *record.Postcard {
	t.Helper()
	p := &record.Postcard{
		Time: instant.Of(time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC)), Node: "porthos", Role: record.Transit,
		Ingress: "eth0", Egress: "eth1", IngressIfIndex: 2, EgressIfIndex: 3, Option: ioam.IOAMDirectExport.String(),
		Namespace: 123, TraceType: 0xf80000, Flags: 5, ExtensionFlags: 0xc0,
		FlowID: record.NewField[uint32](0x12345678, true), Sequence: record.NewField[uint32](7, true), Packet: udpPacket(),
		Raw: ioam.NodeData{Type: 0xf80000, Bytes: craft.Hex(t, "3f000002 00c900ca 6a5f7f7b 000f423f 0000474a")},
	}
	return p
}

func flow() *record.Flow {
	at := time.Date(2026, 11, 21, 5, 21, 0, 0, time.UTC)
	packet := udpPacket()
	packet.Length = 0
	return &record.Flow{
		Time: instant.Of(at), Node: "porthos", Role: record.Transit, Ingress: "eth0", Egress: "eth1", IngressIfIndex: 2, EgressIfIndex: 3,
		Namespace: 123, TraceType: 0xf80000, FlowID: record.NewField[uint32](0x12345678, true), Packet: packet,
		Packets: 100, Bytes: 12800, First: instant.Of(at.Add(-time.Second)), Last: instant.Of(at.Add(-time.Millisecond)),
		TransitDelay: &record.Delays{
			Min:   5000,
			Max:   20000,
			Sum:   990000,
			Count: 99,
		}, SequenceGaps: record.NewField(uint64(2), true), Reordered: record.NewField(uint64(1), true),
		HopLimit: record.HopLimits{Min: 62, Max: 63}, EndReason: record.EndInterval,
	}
}

// edgeFlow is a flow of the packets of flow, measured from edge to edge.
func edgeFlow() *record.EdgeFlow {
	f, count := flow(), func(n uint64) record.Field[uint64] { return record.NewField(n, true) }
	return &record.EdgeFlow{
		Time: f.Time, Node: f.Node, Namespace: 123, Type: 0x7000, Source: f.Packet.Source, Destination: f.Packet.Destination, FlowLabel: 0x12345,
		Packets: 98, First: f.First, Last: f.Last, Lost: count(2), Duplicates: count(3), Reordered: count(4), Late: count(5), Restarts: count(6),
		Delay: &record.EdgeDelays{Min: 17_999, Max: 31_000, Sum: 1_900_000, Count: 95},
	}
}

// pathOfTwo is a trace of two nodes, full, with the overflow flag.
func pathOfTwo(t testing.TB) *record.Trace {
	t.Helper()
	trace, err := ioam.DecodeTrace(craft.Hex(t, "007b1400 a0000000 3e000003 6a5f7f7c 3f000002 ffffffff"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := record.NewTrace(time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC), trace, udpPacket(), record.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	r.Node, r.Interface, r.IfIndex = "aramis", "eth0", 2
	return &r
}

func udpPacket() record.Packet {
	source, destination := uint16(4242), uint16(9)
	return record.Packet{
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"),
		NextHeader: 17, SourcePort: &source, DestinationPort: &destination, Length: 128,
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !reached(ok) {
		t.Fatalf("%s did not happen within %v", what, patience.Of(longest))
	}
}

// longest is how long tests wait: attempts to reach a collector become rare.
const longest = 20 * time.Second

// reached waits until something is so, and reports whether it became so.
func reached(ok func() bool) bool {
	for deadline := time.Now().Add(patience.Of(longest)); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}
