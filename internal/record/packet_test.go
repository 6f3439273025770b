// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

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
		{"behind a hop-by-hop header", "60012345 0010 00 40" + addresses + "1100010400000000" + ports, 17, true},
		{"ports cut off", "60012345 0008 11 40" + addresses + "109200", 17, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, ok := ParsePacket(unhex(t, tt.packet), 1234)
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
		if _, ok := ParsePacket(unhex(t, bad), 0); ok {
			t.Errorf("%q is taken for an IPv6 packet", bad)
		}
	}
}
