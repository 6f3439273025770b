// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/ioam"
	"net/netip"
	"slices"
)

// IfIndex is the operating system's index of a network interface; zero is
// "none", the ingress of a packet that this node generated.
type IfIndex uint32

// Limits of a configuration; each bounds a table or a loop of the data plane.
const (
	MaxInterfaces           = 1024
	MaxMasters              = 1024
	MaxNamespaces           = 1024
	MaxEncapsulations       = 1024
	MaxDecapsulations       = 256
	MaxTunnelSources        = 64 // prefixes of one decapsulation
	MaxTunnelDestinations   = 2048
	MaxOptionsPerPacket     = 9   // IOAM options that one Hop-by-Hop header may carry
	StackOptions            = 8   // default of net.ipv6.max_hbh_opts_number: a stack drops packets with more options in their Hop-by-Hop header
	MaxOptionsPerHeader     = 32  // options in one header, padding included
	MaxTraceDataSize        = 244 // bytes; the option's length field is one byte
	MaxSnapshotSize         = 252 // bytes; the snapshot's length field counts 4-byte units in 8 bits, an option holds less
	MaxHeaderInsertion      = 512 // bytes of Hop-by-Hop header that one encapsulation may insert
	MaxFrequency            = 1_000_000
	MaxEncapsulationOverlap = 16 // encapsulations of one interface whose destination prefixes contain one address
	MaxCollectors           = 32
	MaxFlowEntries          = 1 << 20 // flows that each CPU keeps
	MaxExportRate           = 100_000_000
)

// The defaults that 0 stands for.
const (
	DefaultExportLimit = 100 // "It is RECOMMENDED to use N>100" (RFC 9326 §3.1.2), counting every packet
	DefaultExportRate  = 10_000
	DefaultFlowEntries = 4096
)

// Compatibility chooses what a node writes where RFC 9197 and Linux differ.
type Compatibility uint8

const (
	// CompatibilityDefault writes real values wherever the node knows them.
	CompatibilityDefault Compatibility = iota
	// CompatibilityMainline writes byte for byte what the Linux kernel writes:
	// bits 4, 7 and 11 are all-ones, timestamps of locally generated packets
	// too, the queue depth is in bytes, and malformed options are dropped.
	CompatibilityMainline
)

// Role is the set of directions in which an interface belongs to the IOAM domain.
type Role uint8

const (
	// RoleIngress accepts IOAM from the link.
	RoleIngress Role = 1 << iota
	// RoleEgress lets IOAM out to the link.
	RoleEgress
)

// Boundary is what happens to IOAM that arrives on an interface without the
// ingress role, or is about to leave through one without the egress role.
type Boundary uint8

const (
	// BoundaryDrop drops the packet.
	BoundaryDrop Boundary = iota
	// BoundaryStrip removes the Hop-by-Hop header when IOAM is all it holds.
	BoundaryStrip
	// BoundaryIgnore forwards the packet untouched.
	BoundaryIgnore
)

// NodeConfig is everything an IOAM node needs to know. The zero value is a
// node that touches nothing.
type NodeConfig struct {
	ID              ioam.NodeID
	IDWide          ioam.NodeIDWide
	TimestampFormat ioam.TimestampFormat
	Compatibility   Compatibility
	Interfaces      []Interface
	Masters         []Master
	Namespaces      []Namespace
	Encapsulations  []Encapsulation
	Decapsulations  []Decapsulation

	// TunnelDestinations are the domain's tunnel destinations besides those of
	// Encapsulations and Decapsulations. The edge keeps outsiders from sending to
	// any of them.
	TunnelDestinations []netip.Addr

	FlowSeed    uint64      // seed of the flow hash; one value for the whole domain
	Collectors  []Collector // collectors of the domain; packets to them are never encapsulated
	ExportLimit uint32      // N: at most one postcard, or flow reported before its interval ends, for N packets of an interface, 0 for DefaultExportLimit
	ExportRate  uint32      // most of these, and of flows at the end of their interval, per second and node, 0 for DefaultExportRate
	FlowEntries int         // flows that each CPU keeps for aggregation, 0 for DefaultFlowEntries

	Measurement Measurement
}

