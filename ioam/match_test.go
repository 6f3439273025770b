// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

func ptr[T any](v T) *T { return &v }

// chain puts extension headers, given in hexadecimal with their own types'
// Next Header fields, in front of a payload.
func chain(t testing.TB, first NextHeader, headers string, payload []byte) []byte {
	return ipv6(first, append(unhex(t, headers), payload...))
}

func TestMatch(t *testing.T) {
	plain := ipv6(NextHeaderUDP, udp(4)) // 2001:db8:1::2 → 2001:db8:2::2, 4242 → 9
	copy(plain, []byte{0x6a, 0xbc, 0xde, 0xf1})
	prefix := netip.MustParsePrefix
	long := ""
	for range 7 {
		long += "3c00010400000000"
	}
	for _, test := range []struct {
		name   string
		packet []byte
		match  Match
		want   bool
	}{
		{"everything", plain, Match{}, true},
		{"destination", plain, Match{Destination: prefix("2001:db8:2::/64")}, true},
		{"destination with host bits", plain, Match{Destination: prefix("2001:db8:2::9/64")}, true},
		{"another destination", plain, Match{Destination: prefix("2001:db8:3::/64")}, false},
		{"source", plain, Match{Source: prefix("2001:db8:1::2/128")}, true},
		{"another source", plain, Match{Source: prefix("2001:db8:1::3/128")}, false},
		{"next header", plain, Match{NextHeader: ptr(NextHeaderUDP)}, true},
		{"another next header", plain, Match{NextHeader: ptr(NextHeaderTCP)}, false},
		{"source port", plain, Match{SourcePort: &PortRange{4242, 4242}}, true},
		{"lower source port", plain, Match{SourcePort: &PortRange{4243, 65535}}, false},
		{"destination port", plain, Match{DestinationPort: &PortRange{0, 9}}, true},
		{"higher destination port", plain, Match{DestinationPort: &PortRange{0, 8}}, false},
		{"traffic class", plain, Match{TrafficClass: ptr(uint8(0xab))}, true},
		{"another traffic class", plain, Match{TrafficClass: ptr(uint8(0xaa))}, false},
		{"flow label", plain, Match{FlowLabel: ptr(uint32(0xcdef1))}, true},
		{"another flow label", plain, Match{FlowLabel: ptr(uint32(0xcdef0))}, false},
		{"all at once", plain, Match{prefix("2001:db8::/32"), prefix("::/0"), ptr(NextHeaderUDP), &PortRange{4000, 5000},
			&PortRange{1, 10}, ptr(uint8(0xab)), ptr(uint32(0xcdef1))}, true},

		{"ports of ICMPv6", ipv6(NextHeaderICMPv6, []byte{128, 0, 0, 0}), Match{SourcePort: &PortRange{0, 65535}}, false},
		{"any ports of ICMPv6", ipv6(NextHeaderICMPv6, []byte{128, 0, 0, 0}), Match{SourcePort: &PortRange{}}, true},
		{"ports cut off", plain[:43], Match{SourcePort: &PortRange{4242, 4242}}, false},
		{"next header, ports cut off", plain[:40], Match{NextHeader: ptr(NextHeaderUDP)}, true},
		{"behind a routing header", chain(t, 43, "11000400 00000000", udp(4)), Match{DestinationPort: &PortRange{9, 9}}, true},
		{"behind two headers", chain(t, 43, "3c000400 00000000 11010104 00000000 01060000 00000000", udp(4)), Match{DestinationPort: &PortRange{9, 9}}, true},
		{"behind AH", chain(t, 51, "11040000 00000000 00000000 00000000 00000000 00000000", udp(4)), Match{DestinationPort: &PortRange{9, 9}}, true},
		{"first fragment", chain(t, 44, "11000001 00000001", udp(4)), Match{DestinationPort: &PortRange{9, 9}}, true},
		{"later fragment, ports", chain(t, 44, "11000008 00000001", udp(4)), Match{DestinationPort: &PortRange{9, 9}}, false},
		{"later fragment, next header", chain(t, 44, "11000008 00000001", udp(4)), Match{NextHeader: ptr(NextHeaderUDP)}, true},
		{"extension header cut off", chain(t, 43, "11000400 00000000", nil)[:47], Match{NextHeader: ptr(NextHeaderRouting)}, true},
		{"eight headers", chain(t, 60, long+"1100010400000000", udp(4)), Match{DestinationPort: &PortRange{9, 9}}, true},
		{"nine headers", chain(t, 60, long+"3c000104000000001100010400000000", udp(4)), Match{DestinationPort: &PortRange{9, 9}}, false},
		{"nine headers, next header", chain(t, 60, long+"3c000104000000001100010400000000", udp(4)), Match{NextHeader: ptr(NextHeaderDestination)}, true},
		{"ESP is an upper layer", chain(t, 50, "11000400 00000000", udp(4)), Match{NextHeader: ptr(NextHeader(50))}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := mustNode(t, encapConfig(ModeInline, func(e *Encapsulation) { e.Match = test.match }))
			result := node.Egress(egressFrame(test.packet))
			if got := result.Outcome == OutcomeEncapInserted; got != test.want || !got && result.Outcome != OutcomeNoIOAM {
				t.Errorf("%v", result.Outcome)
			}
		})
	}
}

