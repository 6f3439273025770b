// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

func ptr[T any](v T) *T { return &v }

// chain puts extension headers, given in hexadecimal with their own types'
// Next Header fields, in front of a payload.
func chain(t testing.TB, first ioam.NextHeader, headers string, payload []byte) []byte {
	return ipv6Packet(first, append(craft.Hex(t, headers), payload...))
}

func TestMatch(t *testing.T) {
	plain := ipv6Packet(ioam.NextHeaderUDP, udp(4)) // 2001:db8:1::2 → 2001:db8:2::2, 4242 → 9
	copy(plain, []byte{0x6a, 0xbc, 0xde, 0xf1})
	prefix := netip.MustParsePrefix
	long := ""
	for range 7 {
		long += "3c00010400000000"
	}
	for _, test := range []struct {
		name   string
		packet []byte
		match  model.Match
		want   bool
	}{
		{"everything", plain, model.Match{}, true},
		{"destination", plain, model.Match{Destination: prefix("2001:db8:2::/64")}, true},
		{"destination with host bits", plain, model.Match{Destination: prefix("2001:db8:2::9/64")}, true},
		{"another destination", plain, model.Match{Destination: prefix("2001:db8:3::/64")}, false},
		{"source", plain, model.Match{Source: prefix("2001:db8:1::2/128")}, true},
		{"another source", plain, model.Match{Source: prefix("2001:db8:1::3/128")}, false},
		{"next header", plain, model.Match{NextHeader: ptr(ioam.NextHeaderUDP)}, true},
		{"another next header", plain, model.Match{NextHeader: ptr(ioam.NextHeaderTCP)}, false},
		{"source port", plain, model.Match{SourcePort: &model.PortRange{From: 4242, To: 4242}}, true},
		{"lower source port", plain, model.Match{SourcePort: &model.PortRange{From: 4243, To: 65535}}, false},
		{"destination port", plain, model.Match{DestinationPort: &model.PortRange{From: 0, To: 9}}, true},
		{"higher destination port", plain, model.Match{DestinationPort: &model.PortRange{From: 0, To: 8}}, false},
		{"traffic class", plain, model.Match{TrafficClass: ptr(uint8(0xab))}, true},
		{"another traffic class", plain, model.Match{TrafficClass: ptr(uint8(0xaa))}, false},
		{"flow label", plain, model.Match{FlowLabel: ptr(uint32(0xcdef1))}, true},
		{"another flow label", plain, model.Match{FlowLabel: ptr(uint32(0xcdef0))}, false},
		{"all at once", plain, model.Match{Destination: prefix("2001:db8::/32"), Source: prefix("::/0"), NextHeader: ptr(ioam.NextHeaderUDP), SourcePort: &model.PortRange{From: 4000, To: 5000},
			DestinationPort: &model.PortRange{From: 1, To: 10}, TrafficClass: ptr(uint8(0xab)), FlowLabel: ptr(uint32(0xcdef1))}, true},

		{"ports of ICMPv6", ipv6Packet(ioam.NextHeaderICMPv6, []byte{128, 0, 0, 0}), model.Match{SourcePort: &model.PortRange{From: 0, To: 65535}}, false},
		{"any ports of ICMPv6", ipv6Packet(ioam.NextHeaderICMPv6, []byte{128, 0, 0, 0}), model.Match{SourcePort: &model.PortRange{}}, true},
		{"ports cut off", plain[:43], model.Match{SourcePort: &model.PortRange{From: 4242, To: 4242}}, false},
		{"next header, ports cut off", plain[:40], model.Match{NextHeader: ptr(ioam.NextHeaderUDP)}, true},
		{"behind a routing header", chain(t, 43, "11000400 00000000", udp(4)), model.Match{DestinationPort: &model.PortRange{From: 9, To: 9}}, true},
		{"behind two headers", chain(t, 43, "3c000400 00000000 11010104 00000000 01060000 00000000", udp(4)), model.Match{DestinationPort: &model.PortRange{From: 9, To: 9}}, true},
		{"first fragment", chain(t, 44, "11000001 00000001", udp(4)), model.Match{DestinationPort: &model.PortRange{From: 9, To: 9}}, true},
		{"later fragment, ports", chain(t, 44, "11000008 00000001", udp(4)), model.Match{DestinationPort: &model.PortRange{From: 9, To: 9}}, false},
		{"later fragment, next header", chain(t, 44, "11000008 00000001", udp(4)), model.Match{NextHeader: ptr(ioam.NextHeaderUDP)}, true},
		{"extension header cut off", chain(t, 43, "11000400 00000000", nil)[:47], model.Match{NextHeader: ptr(ioam.NextHeaderRouting)}, true},
		{"eight headers", chain(t, 60, long+"1100010400000000", udp(4)), model.Match{DestinationPort: &model.PortRange{From: 9, To: 9}}, true},
		{"nine headers", chain(t, 60, long+"3c000104000000001100010400000000", udp(4)), model.Match{DestinationPort: &model.PortRange{From: 9, To: 9}}, false},
		{"nine headers, next header", chain(t, 60, long+"3c000104000000001100010400000000", udp(4)), model.Match{NextHeader: ptr(ioam.NextHeaderDestination)}, true},
		{"ESP is an upper layer", chain(t, 50, "11000400 00000000", udp(4)), model.Match{NextHeader: ptr(ioam.NextHeader(50))}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := mustNode(t, encapConfig(model.ModeInline, func(e *model.Encapsulation) { e.Match = test.match }))
			result := node.Egress(egressFrame(test.packet))
			if got := result.Outcome == model.OutcomeEncapInserted; got != test.want || !got && result.Outcome != model.OutcomeNoIOAM {
				t.Errorf("%v", result.Outcome)
			}
		})
	}
}

// The inserted namespace shows which of several rules applied.
func TestRulePrecedence(t *testing.T) {
	config := encapConfig(model.ModeInline)
	base := config.Encapsulations[0]
	config.Encapsulations, config.Namespaces = nil, nil
	for i, rule := range []struct {
		destination string
		port        uint16
		iface       model.IfIndex
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
		e.Options = model.Traces(model.TraceOption{Namespace: ioam.NamespaceID(i), Type: 0x800000, Size: 4})
		if rule.destination != "" {
			e.Match.Destination = netip.MustParsePrefix(rule.destination)
		}
		e.Match.DestinationPort = &model.PortRange{From: rule.port, To: rule.port}
		config.Encapsulations = append(config.Encapsulations, e)
		config.Namespaces = append(config.Namespaces, model.Namespace{ID: ioam.NamespaceID(i)})
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
		packet := withDestination(ipv6Packet(ioam.NextHeaderUDP, udp(1)), netip.MustParseAddr(test.destination))
		binary.BigEndian.PutUint16(packet[42:], test.port)
		result := mustNode(t, config).Egress(egressFrame(packet))
		if got := int(binary.BigEndian.Uint16(result.Data[48:])); result.Outcome != model.OutcomeEncapInserted || got != test.want {
			t.Errorf("%s port %d: %v, rule %d, want %d", test.destination, test.port, result.Outcome, got, test.want)
		}
	}
}
