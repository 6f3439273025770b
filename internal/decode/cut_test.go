// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/waymark-net/waymark/internal/record"
)

var knownLinks = []LinkType{LinkEthernet, LinkRawBSD, LinkRawOBSD, LinkRaw, LinkSLL, LinkIPv6, LinkSLL2}

// A capture that is cut anywhere gives the packets before the cut, and an error with
// the place unless that was after a whole record.
func TestCutCaptures(t *testing.T) {
	for _, link := range knownLinks {
		t.Run(fmt.Sprint("link type ", link), func(t *testing.T) { cutCaptures(t, link) })
	}
}

func cutCaptures(t *testing.T, link LinkType) {
	first, second := frame(link, udp(0, options(t, 17, trace(1, 2)))), frame(link, udp(0, options(t, 17, trace(2, 3))))
	const one = "1/2>2001:db8:2::2"
	const both = one + " 2/3>2001:db8:2::2"
	record := 16 + len(first)
	for cut, capture := 0, pcap(t, link, first, second); cut <= len(capture); cut++ {
		r := decodeCapture(t, capture[:cut])
		want, fault := "", ""
		switch {
		case cut == 0:
			fault = "packet 1 at offset 0: the capture is empty: the program that wrote it may have failed"
		case cut < 4:
			fault = "packet 1 at offset 0: this is neither a pcap nor a pcapng capture; convert it with editcap"
		case cut < 24:
			fault = "packet 1 at offset 0: the capture ends in the middle of a record"
		case cut > 24 && cut < 24+record:
			fault = "packet 1 at offset 24: the capture ends in the middle of a record"
		case cut > 24+record && cut < len(capture):
			fault = fmt.Sprintf("packet 2 at offset %d: the capture ends in the middle of a record", 24+record)
		}
		if cut >= 24+record {
			want = one
		}
		if cut == len(capture) {
			want = both
		}
		if got := strings.Join(r.faults, "|"); got != fault || r.found() != want {
			t.Errorf("pcap cut at %d: found %q, faults %q; want %q, %q", cut, r.found(), got, want, fault)
		}
	}
}

// The same for the blocks of pcapng: a section, an interface, two packets and
// the statistics.
func TestCutBlocks(t *testing.T) {
	for _, link := range knownLinks {
		t.Run(fmt.Sprint("link type ", link), func(t *testing.T) { cutBlocks(t, link) })
	}
}

func cutBlocks(t *testing.T, link LinkType) {
	first, second := frame(link, udp(0, options(t, 17, trace(1, 2)))), frame(link, udp(0, options(t, 17, trace(2, 3))))
	capture := pcapng(t, link, first, second)
	found := []string{"", "", "", "1/2>2001:db8:2::2", "1/2>2001:db8:2::2 2/3>2001:db8:2::2", "1/2>2001:db8:2::2 2/3>2001:db8:2::2"}
	packets := []int{0, 0, 0, 1, 2, 2} // after that many whole blocks
	starts := blockStarts(capture)
	if len(starts) != 5 {
		t.Fatalf("%d blocks, want 5", len(starts))
	}
	for cut := 4; cut <= len(capture); cut++ {
		whole, offset := 0, 0 // blocks; where the record of the next packet begins
		for i, start := range append(starts[1:], len(capture)) {
			if cut < start {
				break
			}
			if whole = i + 1; whole != 2 { // an interface belongs to the packet after it
				offset = start
			}
		}
		want := ""
		if cut != offset && !(whole == 2 && cut == starts[2]) {
			want = fmt.Sprintf("packet %d at offset %d: the capture ends in the middle of a record", packets[whole]+1, offset)
		}
		r := decodeCapture(t, capture[:cut])
		if got := strings.Join(r.faults, "|"); got != want || r.found() != found[whole] {
			t.Errorf("cut at %d: found %q, faults %q; want %q, %q", cut, r.found(), got, found[whole], want)
		}
	}
}

// A block with a wrong length is reported, and loses only the packets after it; the
// length repeated after a block is not checked.
func TestWrongBlockLengths(t *testing.T) {
	capture := pcapng(t, LinkRaw, udp(0, options(t, 17, trace(1, 2))), udp(0, options(t, 17, trace(2, 3))))
	starts := blockStarts(capture)
	for block, start := range starts {
		length := binary.LittleEndian.Uint32(capture[start+4:])
		for _, wrong := range []uint32{0, 4, 8, 12, length - 4, length + 1, length + 4, 1 << 31, 1<<32 - 16} {
			b := bytes.Clone(capture)
			binary.LittleEndian.PutUint32(b[start+4:], wrong)
			r := decodeCapture(t, b)
			if before := max(block-2, 0); len(r.faults) != 1 || len(r.records) < before || len(r.records) > before+1 {
				t.Errorf("block %d of length %d: found %q, faults %q", block, wrong, r.found(), r.faults)
			}
		}
	}
}

