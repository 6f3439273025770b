// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

var captured = time.Date(2026, 11, 21, 5, 21, 0, 123456000, time.UTC)

// ipv6Packet has a flow label.
func ipv6Packet(next ioam.NextHeader, source, destination string, payload []byte) []byte {
	header := craft.Between(source, destination, byte(next))
	header.Label = 0x12345
	return header.With(payload)
}

// udp is an IPv6 packet with 8 bytes of UDP, after the extension headers.
func udp(next ioam.NextHeader, headers ...[]byte) []byte {
	datagram := ipv6Packet(ioam.NextHeaderUDP, "2001:db8:1::2", "2001:db8:2::2", craft.Datagram(4242, 9))
	payload := append(bytes.Join(headers, nil), craft.Seal(datagram)[craft.HeaderLen:]...)
	return ipv6Packet(next, "2001:db8:1::2", "2001:db8:2::2", payload)
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
		return craft.Ethernet(nil, nil, packet)
	case LinkSLL:
		header = append(make([]byte, 14), 0x86, 0xdd)
	case LinkSLL2:
		header = append([]byte{0x86, 0xdd}, make([]byte, 18)...)
	}
	return append(header, packet...)
}

// tagged is an Ethernet frame with VLAN tags.
func tagged(packet []byte, tags ...uint16) []byte {
	var list []craft.Tag
	for _, tag := range tags {
		list = append(list, craft.Tag{Type: tag, Control: 7})
	}
	return craft.Ethernet(nil, nil, packet, list...)
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

// pcapng is a capture of frames on an interface eth7, followed by the interface's
// statistics, as other tools write them.
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

// result is the result of decoding a capture.
type result struct {
	records  []record.Trace
	triggers []record.Trigger
	proofs   []record.Proof
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
		case *record.Proof:
			r.proofs = append(r.proofs, *found)
		case *record.Trigger:
			r.triggers = append(r.triggers, *found)
		}
		r.lines = append(r.lines, string(record.AppendJSON(nil, found)))
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
