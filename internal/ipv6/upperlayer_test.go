// SPDX-License-Identifier: Apache-2.0

package ipv6

import (
	"encoding/hex"
	"github.com/waymark-net/waymark/ioam"
	"net/netip"
	"slices"
	"testing"
)

func TestSummarize(t *testing.T) {
	packet, err := hex.DecodeString(
		"6abcdef1" + "002c" + "00" + "40" + "20010db8000100000000000000000002" + "20010db8000200000000000000000002" +
			"11030100311a0000007b1002c000000000000000000000003f00000200c9ffff" + "10920009000c000000000000",
	)
	if err != nil {
		t.Fatal(err)
	}
	want := Summary{
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"),
		TrafficClass: 0xab, FlowLabel: 0xcdef1, HopLimit: 64, NextHeader: ioam.NextHeaderUDP,
		SourcePort: 4242, DestinationPort: 9, HasPorts: true,
	}
	if got, ok := Summarize(packet); !ok || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want.SourcePort, want.DestinationPort, want.HasPorts = 0, 0, false
	if got, ok := Summarize(packet[:75]); !ok || got != want {
		t.Errorf("cut: %+v, want %+v", got, want)
	}
	for _, bad := range [][]byte{nil, packet[:39], slices.Concat([]byte{0x40}, packet[1:])} {
		if got, ok := Summarize(bad); ok {
			t.Errorf("%x: %+v", bad, got)
		}
	}
}
