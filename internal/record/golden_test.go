// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
	"github.com/waymark-net/waymark/test/craft"
)

// update writes the golden files again. They are a contract with readers of records:
// their content does not change, it is only added to.
var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.SplitAfter(got, "\n"), strings.SplitAfter(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Fatalf("%s, line %d:\ngot  %swant %s", name, i+1, g, w)
		}
	}
}

// specimen is a record and what is special about it.
type specimen struct {
	name   string
	record Record
}

// goldenAt is a time with every digit.
var goldenAt = time.Date(2026, 11, 21, 5, 21, 0, 123456789, time.UTC)

func goldenPacket(length int) Packet {
	ports := [2]uint16{34636, 9000}
	return Packet{
		Source:          netip.MustParseAddr("2001:db8:1::2"),
		Destination:     netip.MustParseAddr("2001:db8:2::2"),
		NextHeader:      ioam.NextHeaderUDP,
		SourcePort:      &ports[0],
		DestinationPort: &ports[1],
		FlowLabel:       0xa1b2c,
		Length:          length,
	}
}

// goldenData is node data of all fields, each with another value, and a snapshot.
func goldenData(t testing.TB, base byte) ioam.NodeData {
	t.Helper()
	b := craft.Hex(t, "3f010203 0a0b0c0d 6a5f7f7b 000f423f 0000474a deadbeef 00000011 c0de0001"+
		"3f11121314151617 2122232425262728 3132333435363738 00000041 020309f0 7261636b 20370000")
	b[3], b[23] = b[3]+base, b[23]+base
	return ioam.NodeData{Type: 0xfff002, Bytes: b}
}

func goldenPostcards(t testing.TB) []specimen {
	full := func() *Postcard {
		return &Postcard{
			Time: instant.Of(goldenAt), Node: "porthos", Role: Decapsulating,
			Ingress: "eth0", Egress: "eth1", IngressIfIndex: 21, EgressIfIndex: 31, Option: ioam.IOAMDirectExport.String(),
			Namespace: 123, TraceType: 0xfff002, Flags: 5, ExtensionFlags: 0xc0,
			FlowID: NewField[uint32](0x12345678, true), Sequence: NewField[uint32](7, true), Packet: goldenPacket(148), Raw: goldenData(t, 0),
		}
	}
	all, short, unknown, bare := full(), full(), full(), full()
	short.TraceType, short.Raw = 0xf80000, ioam.NodeData{Type: 0xf80000, Bytes: craft.Hex(t, "3f000002 00c900ca 6a5f7f7b 000f423f 0000474a")}
	short.Packet.SourcePort, short.Packet.DestinationPort, short.Packet.NextHeader, short.Role = nil, nil, 58, Encapsulating
	unknown.TraceType, unknown.Raw = 0xd88002, ioam.NodeData{
		Type:  0xd88002,
		Bytes: craft.Hex(t, "ffffffff ffffffff ffffffff ffffffff ffffffffffffffff 00ffffff"),
	}
	bare.Packet, bare.FlowID, bare.Sequence, bare.ExtensionFlags, bare.Role = Packet{}, Field[uint32]{}, Field[uint32]{}, 0, Transit
	bare.Node, bare.Ingress, bare.IngressIfIndex, bare.Time = "", "", 0, instant.Time{}
	bare.TraceType, bare.Raw = 0x100000, ioam.NodeData{Type: 0x100000, Bytes: craft.Hex(t, "000f423f")}
	over := full()
	over.TraceType, over.Raw = 0x080000, ioam.NodeData{Type: 0x080000, Bytes: craft.Hex(t, "80000000")}
	list := []specimen{{"postcard of every field", all}, {"postcard without ports", short}, {"postcard, nothing available", unknown},
		{"postcard of no known packet", bare}, {"postcard of a long delay", over}}
	return list
}

