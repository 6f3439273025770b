// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

var captured = time.Date(2026, 11, 21, 5, 21, 0, 123456000, time.UTC)

// ipv6 is an IPv6 packet.
func ipv6Packet(next ioam.NextHeader, source, destination string, payload []byte) []byte {
	b := make([]byte, ipv6HeaderLen, ipv6HeaderLen+len(payload))
	binary.BigEndian.PutUint32(b, 0x60012345)
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	b[6], b[7] = byte(next), 64
	s, d := netip.MustParseAddr(source).As16(), netip.MustParseAddr(destination).As16()
	copy(b[8:], s[:])
	copy(b[24:], d[:])
	return append(b, payload...)
}

// udp is an IPv6 packet with 8 bytes of UDP, behind the extension headers.
func udp(next ioam.NextHeader, headers ...[]byte) []byte {
	payload := append(bytes.Join(headers, nil), 0x10, 0x92, 0, 9, 0, 8, 0, 0)
	b := ipv6Packet(next, "2001:db8:1::2", "2001:db8:2::2", payload)
	sum := uint32(17 + 8) // of the pseudo-header (RFC 8200 §8.1), with both addresses
	for at := 8; at < ipv6HeaderLen; at += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[at:]))
	}
	for at := len(b) - 8; at < len(b); at += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[at:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[len(b)-2:], ^uint16(sum>>16+sum))
	return b
}

// options is an extension header with options.
func options(t testing.TB, next ioam.NextHeader, list ...ioam.Option) []byte {
	t.Helper()
	b, err := ioam.AppendExtensionHeader(nil, next, list...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// trace has one node: hop limit 63 and the id; and 4 bytes of free space.
func trace(namespace ioam.NamespaceID, node byte) ioam.Option {
	return ioam.Trace{
		Namespace: namespace, NodeLen: 1, RemainingLen: 1, Type: 0x800000,
		Data: []byte{0, 0, 0, 0, 63, 0, 0, node},
	}.Option()
}

// frame puts a link layer in front of a packet.
func frame(link LinkType, packet []byte) []byte {
	var header []byte
	switch link {
	case LinkEthernet:
		header = append(make([]byte, 12), 0x86, 0xdd)
	case LinkSLL:
		header = append(make([]byte, 14), 0x86, 0xdd)
	case LinkSLL2:
		header = append([]byte{0x86, 0xdd}, make([]byte, 18)...)
	}
	return append(header, packet...)
}

// tagged is an Ethernet frame with VLAN tags.
func tagged(packet []byte, tags ...uint16) []byte {
	b := make([]byte, 12)
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint16(b, tag)
		b = append(b, 0, 7)
	}
	return append(append(b, 0x86, 0xdd), packet...)
}

func info(data []byte) gopacket.CaptureInfo {
	return gopacket.CaptureInfo{Timestamp: captured, CaptureLength: len(data), Length: len(data)}
}

// pcap is a capture of frames.
func pcap(t testing.TB, link LinkType, frames ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(65536, layers.LinkType(link)); err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := w.WritePacket(info(f), f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// pcapng is a capture of frames on an interface eth7, with what other tools
// write behind them: the interface's statistics.
func pcapng(t testing.TB, link LinkType, frames ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	in := pcapgo.NgInterface{Name: "eth7", LinkType: layers.LinkType(link), TimestampResolution: 9}
	w, err := pcapgo.NewNgWriterInterface(&b, in, pcapgo.DefaultNgWriterOptions)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := w.WritePacket(info(f), f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{LastUpdate: captured}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// result is what a capture gave.
type result struct {
	records  []record.Trace
	triggers []record.Trigger
	lines    []string // the records' JSON
	faults   []string
	summary  Summary
	complete bool
}

func decodeCapture(t testing.TB, capture []byte) result {
	t.Helper()
	var r result
	emit := func(found record.Record) error {
		switch found := found.(type) {
		case *record.Trace:
			r.records = append(r.records, *found)
		case *record.Trigger:
			r.triggers = append(r.triggers, *found)
		}
		r.lines = append(r.lines, string(found.AppendJSON(nil)))
		return nil
	}
	report := func(err error) { r.faults = append(r.faults, err.Error()) }
	var err error
	r.summary, r.complete, err = Capture(bytes.NewReader(capture), record.Clock{}, emit, report)
	if err != nil {
		t.Fatal(err)
	}
	if r.complete != (len(r.faults) == 0) {
		t.Errorf("complete: %v, faults: %q", r.complete, r.faults)
	}
	return r
}

// found lists "namespace/node>source" of each record.
func (r result) found() string {
	var words []string
	for _, record := range r.records {
		ns, _ := json.Marshal(record.Namespace)
		for _, n := range record.Nodes {
			id, _ := json.Marshal(n.NodeID.Value)
			words = append(words, string(ns)+"/"+string(id)+">"+record.Packet.Destination.String())
		}
	}
	return strings.Join(words, " ")
}