// Which of several rules acted shows in the namespace that was inserted.
func TestRulePrecedence(t *testing.T) {
	config := encapConfig(ModeInline)
	base := config.Encapsulations[0]
	config.Encapsulations, config.Namespaces = nil, nil
	for i, rule := range []struct {
		destination string
		port        uint16
		iface       IfIndex
	}{
		{"2001:db8::/32", 0, ifEgress},   // 0
		{"2001:db8:2::/48", 7, ifEgress}, // 1
		{"2001:db8:2::/48", 8, ifEgress}, // 2
		{"2001:db8:2::/48", 8, ifEgress}, // 3
		{"", 0, ifEgress},                // 4
		{"::/0", 0, ifEgress},            // 5
		{"2001:db8:2::2/128", 0, ifIngress},
	} {
		e := base
		e.Name, e.Interface = string(rune('a'+i)), rule.iface
		e.Options = Traces(TraceOption{NamespaceID(i), 0x800000, 4})
		if rule.destination != "" {
			e.Match.Destination = netip.MustParsePrefix(rule.destination)
		}
		e.Match.DestinationPort = &PortRange{rule.port, rule.port}
		config.Encapsulations = append(config.Encapsulations, e)
		config.Namespaces = append(config.Namespaces, Namespace{ID: NamespaceID(i)})
	}
	for _, test := range []struct {
		destination string
		port        uint16
		want        int
	}{
		{"2001:db8:2::2", 7, 1},
		{"2001:db8:2::2", 8, 2},
		{"2001:db8:2::2", 9, 0},
		{"2001:db8:3::2", 7, 0},
		{"2001:db9::1", 7, 4},
	} {
		packet := withDestination(ipv6(NextHeaderUDP, udp(1)), netip.MustParseAddr(test.destination))
		binary.BigEndian.PutUint16(packet[42:], test.port)
		result := mustNode(t, config).Egress(egressFrame(packet))
		if got := int(binary.BigEndian.Uint16(result.Data[48:])); result.Outcome != OutcomeEncapInserted || got != test.want {
			t.Errorf("%s port %d: %v, rule %d, want %d", test.destination, test.port, result.Outcome, got, test.want)
		}
	}
}

func TestSummarize(t *testing.T) {
	packet := chain(t, NextHeaderHopByHop, "11"+filledHeader[2:], udp(4))
	copy(packet, []byte{0x6a, 0xbc, 0xde, 0xf1})
	want := PacketSummary{
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"),
		TrafficClass: 0xab, FlowLabel: 0xcdef1, HopLimit: 64, NextHeader: NextHeaderUDP,
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
