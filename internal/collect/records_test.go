// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

func joinExporter(a netip.AddrPort) join.Exporter { return join.Exporter{Addr: a.Addr()} }

// A path in JSON, with names from options records, and as text.
func TestPath(t *testing.T) {
	c, out, send := offline(t, Config{}, ipfix.UDP)
	for i, node := range []string{"athos", "porthos", "aramis"} {
		x := newExporter(t, ipfix.UDP, uint32(i+1))
		send(x.message(start, 1, fields{num("observationDomainId", uint64(i+1)), {"observationDomainName", node}}))
		send(
			x.message(
				start,
				1,
				fields{num("ingressInterface", 2), {"interfaceName", "eth0"}},
				fields{num("ingressInterface", 3), {"interfaceName", "eth1"}},
			),
		)
		card := packet(5)[i].with(num("ioamTraceType", 0x8a0000), num("ioamTransitDelayNanoseconds", 0xffffffff), num("ioamQueueDepth", 0))
		if i == 1 {
			card = card.with(num("ioamTransitDelayNanoseconds", 9876))
		}
		if i == 2 {
			card = card.with(num("egressInterface", 0))
		}
		send(x.message(start, 0, card))
	}
	want := `{"kind":"path","time":"2026-11-21T12:00:00.000000000Z","namespace":123,"trace_type":"0x8a0000","flow_id":7,"sequence":5,` +
		`"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9,` +
		`"flow_label":74565,"length":148},` +
		`"complete":true,"nodes":[` +
		`{"node":"athos","exporter":"2001:db8::5","role":"encapsulating","ingress":"eth0","egress":"eth1","ingress_ifindex":2,` +
		`"egress_ifindex":3,"hop_limit":63,"node_id":1,"timestamp":"2026-11-21T12:00:00.000000000Z","transit_delay_ns":null,"queue_depth":0},` +
		`{"node":"porthos","exporter":"2001:db8::5","role":"transit","ingress":"eth0","egress":"eth1","ingress_ifindex":2,"egress_ifindex":3,` +
		`"hop_limit":62,"node_id":2,"timestamp":"2026-11-21T12:00:00.000010000Z","transit_delay_ns":9876,"queue_depth":0,` +
		`"since_previous_ns":10000},` +
		`{"node":"aramis","exporter":"2001:db8::5","role":"decapsulating","ingress":"eth0","ingress_ifindex":2,"hop_limit":61,"node_id":3,` +
		`"timestamp":"2026-11-21T12:00:00.000025000Z","transit_delay_ns":null,"queue_depth":0,"since_previous_ns":15000}],` +
		`"delay_ns":25000,"verdict":"arrived"}`
	if lines := out.lines(t); len(lines) != 1 || lines[0] != want {
		t.Fatalf("got  %s\nwant %s", strings.Join(lines, "\n"), want)
	}
	wantText := "2026-11-21T12:00:00.000000000Z  [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, 148 bytes, namespace 123, flow 0x00000007, " +
		"sequence 5, 25µs end to end\n" +
		"    athos    encapsulating  eth0 > eth1  hop limit 63  at 12:00:00.000000000  queue 0\n" +
		"    porthos  transit        eth0 > eth1  hop limit 62  +10µs                  held 9.876µs  queue 0\n" +
		"    aramis   decapsulating  eth0 > -     hop limit 61  +15µs                  queue 0\n"
	if got := out.all()[0].Text(); got != wantText {
		t.Errorf("got\n%s\nwant\n%s", got, wantText)
	}
	if document, err := os.ReadFile("../../docs/how-to/collect-postcards.md"); err != nil ||
		!strings.Contains(string(document), "```\n"+wantText+"```\n") {
		t.Errorf("the how-to shows another path (%v)", err)
	}
	if s := c.Stats(); s.Data[record.DataPostcard] != 3 || s.Options != 9 || s.Join.Paths[record.PathComplete] != 1 || s.Messages != 9 {
		t.Errorf("stats %+v", s)
	}
}

