// SPDX-License-Identifier: Apache-2.0

package record

import (
	"net/netip"
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

func aboutPackets(namespace ioam.NamespaceID, source, destination string) *Trace {
	return &Trace{Namespace: namespace, Nodes: []NodeData{},
		Packet: Packet{Source: netip.MustParseAddr(source), Destination: netip.MustParseAddr(destination)}}
}

func TestFilter(t *testing.T) {
	ns := ioam.NamespaceID(123)
	r := aboutPackets(123, "2001:db8:1::2", "2001:db8:2::2")
	for _, tt := range []struct {
		name   string
		filter Filter
		want   bool
	}{
		{"all", Filter{}, true},
		{"namespace", Filter{Namespace: &ns}, true},
		{"source", Filter{Source: netip.MustParsePrefix("2001:db8:1::/48")}, true},
		{"other source", Filter{Source: netip.MustParsePrefix("2001:db8:2::/48")}, false},
		{"destination", Filter{Destination: netip.MustParsePrefix("2001:db8:2::2/128")}, true},
		{"other destination", Filter{Namespace: &ns, Destination: netip.MustParsePrefix("2001:db8:1::/48")}, false},
	} {
		if got := tt.filter.Match(r); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if (Filter{Namespace: &ns}).Match(aboutPackets(124, "::1", "::1")) {
		t.Error("a filter for namespace 123 matches 124")
	}
}
