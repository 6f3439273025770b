// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// edgeFlow is a flow that was measured from edge to edge.
func edgeFlow() fields {
	return fields{
		{"observationTimeNanoseconds", start.Add(10 * time.Second)},
		{"sourceIPv6Address", netip.MustParseAddr("2001:db8:1::2")}, {"destinationIPv6Address", netip.MustParseAddr("2001:db8:2::2")}, num("flowLabelIPv6", 5),
		num("ioamNamespaceId", 123), num("ioamEdgeToEdgeType", 0x7000), num("pmPacketDeltaCount", 100),
		{"flowStartNanoseconds", start}, {"flowEndNanoseconds", start.Add(time.Second)},
		num("ioamSequenceGapDeltaCount", 1), num("ioamDuplicatedPacketDeltaCount", 2), num("ioamReorderedPacketDeltaCount", 3),
		num("ioamLatePacketDeltaCount", 4), num("ioamSequenceRestartDeltaCount", 0),
		{"pmDelayMinNanoseconds", int64(-7)}, {"pmDelayMaxNanoseconds", int64(9)}, {"pmDelaySumNanoseconds", int64(80)}, num("pmDelaySampleDeltaCount", 40),
	}
}

// What the options of a flow lack stays absent, and the node has the name that its
// exporter sent.
func TestEdgeFlow(t *testing.T) {
	c, out, send := offline(t, Config{}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	send(x.message(start, 1, fields{num("observationDomainId", 1), {"observationDomainName", "aramis"}}))
	send(x.message(start, 0, edgeFlow(), edgeFlow().with(num("pmDelaySampleDeltaCount", 0)),
		edgeFlow()[:9].without("observationTimeNanoseconds").with(num("ioamEdgeToEdgeType", 0x3000), num("packetDeltaCount", 9))))
	count := func(n uint64) record.Field[uint64] { return record.NewField(n, true) }
	want := record.EdgeFlow{
		Time: instant.Of(start.Add(10 * time.Second)), Node: "aramis", Namespace: 123, Type: 0x7000,
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), FlowLabel: 5,
		Packets: 100, First: instant.Of(start), Last: instant.Of(start.Add(time.Second)),
		Lost: count(1), Duplicates: count(2), Reordered: count(3), Late: count(4), Restarts: count(0),
		Delay: &record.EdgeDelays{Min: -7, Max: 9, Sum: 80, Count: 40},
	}
	untimed, bare := want, want
	untimed.Delay = nil
	bare.Time, bare.Type, bare.Delay = instant.Of(start), 0x3000, nil // the time is that of the message
	bare.Lost, bare.Duplicates, bare.Reordered, bare.Late, bare.Restarts = record.Field[uint64]{}, record.Field[uint64]{},
		record.Field[uint64]{}, record.Field[uint64]{}, record.Field[uint64]{}
	if diff := cmp.Diff([]record.Record{&want, &untimed, &bare}, out.all(),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if s := c.Stats(); s.Data != [record.NumDataKinds]uint64{record.DataEdgeFlow: 3} {
		t.Errorf("%+v", s)
	}
}

func TestImpossibleEdgeFlows(t *testing.T) {
	for name, tt := range map[string]struct {
		record fields
		want   record.Fault
	}{
		"no namespace":             {edgeFlow().without("ioamNamespaceId"), record.FaultNamespace},
		"a day from its message":   {edgeFlow().with(field{"observationTimeNanoseconds", start.Add(25 * time.Hour)}), record.FaultTime},
		"flow label of 32 bits":    {edgeFlow().with(num("flowLabelIPv6", 1<<20)), record.FaultValue},
		"ends before it starts":    {edgeFlow().with(field{"flowEndNanoseconds", start.Add(-time.Second)}), record.FaultFlow},
		"more delays than packets": {edgeFlow().with(num("pmDelaySampleDeltaCount", 101)), record.FaultFlow},
		"delays turned around":     {edgeFlow().with(field{"pmDelayMinNanoseconds", int64(10)}), record.FaultFlow},
	} {
		c, out, send := offline(t, Config{}, ipfix.UDP)
		send(newExporter(t, ipfix.UDP, 1).message(start, 0, tt.record))
		if s := c.Stats(); s.Faults[tt.want] != 1 || s.Data != [record.NumDataKinds]uint64{} || len(out.all()) != 0 {
			t.Errorf("%s: %v, %d records", name, s.Faults, len(out.all()))
		}
	}
}

// randomEdgeFlow is what a node measured of a flow, with or without numbers and times.
func randomEdgeFlow(r *rand.Rand, at time.Time) record.Record {
	f := &record.EdgeFlow{
		Time: instant.Of(at), Node: "porthos", Namespace: ioam.NamespaceID(r.Uint32()), Type: ioam.EdgeToEdgeType(r.Uint32()),
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), FlowLabel: uint32(r.IntN(1 << 20)),
		Packets: 1000 + r.Uint64N(1<<40), First: instant.Of(at.Add(-time.Second)), Last: instant.Of(at),
	}
	if r.IntN(2) == 0 {
		for _, n := range []*record.Field[uint64]{&f.Lost, &f.Duplicates, &f.Reordered, &f.Late, &f.Restarts} {
			*n = record.NewField(r.Uint64(), true)
		}
	}
	if r.IntN(2) == 0 {
		f.Delay = &record.EdgeDelays{
			Min:   r.Int64N(2000) - 1000,
			Max:   1000 + r.Int64N(1000),
			Sum:   r.Int64() - r.Int64(),
			Count: 1 + r.Uint64N(1000),
		}
	}
	return f
}
