// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// A capture that is cut anywhere gives the packets before the cut, and says
// where it was cut unless that was behind a whole record.
func TestCutCaptures(t *testing.T) {
	first, second := udp(0, options(t, 17, trace(1, 2))), udp(0, options(t, 17, trace(2, 3)))
	const one = "1/2>2001:db8:2::2"
	const both = one + " 2/3>2001:db8:2::2"
	record := 16 + len(first)
	for cut, capture := 0, pcap(t, LinkRaw, first, second); cut <= len(capture); cut++ {
		r := decodeCapture(t, capture[:cut])
		want, fault := "", ""
		switch {
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
	whole := 0
	for cut, capture := 4, pcapng(t, LinkRaw, first, second); cut <= len(capture); cut++ {
		r := decodeCapture(t, capture[:cut])
		if got := r.found(); got != "" && got != one && got != both {
			t.Errorf("pcapng cut at %d: found %q", cut, got)
		}
		if r.complete {
			whole++
		} else if !strings.Contains(r.faults[0], "the capture ends in the middle of a record") {
			t.Errorf("pcapng cut at %d: %q", cut, r.faults)
		}
	}
	// Behind the section, the interface, two packets and the statistics.
	if whole != 5 {
		t.Errorf("pcapng: %d cuts left nothing but whole blocks, want 5", whole)
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
		{"a length beyond the end", 24 + record + 8, 3_000_000_000, fmt.Sprintf("packet 2 at offset %d: capture length exceeds snap length", 24+record)},
		{"more captured than there was", 24 + record + 12, 1, fmt.Sprintf("packet 2 at offset %d: capture length exceeds original packet length", 24+record)},
		{"version", 4, 9, "packet 1 at offset 0: Unknown major version 9"},
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
	want := fmt.Sprintf("packet 2 at offset %d: Interface id 7 not present in section (have only 1 interfaces)", at)
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

// What the snap length cut off is named as the reason.
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
	want := "packet 1: IPv6 packet, offset 60: the buffer ends within the header (RFC 8200 §4.3) (the capture kept 60 of the packet's 72 bytes; capture with a larger snap length)"
	if len(r.faults) != 1 || r.faults[0] != want {
		t.Errorf("%q\nwant %q", r.faults, want)
	}
}
