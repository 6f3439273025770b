// SPDX-License-Identifier: Apache-2.0

package export

import (
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

func TestParsePacket(t *testing.T) {
	const addresses = "20010db8000100000000000000000002 20010db8000200000000000000000002"
	const ports = " 10920009 00000000"
	for _, tt := range []struct {
		name, packet string
		length       int
		next         ioam.NextHeader
		ports        bool
		wantLength   int
	}{
		{"udp", "60012345 0008 11 40" + addresses + ports, 0, 17, true, 48},
		{"length from the record", "60012345 0008 11 40" + addresses + ports, 9000, 17, true, 9000},
		{"icmpv6", "60012345 0008 3a 40" + addresses + "80000000 00000000", 0, 58, false, 48},
		{"hop-by-hop, routing, destination options", "60012345 0020 00 40" + addresses + "2b00010400000000 3c00000000000000 1100010400000000" + ports, 0, 17, true, 72},
		{"authentication header", "60012345 0014 33 40" + addresses + "11010000 00000001 00000001" + ports, 0, 17, true, 60},
		{"first fragment", "60012345 0010 2c 40" + addresses + "1100000100000001" + ports, 0, 17, true, 56},
		{"later fragment", "60012345 0010 2c 40" + addresses + "1100000900000001" + ports, 0, 17, false, 56},
		{"ports cut off", "60012345 0008 11 40" + addresses + "109200", 0, 17, false, 48},
		{"extension header cut off", "60012345 0008 00 40" + addresses + "11", 0, 0, false, 48},
		{"extension header's length beyond the bytes", "60012345 0008 00 40" + addresses + "11ff", 0, 17, false, 48},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, ok := ParsePacket(unhex(t, tt.packet), tt.length)
			if !ok || p.FlowLabel != 0x12345 || p.Source.String() != "2001:db8:1::2" || p.Destination.String() != "2001:db8:2::2" {
				t.Fatalf("%+v, %v", p, ok)
			}
			if p.NextHeader != tt.next || p.Length != tt.wantLength {
				t.Errorf("next header %d, length %d; want %d, %d", p.NextHeader, p.Length, tt.next, tt.wantLength)
			}
			if has := p.SourcePort != nil && *p.SourcePort == 4242 && *p.DestinationPort == 9; has != tt.ports {
				t.Errorf("ports %v %v; want them: %v", p.SourcePort, p.DestinationPort, tt.ports)
			}
		})
	}
	for _, bad := range []string{"", "60", "45000000" + addresses} {
		if _, ok := ParsePacket(unhex(t, bad), 0); ok {
			t.Errorf("%q is taken for an IPv6 packet", bad)
		}
	}
}

func TestParsePacketBoundsHeaders(t *testing.T) {
	b := unhex(t, "60000000 ffff 3c 40 20010db8000100000000000000000002 20010db8000200000000000000000002")
	for range 9 {
		b = append(b, 0x3c, 0, 1, 4, 0, 0, 0, 0)
	}
	b[len(b)-8] = 17
	b = append(b, 0x10, 0x92, 0, 9)
	if p, ok := ParsePacket(b, 0); !ok || p.NextHeader != ioam.NextHeaderDestination || p.SourcePort != nil {
		t.Errorf("%+v, %v: looked behind %d extension headers", p, ok, ioam.MaxExtensionHeaders)
	}
}
