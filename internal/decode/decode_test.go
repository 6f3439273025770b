// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

const (
	jsonHead = `{"kind":"trace","time":"2026-11-21T05:21:00.123456000Z",`
	jsonTail = `"option":"pre-allocated","namespace":123,"trace_type":"0x800000","overflow":false,"remaining":1,` +
		`"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9,` +
		`"flow_label":74565,"length":72},` +
		`"nodes":[{"hop_limit":63,"node_id":2}]}`
)

func TestLinkLayersAndFormats(t *testing.T) {
	packet := udp(0, options(t, 17, trace(123, 2)))
	for _, tt := range []struct {
		name  string
		link  LinkType
		frame []byte
	}{
		{"Ethernet", LinkEthernet, frame(LinkEthernet, packet)},
		{"Ethernet with padding", LinkEthernet, append(frame(LinkEthernet, packet), 1, 2, 3, 4, 5, 6, 7, 8)},
		{"one VLAN tag", LinkEthernet, tagged(packet, 0x8100)},
		{"two VLAN tags", LinkEthernet, tagged(packet, 0x88a8, 0x8100)},
		{"raw IP", LinkRaw, packet},
		{"raw IP of BSD", LinkRawBSD, packet},
		{"raw IP of OpenBSD", LinkRawOBSD, packet},
		{"raw IPv6", LinkIPv6, packet},
		{"Linux cooked", LinkSLL, frame(LinkSLL, packet)},
		{"Linux cooked, version 2", LinkSLL2, frame(LinkSLL2, packet)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for format, capture := range map[string]struct {
				data []byte
				want string
			}{
				"pcap":      {pcap(t, tt.link, tt.frame), jsonHead + jsonTail},
				"pcapng":    {pcapng(t, tt.link, tt.frame), jsonHead + `"interface":"eth7",` + jsonTail},
				"pcap.gzip": {gzipped(t, pcap(t, tt.link, tt.frame)), jsonHead + jsonTail},
			} {
				r := decodeCapture(t, capture.data)
				if len(r.lines) != 1 || r.lines[0] != capture.want || !r.complete || r.summary.Packets != 1 {
					t.Errorf("%s: %q, faults %q, %+v\nwant %s", format, r.lines, r.faults, r.summary, capture.want)
				}
			}
		})
	}
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWhereTracesAre(t *testing.T) {
	inner := udp(17)
	const a, b = "2001:db8:a::1", "2001:db8:b::1"
	routing := []byte{41, 2, 4, 0, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	for _, tt := range []struct {
		name   string
		packet []byte
		want   string
	}{
		{"inline", udp(0, options(t, 17, trace(123, 2))), "123/2>2001:db8:2::2"},
		{"tunnel", ipv6Packet(0, a, b, append(options(t, 41, trace(123, 2)), inner...)), "123/2>2001:db8:2::2"},
		{"tunnel in a tunnel", ipv6Packet(0, a, b, append(options(t, 41, trace(123, 2)),
			ipv6Packet(0, b, a, append(options(t, 41, trace(124, 3)), inner...))...)), "123/2>2001:db8:a::1 124/3>2001:db8:2::2"},
		{"tunnel around inline", ipv6Packet(0, a, b, append(options(t, 41, trace(123, 2)), udp(0, options(t, 17, trace(124, 3)))...)),
			"123/2>2001:db8:2::2 124/3>2001:db8:2::2"},
		{"a tunnel without options around inline", ipv6Packet(41, a, b, udp(0, options(t, 17, trace(124, 3)))), "124/3>2001:db8:2::2"},
		{"tunnel after a routing header", ipv6Packet(0, a, b, bytes.Join([][]byte{options(t, 43, trace(123, 2)), routing, inner}, nil)), "123/2>2001:db8:2::2"},
		{"several options", udp(0, options(t, 17, trace(1, 2), trace(2, 3), trace(3, 4))), "1/2>2001:db8:2::2 2/3>2001:db8:2::2 3/4>2001:db8:2::2"},
		{"destination options", udp(60, options(t, 17, trace(123, 2))), "123/2>2001:db8:2::2"},
		{"both headers", udp(0, options(t, 60, trace(123, 2)), options(t, 17, trace(124, 3))), "123/2>2001:db8:2::2 124/3>2001:db8:2::2"},
		{"first fragment", udp(44, []byte{0, 0, 0, 1, 0, 0, 0, 1}, options(t, 17, trace(123, 2))), "123/2>2001:db8:2::2"},
		{"later fragment", udp(44, []byte{0, 0, 0, 9, 0, 0, 0, 1}, options(t, 17, trace(123, 2))), ""},
		{"incremental", udp(0, options(t, 17, ioam.Trace{Incremental: true, Namespace: 5, NodeLen: 1, Type: 0x800000, Data: []byte{63, 0, 0, 9}}.Option())), "5/9>2001:db8:2::2"},
		{"no IOAM", inner, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := decodeCapture(t, pcap(t, LinkRaw, tt.packet))
			if got := r.found(); got != tt.want || !r.complete {
				t.Errorf("found %q, faults %q; want %q", got, r.faults, tt.want)
			}
		})
	}
}