// blockStarts is where the blocks of a pcapng capture begin.
func blockStarts(capture []byte) []int {
	var starts []int
	for at := 0; at < len(capture); at += int(binary.LittleEndian.Uint32(capture[at+4:])) {
		starts = append(starts, at)
	}
	return starts
}

// A file of the other byte order, with nanoseconds, as machines of that order
// write it.
func TestBigEndianPcap(t *testing.T) {
	packet := udp(0, options(t, 17, trace(1, 2)))
	b := binary.BigEndian.AppendUint32(nil, pcapNanoseconds)
	for _, word := range []uint32{2<<16 | 4, 0, 0, 65535, uint32(LinkRaw), 1_700_000_000, 123_456_789, uint32(len(packet)),
		uint32(len(packet))} {
		b = binary.BigEndian.AppendUint32(b, word)
	}
	r, err := NewReader(bytes.NewReader(append(b, packet...)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Next()
	if want := time.Unix(1_700_000_000, 123_456_789); err != nil || !p.Time.Equal(want) || p.Link != LinkRaw || !bytes.Equal(p.Data, packet) {
		t.Errorf("%v, %+v; want %v", err, p, want)
	}
}

func TestCorruptCaptures(t *testing.T) {
	packet := udp(0, options(t, 17, trace(1, 2)))
	record := 16 + len(packet)
	capture := pcap(t, LinkRaw, packet, packet)
	for _, tt := range []struct {
		name  string
		at    int
		value uint32
		want  string
	}{
		{"a length beyond the end", 24 + record + 8, 3_000_000_000, fmt.Sprintf("packet 2 at offset %d: the record has 3000000000 bytes, more than the file's limit of 65536; the file is damaged", 24+record)},
		{"more captured than there was", 24 + record + 12, 1, fmt.Sprintf("packet 2 at offset %d: the record has 72 bytes of a packet of 1; the file is damaged", 24+record)},
		{"version", 4, 9, "packet 1 at offset 0: pcap version 9.0 is not supported; convert it with editcap"},
		{"magic", 0, 0xdeadbeef, "packet 1 at offset 0: this is neither a pcap nor a pcapng capture"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := bytes.Clone(capture)
			binary.LittleEndian.PutUint32(b[tt.at:], tt.value)
			r := decodeCapture(t, b)
			if len(r.faults) != 1 || !strings.HasPrefix(r.faults[0], tt.want) {
				t.Errorf("%q, want %q", r.faults, tt.want)
			}
			if strings.HasPrefix(tt.want, "packet 2") != (len(r.records) == 1) {
				t.Errorf("%d records", len(r.records))
			}
		})
	}
	ng := pcapng(t, LinkRaw, packet, packet)
	at := bytes.LastIndex(ng, packet) - 28 // the block of the second packet
	binary.LittleEndian.PutUint32(ng[at+8:], 7)
	r := decodeCapture(t, ng)
	want := fmt.Sprintf("packet 2 at offset %d: interface 7 does not exist among the 1 of its section", at)
	if len(r.records) != 1 || len(r.faults) != 1 || r.faults[0] != want {
		t.Errorf("%q, want %q", r.faults, want)
	}
	z := gzipped(t, capture)
	if r := decodeCapture(t, z[:len(z)-12]); len(r.faults) != 1 {
		t.Errorf("a gzip file that is cut: %q", r.faults)
	}
	if r := decodeCapture(t, []byte{0x1f, 0x8b, 0}); len(r.faults) != 1 || !strings.HasPrefix(r.faults[0], "packet 1 at offset 0: gzip: ") {
		t.Errorf("a gzip file without content: %q", r.faults)
	}
}

// The snap length is named as the reason for a cut packet.
func TestSnapLength(t *testing.T) {
	packet := udp(0, options(t, 17, trace(1, 2)))
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(60, layers.LinkType(LinkRaw)); err != nil {
		t.Fatal(err)
	}
	ci := info(packet)
	ci.CaptureLength = 60
	if err := w.WritePacket(ci, packet[:60]); err != nil {
		t.Fatal(err)
	}
	r := decodeCapture(t, b.Bytes())
	want := "packet 1: IPv6 packet, offset 60: the buffer ends within the header (RFC 8200 §4.3) " +
		"(the capture kept 60 of the packet's 72 bytes; capture with a larger snap length)"
	if len(r.faults) != 1 || r.faults[0] != want {
		t.Errorf("%q\nwant %q", r.faults, want)
	}
}

// A snap length that cuts a header before possible IOAM is named, too; one that cuts
// the payload loses nothing.
func TestSnapLengthBeforeIOAM(t *testing.T) {
	routing := []byte{60, 2, 4, 0, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	authentication := []byte{60, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	fragment := []byte{60, 0, 0, 1, 0, 0, 0, 1}
	behind := options(t, 17, trace(1, 2))
	inner := udp(0, behind)
	for _, tt := range []struct {
		name   string
		packet []byte
		kept   int
		fault  string
	}{
		{"routing header", udp(43, routing, behind), 44, "offset 40: incomplete extension header"},
		{"authentication header", udp(51, authentication, behind), 47, "offset 40: incomplete extension header"},
		{"fragment header", udp(44, fragment, behind), 47, "offset 40: incomplete extension header"},
		{"options after a routing header", udp(43, routing, behind), 60, "offset 64: "},
		{"before the tunnelled packet", ipv6Packet(41, "2001:db8::1", "2001:db8::2", inner), 40, "offset 40: incomplete IPv6 header"},
		{"tunnelled after a routing header", ipv6Packet(43, "2001:db8::1", "2001:db8::2", append(append([]byte{41}, routing[1:]...), inner...)), 50, "offset 50: incomplete IPv6 header"},
		{"in the payload", udp(17, make([]byte, 100)), 44, ""},
		{"after the options", udp(0, behind), len(udp(0, behind)) - 8, ""},
	} {
		p := Packet{Number: 1, Link: LinkRaw, Data: tt.packet[:tt.kept], Length: len(tt.packet)}
		found := Find(p, record.Clock{})
		switch {
		case tt.fault == "" && len(found.Faults) == 0:
		case len(found.Faults) != 1 || tt.fault == "" || !strings.Contains(found.Faults[0].Error(), "IPv6 packet, "+tt.fault) ||
			!strings.Contains(found.Faults[0].Error(), fmt.Sprintf("the capture kept %d of", tt.kept)):
			t.Errorf("%s: %v, want %q", tt.name, found.Faults, tt.fault)
		}
	}
}

// Wherever the snap length cuts, on every link layer, the trace is found or the cut is
// reported: in the link layer's own header, too.
func TestSnapLengthOfLinkLayers(t *testing.T) {
	packet := udp(0, options(t, 17, trace(1, 2)))
	frames := map[string]struct {
		link LinkType
		data []byte
	}{
		"one VLAN tag":  {LinkEthernet, tagged(packet, 0x8100)},
		"two VLAN tags": {LinkEthernet, tagged(packet, 0x88a8, 0x8100)},
	}
	for _, link := range knownLinks {
		frames[fmt.Sprint("link type ", link)] = struct {
			link LinkType
			data []byte
		}{link, frame(link, packet)}
	}
	for name, f := range frames {
		whole := len(f.data) - 8 // all but UDP
		for kept := range len(f.data) {
			found := Find(Packet{Number: 1, Link: f.link, Data: f.data[:kept], Length: len(f.data)}, record.Clock{})
			reported := len(found.Faults) == 1 &&
				strings.Contains(found.Faults[0].Error(), fmt.Sprintf("the capture kept %d of the packet's %d bytes", kept, len(f.data)))
			if kept < whole && (len(found.Records) != 0 || !reported) || kept >= whole && (len(found.Records) != 1 || len(found.Faults) != 0) {
				t.Errorf("%s, %d of %d bytes: %d records, faults %v", name, kept, len(f.data), len(found.Records), found.Faults)
			}
		}
		if header := len(f.data) - len(packet); header > 0 {
			cut := Find(Packet{Number: 1, Link: f.link, Data: f.data[:header-1], Length: len(f.data)}, record.Clock{})
			if len(cut.Faults) != 1 || !strings.HasPrefix(cut.Faults[0].Error(), "incomplete link-layer header (") {
				t.Errorf("%s: %v", name, cut.Faults)
			}
			short := Find(Packet{Number: 1, Link: f.link, Data: f.data[:header-1], Length: header - 1}, record.Clock{})
			if len(short.Faults) != 0 {
				t.Errorf("%s, short on the wire: %v", name, short.Faults)
			}
		}
	}
}
