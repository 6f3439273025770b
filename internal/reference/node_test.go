// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// Interfaces of the test node, which has the ids of the kernel vectors; the third
// one is at the domain's edge.
const (
	ifIngress model.IfIndex = 1
	ifEgress  model.IfIndex = 2
	ifEdge    model.IfIndex = 3
	ifOther   model.IfIndex = 99 // not served
)

var (
	tunnelSource      = netip.MustParseAddr("2001:db8:f::1")
	tunnelDestination = netip.MustParseAddr("2001:db8:f::2")
)

// testConfig is a fresh configuration for a test to change.
func testConfig() model.NodeConfig {
	return model.NodeConfig{
		ID:     2,
		IDWide: 22222222,
		Interfaces: []model.Interface{
			{Index: ifIngress, Name: "in", ID: 201, IDWide: 201201, Roles: model.RoleIngress | model.RoleEgress, MTU: 1500},
			{Index: ifEgress, Name: "out", ID: 202, IDWide: 202202, Roles: model.RoleIngress | model.RoleEgress, MTU: 1500},
			{Index: ifEdge, Name: "edge", ID: 203, IDWide: 203203, MTU: 1500},
		},
		Namespaces: []model.Namespace{
			{ID: 123, Data: ioam.DataUnavailable, DataWide: ioam.DataWideUnavailable},
			{ID: 200, Data: 0xdeadbeef, DataWide: 0xcafec0caf00dc0de, Schema: &model.Schema{ID: 777, Data: []byte("rack 7")}},
			{ID: 300, Data: 3, DataWide: 3, Remove: true},
		},
		Decapsulations: []model.Decapsulation{{TunnelDestination: tunnelDestination}},
	}
}

// transitConfig is a node that ends no tunnels.
func transitConfig() model.NodeConfig {
	config := testConfig()
	config.Decapsulations = nil
	return config
}

func mainlineConfig() model.NodeConfig {
	config := testConfig()
	config.Compatibility = model.CompatibilityMainline
	return config
}

func mustNode(t testing.TB, config model.NodeConfig) *Node {
	t.Helper()
	node, err := NewNode(config)
	if err != nil {
		t.Fatal(err)
	}
	node.TAIOffset = int64(37 * time.Second)
	return node
}

// ipv6Packet is a packet without link layer from 2001:db8:1::2 to 2001:db8:2::2,
// with hop limit 64.
func ipv6Packet(next ioam.NextHeader, payload []byte) []byte {
	return craft.Between("2001:db8:1::2", "2001:db8:2::2", byte(next)).With(payload)
}

// withDestination changes the destination address of an IPv6 packet.
func withDestination(packet []byte, destination netip.Addr) []byte {
	a := destination.As16()
	copy(packet[24:40], a[:])
	return packet
}

// ethernet puts an Ethernet header with VLAN tags in front of an IPv6 packet.
func ethernet(packet []byte, tags ...uint16) []byte {
	var list []craft.Tag
	for _, tag := range tags {
		list = append(list, craft.Tag{Type: tag, Control: 100})
	}
	return craft.Ethernet([]byte{2, 0, 0, 0, 0, 2}, []byte{2, 0, 0, 0, 0, 1}, packet, list...)
}

// testTime is 2026-11-21T05:21:00.000001234Z in TAI.
const testTime = (1795238460+37)*int64(time.Second) + 1234

func TestVerdicts(t *testing.T) {
	if Pass.String() != "pass" || Drop.String() != "drop" {
		t.Errorf("%v, %v", Pass, Drop)
	}
}

func TestInvalidConfig(t *testing.T) {
	config := testConfig()
	config.ID = 1 << 24
	if _, err := NewNode(config); err == nil {
		t.Error("NewNode accepts a node id of 25 bits")
	}
}
