// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/elements"
)

func newTemplates(t testing.TB) *Templates {
	t.Helper()
	x, err := NewTemplates(ipfix.EnterpriseExample)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// encoded is a data record as it is queued.
func encoded(t testing.TB, x *Templates, encode func(*Encoding) error) (*ipfix.Template, []byte) {
	t.Helper()
	e := x.Encoding()
	if err := encode(e); err != nil {
		t.Fatal(err)
	}
	return e.Layout.Template, bytes.Clone(e.Octets)
}

// encodePart encodes a part of a record.
func encodePart(e *Encoding, r Record, index int, number uint32) error {
	e.Parts(r)
	return e.Encode(r, index, number)
}

// said lists the values that a decoder reads from a record: "ELEMENT=VALUE", in order.
func said(t testing.TB, x *Templates, tmpl *ipfix.Template, record []byte) []string {
	t.Helper()
	e, err := ipfix.NewEncoder(ipfix.TCP, 2, 65535)
	if err != nil {
		t.Fatal(err)
	}
	e.Start(nil)
	if err := errors.Join(e.Define(tmpl), e.Add(tmpl, record)); err != nil {
		t.Fatal(err)
	}
	d := ipfix.NewDecoder(ipfix.DecoderConfig{Registry: x.Registry})
	s, err := d.Open(ipfix.SessionKey{Transport: ipfix.TCP}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Decode(e.Finish(time.Now()), time.Now())
	if err != nil || len(m.Problems) > 0 {
		t.Fatalf("%v, %v", err, m.Problems)
	}
	var list []string
	for r := range m.Sets[0].Records() {
		list = append(list, elements.Of(r)...)
	}
	return list
}

const (
	saidTime = "observationTimeNanoseconds=2026-11-21T05:21:00.000000001Z flowStartMilliseconds=2026-11-21T05:21:00Z " +
		"flowEndMilliseconds=2026-11-21T05:21:00Z "
	saidPacket = "sourceIPv6Address=2001:db8:1::2 destinationIPv6Address=2001:db8:2::2 protocolIdentifier=17 flowLabelIPv6=0 "
	saidPorts  = "sourceTransportPort=4242 destinationTransportPort=9 "
	saidLinks  = "observationPointId=2 ingressInterface=2 egressInterface=3 ioamNodeRole=2 "
)

func TestPostcardElements(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Postcard)
		want   string
	}{
		{"all there is", func(*Postcard) {}, saidTime + saidPacket + saidPorts + "ipTotalLength=128 " + saidLinks +
			"ioamOptionType=4 ioamNamespaceId=123 ioamTraceType=16252928 ioamDirectExportFlags=5 ioamExtensionFlags=192 ioamDexFlowId=305419896 ioamDexSequenceNumber=7 " +
			"ioamTimestampNanoseconds=2026-11-21T05:21:00.000000001Z ioamHopLimit=63 ioamNodeId=2 ioamIngressInterfaceId=201 ioamEgressInterfaceId=202 " +
			"ioamTimestampSeconds=1784643451 ioamTimestampFraction=999999 ioamTransitDelayNanoseconds=18250"},
		{"without ports, ids and time", func(p *Postcard) {
			p.Packet.SourcePort, p.Packet.DestinationPort, p.Packet.NextHeader = nil, nil, 58
			p.FlowID, p.Sequence, p.ExtensionFlags, p.Role = Field[uint32]{}, Field[uint32]{}, 0, Encapsulating
			p.TraceType, p.Raw = 0x800000, ioam.NodeData{Type: 0x800000, Bytes: craft.Hex(t, "ffffffff")}
		}, saidTime + strings.Replace(saidPacket, "=17", "=58", 1) + "ipTotalLength=128 " +
			"observationPointId=3 ingressInterface=2 egressInterface=3 ioamNodeRole=1 " +
			"ioamOptionType=4 ioamNamespaceId=123 ioamTraceType=8388608 ioamDirectExportFlags=5 ioamExtensionFlags=0 ioamHopLimit=255 ioamNodeId=16777215"},
		{"a packet that is not known, undefined bits, and a snapshot", func(p *Postcard) {
			p.Packet, p.TraceType = Packet{}, 0x800ffe
			p.Raw = ioam.NodeData{Type: 0x800ffe,
				Bytes: append(craft.Hex(t, "3f000002"), craft.Hex(t, strings.Repeat("ffffffff", 10)+"02000309 7261636b 20370000")...)}
		}, saidTime + saidLinks + "ioamOptionType=4 ioamNamespaceId=123 ioamTraceType=8392702 ioamDirectExportFlags=5 ioamExtensionFlags=192 " +
			"ioamDexFlowId=305419896 ioamDexSequenceNumber=7 ioamHopLimit=63 ioamNodeId=2 ioamSchemaId=777 ioamOpaqueStateSnapshot=7261636b20370000"},
		{"no snapshot, no time, wide", func(p *Postcard) {
			p.Packet, p.TraceType = Packet{}, 0x20f002
			p.Raw = ioam.NodeData{Type: 0x20f002,
				Bytes: craft.Hex(t, "ffffffff 3f00000001 53158e 000311f1000315da cafec0caf00dc0de 00000010 00ffffff")}
		}, saidTime + saidLinks + "ioamOptionType=4 ioamNamespaceId=123 ioamTraceType=2158594 ioamDirectExportFlags=5 ioamExtensionFlags=192 " +
			"ioamDexFlowId=305419896 ioamDexSequenceNumber=7 ioamTimestampNanoseconds=1900-01-01 " +
			"ioamTimestampSeconds=4294967295 ioamHopLimit=63 ioamNodeIdWide=22222222 ioamIngressInterfaceIdWide=201201 ioamEgressInterfaceIdWide=202202 " +
			"ioamNamespaceDataWide=14627340617589309662 ioamBufferOccupancy=16 ioamSchemaId=16777215 ioamOpaqueStateSnapshot="},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, p := newTemplates(t), postcard(t)
			tt.change(p)
			tmpl, record := encoded(t, x, func(e *Encoding) error { return encodePart(e, p, 0, 0) })
			got := strings.Join(said(t, x, tmpl, record), " ")
			got = strings.Replace(got, "2036-02-07T06:28:16Z", "1900-01-01", 1) // how all-zero octets are read
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestFlowElements(t *testing.T) {
	const counts = "packetDeltaCount=100 octetDeltaCount=12800 flowStartMilliseconds=2026-11-21T05:20:59Z " +
		"flowEndMilliseconds=2026-11-21T05:20:59.999Z " +
		"flowStartNanoseconds=2026-11-21T05:20:59Z flowEndNanoseconds=2026-11-21T05:20:59.999Z "
	const rest = "ioamSequenceGapDeltaCount=2 ioamReorderedPacketDeltaCount=1 minimumTTL=62 maximumTTL=63 flowEndReason=2"
	bare := flow()
	bare.TransitDelay, bare.FlowID = nil, Field[uint32]{}
	unsure, unnumbered := flow(), flow()
	unsure.SequenceGaps = Field[uint64]{Present: true}
	unnumbered.SequenceGaps, unnumbered.Reordered = Field[uint64]{}, Field[uint64]{}
	const delays = "ioamTransitDelayMinNanoseconds=5000 ioamTransitDelayMaxNanoseconds=20000 ioamTransitDelaySumNanoseconds=990000 " +
		"ioamTransitDelayDeltaCount=99 "
	for _, tt := range []struct {
		flow *Flow
		want string
	}{
		{flow(), "observationTimeNanoseconds=2026-11-21T05:21:00Z " + saidPacket + saidPorts + saidLinks +
			"ioamNamespaceId=123 ioamTraceType=16252928 ioamDexFlowId=305419896 " + counts + delays + rest},
		{bare, "observationTimeNanoseconds=2026-11-21T05:21:00Z " + saidPacket + saidPorts + saidLinks +
			"ioamNamespaceId=123 ioamTraceType=16252928 " + counts +
			"ioamTransitDelayMinNanoseconds=4294967295 ioamTransitDelayMaxNanoseconds=4294967295 ioamTransitDelaySumNanoseconds=0 ioamTransitDelayDeltaCount=0 " + rest},
		{unsure, "observationTimeNanoseconds=2026-11-21T05:21:00Z " + saidPacket + saidPorts + saidLinks +
			"ioamNamespaceId=123 ioamTraceType=16252928 ioamDexFlowId=305419896 " + counts + delays + strings.TrimPrefix(rest, "ioamSequenceGapDeltaCount=2 ")},
		{unnumbered, "observationTimeNanoseconds=2026-11-21T05:21:00Z " + saidPacket + saidPorts + saidLinks +
			"ioamNamespaceId=123 ioamTraceType=16252928 ioamDexFlowId=305419896 " + counts + delays + "minimumTTL=62 maximumTTL=63 flowEndReason=2"},
	} {
		x := newTemplates(t)
		tmpl, record := encoded(t, x, func(e *Encoding) error { return encodePart(e, tt.flow, 0, 0) })
		if got := strings.Join(said(t, x, tmpl, record), " "); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// pathOfTwo is a trace of two nodes, full, with the overflow flag.
func pathOfTwo(t testing.TB) *Trace {
	t.Helper()
	trace, err := ioam.DecodeTrace(craft.Hex(t, "007b1400 a0000000 3e000003 6a5f7f7c 3f000002 ffffffff"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewTrace(time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC), trace, udpPacket(), Clock{})
	if err != nil {
		t.Fatal(err)
	}
	r.Node, r.Interface, r.IfIndex = "aramis", "eth0", 2
	return &r
}

func TestTraceElements(t *testing.T) {
	head := saidTime + saidPacket + saidPorts +
		"ipTotalLength=128 observationPointId=2 ingressInterface=2 ioamOptionType=0 ioamNamespaceId=123 ioamTraceType=10485760 ioamReportId=9 "
	delayed := pathOfTwo(t)
	delayed.PathDelay = NewField[uint64](31_000, true)
	empty := pathOfTwo(t)
	empty.Nodes, empty.Raw, empty.Overflow, empty.Remaining, empty.Option = nil, nil, NewField(false, true), NewField(4, true), "incremental"
	probe := pathOfTwo(t)
	probe.TraceFlags = newTraceFlags(ioam.FlagLoopback | ioam.FlagActive)
	for _, tt := range []struct {
		name  string
		trace *Trace
		index int
		want  string
	}{
		{"of a probe", probe, 0, head + "ioamHopIndex=0 ioamHopCount=2 ioamTraceFlags=6 ioamRemainingLength=0 ioamTimestampNanoseconds=1900-01-01 ioamHopLimit=63 ioamNodeId=2 ioamTimestampSeconds=4294967295"},
		{"first", pathOfTwo(t), 0, head + "ioamHopIndex=0 ioamHopCount=2 ioamTraceFlags=8 ioamRemainingLength=0 ioamTimestampNanoseconds=1900-01-01 ioamHopLimit=63 ioamNodeId=2 ioamTimestampSeconds=4294967295"},
		{"second", pathOfTwo(t), 1, head + "ioamHopIndex=1 ioamHopCount=2 ioamTraceFlags=8 ioamRemainingLength=0 ioamTimestampNanoseconds=2026-07-21T14:17:32Z ioamHopLimit=62 ioamNodeId=3 ioamTimestampSeconds=1784643452"},
		{"first of a path with a delay", delayed, 0, head + "ioamHopIndex=0 ioamHopCount=2 ioamTraceFlags=8 ioamRemainingLength=0 ioamTimestampNanoseconds=1900-01-01 ioamHopLimit=63 ioamNodeId=2 ioamTimestampSeconds=4294967295"},
		{"last of a path with a delay", delayed, 1, head + "ioamHopIndex=1 ioamHopCount=2 ioamTraceFlags=8 ioamRemainingLength=0 " +
			"pathDelayMeanDeltaMicroseconds=31 pathDelayMinDeltaMicroseconds=31 pathDelayMaxDeltaMicroseconds=31 " +
			"ioamTimestampNanoseconds=2026-07-21T14:17:32Z ioamHopLimit=62 ioamNodeId=3 ioamTimestampSeconds=1784643452"},
		{"none", empty, 0, strings.Replace(head, "ioamOptionType=0", "ioamOptionType=1", 1) + "ioamHopIndex=0 ioamHopCount=0 ioamTraceFlags=0 ioamRemainingLength=4 ioamTimestampNanoseconds=1900-01-01 ioamHopLimit=255 ioamNodeId=16777215 ioamTimestampSeconds=4294967295"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newTemplates(t)
			tmpl, record := encoded(t, x, func(e *Encoding) error { return encodePart(e, tt.trace, tt.index, 9) })
			got := strings.Replace(strings.Join(said(t, x, tmpl, record), " "), "2036-02-07T06:28:16Z", "1900-01-01", 1)
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Packets decide which trace types occur, so templates are bounded; records of the
// others have the same values among fields that are not available.
func TestTemplatesAreBounded(t *testing.T) {
	x := newTemplates(t)
	other := newTemplates(t)
	e := x.Encoding()
	for n := range 4096 {
		p := postcard(t)
		p.TraceType = ioam.TraceType(n) << 12
		p.FlowID.Present = n%2 == 0
		p.Raw = ioam.NodeData{Type: p.TraceType, Bytes: make([]byte, 4*p.TraceType.NodeLen())}
		for i := range p.Raw.Bytes {
			p.Raw.Bytes[i] = byte(i + 1)
		}
		if err := encodePart(e, p, 0, 0); err != nil {
			t.Fatal(err)
		}
		if n%97 != 0 {
			continue
		}
		tmpl, record := encoded(t, other, func(e *Encoding) error { return encodePart(e, p, 0, 0) })
		got := said(t, x, e.Layout.Template, e.Octets)
		for _, value := range said(t, other, tmpl, record) {
			if !slices.Contains(got, value) {
				t.Fatalf("trace type %v: no %s in %v", p.TraceType, value, got)
			}
		}
		other = newTemplates(t)
	}
	if n := len(x.Layouts()); n > MaxShapes+1 {
		t.Errorf("%d templates; want at most %d", n, MaxShapes+1)
	}
	for _, source := range []netip.Addr{{}, netip.MustParseAddr("::1")} { // flows have theirs all the same
		f := flow()
		f.Packet.Source = source
		if err := encodePart(e, f, 0, 0); err != nil || e.Layout.shape.kind != DataFlow {
			t.Errorf("a flow: %v", err)
		}
	}
}