func goldenFlows() []specimen {
	full := func() *Flow {
		return &Flow{
			Time: instant.Of(goldenAt), Node: "porthos", Role: Transit, Ingress: "eth0", Egress: "eth1", IngressIfIndex: 21, EgressIfIndex: 31,
			Namespace: 123, TraceType: 0xf80000, FlowID: NewField[uint32](0x12345678, true), Packet: goldenPacket(0),
			Packets: 100, Bytes: 12800, First: instant.Of(goldenAt.Add(-time.Second)), Last: instant.Of(goldenAt.Add(-time.Millisecond)),
			TransitDelay: &Delays{
				Min:   5000,
				Max:   20000,
				Sum:   990000,
				Count: 99,
			}, SequenceGaps: NewField(uint64(2), true), Reordered: NewField(uint64(1), true),
			HopLimit: HopLimits{Min: 62, Max: 63}, EndReason: EndEvicted,
		}
	}
	unsure, bare := full(), full()
	unsure.SequenceGaps = Field[uint64]{Present: true}
	bare.SequenceGaps, bare.Reordered, bare.TransitDelay, bare.FlowID, bare.EndReason = Field[uint64]{}, Field[uint64]{}, nil,
		Field[uint32]{}, 9
	bare.Packet.SourcePort, bare.Packet.DestinationPort, bare.First, bare.Last = nil, nil, instant.Time{}, instant.Time{}
	bare.Egress, bare.EgressIfIndex, bare.Role = "", 0, Encapsulating
	return []specimen{{"flow of every field", full()}, {"flow, missing unknown", unsure}, {"flow of no numbers", bare}}
}

// goldenTraces has a trace for each kind of sender: ours, and the kernel.
func goldenTraces(t testing.TB) []specimen {
	trace := func(typ ioam.TraceType, source Source, raw ...ioam.NodeData) *Trace {
		r := &Trace{
			Time: instant.Of(goldenAt), Node: "aramis", Interface: "eth0", IfIndex: 21, Source: source,
			Option: ioam.IOAMPreallocatedTrace.String(), Namespace: 123, TraceType: typ, TraceFlags: newTraceFlags(ioam.FlagOverflow),
			Remaining: NewField(3, true),
			PathDelay: NewField[uint64](1_234_567, true), Packet: goldenPacket(148), Nodes: []NodeData{}, Raw: raw,
		}
		if source == SourceKernel {
			r.Overflow, r.Remaining, r.PathDelay, r.Packet = Field[bool]{}, Field[int]{}, Field[uint64]{}, Packet{}
		}
		for _, d := range raw {
			r.Nodes = append(r.Nodes, ReadNodeData(d, Clock{}))
		}
		return r
	}
	a, b := goldenData(t, 0), goldenData(t, 1)
	empty := trace(0xf80000, 0)
	empty.Option, empty.Overflow, empty.PathDelay, empty.Packet = ioam.IOAMIncrementalTrace.String(), NewField(
		false,
		true,
	), Field[uint64]{}, Packet{}
	return []specimen{
		{"trace of every field", trace(0xfff002, 0, a, b)},
		{"trace of no node", empty},
		{"trace that the kernel filled", trace(0xfff002, SourceKernel, a, b)},
	}
}

// goldenProbes are traces with the flags of RFC 9322.
func goldenProbes(t testing.TB) []specimen {
	trace := func(n int) *Trace {
		d := ioam.NodeData{Type: 0x800000, Bytes: craft.Hex(t, fmt.Sprintf("400000%02x", n))}
		return &Trace{
			Time: instant.Of(goldenAt), Node: "athos", Interface: "eth1", IfIndex: 22, Option: ioam.IOAMPreallocatedTrace.String(),
			Namespace: 7, TraceType: 0x800000,
			TraceFlags: newTraceFlags(0), Remaining: NewField(5, true), Packet: goldenPacket(148),
			Nodes: []NodeData{ReadNodeData(d, Clock{})}, Raw: []ioam.NodeData{d},
		}
	}
	probe, copied := trace(1), trace(2)
	probe.Active, probe.Loopback, copied.Copy = true, true, true
	return []specimen{{"trace of a probe", probe}, {"trace of a copy", copied}}
}

// goldenMeasurement is of an SRv6 flow.
func goldenMeasurement() Measurement {
	return Measurement{
		Time: instant.Of(goldenAt), Node: "aramis", Flow: "blue", FlowID: 0xabcde, Source: netip.MustParseAddr("2001:db8:1::1"),
		SIDs:  []netip.Addr{netip.MustParseAddr("2001:db8:a::1"), netip.MustParseAddr("2001:db8:b::1"), netip.MustParseAddr("2001:db8:c::1")},
		Scope: WholeWay, From: 101, To: 104, FromNode: "porthos", ToNode: "2001:db8::3",
		Block: NewField[uint64](176_370_246, true), Start: instant.Of(goldenAt.Add(-11 * time.Second)), Length: 10_000_000_000,
	}
}

