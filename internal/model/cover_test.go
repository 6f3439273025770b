// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

// Each rule comes after one with the first match, on the same interface.
func TestShadowed(t *testing.T) {
	prefix := netip.MustParsePrefix
	tcp, udp, class, otherClass, label := ioam.NextHeader(6), ioam.NextHeader(17), uint8(1), uint8(2), uint32(9)
	ports := func(from, to uint16) *PortRange { return &PortRange{From: from, To: to} }
	for _, tt := range []struct {
		name         string
		first, later Match
		want         bool
	}{
		{"both match everything", Match{}, Match{}, true},
		{"everything in two words", Match{Destination: prefix("::/0")}, Match{}, true},
		{"the same destination", Match{Destination: prefix("2001:db8::/32")}, Match{Destination: prefix("2001:db8::/32"), FlowLabel: &label}, true},
		{"a longer destination applies first", Match{Destination: prefix("2001:db8::/32")}, Match{Destination: prefix("2001:db8:1::/48")}, false},
		{"a shorter destination", Match{Destination: prefix("2001:db8:1::/48")}, Match{Destination: prefix("2001:db8::/32")}, false},
		{"source within", Match{Source: prefix("2001:db8::/32")}, Match{Source: prefix("2001:db8:1::/48")}, true},
		{"source beyond", Match{Source: prefix("2001:db8:1::/48")}, Match{Source: prefix("2001:db8::/32")}, false},
		{"any source", Match{Source: prefix("2001:db8::/32")}, Match{}, false},
		{"protocol", Match{NextHeader: &tcp}, Match{NextHeader: &tcp, SourcePort: ports(1, 2)}, true},
		{"another protocol", Match{NextHeader: &tcp}, Match{NextHeader: &udp}, false},
		{"any protocol", Match{NextHeader: &tcp}, Match{SourcePort: ports(1, 2)}, false},
		{"ports within", Match{DestinationPort: ports(1, 9)}, Match{DestinationPort: ports(2, 9)}, true},
		{"ports beyond", Match{DestinationPort: ports(1, 9)}, Match{DestinationPort: ports(2, 10)}, false},
		{"packets without ports", Match{SourcePort: ports(0, 65535)}, Match{}, false},
		{"other ports", Match{SourcePort: ports(1, 9)}, Match{DestinationPort: ports(1, 9)}, false},
		{"traffic class", Match{TrafficClass: &class}, Match{TrafficClass: &class}, true},
		{"another traffic class", Match{TrafficClass: &class}, Match{TrafficClass: &otherClass}, false},
		{"any flow label", Match{FlowLabel: &label}, Match{}, false},
	} {
		c := NodeConfig{
			Encapsulations: []Encapsulation{{Interface: 1, Match: tt.first}, {Interface: 2, Match: tt.later}, {Interface: 1, Match: tt.later}},
		}
		want := map[int]int{}
		if tt.want {
			want[2] = 0
		}
		if got := c.Shadowed(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
	}
}