// Missing nodes are reported, in JSON and in text.
func TestIncompletePath(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cards []fields
		json  []string
		text  string
	}{
		{"lost", packet(0)[:2],
			[]string{`"complete":false,"reason":"not_seen_further","last_seen":{"exporter":"2001:db8::5","node_id":2,"hop_limit":62,"egress_ifindex":3},"nodes"`},
			"    incomplete: not known after node 2; no node after it is known yet\n"},
		{"hop missing", []fields{packet(0)[0], packet(0)[2]},
			[]string{`"reason":"hop_missing","missing_hops":[62],"nodes"`, `"delay_ns":25000`},
			"    incomplete: a node between two that reported did not; no node reported hop limit 62\n"},
		{"no beginning", packet(0)[1:], []string{`"complete":false,"reason":"no_encapsulating","nodes"`}, "    incomplete: no encapsulating node reported the packet\n"},
		{"clocks that differ", []fields{packet(0)[0], packet(0)[1].with(field{"observationTimeNanoseconds", start.Add(-time.Millisecond)})},
			[]string{`"since_previous_ns":-1000000`}, "hop limit 62  -1ms\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, out, send := offline(t, Config{}, ipfix.UDP)
			send(newExporter(t, ipfix.UDP, 1).message(start, 0, tt.cards...))
			c.flush(time.Now().Add(time.Second))
			if len(out.all()) != 0 {
				t.Fatal("a path before its time")
			}
			c.flush(time.Now().Add(join.DefaultWait))
			lines := out.lines(t)
			if len(lines) != 1 {
				t.Fatalf("%d paths", len(lines))
			}
			for _, want := range tt.json {
				if !strings.Contains(lines[0], want) {
					t.Errorf("%s\nlacks %s", lines[0], want)
				}
			}
			if text := out.all()[0].Text(); !strings.Contains(text, tt.text) {
				t.Errorf("%s\nlacks %s", text, tt.text)
			}
		})
	}
}

// Postcards that cannot be joined are shown as they are; impossible ones are
// not.
func TestPostcards(t *testing.T) {
	usual := postcard(1, 1, 63, 0, 0)
	for _, tt := range []struct {
		name   string
		record fields
		fault  record.Fault
		shown  bool // as a postcard
	}{
		{"usual", usual, record.NoFault, false},
		{"no flow id", usual.without("ioamDexFlowId").with(num("ioamExtensionFlags", 0x40)), record.NoFault, true},
		{"no sequence number", usual.without("ioamDexSequenceNumber").with(num("ioamExtensionFlags", 0x80)), record.NoFault, true},
		{"room for a sequence number", usual.with(num("ioamExtensionFlags", 0x80)), record.NoFault, true},
		{"no extension flags", usual.without("ioamExtensionFlags"), record.NoFault, false},
		{"no role, as the published exporter", usual.without("ioamNodeRole"), record.NoFault, true},
		{"no namespace", usual.without("ioamNamespaceId"), record.FaultNamespace, false},
		{"role 0", usual.with(num("ioamNodeRole", 0)), record.FaultRole, false},
		{"role 4", usual.with(num("ioamNodeRole", 4)), record.FaultRole, false},
		{"flow label of 32 bits", usual.with(num("flowLabelIPv6", 1<<20)), record.FaultValue, false},
		{"tomorrow", usual.with(field{"observationTimeNanoseconds", start.Add(25 * time.Hour)}), record.FaultTime, false},
		{"yesterday", usual.with(field{"observationTimeNanoseconds", start.Add(-25 * time.Hour)}), record.FaultTime, false},
		{"an hour ago", usual.with(field{"observationTimeNanoseconds", start.Add(-time.Hour)}), record.NoFault, false},
		{"without a time", usual.without("observationTimeNanoseconds"), record.NoFault, false},
		{"the longest snapshot", usual.with(num("ioamSchemaId", 1), field{"ioamOpaqueStateSnapshot", make([]byte, 1020)}), record.NoFault, false},
		{"a longer one", usual.with(num("ioamSchemaId", 1), field{"ioamOpaqueStateSnapshot", make([]byte, 1021)}), record.FaultValue, false},
		{"an unknown reason for its end", usual.with(num("flowEndReason", 9)), record.NoFault, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, out, send := offline(t, Config{}, ipfix.UDP)
			send(newExporter(t, ipfix.UDP, 1).message(start, 0, tt.record))
			s := c.Stats()
			var faults [record.NumFaults]uint64
			if tt.fault != record.NoFault {
				faults[tt.fault] = 1
			}
			if s.Faults != faults {
				t.Errorf("faults %v, want %v", s.Faults, tt.fault)
			}
			if shown := len(out.all()) == 1; shown != tt.shown || (s.Unjoinable == 1) != tt.shown {
				t.Errorf("shown %v, unjoinable %d; want %v", shown, s.Unjoinable, tt.shown)
			}
			if waits := s.Waiting == 1; waits != (tt.fault == record.NoFault && !tt.shown) {
				t.Errorf("waits: %v", waits)
			}
		})
	}
}