func goldenLosses() []specimen {
	known, unknown := func(n uint64) Field[uint64] { return NewField(n, true) }, Field[uint64]{Present: true}
	m := goldenMeasurement()
	m.Scope = OneSegment
	full := &Loss{
		Measurement: m, Verdict: loss.Uncertain, FromReasons: loss.Contradicting | loss.ClockWorse, ToReasons: loss.AllReasons &^ loss.ClockWorse,
		Sent: known(1000), Received: known(890), SentBytes: known(128_000), ReceivedBytes: known(113_920),
		Assumed: loss.AssumedSelection, FromDifference: "traffic class 0x00 instead of any",
		ToDifference: "it does not say which packets it selects",
		Lost:         unknown, Duplicated: unknown, Ratio: Field[float64]{Present: true}, LostBytes: unknown, DuplicateBytes: unknown,
	}
	flow := loss.Flow{ID: 7, Points: []loss.PointID{1, 2, 3}, Timing: loss.Timing{Length: time.Second}}
	report := func(i int, packets, octets, unsure uint64) loss.Report {
		return loss.Report{
			Present:   true,
			Selection: loss.Selection{Marking: 1},
			Reading:   loss.Reading{Flow: 7, Point: flow.Points[i], Block: 1_763_702_459, Packets: packets, Octets: octets, UnsureOctets: unsure},
		}
	}
	bare := Measurement{Time: instant.Of(goldenAt), Node: "aramis"}
	of := func(segment int, reports ...loss.Report) *Loss {
		r := loss.Compute(&flow, 1_763_702_459, reports)
		if segment < 0 {
			return NewLoss(bare, &r, &r.Whole)
		}
		return NewLoss(bare, &r, &r.Segments[segment])
	}
	return []specimen{
		{"loss of an SRv6 flow, uncertain", full},
		{"loss, measured", of(-1, report(0, 3, 300, 0), report(1, 3, 300, 0), report(2, 2, 200, 0))},
		{"loss, duplicates, bytes unsure", of(1, report(0, 3, 300, 0), report(1, 3, 300, 0), report(2, 5, 200, 1))},
		{"loss, idle", of(0, report(0, 0, 0, 0), report(1, 0, 0, 0))},
		{"loss, other path", of(0, report(0, 3, 300, 0), report(1, 0, 0, 0), report(2, 3, 300, 0))},
		{"loss, no data", of(-1)},
	}
}

func goldenDelays() []specimen {
	full := &Delay{
		Measurement: goldenMeasurement(), Method: loss.MeanOfSums, Samples: 55, Min: 1_001_000, Mean: 2_002_000, P95: 3_003_000,
		Jitter: NewField[uint64](77_000, true), FromClockError: NewField[uint64](5000, true), ToClockError: NewField[uint64](6000, true),
	}
	var p loss.Period
	p.AddDelay(loss.RoundTrip, 1, 1500*time.Microsecond, 10, loss.UnknownClock)
	p.AddDelay(loss.OneWay, 1, -20*time.Microsecond, 10, 20)
	p.AddDelay(loss.OneWay, 2, -30*time.Microsecond, 10, 30)
	m := goldenMeasurement()
	m.Flow, m.Source, m.SIDs, m.Block, m.Scope = "", netip.Addr{}, nil, Field[uint64]{}, OneSegment
	return []specimen{
		{"delay of an SRv6 flow", full},
		{"delay, round trip", NewDelay(m, &p, loss.RoundTrip)},
		{"delay, clocks differ", NewDelay(m, &p, loss.OneWay)},
	}
}

func goldenBlocks() []specimen {
	m := goldenMeasurement()
	m.To = 14
	full := NewBlock(m, 100*time.Millisecond, &loss.Reading{
		Flow: 0xabcde, Point: 11, Block: 176_370_246, Packets: 1000, Octets: 128_000, TimeSum: -55_000_000, Timed: true,
		DoubleMarked: loss.Marked{Packets: 3, TimeSum: 77_000},
		Late:         21, OutOfTurn: 22, Unmarked: 23, UnsureOctets: 24, Flags: loss.Interrupted | loss.OutsideWindow, ClockError: 5000,
	}, loss.Selection{Block: uint32(m.Length / 1e6), Path: 0x01020304, Criteria: 0x05060708, Takers: 0x090a0b0c, Marking: 0x0d0e0f10})
	bare := NewBlock(
		Measurement{Time: instant.Of(goldenAt), To: 1, Length: 1e9},
		0,
		&loss.Reading{Flow: 7, Block: 1_763_702_459, Packets: 5, Octets: 500, ClockError: loss.UnknownClock},
		loss.Selection{},
	)
	return []specimen{{"block of an SRv6 flow", full}, {"block, without times", bare}}
}

