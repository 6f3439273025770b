// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"github.com/waymark-net/waymark/ioam"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

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

// testConfig is a node with two interfaces in the domain and one at its edge, one
// tunnel that ends and one that begins.
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
			{ID: 123, Data: ioam.DataUnavailable, DataWide: ioam.DataWideUnavailable},
			{ID: 200, Data: 0xdeadbeef, DataWide: 0xcafec0caf00dc0de, Schema: &Schema{ID: 777, Data: []byte("rack 7")}},
			{ID: 300, Data: 3, DataWide: 3, Remove: true},
		},
		Encapsulations: []Encapsulation{{
			Name: "core", Interface: ifEgress, Mode: ModeEncap, TunnelSource: tunnelSource, TunnelDestination: tunnelDestination,
			Options: Traces(TraceOption{Namespace: 123, Type: 0xf20000, Size: 24}),
		}},
		Decapsulations: []Decapsulation{{TunnelDestination: tunnelDestination}},
	}
}

// validConfig has something in every list.
func validConfig() NodeConfig {
	config := testConfig()
	second := config.Encapsulations[0]
	second.Name, second.Mode = "local", ModeInline
	second.TunnelSource, second.TunnelDestination = netip.Addr{}, netip.Addr{}
	second.Options = Traces(
		TraceOption{Namespace: 123, Type: ioam.TraceTypeSupported, Size: MaxTraceDataSize},
		TraceOption{Namespace: 200, Type: 2, Size: 12},
	)
	second.Frequency = Frequency{1, MaxFrequency}
	second.Match = Match{
		Destination: netip.MustParsePrefix("2001:db8::/32"),
		NextHeader:  new(ioam.NextHeaderUDP),
		SourcePort:  &PortRange{1, 2},
	}
	config.Encapsulations = append(config.Encapsulations, second)
	return config
}

func TestValidConfig(t *testing.T) {
	if err := validConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := (NodeConfig{}).Validate(); err != nil {
		t.Error(err)
	}
	config := validConfig() // values that Linux has by default may occur more than once
	for i := range config.Interfaces {
		config.Interfaces[i].ID, config.Interfaces[i].IDWide = ioam.InterfaceIDUnavailable, ioam.InterfaceIDWideUnavailable
	}
	config.ID, config.IDWide = ioam.NodeIDUnavailable, ioam.NodeIDWideUnavailable
	config.Encapsulations[0].Options = Traces(
		TraceOption{Namespace: 123, Type: 0x800000, Size: 240},
		TraceOption{Namespace: 123, Type: 0x800000, Size: 244},
	) // MaxHeaderInsertion
	if err := config.Validate(); err != nil {
		t.Error(err)
	}
	config.Encapsulations[0].Options = Traces(
		TraceOption{Namespace: 123, Type: 0x800000, Size: 4},
		TraceOption{Namespace: 123, Type: 0x808000, Size: 12},
		TraceOption{Namespace: 200, Type: 2, Size: 12},
		TraceOption{Namespace: 123, Type: 0x800002, Size: 8},
	) // just this node's own data
	if err := config.Validate(); err != nil {
		t.Error(err)
	}
	dex(
		DirectExportOption{
			123,
			ioam.DirectExportTypeSupported,
			ioam.ExtensionFlowID | ioam.ExtensionSequence,
			FlowIDSource{FlowIDFixed, 1<<32 - 1},
			ioam.OptionIOAM,
		},
	)(&config)
	dex(DirectExportOption{200, 2, ioam.ExtensionSequence, FlowIDSource{Kind: FlowIDLabel}, ioam.OptionIOAMStatic})(&config)
	dex(DirectExportOption{Namespace: 300, Type: 0x800000})(&config)
	config.Encapsulations[0].Flows = 1
	config.Encapsulations[1].Flows = MaxFrequency
	config.Namespaces[0].Export, config.Namespaces[0].Sample = ExportSample, MaxFrequency
	config.ExportLimit, config.ExportRate, config.FlowEntries = MaxFrequency, MaxExportRate, MaxFlowEntries
	config.Collectors = slices.Repeat([]Collector{validCollector}, MaxCollectors)
	if err := config.Validate(); err != nil {
		t.Error(err)
	}
}