func TestNestingIsBounded(t *testing.T) {
	packet := udp(0, options(t, 17, trace(123, 2)))
	for range maxTunnels + 1 {
		packet = ipv6Packet(41, "2001:db8::1", "2001:db8::2", packet)
	}
	if r := decodeCapture(t, pcap(t, LinkRaw, packet)); len(r.lines) != 0 {
		t.Errorf("%q", r.lines)
	}
	if r := decodeCapture(t, pcap(t, LinkRaw, packet[ipv6HeaderLen:])); len(r.lines) != 1 {
		t.Errorf("%q", r.lines)
	}
}

func TestOtherThingsInACapture(t *testing.T) {
	good := udp(0, options(t, 17, trace(123, 2)))
	later := ioam.IOAMOption{OptionType: ioam.OptionIOAM, Type: 64, Data: make([]byte, 8)}.Option()
	arp := append(append(make([]byte, 12), 8, 6), make([]byte, 28)...)
	ipv4 := append(append(make([]byte, 12), 8, 0), 0x45)
	r := decodeCapture(t, pcap(t, LinkEthernet, arp, ipv4, tagged(good, 0x88a8, 0x8100, 0x8100), make([]byte, 5),
		frame(LinkEthernet, udp(0, options(t, 17, later, later))), frame(LinkEthernet, good)))
	if r.found() != "123/2>2001:db8:2::2" || !r.complete || r.summary.Packets != 6 || r.summary.Others[64] != 2 || r.summary.Records != 1 {
		t.Errorf("found %q, faults %q, %+v", r.found(), r.faults, r.summary)
	}

	r = decodeCapture(t, pcap(t, 147, good, good))
	want := "link type 147 is not supported: 2 packets skipped; capture on Ethernet, raw IP or Linux cooked"
	if len(r.faults) != 1 || r.faults[0] != want {
		t.Errorf("%q, want %q", r.faults, want)
	}
}

func TestOutputErrorEndsIt(t *testing.T) {
	full := errors.New("disk full")
	capture := pcap(t, LinkRaw, udp(0, options(t, 17, trace(1, 2), trace(2, 3))))
	calls := 0
	_, _, err := Capture(bytes.NewReader(capture), record.Clock{}, func(record.Record) error { calls++; return full }, func(error) {})
	if !errors.Is(err, full) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// A wrong packet is reported, and the packets after it are decoded.
func TestMalformedPackets(t *testing.T) {
	good := udp(0, options(t, 17, trace(123, 2)))
	change := func(at int, value byte) []byte {
		b := bytes.Clone(good)
		b[at] = value
		return b
	}
	for _, tt := range []struct {
		name   string
		packet []byte
		want   string // the error
		traces int    // of the wrong packet
	}{
		{"direct export too short", udp(0, []byte{17, 1, 1, 0, 0x31, 10, 0, 4, 0, 123, 0, 0x80, 0x80, 0, 0, 0}), "packet 1: IPv6 packet, offset 45: option too short for its fixed fields (RFC 9326 §3.2)", 0},
		{"header beyond the packet", change(41, 9), "packet 1: IPv6 packet, offset 72: the buffer ends within the header (RFC 8200 §4.3)", 0},
		{"option beyond the header", change(45, 99), "packet 1: IPv6 packet, offset 44: option reaches beyond its header (RFC 8200 §4.2)", 0},
		{"option too short", udp(0, []byte{17, 0, 1, 0, 0x31, 2, 0, 0}), "packet 1: IPv6 packet, offset 45: option too short for its fixed fields (RFC 9197 §4.4.1)", 0},
		{"option of no length", udp(0, []byte{17, 0, 1, 0, 0x31, 0, 0, 0}), "packet 1: IPv6 packet, offset 45: option too short for its fixed fields (RFC 9486 §3)", 0},
		{"not aligned", udp(0, []byte{17, 1, 0x31, 10, 0, 0, 0, 123, 8, 0, 0x80, 0, 0, 0, 1, 0}), "packet 1: IPv6 packet, offset 42: IOAM option not aligned to 4 bytes (RFC 9486 §3)", 0},
		{"remaining length", change(51, 99), "packet 1: IPv6 packet, offset 51: RemainingLen beyond the node data list (RFC 9197 §4.4.1)", 1},
		{"node length", change(50, 0x10), "packet 1: IPv6 packet, offset 50: NodeLen inconsistent with the trace type (RFC 9197 §4.4.1)", 1},
		{"incomplete IPv6 header", good[:39], "packet 1: IPv6 packet, offset 0: incomplete IPv6 header", 0},
		{"no whole inner header", ipv6Packet(41, "2001:db8::1", "2001:db8::2", good[:20]), "packet 1: IPv6 packet, offset 40: incomplete IPv6 header", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := decodeCapture(t, pcap(t, LinkRaw, tt.packet, good))
			if len(r.faults) != 1 || r.faults[0] != tt.want {
				t.Errorf("faults %q\nwant   %q", r.faults, tt.want)
			}
			if len(r.records) != tt.traces+1 || !strings.HasSuffix(r.found(), "123/2>2001:db8:2::2") {
				t.Errorf("found %q in %d records", r.found(), len(r.records))
			}
		})
	}
}