func goldenTrigger() specimen {
	d := ioam.DirectExport{Namespace: 123, Flags: 5, ExtensionFlags: 0xc0, Type: 0xf80000, FlowID: 0x12345678, Sequence: 7}
	t := NewTrigger(goldenAt, d, goldenPacket(148))
	t.Interface = "eth0"
	return specimen{"direct export", t}
}

func goldenEdges() []specimen {
	clock := Clock{Format: ioam.TimestampPTP, TAIOffset: 37 * time.Second}
	full := NewEdgeToEdge(
		goldenAt,
		ioam.EdgeToEdge{Namespace: 123, Type: 0xb000, Sequence: 1 << 40, Seconds: 1_800_000_037, Fraction: 500},
		goldenPacket(148),
		clock,
	)
	full.Interface = "eth0"
	unknown := NewEdgeToEdge(
		goldenAt,
		ioam.EdgeToEdge{Type: 0x7000, Sequence: 7, Seconds: 1<<32 - 1, Fraction: 1<<32 - 1},
		goldenPacket(148),
		clock,
	)
	fraction := NewEdgeToEdge(goldenAt, ioam.EdgeToEdge{Namespace: 1, Type: 0x1000, Fraction: 500}, goldenPacket(148), clock)
	return []specimen{{"edge-to-edge", full}, {"edge-to-edge, time unknown", unknown}, {"edge-to-edge, fraction alone", fraction}}
}

func goldenEdgeFlows() []specimen {
	count := func(n uint64) Field[uint64] { return NewField(n, true) }
	full := &EdgeFlow{
		Time: instant.Of(goldenAt), Node: "aramis", Namespace: 123, Type: 0x7000,
		Source: netip.MustParseAddr("2001:db8:1::1"), Destination: netip.MustParseAddr("2001:db8:2::1"), FlowLabel: 0x12345,
		Packets: 1001, First: instant.Of(goldenAt.Add(-9 * time.Second)), Last: instant.Of(goldenAt.Add(-time.Second)),
		Lost: count(11), Duplicates: count(12), Reordered: count(13), Late: count(14), Restarts: count(15),
		Delay: &EdgeDelays{Min: -21, Max: 2_200_000, Sum: 900_900_000, Count: 1000},
	}
	times := &EdgeFlow{Time: instant.Of(goldenAt), Type: 0x3000, Source: full.Source, Destination: full.Destination, Packets: 3}
	numbers := &EdgeFlow{
		Time:        instant.Of(goldenAt),
		Namespace:   1,
		Type:        0x4000,
		Source:      full.Source,
		Destination: full.Destination,
		Packets:     2,
		First:       full.First,
		Last:        full.Last,
		Lost:        count(0),
		Duplicates:  count(0),
		Reordered:   count(0),
		Late:        count(0),
		Restarts:    count(1),
	}
	positive := *full
	positive.Delay = &EdgeDelays{Min: 1_000_999, Max: 2_200_000, Sum: 1_500_500_000, Count: 1000}
	unknown := *numbers
	unknown.Lost = Field[uint64]{Present: true}
	return []specimen{
		{"edge flow", full},
		{"edge flow, without numbers and known times", times},
		{"edge flow, numbers alone", numbers},
		{"edge flow, delays not negative", &positive},
		{"edge flow, losses not known", &unknown},
	}
}

func goldenWarnings() []specimen {
	w := Warning{
		Time:   instant.Of(goldenAt),
		Code:   "flow_loss_high",
		Flow:   "red",
		FlowID: 7,
		Beyond: true,
		Facts:  "flow red lost 10 of 1000 packets",
		Cure:   "look for the cause",
	}
	unnamed := &Warning{Time: instant.Of(goldenAt), Code: "flow_delay_high", FlowID: 7, Facts: "flow 7 is within its threshold again"}
	return []specimen{{"warning", &w}, {"warning that has ended", unnamed}}
}