// Every list and size at its limit.
func TestValidateLimits(t *testing.T) {
	config := validConfig()
	for i := len(config.Interfaces); i < MaxInterfaces; i++ {
		config.Interfaces = append(
			config.Interfaces,
			Interface{Index: IfIndex(1000 + i), ID: ioam.InterfaceID(1000 + i), IDWide: ioam.InterfaceIDWide(1000 + i)},
		)
	}
	for i := len(config.Namespaces); i < MaxNamespaces; i++ {
		config.Namespaces = append(config.Namespaces, Namespace{ID: ioam.NamespaceID(1000 + i)})
	}
	config.Namespaces[2].Schema = &Schema{ID: ioam.SchemaIDNone - 1, Data: make([]byte, MaxSnapshotSize)}
	for i := len(config.Encapsulations); i < MaxEncapsulations; i++ {
		e := config.Encapsulations[1]
		e.Name = fmt.Sprint(i)
		e.Match.Destination = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, byte(i >> 8), byte(i)}), 32)
		config.Encapsulations = append(config.Encapsulations, e)
	}
	for i := range MaxEncapsulationOverlap - 1 { // with the rule that matches everything
		config.Encapsulations[10+i].Match.Destination = netip.PrefixFrom(netip.MustParseAddr("3fff::"), 128-i)
	}
	config.Encapsulations[0].Match.FlowLabel = new(uint32(0xfffff))
	for i := len(config.Decapsulations); i < MaxDecapsulations; i++ {
		config.Decapsulations = append(config.Decapsulations, Decapsulation{TunnelDestination: netip.AddrFrom16([16]byte{0x20, 2, byte(i)})})
	}
	for range MaxOptionsPerPacket - 1 {
		config.Encapsulations[0].Options = append(
			config.Encapsulations[0].Options,
			Traces(TraceOption{Namespace: 123, Type: 0x800000, Size: 4})...)
	}
	if err := config.Validate(); err != nil {
		t.Error(err)
	}
}

var validCollector = Collector{tunnelSource, 4739, ioam.NextHeaderTCP}

func collectors(list ...Collector) func(*NodeConfig) {
	return func(c *NodeConfig) { c.Collectors = list }
}

// dex lets the first encapsulation insert a Direct Export, too.
func dex(o DirectExportOption) func(*NodeConfig) {
	return func(c *NodeConfig) {
		e := &c.Encapsulations[0]
		e.Options = append(e.Options, InsertedOption{DirectExport: &o})
	}
}