// Collector is where nodes of the domain send their exports: "IOAM encapsulating nodes
// that can identify a packet as an IOAM exported packet MUST NOT push a DEX
// Option-Type into such a packet" (RFC 9326 §3.1.2).
type Collector struct {
	Address  netip.Addr
	Port     uint16
	Protocol ioam.NextHeader // NextHeaderUDP or NextHeaderTCP
}

// Interface is one interface that the node serves; others are never touched.
type Interface struct {
	Index    IfIndex
	Name     string
	ID       ioam.InterfaceID
	IDWide   ioam.InterfaceIDWide
	Roles    Role
	Boundary Boundary
	MTU      int // bytes of an IPv6 packet, 0 for no limit; used by the reference node, the data plane asks the kernel
}

// Master is a device, such as a bridge, a VRF or a bond, that the operating
// system reports as the interface of arrival for packets that arrived on one of
// its members. Some of its members are served; the device itself is not.
type Master struct {
	Index  IfIndex
	ID     ioam.InterfaceID     // id of its only member, else not available
	IDWide ioam.InterfaceIDWide // likewise
	Roles  Role                 // union of its served members' roles
}

// Namespace is one IOAM namespace that the node takes part in.
type Namespace struct {
	ID       ioam.NamespaceID
	Data     uint32 // trace field 5
	DataWide uint64 // trace field 10
	Schema   *Schema
	Remove   bool // remove inline trace and Direct Export options of this namespace on receipt
	Export   ExportMode
	Sample   uint32 // ExportSample: a postcard for every Sample packets of a flow; else 0
}

// Schema is the opaque state snapshot that a namespace's nodes add (trace bit 22).
type Schema struct {
	ID   ioam.SchemaID
	Data []byte // as configured; the wire pads it with zeros to 4 bytes
}

// Append appends the snapshot in its wire format; a nil Schema means that the
// node has none.
func (s *Schema) Append(dst []byte) []byte {
	if s == nil {
		return ioam.AppendSnapshot(dst, ioam.SchemaIDNone, nil)
	}
	return ioam.AppendSnapshot(dst, s.ID, s.Data)
}

// Mode is how an encapsulating node adds the header.
type Mode uint8

const (
	// ModeInline inserts after the IPv6 header.
	ModeInline Mode = iota
	// ModeEncap adds an outer IPv6 header in front (IPv6-in-IPv6).
	ModeEncap
	// ModeAuto is inline for locally generated packets, encap for forwarded ones.
	ModeAuto
)

// Frequency selects the first K of every N matching packets; the zero value
// selects all of them.
type Frequency struct {
	K, N uint32
}

// PortRange is an inclusive range of ports; the zero value matches every packet.
type PortRange struct {
	From, To uint16
}

// Match selects packets; absent criteria match everything. A criterion on
// ports matches only UDP, TCP, SCTP, DCCP and UDP-Lite packets that carry them, so no
// fragment but the first.
type Match struct {
	Destination     netip.Prefix     // invalid: any
	Source          netip.Prefix     // invalid: any
	NextHeader      *ioam.NextHeader // the upper-layer header, after all extension headers
	SourcePort      *PortRange
	DestinationPort *PortRange
	TrafficClass    *uint8
	FlowLabel       *uint32
}

// ExportMode is what a node does when a Direct Export option of a namespace
// triggers it (RFC 9326 §3.1.2).
type ExportMode uint8

const (
	// ExportNone does nothing.
	ExportNone ExportMode = iota
	// ExportEvery makes a postcard for every packet.
	ExportEvery
	// ExportAggregate adds packets to their flow.
	ExportAggregate
	// ExportSample adds packets to their flow, and makes a postcard for every
	// n-th packet.
	ExportSample
)

// FlowIDKind is where an encapsulating node takes a Flow ID from.
type FlowIDKind uint8