// With Raw, postcards come as they are.
func TestRaw(t *testing.T) {
	c, out, send := offline(t, Config{Raw: true}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	send(x.message(start, 0, packet(0)...))
	send(x.message(start, 1, fields{num("observationDomainId", 1), {"observationDomainName", "athos"}, num("exportedMessageTotalCount", 12)}))
	lines := out.lines(t)
	if len(lines) != 4 || c.Stats().Waiting != 0 {
		t.Fatalf("%d records, %d packets wait; want 4 and 0", len(lines), c.Stats().Waiting)
	}
	p, ok := out.all()[1].(*record.Postcard)
	if !ok || p.Role != record.Transit || p.Data.HopLimit.Value != 62 || p.Sequence.Value != 0 || !p.Sequence.Valid || p.IngressIfIndex != 2 {
		t.Errorf("postcard %+v", out.all()[1])
	}
	if want := `"kind":"options","time":"2026-11-21T12:00:00.000000000Z","node":"athos","exporter":"2001:db8::5","domain":1,"template":257,` +
		`"elements":[{"name":"observationDomainId","value":1},{"name":"observationDomainName","value":"athos"},` +
		`{"name":"exportedMessageTotalCount","value":12}]`; !strings.Contains(lines[3], want) {
		t.Errorf("%s\nlacks %s", lines[3], want)
	}
}

// Every element of node data, as the general template of an exporter has them: fields
// that the trace type lacks are all ones, and omitted.
func TestNodeData(t *testing.T) {
	all := fields{
		num("ioamHopLimit", 62), num("ioamNodeId", 2), num("ioamIngressInterfaceId", 201), num("ioamEgressInterfaceId", 0xffff),
		num("ioamTimestampSeconds", uint64(start.Unix())), num("ioamTimestampFraction", 250000),
		num("ioamTransitDelayNanoseconds", 1<<31), num("ioamNamespaceData", 0xdeadbeef), num("ioamQueueDepth", 5),
		num("ioamChecksumComplement", 0xffffffff), num("ioamNodeIdWide", 22), num("ioamIngressInterfaceIdWide", 2001),
		num("ioamEgressInterfaceIdWide", 2002), num("ioamNamespaceDataWide", 1<<63), num("ioamBufferOccupancy", 7),
		num("ioamSchemaId", 777), {"ioamOpaqueStateSnapshot", []byte("rack 7")},
	}
	base := postcard(1, 2, 62, 0, 0).without("ioamHopLimit", "ioamNodeId", "ioamDexSequenceNumber")
	read := func(trace uint64, data fields) *record.Postcard {
		_, out, send := offline(t, Config{}, ipfix.UDP)
		send(newExporter(t, ipfix.UDP, 1).message(start, 0, base.with(num("ioamTraceType", trace)).with(data...)))
		return out.all()[0].(*record.Postcard)
	}
	got := read(0xfff002, all).Data
	if got.HopLimit.Value != 62 || got.NodeID.Value != 2 || got.IngressID.Value != 201 || got.EgressID.Valid || !got.EgressID.Present ||
		!got.Timestamp.Value.Equal(start.Add(250*time.Millisecond)) || !got.TransitDelayOverflow || got.TransitDelay.Valid {
		t.Errorf("%+v", got)
	}
	if got.NamespaceData.Value != 0xdeadbeef || got.QueueDepth.Value != 5 || got.ChecksumComplement.Valid || !got.ChecksumComplement.Present ||
		got.NodeIDWide.Value != 22 || got.IngressIDWide.Value != 2001 || got.EgressIDWide.Value != 2002 || got.NamespaceDataWide.Value != 1<<63 ||
		got.BufferOccupancy.Value != 7 || got.Snapshot.Value.Schema != 777 || string(got.Snapshot.Value.Data) != "rack 7" {
		t.Errorf("%+v", got)
	}
	// A field that the trace type asks for and the node does not know is present
	// without a value; others are absent.
	none := fields{
		num("ioamHopLimit", 0xff),
		num("ioamNodeId", 0xffffff),
		num("ioamQueueDepth", 0xffffffff),
		num("ioamIngressInterfaceId", 0xffff),
	}
	got = read(0x800000, none).Data
	if got.HopLimit.Valid || !got.HopLimit.Present || !got.NodeID.Present || got.NodeID.Valid || got.QueueDepth.Present ||
		got.IngressID.Present {
		t.Errorf("%+v", got)
	}
	if at := read(0xfff002, all.with(field{"ioamTimestampNanoseconds", start.Add(time.Second)})).Data.Timestamp; !at.Value.Equal(
		start.Add(time.Second),
	) {
		t.Errorf("the timestamp in UTC is not preferred: %v", at)
	}
}

func TestFlow(t *testing.T) {
	flow := fields{
		{"observationTimeNanoseconds", start.Add(10 * time.Second)},
		{"sourceIPv6Address", netip.MustParseAddr("2001:db8:1::2")}, {"destinationIPv6Address", netip.MustParseAddr("2001:db8:2::2")},
		num("protocolIdentifier", 58), num("flowLabelIPv6", 0), num("ingressInterface", 2), num("egressInterface", 3), num("ioamNodeRole", 2),
		num("ioamNamespaceId", 123), num("ioamTraceType", 0x880000), num("ioamDexFlowId", 7),
		num("packetDeltaCount", 100), num("octetDeltaCount", 14800),
		{"flowStartMilliseconds", start}, {"flowEndMilliseconds", start.Add(time.Second)}, {"flowStartNanoseconds", start}, {"flowEndNanoseconds", start.Add(time.Second)},
		num("ioamTransitDelayMinNanoseconds", 5000), num("ioamTransitDelayMaxNanoseconds", 9000), num("ioamTransitDelaySumNanoseconds", 700000), num("ioamTransitDelayDeltaCount", 100),
		num("ioamSequenceGapDeltaCount", 2), num("ioamReorderedPacketDeltaCount", 1), num("minimumTTL", 62), num("maximumTTL", 63), num("flowEndReason", 2),
	}
	_, out, send := offline(t, Config{}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	send(x.message(start, 0, flow, flow.with(num("ioamTransitDelayDeltaCount", 0), num("ioamTransitDelayMinNanoseconds", 0xffffffff))))
	got, ok := out.all()[0].(*record.Flow)
	if !ok {
		t.Fatalf("%T", out.all()[0])
	}
	want := &record.Flow{
		Time: instant.Of(
			start.Add(10 * time.Second),
		), Role: record.Transit, IngressIfIndex: 2, EgressIfIndex: 3, Namespace: 123, TraceType: 0x880000,
		FlowID: record.NewField(
			uint32(7),
			true,
		), Packet: got.Packet, Packets: 100, Bytes: 14800, First: instant.Of(start), Last: instant.Of(start.Add(time.Second)),
		TransitDelay: &record.Delays{
			Min:   5000,
			Max:   9000,
			Sum:   700000,
			Count: 100,
		}, SequenceGaps: record.NewField(uint64(2), true), Reordered: record.NewField(uint64(1), true),
		HopLimit: record.HopLimits{Min: 62, Max: 63}, EndReason: record.EndInterval,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if got.Packet.Source.String() != "2001:db8:1::2" || got.Packet.NextHeader != 58 || got.Packet.SourcePort != nil {
		t.Errorf("packet %+v", got.Packet)
	}
	if out.all()[1].(*record.Flow).TransitDelay != nil {
		t.Error("a flow without measured delays has some")
	}
	for name, bad := range map[string]fields{
		"ends before it starts":    flow.with(field{"flowEndNanoseconds", start.Add(-time.Second)}),
		"ends after the year 9999": flow.with(field{"flowEndMilliseconds", time.Date(200_000, 1, 1, 0, 0, 0, 0, time.UTC)}, field{"flowEndNanoseconds", time.Unix(0, 0)}),
		"octets without a packet":  flow.with(num("packetDeltaCount", 0)),
		"hop limits turned around": flow.with(num("minimumTTL", 64)),
		"delays turned around":     flow.with(num("ioamTransitDelayMinNanoseconds", 9001)),
	} {
		c, out, send := offline(t, Config{}, ipfix.UDP)
		send(newExporter(t, ipfix.UDP, 1).message(start, 0, bad))
		if c.Stats().Faults[record.FaultFlow] != 1 || len(out.all()) != 0 {
			t.Errorf("%s: %d faults, %d records", name, c.Stats().Faults[record.FaultFlow], len(out.all()))
		}
	}
}

// A trace is joined from the records of its hops.
func TestTrace(t *testing.T) {
	hop := func(report, index, count uint64) fields {
		return fields{
			{"observationTimeNanoseconds", start}, {"sourceIPv6Address", netip.MustParseAddr("2001:db8:1::2")}, {"destinationIPv6Address", netip.MustParseAddr("2001:db8:2::2")},
			num("protocolIdentifier", 17), num("flowLabelIPv6", 1), num("ipTotalLength[4]", 100), num("ingressInterface", 2), num("ioamOptionType", 0), num("ioamNamespaceId", 123),
			num("ioamTraceType", 0x800000), num("ioamReportId", report), num("ioamHopIndex", index), num("ioamHopCount", count),
			num("ioamTraceFlags", 0xe), num("ioamRemainingLength", 3), num("ioamHopLimit", 63-index), num("ioamNodeId", index+1),
		}
	}
	for _, tt := range []struct {
		name string
		hops []fields
		want string // node ids of each trace
		cut  uint64
	}{
		{"in order", []fields{hop(1, 0, 3), hop(1, 1, 3), hop(1, 2, 3)}, "[1 2 3]", 0},
		{"out of order, two at a time", []fields{hop(1, 2, 3), hop(2, 0, 2), hop(1, 0, 3), hop(2, 1, 2), hop(1, 1, 3)}, "[1 2] [1 2 3]", 0},
		{"one missing", []fields{hop(1, 0, 3), hop(1, 2, 3)}, "[1 3]", 1},
		{"number used again", []fields{hop(1, 0, 3), hop(1, 0, 3), hop(1, 1, 3), hop(1, 2, 3)}, "[1] [1 2 3]", 1},
		{"another length", []fields{hop(1, 0, 3), hop(1, 0, 1)}, "[1] [1]", 1},
		{"without nodes", []fields{hop(1, 0, 0)}, "[]", 0},
		{"without a report id", []fields{hop(1, 0, 3).without("ioamReportId"), hop(1, 1, 3).without("ioamReportId")}, "[1] [2]", 0},
		{"beyond its end", []fields{hop(1, 3, 3)}, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, out, send := offline(t, Config{}, ipfix.UDP)
			send(newExporter(t, ipfix.UDP, 1).message(start, 0, tt.hops...))
			c.flush(time.Now().Add(traceWait))
			var got []string
			for _, e := range out.all() {
				r := e.(*record.Trace)
				ids := []string{}
				for _, n := range r.Nodes {
					ids = append(ids, fmt.Sprint(n.NodeID.Value))
				}
				got = append(got, "["+strings.Join(ids, " ")+"]")
				if !r.Overflow.Value || !r.Loopback || !r.Active || r.Remaining.Value != 3 || r.Namespace != 123 || r.IfIndex != 2 ||
					r.Packet.Length != 100 ||
					r.Option != "pre-allocated" {
					t.Errorf("%+v", r)
				}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("got %s, want %s", text, tt.want)
			}
			if s := c.Stats(); s.TracesCut != tt.cut || s.Traces != uint64(len(got)) ||
				s.Data[record.DataHop]+s.Faults[record.FaultTraceIndex] != uint64(len(tt.hops)) {
				t.Errorf("stats %+v", s)
			}
			if len(c.traces.open) != 0 || c.traces.hops != 0 || c.traces.queue.Len() != 0 {
				t.Errorf("%d traces are kept", len(c.traces.open))
			}
		})
	}
	c, _, send := offline(t, Config{}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	for n := range uint64(1000) {
		send(x.message(start, 0, hop(n, 0, 255)))
		if c.traces.hops > hopsLimit {
			t.Fatalf("%d hops are kept", c.traces.hops)
		}
	}
	if c.Stats().TracesCut == 0 {
		t.Error("no trace gave way")
	}
}

// For a trace of the kernel's own IOAM, fields that it does not report stay unknown.
func TestKernelTrace(t *testing.T) {
	hop := func(index uint64) fields {
		return fields{
			{"observationTimeNanoseconds", start}, num("ioamOptionType", 0), num("ioamNamespaceId", 123), num("ioamTraceType", 0x800000),
			num("ioamReportId", 1), num("ioamHopIndex", index), num("ioamHopCount", 2), num("ioamRecordSource", 1),
			num("ioamHopLimit", 63-index), num("ioamNodeId", index+1),
		}
	}
	c, out, send := offline(t, Config{}, ipfix.UDP)
	send(newExporter(t, ipfix.UDP, 1).message(start, 0, hop(0), hop(1)))
	if len(out.all()) != 1 {
		t.Fatalf("%d records, want one; %+v", len(out.all()), c.Stats())
	}
	line := record.AppendJSON(nil, out.all()[0])
	_, got, _ := strings.Cut(string(line), `,"source"`)
	if want := `:"kernel","option":"pre-allocated","namespace":123,"trace_type":"0x800000","nodes":[{"hop_limit":63,"node_id":1},` +
		`{"hop_limit":62,"node_id":2}]}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