func goldenEvents() []specimen {
	full := &Event{
		Time: instant.Of(goldenAt), Node: "athos", Name: EventProbeLoss, ID: "5f0c2d1e9a7b", Severity: SeverityError, Subject: "aramis",
		Facts: "5 of 16 flows to aramis vanish after porthos", Since: instant.Of(goldenAt.Add(-time.Second / 4)),
		Labels: []Label{{"after", "porthos"}, {"before", "aramis"}}, Values: []Value{{"after_hop", 1}, {"flows", 5}, {"share_ratio", 0.3125}},
	}
	hostile := &Event{Time: instant.Of(goldenAt), Name: "a\x1bb", Severity: SeverityInfo, Facts: "one\x1b[2J\u009b\u2028two\n"}
	return []specimen{{"event", full}, {"event of little, hostile", hostile}}
}

func goldenProof() specimen {
	p := NewProof(
		goldenAt,
		ioam.ProofOfTransit{Namespace: 123, Flags: 5, PktID: 0x0102030405060708, Cumulative: 0x1112131415161718},
		goldenPacket(148),
	)
	p.Interface = "eth0"
	return specimen{"proof of transit", p}
}

func goldenAll(t testing.TB) []specimen {
	list := append(goldenPostcards(t), goldenFlows()...)
	list = append(append(list, goldenTraces(t)...), goldenTrigger())
	list = append(list, goldenEdges()...)
	list = append(append(append(list, goldenLosses()...), goldenDelays()...), goldenProof())
	return append(
		append(append(list, goldenProbes(t)...), goldenBlocks()...),
		append(append(goldenEdgeFlows(), goldenWarnings()...), goldenEvents()...)...)
}

// Records in JSON, and as text.
func TestGoldenRecords(t *testing.T) {
	var lines, text bytes.Buffer
	for _, n := range goldenAll(t) {
		line := AppendLine(nil, n.record)
		lines.Write(line)
		fmt.Fprintf(&text, "# %s\n%s", n.name, n.record.Text())
	}
	golden(t, "records.jsonl", lines.String())
	golden(t, "records.txt", text.String())
}

// encoding/json writes a list of records as they are written one by one.
func TestListAsJSON(t *testing.T) {
	list, want := List{}, ""
	for _, n := range goldenAll(t) {
		list, want = append(list, n.record), want+","+string(AppendJSON(nil, n.record))
	}
	if got, err := json.Marshal(list); err != nil || string(got) != "["+want[1:]+"]" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := json.Marshal(List{}); err != nil || string(got) != "[]" {
		t.Errorf("%s, %v", got, err)
	}
}

// Records in IPFIX: a message with the template and the record, and its values, element
// by element.
func TestGoldenIPFIX(t *testing.T) {
	var b strings.Builder
	x := newTemplates(t)
	show := func(name string, encode func(e *Encoding) error) {
		tmpl, record := encoded(t, x, encode)
		e, err := ipfix.NewEncoder(ipfix.UDP, 2, 65535)
		if err != nil {
			t.Fatal(err)
		}
		e.Start(nil)
		if err := e.Define(tmpl); err != nil {
			t.Fatal(err)
		}
		if err := e.Add(tmpl, record); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "# %s\n%x\n%s\n", name, e.Finish(goldenAt), strings.Join(said(t, x, tmpl, record), "\n"))
	}
	for _, n := range goldenAll(t) {
		count, joined := x.Encoding().Parts(n.record)
		for i := range count {
			name := n.name
			if joined {
				name = fmt.Sprintf("%s, node %d", n.name, i)
			}
			show(name, func(e *Encoding) error { return encodePart(e, n.record, i, 9) })
		}
	}
	golden(t, "ipfix.txt", b.String())
}

// A template with room for more than the record, which many trace types share.
func TestGoldenGeneralTemplates(t *testing.T) {
	var b strings.Builder
	x := newTemplates(t)
	for i := range MaxShapes { // more trace types than there are templates
		p := goldenPostcards(t)[0].record.(*Postcard)
		p.TraceType = ioam.TraceType(i) << 12
		p.Raw = ioam.NodeData{Type: p.TraceType, Bytes: make([]byte, 4*p.TraceType.NodeLen())}
		encoded(t, x, func(e *Encoding) error { return encodePart(e, p, 0, 0) })
	}
	for _, n := range goldenAll(t) {
		if count, _ := x.Encoding().Parts(n.record); count == 0 {
			continue
		}
		tmpl, record := encoded(t, x, func(e *Encoding) error { return encodePart(e, n.record, 0, 9) })
		fmt.Fprintf(&b, "# %s\n%x\n%s\n", n.name, record, strings.Join(said(t, x, tmpl, record), "\n"))
	}
	golden(t, "ipfix-general.txt", b.String())
}