// configMutations have one error each.
var configMutations = []struct {
	path   string // of the only error
	what   string
	mutate func(*NodeConfig)
}{
	{"node.id", "25 bits", func(c *NodeConfig) { c.ID = 1 << 24 }},
	{"node.id-wide", "57 bits", func(c *NodeConfig) { c.IDWide = 1 << 56 }},
	{"node.timestamp-format", "unknown", func(c *NodeConfig) { c.TimestampFormat = 3 }},
	{"node.timestamp-format", "mainline with ptp", func(c *NodeConfig) { c.Compatibility, c.TimestampFormat = CompatibilityMainline, ioam.TimestampPTP }},
	{"node.compatibility", "unknown", func(c *NodeConfig) { c.Compatibility = 2 }},

	{"interfaces[1].name", "twice", func(c *NodeConfig) { c.Interfaces[1].Name = "in" }},
	{"interfaces[2].name", "same index", func(c *NodeConfig) { c.Interfaces[2].Index = ifIngress }},
	{"interfaces[2].name", "no index", func(c *NodeConfig) { c.Interfaces[2].Index = 0 }},
	{"interfaces[1].id", "twice", func(c *NodeConfig) { c.Interfaces[1].ID = 201 }},
	{"interfaces[2].id-wide", "twice", func(c *NodeConfig) { c.Interfaces[2].IDWide = 201201 }},
	{"interfaces[0].role", "unknown", func(c *NodeConfig) { c.Interfaces[0].Roles |= 4 }},
	{"interfaces[0].boundary", "unknown", func(c *NodeConfig) { c.Interfaces[0].Boundary = 3 }},
	{"interfaces[0].boundary.namespaces.7", "unknown", func(c *NodeConfig) {
		c.Interfaces[0].Policies = []NamespacePolicy{{Namespace: 7, Boundary: 3}}
	}},
	{"interfaces[0].boundary.namespaces.7", "two policies", func(c *NodeConfig) {
		c.Interfaces[0].Policies = []NamespacePolicy{{Namespace: 7}, {Namespace: 7, Boundary: BoundaryIgnore}}
	}},
	{"interfaces[1].boundary", "more than 4096", func(c *NodeConfig) {
		for i := range MaxNamespacePolicies {
			c.Interfaces[0].Policies = append(c.Interfaces[0].Policies, NamespacePolicy{Namespace: ioam.NamespaceID(i)})
		}
		c.Interfaces[1].Policies = c.Interfaces[0].Policies[:1]
	}},
	{"interfaces[0].mtu", "negative", func(c *NodeConfig) { c.Interfaces[0].MTU = -1 }},
	{"interfaces", "too many", func(c *NodeConfig) {
		for i := range MaxInterfaces - 2 {
			c.Interfaces = append(
				c.Interfaces,
				Interface{Index: IfIndex(1000 + i), ID: ioam.InterfaceID(1000 + i), IDWide: ioam.InterfaceIDWide(1000 + i)},
			)
		}
	}},

	{"uppers[0].index", "none", func(c *NodeConfig) { c.Uppers = []Upper{{}} }},
	{"uppers[0].index", "served", func(c *NodeConfig) { c.Uppers = []Upper{{Index: ifEdge}} }},
	{"uppers[1].index", "twice", func(c *NodeConfig) { c.Uppers = []Upper{{Index: ifOther}, {Index: ifOther}} }},
	{"uppers[0].role", "unknown", func(c *NodeConfig) { c.Uppers = []Upper{{Index: ifOther, Roles: 4}} }},
	{"uppers", "too many", func(c *NodeConfig) {
		for i := range MaxUppers + 1 {
			c.Uppers = append(c.Uppers, Upper{Index: IfIndex(1000 + i)})
		}
	}},

	{"namespaces[1].id", "twice", func(c *NodeConfig) { c.Namespaces = append(c.Namespaces[:1], Namespace{ID: 123}, Namespace{ID: 200}) }},
	{"namespaces[1].schema.id", "no schema", func(c *NodeConfig) { c.Namespaces[1].Schema = &Schema{ID: ioam.SchemaIDNone} }},
	{"namespaces[1].schema.data", "too long", func(c *NodeConfig) {
		c.Namespaces[1].Schema, c.Encapsulations = &Schema{Data: make([]byte, MaxSnapshotSize+1)}, nil
	}},
	{"namespaces", "too many", func(c *NodeConfig) {
		for i := range MaxNamespaces - 2 {
			c.Namespaces = append(c.Namespaces, Namespace{ID: ioam.NamespaceID(1000 + i)})
		}
	}},

	{"encapsulations[1].name", "none", func(c *NodeConfig) { c.Encapsulations[1].Name = " " }},
	{"encapsulations[1].name", "twice", func(c *NodeConfig) { c.Encapsulations[1].Name = "core" }},
	{"encapsulations[0].interface", "unknown", func(c *NodeConfig) { c.Encapsulations[0].Interface = ifOther }},
	{"encapsulations[0].interface", "no egress role", func(c *NodeConfig) { c.Encapsulations[0].Interface = ifEdge }},
	{"encapsulations[0].match.destination", "IPv4", func(c *NodeConfig) { c.Encapsulations[0].Match.Destination = netip.MustParsePrefix("192.0.2.0/24") }},
	{"encapsulations[0].match.source", "IPv4", func(c *NodeConfig) { c.Encapsulations[0].Match.Source = netip.MustParsePrefix("192.0.2.0/24") }},
	{"encapsulations[0].match.source", "mapped IPv4", func(c *NodeConfig) { c.Encapsulations[0].Match.Source = netip.MustParsePrefix("::ffff:192.0.2.0/120") }},
	{"encapsulations[0].match.flow-label", "21 bits", func(c *NodeConfig) { c.Encapsulations[0].Match.FlowLabel = new(uint32(1 << 20)) }},
	{"encapsulations[1].match.source-port", "empty", func(c *NodeConfig) { c.Encapsulations[1].Match.SourcePort = &PortRange{2, 1} }},
	{"encapsulations[1].match.destination-port", "empty", func(c *NodeConfig) { c.Encapsulations[1].Match.DestinationPort = &PortRange{2, 0} }},
	{"encapsulations[1].match.next-header", "no ports", func(c *NodeConfig) { c.Encapsulations[1].Match.NextHeader = new(ioam.NextHeaderICMPv6) }},
	{"encapsulations[0].frequency", "0/1", func(c *NodeConfig) { c.Encapsulations[0].Frequency = Frequency{0, 1} }},
	{"encapsulations[0].frequency", "1/0", func(c *NodeConfig) { c.Encapsulations[0].Frequency = Frequency{1, 0} }},
	{"encapsulations[0].frequency", "2/1", func(c *NodeConfig) { c.Encapsulations[0].Frequency = Frequency{2, 1} }},
	{"encapsulations[0].frequency", "1/1000001", func(c *NodeConfig) { c.Encapsulations[0].Frequency = Frequency{1, MaxFrequency + 1} }},
	{"encapsulations[0].mode", "unknown", func(c *NodeConfig) { c.Encapsulations[0].Mode = 3 }},
	{"encapsulations[0].path-mtu", "negative", func(c *NodeConfig) { c.Encapsulations[0].PathMTU = -1 }},
	{"encapsulations[0].path-mtu", "33 bits", func(c *NodeConfig) { c.Encapsulations[0].PathMTU = 1 << 32 }},
	{"encapsulations[1].tunnel.source", "inline", func(c *NodeConfig) { c.Encapsulations[1].TunnelSource = tunnelSource }},
	{"encapsulations[1].tunnel.destination", "inline", func(c *NodeConfig) { c.Encapsulations[1].TunnelDestination = tunnelSource }},
	{"encapsulations[0].tunnel.source", "none", func(c *NodeConfig) { c.Encapsulations[0].TunnelSource = netip.Addr{} }},
	{"encapsulations[0].tunnel.source", "IPv4", func(c *NodeConfig) { c.Encapsulations[0].TunnelSource = netip.MustParseAddr("192.0.2.1") }},
	{"encapsulations[0].tunnel.destination", "none", func(c *NodeConfig) { c.Encapsulations[0].TunnelDestination = netip.Addr{} }},
	{"encapsulations[0].tunnel.destination", "none, auto", func(c *NodeConfig) {
		c.Encapsulations[0].Mode, c.Encapsulations[0].TunnelDestination = ModeAuto, netip.Addr{}
	}},
	{"encapsulations[0].tunnel.destination", "unspecified", func(c *NodeConfig) { c.Encapsulations[0].TunnelDestination = netip.MustParseAddr("::") }},
	{"encapsulations[0].tunnel.destination", "multicast", func(c *NodeConfig) { c.Encapsulations[0].TunnelDestination = netip.MustParseAddr("ff0e::1") }},
	{"encapsulations[0].tunnel.destination", "loopback", func(c *NodeConfig) { c.Encapsulations[0].TunnelDestination = netip.IPv6Loopback() }},
	{"encapsulations[0].tunnel.source", "link-local", func(c *NodeConfig) { c.Encapsulations[0].TunnelSource = netip.MustParseAddr("fe80::1") }},
	{"encapsulations[0].tunnel.destination", "its source", func(c *NodeConfig) { c.Encapsulations[0].TunnelDestination = tunnelSource }},
	{"encapsulations[0].tunnel.destination", "zone", func(c *NodeConfig) { c.Encapsulations[0].TunnelDestination = netip.MustParseAddr("2001:db8::1%eth0") }},
	{"encapsulations[0].options", "none", func(c *NodeConfig) { c.Encapsulations[0].Options = nil }},
	{"encapsulations[0].options", "ten", func(c *NodeConfig) {
		for range 9 {
			c.Encapsulations[0].Options = append(c.Encapsulations[0].Options, Traces(TraceOption{Namespace: 123, Type: 0x800000, Size: 4})...)
		}
	}},
	{"encapsulations[0].options", "520 bytes", func(c *NodeConfig) {
		c.Encapsulations[0].Options = Traces(
			TraceOption{Namespace: 123, Type: 0x800000, Size: 244},
			TraceOption{Namespace: 123, Type: 0x800000, Size: 244},
		)
	}},
	{"encapsulations[0].flows", "too many", func(c *NodeConfig) { c.Encapsulations[0].Flows = MaxFrequency + 1 }},
	{"encapsulations[0].options[0].trace", "neither", func(c *NodeConfig) { c.Encapsulations[0].Options[0] = InsertedOption{} }},
	{"encapsulations[0].options[0].trace", "both", func(c *NodeConfig) { c.Encapsulations[0].Options[0].DirectExport = &DirectExportOption{} }},
	{"encapsulations[0].options[1].trace-type", "none", dex(DirectExportOption{Namespace: 123})},
	{"encapsulations[0].options[1].trace-type", "undefined", dex(DirectExportOption{Namespace: 123, Type: 0x800004})},
	{"encapsulations[0].options[1].trace-type", "checksum complement", dex(DirectExportOption{Namespace: 123, Type: 0x810000})},
	{"encapsulations[0].options[1].extension-flags", "unknown", dex(DirectExportOption{Namespace: 123, Type: 0x800000, ExtensionFlags: 0x20})},
	{"encapsulations[0].options[1].flow-id", "unknown", dex(DirectExportOption{Namespace: 123, Type: 0x800000, FlowID: FlowIDSource{Kind: 3}})},
	{"encapsulations[0].options[1].flow-id", "value of a hash", dex(DirectExportOption{Namespace: 123, Type: 0x800000, FlowID: FlowIDSource{Fixed: 1}})},
	{"encapsulations[0].options[1].option-type", "unknown", dex(DirectExportOption{Namespace: 123, Type: 0x800000, OptionType: 0x32})},
	{"encapsulations[0].options[1].flow-id", "fixed, of some flows", func(c *NodeConfig) {
		dex(DirectExportOption{Namespace: 123, Type: 0x800000, FlowID: FlowIDSource{FlowIDFixed, 1}})(c)
		c.Encapsulations[0].Flows = 2
	}},
	{"encapsulations[0].options[2].namespace", "twice", func(c *NodeConfig) {
		dex(DirectExportOption{Namespace: 123, Type: 0x800000})(c)
		dex(DirectExportOption{Namespace: 123, Type: 0x400000})(c)
	}},
	{"namespaces[0].export", "unknown", func(c *NodeConfig) { c.Namespaces[0].Export = 4 }},
	{"namespaces[0].sample", "none", func(c *NodeConfig) { c.Namespaces[0].Export = ExportSample }},
	{"namespaces[0].sample", "too many", func(c *NodeConfig) { c.Namespaces[0].Export, c.Namespaces[0].Sample = ExportSample, MaxFrequency+1 }},
	{"namespaces[0].sample", "without sampling", func(c *NodeConfig) { c.Namespaces[0].Export, c.Namespaces[0].Sample = ExportEvery, 10 }},
	{"node.export-limit", "too many", func(c *NodeConfig) { c.ExportLimit = MaxFrequency + 1 }},
	{"node.export-rate", "too many", func(c *NodeConfig) { c.ExportRate = MaxExportRate + 1 }},
	{"node.flows", "too many", func(c *NodeConfig) { c.FlowEntries = MaxFlowEntries + 1 }},
	{"node.flows", "negative", func(c *NodeConfig) { c.FlowEntries = -1 }},
	{"collectors[1].address", "no port", collectors(validCollector, Collector{Address: tunnelSource, Protocol: ioam.NextHeaderUDP})},
	{"collectors[0].address", "no address", collectors(Collector{Port: 4739, Protocol: ioam.NextHeaderUDP})},
	{"collectors[0].address", "no protocol", collectors(Collector{Address: tunnelSource, Port: 4739})},
	{"collectors", "too many", collectors(slices.Repeat([]Collector{validCollector}, MaxCollectors+1)...)},

	{"node.loopback-limit", "too large", func(c *NodeConfig) { c.LoopbackLimit = MaxFrequency + 1 }},
	{"node.loopback-rate", "too large", func(c *NodeConfig) { c.LoopbackRate = MaxLoopbackRate + 1 }},
	{"encapsulations[0].options[0].incremental", "its namespace does not allow it", func(c *NodeConfig) { c.Encapsulations[0].Options[0].Trace.Incremental = true }},
	{"encapsulations[0].options[0].loopback", "incremental, of another type", func(c *NodeConfig) {
		c.Namespaces[0].Incremental = true
		c.Encapsulations[0].Options = Traces(
			TraceOption{Namespace: c.Namespaces[0].ID, Type: 0xc00000, Size: 40, Incremental: true, Loopback: 100},
		)
	}},
	{"encapsulations[0].options[1].loopback", "incremental, the second of a header", func(c *NodeConfig) {
		c.Namespaces[0].Incremental = true
		o := TraceOption{Namespace: c.Namespaces[0].ID, Type: LoopbackType, Size: 40, Loopback: 100}
		again := o
		again.Incremental = true
		c.Encapsulations[0].Options = Traces(o, again)
	}},
	{"encapsulations[0].options[0].type", "incremental with a snapshot", func(c *NodeConfig) {
		c.Namespaces[0].Incremental = true
		c.Encapsulations[0].Options = Traces(TraceOption{Namespace: c.Namespaces[0].ID, Type: 0x800002, Size: 80, Incremental: true})
	}},
	{"encapsulations[0].options[0].size", "incremental, too small, as Linux would send it", func(c *NodeConfig) {
		c.Compatibility, c.Namespaces[0].Incremental = CompatibilityMainline, true
		c.Encapsulations[0].Options = Traces(TraceOption{Namespace: c.Namespaces[0].ID, Type: 0xc00000, Size: 4, Incremental: true})
	}},
	{"encapsulations[0].options[0].loopback", "too rare", func(c *NodeConfig) {
		c.Encapsulations[0].Options = Traces(TraceOption{Namespace: 123, Type: LoopbackType, Size: 12, Loopback: MaxFrequency + 1})
	}},
	{"encapsulations[1].options[0].type", "none", func(c *NodeConfig) { c.Encapsulations[1].Options[0].Trace.Type = 0 }},
	{"encapsulations[1].options[0].type", "undefined", func(c *NodeConfig) { c.Encapsulations[1].Options[0].Trace.Type = 0x800800 }},
	{"encapsulations[1].options[0].type", "reserved", func(c *NodeConfig) { c.Encapsulations[1].Options[0].Trace.Type = 0x800001 }},
	{"encapsulations[1].options[0].type", "25 bits", func(c *NodeConfig) { c.Encapsulations[1].Options[0].Trace.Type = 0x1800000 }},
	{"encapsulations[1].options[0].size", "10", func(c *NodeConfig) { c.Encapsulations[1].Options[0].Trace.Size = 10 }},
	{"encapsulations[1].options[0].size", "0", func(c *NodeConfig) { c.Encapsulations[1].Options[0].Trace.Size = 0 }},
	{"encapsulations[1].options[0].size", "248", func(c *NodeConfig) { c.Encapsulations[1].Options[0].Trace.Size = 248 }},
	{"encapsulations[1].options[0].size", "-4", func(c *NodeConfig) { c.Encapsulations[1].Options[0].Trace.Size = -4 }},
	{"encapsulations[0].options[0].size", "no room for own data", func(c *NodeConfig) {
		c.Encapsulations[0].Options[0] = Traces(TraceOption{Namespace: 123, Type: 0xc00000, Size: 4})[0]
	}},
	{"encapsulations[0].options[0].size", "no room for wide data", func(c *NodeConfig) {
		c.Encapsulations[0].Options[0] = Traces(TraceOption{Namespace: 123, Type: 0x808000, Size: 8})[0]
	}},
	{"encapsulations[0].options[0].size", "no room for own snapshot", func(c *NodeConfig) {
		c.Encapsulations[0].Options[0] = Traces(TraceOption{Namespace: 200, Type: 2, Size: 8})[0]
	}},
	{"encapsulations[0].options[0].size", "no room for an empty snapshot", func(c *NodeConfig) {
		c.Encapsulations[0].Options[0] = Traces(TraceOption{Namespace: 123, Type: 0x800002, Size: 4})[0]
	}},
	{"encapsulations[0].options[0].type", "own data beyond any size", func(c *NodeConfig) {
		c.Namespaces[1].Schema, c.Encapsulations = &Schema{ID: 1, Data: make([]byte, 240)}, c.Encapsulations[:1]
		c.Encapsulations[0].Options[0] = Traces(TraceOption{Namespace: 200, Type: 0x800002, Size: MaxTraceDataSize})[0]
	}},
	{"encapsulations", "too many", func(c *NodeConfig) {
		for i := range MaxEncapsulations - 1 {
			e := c.Encapsulations[1]
			e.Name = fmt.Sprint(i)
			e.Match.Destination = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, byte(i >> 8), byte(i)}), 32)
			c.Encapsulations = append(c.Encapsulations, e)
		}
	}},
	{"encapsulations[18].match.destination", "too many overlap", func(c *NodeConfig) {
		for i := range 17 {
			e := c.Encapsulations[1]
			e.Name = fmt.Sprint(i)
			e.Match.Destination = netip.PrefixFrom(netip.MustParseAddr("3fff::"), 20+i)
			if i == 3 {
				e.Match.Destination = netip.MustParsePrefix("4000::/16") // not on the chain
			}
			c.Encapsulations = append(c.Encapsulations, e)
		}
	}},

	{"decapsulations[0].tunnel-destination", "none", func(c *NodeConfig) { c.Decapsulations[0].TunnelDestination = netip.Addr{} }},
	{"decapsulations[0].tunnel-destination", "IPv4", func(c *NodeConfig) { c.Decapsulations[0].TunnelDestination = netip.MustParseAddr("::ffff:192.0.2.1") }},
	{"decapsulations[0].tunnel-destination", "loopback", func(c *NodeConfig) { c.Decapsulations[0].TunnelDestination = netip.IPv6Loopback() }},
	{"decapsulations[0].tunnel-destination", "multicast", func(c *NodeConfig) { c.Decapsulations[0].TunnelDestination = netip.MustParseAddr("ff02::1") }},
	{"decapsulations[0].tunnel-destination", "unspecified", func(c *NodeConfig) { c.Decapsulations[0].TunnelDestination = netip.IPv6Unspecified() }},
	{"decapsulations[0].tunnel-destination", "link-local", func(c *NodeConfig) { c.Decapsulations[0].TunnelDestination = netip.MustParseAddr("febf::1") }},
	{"decapsulations[1].tunnel-destination", "twice", func(c *NodeConfig) { c.Decapsulations = append(c.Decapsulations, c.Decapsulations[0]) }},
	{"decapsulations", "too many", func(c *NodeConfig) {
		for i := range MaxDecapsulations {
			c.Decapsulations = append(c.Decapsulations, Decapsulation{TunnelDestination: netip.AddrFrom16([16]byte{0x20, 2, byte(i)})})
		}
	}},
}

func TestValidateMutations(t *testing.T) {
	for _, test := range configMutations {
		t.Run(test.path+" "+test.what, func(t *testing.T) {
			config := validConfig()
			test.mutate(&config)
			err := config.Validate()
			var all *ConfigError
			if !errors.As(err, &all) || len(all.Faults) != 1 {
				t.Fatalf("%v", err)
			}
			var one *FieldError
			if !errors.As(err, &one) || one.Path != test.path || one.Problem == "" || one.Cure == "" || strings.Contains(err.Error(), "%!") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestValidateReportsAll(t *testing.T) {
	config := validConfig()
	config.ID = 1 << 24
	config.Encapsulations[1].Options[0].Trace.Size = 10
	config.Encapsulations[1].Options[1].Trace.Type = 0
	want := "node.id: 16777216 has more than 24 bits; use 0…16777214, or remove it\n" +
		"encapsulations[1].options[0].size: 10 bytes are not possible; use a multiple of 4 in 4…244\n" +
		"encapsulations[1].options[1].type: trace type not usable: 0 asks for no data; use bits of 0xfff002"
	if err := config.Validate(); err == nil || err.Error() != want {
		t.Errorf("got\n%v, want\n%s", err, want)
	}
}
