// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
	"github.com/waymark-net/waymark/test/craft"
)

// postcard is one of a transit node, with the fields of trace type 0xf80000.
func postcard(t testing.TB) *Postcard {
	t.Helper()
	p := &Postcard{
		Time: instant.Of(time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC)), Node: "porthos", Role: Transit,
		Ingress: "eth0", Egress: "eth1", IngressIfIndex: 2, EgressIfIndex: 3, Option: ioam.IOAMDirectExport.String(),
		Namespace: 123, TraceType: 0xf80000, Flags: 5, ExtensionFlags: 0xc0,
		FlowID: NewField[uint32](0x12345678, true), Sequence: NewField[uint32](7, true), Packet: udpPacket(),
		Raw: ioam.NodeData{Type: 0xf80000, Bytes: craft.Hex(t, "3f000002 00c900ca 6a5f7f7b 000f423f 0000474a")},
	}
	p.Data = p.Measured()
	return p
}

func flow() *Flow {
	at := time.Date(2026, 11, 21, 5, 21, 0, 0, time.UTC)
	packet := udpPacket()
	packet.Length = 0
	return &Flow{
		Time: instant.Of(at), Node: "porthos", Role: Transit, Ingress: "eth0", Egress: "eth1", IngressIfIndex: 2, EgressIfIndex: 3,
		Namespace: 123, TraceType: 0xf80000, FlowID: NewField[uint32](0x12345678, true), Packet: packet,
		Packets: 100, Bytes: 12800, First: instant.Of(at.Add(-time.Second)), Last: instant.Of(at.Add(-time.Millisecond)),
		TransitDelay: &Delays{
			Min:   5000,
			Max:   20000,
			Sum:   990000,
			Count: 99,
		}, SequenceGaps: NewField(uint64(2), true), Reordered: NewField(uint64(1), true),
		HopLimit: HopLimits{Min: 62, Max: 63}, EndReason: EndInterval,
	}
}

const (
	postcardJSON = `{"kind":"postcard","time":"2026-11-21T05:21:00.000000001Z","node":"porthos","role":"transit",` +
		`"ingress":"eth0","egress":"eth1","ingress_ifindex":2,"egress_ifindex":3,"option":"direct-export","namespace":123,` +
		`"trace_type":"0xf80000","flags":"0x05","extension_flags":"0xc0","flow_id":305419896,"sequence":7,` + recordUDP +
		`"data":{"hop_limit":63,"node_id":2,"ingress_id":201,"egress_id":202,"timestamp":"2026-07-21T14:17:31.999999000Z",` +
		`"transit_delay_ns":18250}}`
	flowJSON = `{"kind":"flow","time":"2026-11-21T05:21:00.000000000Z","node":"porthos","role":"transit",` +
		`"ingress":"eth0","egress":"eth1","ingress_ifindex":2,"egress_ifindex":3,"namespace":123,"trace_type":"0xf80000","flow_id":305419896,` +
		`"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9,` +
		`"flow_label":0},` +
		`"packets":100,"bytes":12800,"first":"2026-11-21T05:20:59.000000000Z","last":"2026-11-21T05:20:59.999000000Z",` +
		`"transit_delay_ns":{"min":5000,"max":20000,"sum":990000,"count":99},"sequence_gaps":2,"reordered":1,` +
		`"hop_limit":{"min":62,"max":63},"end_reason":"interval"}`
)

