// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

func decodeTrace(t *testing.T, s string) ioam.Trace {
	t.Helper()
	trace, err := ioam.DecodeTrace(craft.Hex(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func udpPacket() Packet {
	source, destination := uint16(4242), uint16(9)
	return Packet{
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"),
		NextHeader: 17, SourcePort: &source, DestinationPort: &destination, Length: 128,
	}
}

const (
	recordHead = `{"kind":"trace","time":"2026-11-21T05:21:00.000000001Z","option":"pre-allocated","namespace":123,`
	recordUDP  = `"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9,` +
		`"flow_label":0,"length":128},`
)

func TestTraceJSON(t *testing.T) {
	for _, tt := range []struct {
		name, trace, want string
		clock             Clock
	}{
		{
			name:  "what a kernel node writes for every bit, no schema",
			trace: "007b7800 fff00200 3f000002 00c900ca 6a5f7f7b 000f423f ffffffff ffffffff 00000000 ffffffff 3f000000 0153158e 000311f1 000315da ffffffff ffffffff ffffffff 00ffffff",
			want: recordHead + `"trace_type":"0xfff002","overflow":false,"remaining":0,` + recordUDP +
				`"nodes":[{"hop_limit":63,"node_id":2,"ingress_id":201,"egress_id":202,"timestamp":"2026-07-21T14:17:31.999999000Z","transit_delay_ns":null,` +
				`"namespace_data":null,"queue_depth":0,"checksum_complement":null,"node_id_wide":22222222,"ingress_id_wide":201201,"egress_id_wide":202202,` +
				`"namespace_data_wide":null,"buffer_occupancy":null,"snapshot":null}]}`,
		},
		{
			name:  "all values, with a snapshot",
			trace: "007b7800 fff00200 3f000002 00c900ca 6a5f7f7b 000f423f 0000474a deadbeef 00000007 0000abcd 3f000000 0153158e 000311f1 000315da cafec0ca f00dc0de 00000010 02000309 7261636b 20370000",
			want: recordHead + `"trace_type":"0xfff002","overflow":false,"remaining":0,` + recordUDP +
				`"nodes":[{"hop_limit":63,"node_id":2,"ingress_id":201,"egress_id":202,"timestamp":"2026-07-21T14:17:31.999999000Z","transit_delay_ns":18250,` +
				`"namespace_data":"0xdeadbeef","queue_depth":7,"checksum_complement":"0x0000abcd","node_id_wide":22222222,"ingress_id_wide":201201,"egress_id_wide":202202,` +
				`"namespace_data_wide":"0xcafec0caf00dc0de","buffer_occupancy":16,"snapshot":{"schema":777,"data":"cmFjayA3AAA="}}]}`,
		},
		{
			name:  "fields the type lacks are absent, nodes in path order, free space and overflow kept",
			trace: "007b0c01 80000000 00000000 3e000003 3f000002",
			want: recordHead + `"trace_type":"0x800000","overflow":true,"remaining":1,` + recordUDP +
				`"nodes":[{"hop_limit":63,"node_id":2},{"hop_limit":62,"node_id":3}]}`,
		},
		{
			name:  "PTP counts TAI",
			trace: "007b1000 30000000 6a5f7fa0 3b9ac9ff",
			clock: Clock{Format: ioam.TimestampPTP, TAIOffset: 37 * time.Second},
			want: recordHead + `"trace_type":"0x300000","overflow":false,"remaining":0,` + recordUDP +
				`"nodes":[{"timestamp":"2026-07-21T14:17:31.999999999Z"}]}`,
		},
		{
			name:  "a fraction without seconds is no time",
			trace: "007b0800 10000000 000f423f",
			want: recordHead + `"trace_type":"0x100000","overflow":false,"remaining":0,` + recordUDP +
				`"nodes":[{"timestamp_fraction":999999}]}`,
		},
		{
			name:  "delays beyond 2^31 ns, and one that no node measured",
			trace: "007b0800 08000000 80000000 80000123",
			want: recordHead + `"trace_type":"0x080000","overflow":false,"remaining":0,` + recordUDP +
				`"nodes":[{"transit_delay_ns":null},{"transit_delay_ns":null,"transit_delay_overflow":true}]}`,
		},
		{
			name:  "no node yet",
			trace: "007b0801 80000000 00000000",
			want:  recordHead + `"trace_type":"0x800000","overflow":false,"remaining":1,` + recordUDP + `"nodes":[]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC)
			record, err := NewTrace(at, decodeTrace(t, tt.trace), udpPacket(), tt.clock)
			if err != nil {
				t.Fatal(err)
			}
			got := AppendJSON(nil, &record)
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			var back Trace
			if err := Unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			if again := AppendJSON(nil, &back); !bytes.Equal(again, got) {
				t.Errorf("read and written again: %s", again)
			}
		})
	}
}

func TestTraceOfAnImpossibleTime(t *testing.T) {
	for _, at := range []time.Time{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		record, err := NewTrace(at, decodeTrace(t, "007b0801 80000000 00000000"), udpPacket(), Clock{})
		line := AppendJSON(nil, &record)
		if err != nil || strings.Contains(string(line), `"time"`) {
			t.Errorf("%v: %s, %v", at, line, err)
		}
	}
}

func TestTraceCutShort(t *testing.T) {
	record, err := NewTrace(time.Time{}, decodeTrace(t, "007b1000 c0000000 3e000003 00010002 3f000002"), udpPacket(), Clock{})
	if err == nil || len(record.Nodes) != 1 || record.Nodes[0].NodeID.Value != 3 {
		t.Errorf("nodes %+v, error %v; want node 3 and an error", record.Nodes, err)
	}
	line := AppendJSON(nil, &record)
	if strings.Contains(string(line), `"time"`) {
		t.Errorf("%s: a record without time has a time", line)
	}
}

func TestParsePacket(t *testing.T) {
	const addresses = "20010db8000100000000000000000002 20010db8000200000000000000000002"
	const ports = " 10920009 00000000"
	for _, tt := range []struct {
		name, packet string
		next         ioam.NextHeader
		ports        bool
	}{
		{"udp", "60012345 0008 11 40" + addresses + ports, 17, true},
		{"icmpv6", "60012345 0008 3a 40" + addresses + "80000000 00000000", 58, false},
		{"after a hop-by-hop header", "60012345 0010 00 40" + addresses + "1100010400000000" + ports, 17, true},
		{"ports cut off", "60012345 0008 11 40" + addresses + "109200", 17, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, ok := ParsePacket(craft.Hex(t, tt.packet), 1234)
			if !ok || p.FlowLabel != 0x12345 || p.Source.String() != "2001:db8:1::2" || p.Destination.String() != "2001:db8:2::2" {
				t.Fatalf("%+v, %v", p, ok)
			}
			if p.NextHeader != tt.next || p.Length != 1234 {
				t.Errorf("next header %d, length %d; want %d, 1234", p.NextHeader, p.Length, tt.next)
			}
			if has := p.SourcePort != nil && *p.SourcePort == 4242 && *p.DestinationPort == 9; has != tt.ports {
				t.Errorf("ports %v %v; want them: %v", p.SourcePort, p.DestinationPort, tt.ports)
			}
		})
	}
	for _, bad := range []string{"", "60", "45000000" + addresses} {
		if _, ok := ParsePacket(craft.Hex(t, bad), 0); ok {
			t.Errorf("%q is read as an IPv6 packet", bad)
		}
	}
}
