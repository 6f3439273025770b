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
	MaxInterfaces         = 1024
	MaxUppers             = 1024
	MaxNamespaces         = 1024
	MaxNamespacePolicies  = 4096 // at all edges of a node
	MaxEncapsulations     = 1024
	MaxDecapsulations     = 256
	MaxTunnelSources      = 64 // prefixes of one decapsulation
	MaxTunnelDestinations = 2048
	MaxOptionsPerPacket   = 9 // IOAM options that one Hop-by-Hop header may carry
	// default of net.ipv6.max_hbh_opts_number: a stack drops packets with more options in their Hop-by-Hop header
	StackOptions            = 8
	MaxOptionsPerHeader     = 32  // options in one header, padding included
	MaxTraceDataSize        = 244 // bytes; the option's length field is one byte
	MaxSnapshotSize         = 252 // bytes; the snapshot's length field counts 4-byte units in 8 bits, an option holds less
	MaxHeaderInsertion      = 512 // bytes of Hop-by-Hop header that one encapsulation may insert
	MaxFrequency            = 1_000_000
	MaxEncapsulationOverlap = 16 // encapsulations of one interface whose destination prefixes contain one address
	MaxCollectors           = 32
	MaxFlowEntries          = 1 << 20 // flows that each CPU keeps
	MaxExportRate           = 100_000_000
	MaxLoopbackRate         = 1_000_000
)