func TestRecordJSON(t *testing.T) {
	bare, rare := postcard(t), flow()
	bare.FlowID, bare.Sequence, bare.ExtensionFlags, bare.Role = Field[uint32]{}, Field[uint32]{}, 0, Decapsulating
	bare.Packet, bare.Egress, bare.EgressIfIndex = Packet{}, "", 0
	bare.Raw = ioam.NodeData{Type: 0x800000, Bytes: craft.Hex(t, "ffffffff")}
	bare.Data = bare.Measured()
	unsure := flow()
	unsure.SequenceGaps = Field[uint64]{Present: true}
	rare.SequenceGaps, rare.Reordered = Field[uint64]{}, Field[uint64]{}
	rare.TransitDelay, rare.FlowID, rare.EndReason, rare.Role = nil, Field[uint32]{}, 9, 0
	without := func(s string, parts ...string) string {
		for i := 0; i < len(parts); i += 2 {
			if !strings.Contains(s, parts[i]) {
				t.Fatalf("no %q in %s", parts[i], s)
			}
			s = strings.ReplaceAll(s, parts[i], parts[i+1])
		}
		return s
	}
	head, _, _ := strings.Cut(postcardJSON, `"data":`)
	for _, tt := range []struct {
		name, want string
		record     Record
	}{
		{"postcard", postcardJSON, postcard(t)},
		{"postcard without what may be absent", without(head, `"flow_id":305419896,"sequence":7,`, "", recordUDP, "", `"egress":"eth1",`, "",
			`,"egress_ifindex":3`, "", `"0xc0"`, `"0x00"`, "transit", "decapsulating") + `"data":{"hop_limit":null,"node_id":null}}`, bare},
		{"flow", flowJSON, flow()},
		{"flow whose missing packets are unknown", without(flowJSON, `"sequence_gaps":2`, `"sequence_gaps":null`), unsure},
		{"flow without what may be absent, and numbers that have no name", without(flowJSON, `"flow_id":305419896,`, "",
			`"transit_delay_ns":{"min":5000,"max":20000,"sum":990000,"count":99},`, "", `"sequence_gaps":2,"reordered":1,`, "", `"interval"`, `"number-9"`, `"transit"`, `"number-0"`), rare},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := AppendJSON(nil, tt.record)
			if string(got) != tt.want {
				t.Fatalf("got  %s\nwant %s", got, tt.want)
			}
			back, err := Parse(got)
			if err != nil {
				t.Fatal(err)
			}
			if again := AppendJSON(nil, back); !bytes.Equal(again, got) {
				t.Errorf("read and written again: %s", again)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, other := range []string{`{"kind":"demo","traced":3}`, `{}`} {
		if r, err := Parse([]byte(other)); r != nil || err != nil {
			t.Errorf("what is no record gives %v, %v", r, err)
		}
	}
	for _, bad := range []string{``, `{"kind":1}`, `{"kind":"postcard","role":"king"}`, `{"kind":"flow","end_reason":"number-256"}`,
		`{"kind":"trace","nodes":3}`} {
		if r, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s gives %v and no error", bad, r)
		}
	}
}

func TestPostcardText(t *testing.T) {
	bare := postcard(t)
	bare.FlowID, bare.Sequence, bare.Ingress, bare.Role, bare.Node, bare.Time = Field[uint32]{}, Field[uint32]{}, "", Encapsulating, "",
		instant.Time{}
	short := flow()
	short.TransitDelay, short.SequenceGaps, short.Reordered, short.HopLimit.Max, short.EndReason = nil, Field[uint64]{}, Field[uint64]{}, 62,
		EndIdle
	unsure := flow()
	unsure.SequenceGaps = Field[uint64]{Present: true}
	for _, tt := range []struct {
		record Record
		want   string
	}{
		{postcard(t), "2026-11-21T05:21:00.000000001Z  porthos eth0 > eth1  postcard of a transit node, [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, 128 bytes, namespace 123, type 0xf80000, flow 0x12345678, sequence 7\n" +
			"    node 2  201 > 202  hop limit 63  at 14:17:31.999999000  held 18.25µs\n"},
		{bare, "- > eth1  postcard of an encapsulating node, [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, 128 bytes, namespace 123, type 0xf80000\n" +
			"    node 2  201 > 202  hop limit 63  at 14:17:31.999999000  held 18.25µs\n"},
		{flow(), "2026-11-21T05:21:00.000000000Z  porthos eth0 > eth1  flow at a transit node, [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, namespace 123, type 0xf80000, flow 0x12345678\n" +
			"    100 packets, 12800 bytes in 999ms  held 10µs (5µs to 20µs)  2 missing  1 reordered  hop limit 62 to 63  interval\n"},
		{short, "2026-11-21T05:21:00.000000000Z  porthos eth0 > eth1  flow at a transit node, [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, namespace 123, type 0xf80000, flow 0x12345678\n" +
			"    100 packets, 12800 bytes in 999ms  hop limit 62  idle\n"},
		{unsure, "2026-11-21T05:21:00.000000000Z  porthos eth0 > eth1  flow at a transit node, [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, namespace 123, type 0xf80000, flow 0x12345678\n" +
			"    100 packets, 12800 bytes in 999ms  held 10µs (5µs to 20µs)  missing unknown  1 reordered  hop limit 62 to 63  interval\n"},
	} {
		if got := tt.record.Text(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// One encoder for postcards of several origins, one after another, writes what a new
// encoder writes for each.
func TestEncodingKeepsNoOrigin(t *testing.T) {
	templates, err := NewTemplates(ipfix.EnterpriseExample)
	if err != nil {
		t.Fatal(err)
	}
	shared, r := templates.Encoding(), rand.New(rand.NewPCG(1, 2))
	few := func() uint32 { return 1 + r.Uint32N(2) }
	for range 2000 {
		kind := []ioam.TraceType{0xc00000, 0x800000}[r.IntN(2)]
		p := &Postcard{
			Time: instant.Of(time.Unix(int64(r.Uint32()), 0)), Role: NodeRole(few()), Option: ioam.IOAMDirectExport.String(),
			IngressIfIndex: model.IfIndex(few()), EgressIfIndex: model.IfIndex(few()), Namespace: ioam.NamespaceID(few()), TraceType: kind,
			Flags: Hex8(
				few(),
			), ExtensionFlags: Hex8(few()), FlowID: NewField(r.Uint32(), true),
			Raw: ioam.NodeData{Type: kind, Bytes: make([]byte, 4*kind.NodeLen())},
		}
		if r.IntN(8) == 0 {
			p.Raw.Bytes = nil // cannot be encoded
		}
		alone := templates.Encoding()
		if got, want := encodePart(shared, p, 0, 0), encodePart(alone, p, 0, 0); (got == nil) != (want == nil) {
			t.Fatalf("%v, want %v", got, want)
		} else if want == nil && !bytes.Equal(shared.Octets, alone.Octets) {
			t.Fatalf("%x\nwant\n%x", shared.Octets, alone.Octets)
		}
	}
}

// What is retained of a postcard does not change with its memory.
func TestRetain(t *testing.T) {
	ports := [2]uint16{1, 2}
	p := &Postcard{
		Packet: Packet{SourcePort: &ports[0], DestinationPort: &ports[1]},
		Raw:    ioam.NodeData{Type: 0x800000, Bytes: []byte{1, 2, 3, 4}},
	}
	kept := Retain(p)
	want := string(AppendLine(nil, kept))
	ports[0], ports[1], p.Raw.Bytes[3], p.Node = 3, 4, 5, "other"
	if got := string(AppendLine(nil, kept)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if f := (&Flow{}); Retain(f) != Record(f) {
		t.Error("a flow was copied")
	}
}
