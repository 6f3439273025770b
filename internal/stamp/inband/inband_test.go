// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/tshark"
	"github.com/waymark-net/waymark/srv6"
)

var (
	source = netip.MustParseAddr("2001:db8::1")
	point  = netip.MustParseAddrPort("[2001:db8::7]:862")
	sids   = []netip.Addr{netip.MustParseAddr("fc00:1::e"), netip.MustParseAddr("fc00:2::e"), netip.MustParseAddr("fc00:3::d6")}
)

// tshark reads each form, and finds the checksums right.
func TestForms(t *testing.T) {
	const outer, inner = "2001:db8::1", "2001:db8::7"
	var b []byte
	for _, word := range []uint32{0xa1b2c3d4, 2<<16 | 4, 0, 0, 1 << 16, 101} { // pcap, raw IP
		b = binary.BigEndian.AppendUint32(b, word)
	}
	cases := []struct {
		mode srv6.Mode
		sids int
		want string // sources, destinations, next headers, segments left, last entry, segments
	}{
		{srv6.ModeEncap, 3, outer + "," + outer + " fc00:1::e," + inner + " 43,17 2 2 fc00:3::d6,fc00:2::e,fc00:1::e"},
		{srv6.ModeEncap, 1, outer + "," + outer + " fc00:1::e," + inner + " 43,17 0 0 fc00:1::e"},
		{srv6.ModeReduced, 3, outer + "," + outer + " fc00:1::e," + inner + " 43,17 2 1 fc00:3::d6,fc00:2::e"},
		{srv6.ModeReduced, 1, outer + "," + outer + " fc00:1::e," + inner + " 41,17   "},
		{srv6.ModeInline, 3, outer + " fc00:1::e 43 3 3 " + inner + ",fc00:3::d6,fc00:2::e,fc00:1::e"},
	}
	for i, tt := range cases {
		p := Path{Source: source, Segments: sids[:tt.sids], Mode: tt.mode, Label: 0x12345}
		packet, err := p.Packet(40000, point, 0x2c, []byte("odd"))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []int{1, i, len(packet), len(packet)} {
			b = binary.BigEndian.AppendUint32(b, uint32(word))
		}
		b = append(b, packet...)
	}
	path := filepath.Join(t.TempDir(), "paths.pcap")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-o", "udp.check_checksum:TRUE"}
	for _, f := range strings.Fields("ipv6.src ipv6.dst ipv6.nxt ipv6.routing.segleft ipv6.routing.srh.last_entry ipv6.routing.srh.addr " +
		"udp.checksum.status udp.srcport udp.dstport udp.length ipv6.hlim ipv6.tclass ipv6.flow") {
		args = append(args, "-e", f)
	}
	lines := tshark.Run(t, path, "udp", args...)
	if len(lines) != len(cases) {
		t.Fatalf("tshark reads %d packets of %d: %q", len(lines), len(cases), lines)
	}
	for i, tt := range cases {
		limits, classes, labels := "255,255", "0x0000002c,0x0000002c", "0x012345,0x000000"
		if tt.mode == srv6.ModeInline {
			limits, classes, labels = "255", "0x0000002c", "0x012345"
		}
		if got, want := strings.ReplaceAll(lines[i], "\t", " "), tt.want+" 1 40000 862 11 "+limits+" "+classes+" "+labels; got != want {
			t.Errorf("%v, %d SIDs: tshark reads\n%q, want\n%q", tt.mode, tt.sids, got, want)
		}
	}
}

func TestNoPath(t *testing.T) {
	for name, p := range map[string]Path{
		"no segment":  {Source: source},
		"no source":   {Segments: sids},
		"too many":    {Source: source, Segments: make([]netip.Addr, 17)},
		"IPv4":        {Source: netip.MustParseAddr("192.0.2.1"), Segments: sids},
		"IPv4 as SID": {Source: source, Segments: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
	} {
		for _, p.Mode = range []srv6.Mode{srv6.ModeEncap, srv6.ModeReduced, srv6.ModeInline} {
			if b, err := p.Packet(1, point, 0, nil); err == nil {
				t.Errorf("%s, %v: %x", name, p.Mode, b)
			}
		}
	}
	p := Path{Source: source, Segments: sids}
	if _, err := p.Packet(1, point, 0, make([]byte, 65_536)); err == nil {
		t.Error("a datagram of 65536 octets is sent")
	}
}
