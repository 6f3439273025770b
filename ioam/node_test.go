// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
)

// The interfaces of the test node, which has the ids of the kernel vectors; the
// third is the domain's edge.
const (
	ifIngress IfIndex = 1
	ifEgress  IfIndex = 2
	ifEdge    IfIndex = 3
	ifOther   IfIndex = 99 // not served
)

var (
	tunnelSource      = netip.MustParseAddr("2001:db8:f::1")
	tunnelDestination = netip.MustParseAddr("2001:db8:f::2")
)

// testConfig is a fresh configuration for a test to change.
func testConfig() NodeConfig {
	return NodeConfig{
		ID:     2,
		IDWide: 22222222,
		Interfaces: []Interface{
			{Index: ifIngress, Name: "in", ID: 201, IDWide: 201201, Roles: RoleIngress | RoleEgress, MTU: 1500},
			{Index: ifEgress, Name: "out", ID: 202, IDWide: 202202, Roles: RoleIngress | RoleEgress, MTU: 1500},
			{Index: ifEdge, Name: "edge", ID: 203, IDWide: 203203, MTU: 1500},
		},
		Namespaces: []Namespace{
			{ID: 123, Data: DataUnavailable, DataWide: DataWideUnavailable},
			{ID: 200, Data: 0xdeadbeef, DataWide: 0xcafec0caf00dc0de, Schema: &Schema{ID: 777, Data: []byte("rack 7")}},
			{ID: 300, Data: 3, DataWide: 3, Remove: true},
		},
		Decapsulations: []Decapsulation{{TunnelDestination: tunnelDestination}},
	}
}

// transitConfig is of a node that ends no tunnels.
func transitConfig() NodeConfig {
	config := testConfig()
	config.Decapsulations = nil
	return config
}

func mainlineConfig() NodeConfig {
	config := testConfig()
	config.Compatibility = CompatibilityMainline
	return config
}

func mustNode(t testing.TB, config NodeConfig) *Node {
	t.Helper()
	node, err := NewNode(config)
	if err != nil {
		t.Fatal(err)
	}
	node.TAIOffset = 37 * second
	return node
}

// unhex reads hexadecimal with any white space.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ipv6 builds a packet without link layer from 2001:db8:1::2 to
// 2001:db8:2::2, hop limit 64.
func ipv6(next NextHeader, payload []byte) []byte {
	source := netip.MustParseAddr("2001:db8:1::2").As16()
	destination := netip.MustParseAddr("2001:db8:2::2").As16()
	packet := []byte{0x60, 0, 0, 0, 0, 0, byte(next), 64}
	binary.BigEndian.PutUint16(packet[4:], uint16(len(payload)))
	packet = append(packet, source[:]...)
	packet = append(packet, destination[:]...)
	return append(packet, payload...)
}

// withDestination changes the destination address of an IPv6 packet.
func withDestination(packet []byte, destination netip.Addr) []byte {
	a := destination.As16()
	copy(packet[24:40], a[:])
	return packet
}

// ethernet puts an Ethernet header with VLAN tags in front of an IPv6 packet.
func ethernet(packet []byte, tags ...uint16) []byte {
	frame := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	for _, tag := range tags {
		frame = binary.BigEndian.AppendUint16(frame, tag)
		frame = binary.BigEndian.AppendUint16(frame, 100)
	}
	frame = binary.BigEndian.AppendUint16(frame, etherTypeIPv6)
	return append(frame, packet...)
}

// testTime is 2026-11-21T05:21:00.000001234Z in TAI.
const testTime = (1795238460+37)*second + 1234