// The defaults that 0 stands for.
const (
	DefaultExportLimit = 100 // "It is RECOMMENDED to use N>100" (RFC 9326 §3.1.2), counting every packet
	DefaultExportRate  = 10_000
	DefaultFlowEntries = 4096

	DefaultLoopbackLimit = 100 // "Using N>100 is RECOMMENDED" (RFC 9322 §4.2), of octets; copies are shorter than packets
	DefaultLoopbackRate  = 100
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

// From the strictest on.
const (
	// BoundaryDrop drops the packet.
	BoundaryDrop Boundary = iota
	// BoundaryStrip removes IOAM, and the Hop-by-Hop header when IOAM is all it holds.
	BoundaryStrip
	// BoundaryIgnore forwards the packet untouched.
	BoundaryIgnore
)

// NamespacePolicy is what happens at the domain's edge to IOAM of one namespace.
type NamespacePolicy struct {
	Namespace ioam.NamespaceID
	Boundary  Boundary
}

// NodeConfig is everything an IOAM node needs to know. The zero value is a
// node that touches nothing.
type NodeConfig struct {
	ID              ioam.NodeID
	IDWide          ioam.NodeIDWide
	TimestampFormat ioam.TimestampFormat
	Compatibility   Compatibility
	Interfaces      []Interface
	Uppers          []Upper
	Namespaces      []Namespace
	Encapsulations  []Encapsulation
	Decapsulations  []Decapsulation

	// TunnelDestinations are the domain's tunnel destinations besides those of
	// Encapsulations and Decapsulations. The edge keeps outsiders from sending to
	// any of them.
	TunnelDestinations []netip.Addr

	FlowSeed   uint64      // seed of the flow hash; one value for the whole domain
	Collectors []Collector // collectors of the domain; packets to them are never encapsulated
	// N: at most one postcard, or flow reported before its interval ends, for N packets of an interface, 0 for DefaultExportLimit
	ExportLimit uint32
	ExportRate  uint32 // most of these, and of flows at the end of their interval, per second and node, 0 for DefaultExportRate
	FlowEntries int    // flows that each CPU keeps for aggregation, 0 for DefaultFlowEntries

	LoopbackLimit uint32 // N: at most one copy is returned for N packets of an interface, 0 for DefaultLoopbackLimit
	LoopbackRate  uint32 // most copies per second that the node returns, and packets that it sets the flag on, 0 for DefaultLoopbackRate

	// Delays is the N of the histograms of delays: of packets whose departure has no time, how long the
	// node held one in N is counted; of all others, the delays of each packet. 0 counts none.
	Delays uint32

	Measurement Measurement
}

// Removes reports whether the node may remove headers of packets that arrive inside the
// domain: tunnels end there, or inline options of some namespace.
func (c NodeConfig) Removes() bool {
	return len(c.Decapsulations) > 0 || slices.ContainsFunc(c.Namespaces, func(ns Namespace) bool { return ns.Remove })
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
	Boundary Boundary          // of IOAM of other namespaces than those of Policies
	Policies []NamespacePolicy // one for each namespace
	MTU      int               // bytes of an IPv6 packet, 0 for no limit; used by the reference node, the data plane asks the kernel
}

// Upper is a device that the operating system reports as the interface of arrival for
// packets that arrived on an interface below it: a bridge, a VRF or a bond for its
// members, or a VLAN device. Some of those below are served; the device itself is not.
type Upper struct {
	Index  IfIndex
	ID     ioam.InterfaceID     // id of the only interface below, else not available
	IDWide ioam.InterfaceIDWide // likewise
	Roles  Role                 // union of the served interfaces' roles
	VLAN   bool                 // it is a VLAN device
	// Proven reports that every packet that arrives there was seen by the ingress hook
	// of a served interface with the ingress role.
	Proven bool
}

// Namespace is one IOAM namespace that the node takes part in.
type Namespace struct {
	ID       ioam.NamespaceID
	Data     uint32 // trace field 5
	DataWide uint64 // trace field 10
	Schema   *Schema
	Remove   bool // remove inline options of this namespace on receipt: traces, Direct Exports, proofs and Edge-to-Edge
	Export   ExportMode
	Sample   uint32 // ExportSample: a postcard for every Sample packets of a flow; else 0
	Proof    *Proof // nil: Proof of Transit options of this namespace pass unchanged
	// EdgeToEdge measures the flows whose Edge-to-Edge options end at this node.
	EdgeToEdge bool

	Loopback        bool // return copies of packets with a trace of this namespace that has the Loopback flag
	TerminateActive bool // drop packets with a trace of this namespace that has the Active flag, where their header is removed

	// Incremental lets packets with an incremental trace of this namespace grow by this
	// node's data. RFC 8200 §4 forbids that outside of a domain that agrees to it.
	Incremental bool
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
	// ModeAuto is inline for locally generated packets, and for those that have segments
	// left in a Routing header; encap for other forwarded ones.
	ModeAuto
)

// Frequency selects the first K of every N matching packets; the zero value
// selects all of them.
type Frequency struct {
	K, N uint32
}

// Budget limits what an encapsulation adds to a share of what leaves its interface, in
// millionths; 0 is no limit.
type Budget struct {
	Packets uint32 // that get the header
	Octets  uint32 // that it adds
}

// MaxBudget is all packets, or as many octets as there are.
const MaxBudget = 1_000_000

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

// TraceOption is a trace to insert, pre-allocated or incremental.
type TraceOption struct {
	Incremental bool
	Namespace   ioam.NamespaceID
	Type        ioam.TraceType
	Size        int // bytes of node data to pre-allocate, or most that an incremental trace grows to; a multiple of 4 in 4…244
	// Loopback is N: each CPU sets the Loopback flag on the first of every N packets
	// (RFC 9322 §4.1.1); 0: on none. One trace of an encapsulation may have it.
	Loopback uint32
}

// InsertedOption is one option of the header that an encapsulating node adds:
// exactly one of the four.
type InsertedOption struct {
	Trace        *TraceOption
	DirectExport *DirectExportOption
	Proof        *ProofOption
	EdgeToEdge   *EdgeToEdgeOption
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
	case o.Trace != nil && o.Trace.Incremental: // with this node's data
		return before + ioam.TraceHeaderLen + 4*o.Trace.Type.NodeLen()
	case o.Trace != nil:
		return before + ioam.TraceHeaderLen + o.Trace.Size
	case o.DirectExport != nil:
		return before + ioam.DirectExport{ExtensionFlags: o.DirectExport.ExtensionFlags}.Len()
	case o.Proof != nil:
		return before + ioam.ProofLen
	case o.EdgeToEdge != nil:
		return before + ioam.EdgeToEdge{Type: o.EdgeToEdge.Type}.Len()
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
	Budget            Budget
	Mode              Mode
	TunnelSource      netip.Addr // both ends: required unless the mode is inline
	TunnelDestination netip.Addr
	PathMTU           int  // largest IPv6 packet in bytes that the tunnel's path is known to carry, 0 when unknown
	Nested            bool // also packets that carry IOAM already, and were not generated here
	Options           []InsertedOption
}

// HeaderLen is the length in bytes of the headers that the rule inserts: of a
// Hop-by-Hop header, and of a Destination Options header for Edge-to-Edge options.
func (e Encapsulation) HeaderLen() int { return e.HopByHopLen() + e.DestinationLen() }

// HopByHopLen is the length in bytes of the Hop-by-Hop header that the rule inserts: a
// multiple of 8 (RFC 8200 §4.3), 0 when there is none.
func (e Encapsulation) HopByHopLen() int {
	return e.headerLen(func(o InsertedOption) bool { return o.EdgeToEdge == nil })
}

// DestinationLen is the same of the Destination Options header.
func (e Encapsulation) DestinationLen() int {
	return e.headerLen(func(o InsertedOption) bool { return o.EdgeToEdge != nil })
}

func (e Encapsulation) headerLen(holds func(InsertedOption) bool) int {
	n := 0
	for _, o := range e.Options {
		if holds(o) {
			n += o.Len()
		}
	}
	if n == 0 {
		return 0
	}
	const before = 4 // next header, length, padding
	return (before + n + 7) &^ 7
}

// Insertion is the most bytes that the rule adds to a packet: the extension
// headers, and an IPv6 header unless the mode is inline.
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