const (
	// FlowIDHash is the flow hash: of addresses, ports, protocol and flow label.
	FlowIDHash FlowIDKind = iota
	// FlowIDLabel is the packet's IPv6 flow label.
	FlowIDLabel
	// FlowIDFixed is one value for all packets.
	FlowIDFixed
)

// FlowIDSource is how an encapsulating node allocates Flow IDs, which RFC 9326
// §3.2 leaves open.
type FlowIDSource struct {
	Kind  FlowIDKind
	Fixed uint32 // FlowIDFixed: the value; else 0
}

// DirectExportOption is a Direct Export to insert.
type DirectExportOption struct {
	Namespace      ioam.NamespaceID
	Type           ioam.TraceType // what to export; not the checksum complement
	ExtensionFlags uint8          // ExtensionFlowID, ExtensionSequence, both or none
	FlowID         FlowIDSource
	OptionType     ioam.OptionType // OptionIOAMStatic, which 0 stands for, or OptionIOAM
}

// TraceOption is a pre-allocated trace to insert.
type TraceOption struct {
	Namespace ioam.NamespaceID
	Type      ioam.TraceType
	Size      int // bytes of node data to pre-allocate, a multiple of 4 in 4…244
}

// InsertedOption is one option of the header that an encapsulating node adds:
// exactly one of the two.
type InsertedOption struct {
	Trace        *TraceOption
	DirectExport *DirectExportOption
}

// Traces returns the traces as options to insert.
func Traces(traces ...TraceOption) []InsertedOption {
	options := make([]InsertedOption, len(traces))
	for i, trace := range traces {
		options[i].Trace = &trace
	}
	return options
}

// Len is the length of the whole option in bytes, a multiple of 4.
func (o InsertedOption) Len() int {
	const before = 4 // type, length, reserved, IOAM Option-Type
	switch {
	case o.Trace != nil:
		return before + ioam.TraceHeaderLen + o.Trace.Size
	case o.DirectExport != nil:
		return before + ioam.DirectExport{ExtensionFlags: o.DirectExport.ExtensionFlags}.Len()
	}
	return before
}

// Encapsulation is one rule of an encapsulating node. Of the rules that match
// a packet on its egress interface, the one with the longest destination
// prefix acts, and among equals the first.
type Encapsulation struct {
	Name              string
	Interface         IfIndex
	Match             Match
	Flows             uint32 // 1 in Flows flows, by their hash, with FlowIDLabel by that of the label; 0 and 1: all
	Frequency         Frequency
	Mode              Mode
	TunnelSource      netip.Addr // both ends: required unless the mode is inline
	TunnelDestination netip.Addr
	PathMTU           int // largest IPv6 packet in bytes that the tunnel's path is known to carry, 0 when unknown
	Options           []InsertedOption
}

// HeaderLen is the length in bytes of the Hop-by-Hop header that the rule
// inserts: a multiple of 8 (RFC 8200 §4.3).
func (e Encapsulation) HeaderLen() int {
	n := 4 // before the options
	for _, o := range e.Options {
		n += o.Len()
	}
	return (n + 7) &^ 7
}

// Insertion is the most bytes that the rule adds to a packet: the Hop-by-Hop
// header, and an IPv6 header unless the mode is inline.
func (e Encapsulation) Insertion() int {
	if e.Mode == ModeInline {
		return e.HeaderLen()
	}
	return e.HeaderLen() + ipv6.HeaderLen
}

// Decapsulation is a tunnel that ends at this node.
type Decapsulation struct {
	TunnelDestination netip.Addr
	Sources           []netip.Prefix // accepted sources of the outer header; nil: any
	Bare              bool           // also accept packets without IOAM of one of this node's namespaces
}

// KnownTunnelDestinations are the ends of the domain's tunnels that the node
// knows, each once, in order.
func (c NodeConfig) KnownTunnelDestinations() []netip.Addr {
	list := slices.Clone(c.TunnelDestinations)
	for _, d := range c.Decapsulations {
		list = append(list, d.TunnelDestination)
	}
	for _, e := range c.Encapsulations {
		if e.Mode != ModeInline {
			list = append(list, e.TunnelDestination)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}
