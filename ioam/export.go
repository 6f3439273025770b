// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// ExportMode is what a node does when a Direct Export option of a namespace
// triggers it (RFC 9326 §3.1.2).
type ExportMode uint8

const (
	// ExportNone does nothing.
	ExportNone ExportMode = iota
	// ExportEvery makes a postcard of every packet.
	ExportEvery
	// ExportAggregate adds packets to their flow.
	ExportAggregate
	// ExportSample adds packets to their flow, and makes a postcard of every
	// n-th.
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
	Namespace      NamespaceID
	Type           TraceType // what to export; not the checksum complement
	ExtensionFlags uint8     // ExtensionFlowID, ExtensionSequence, both or none
	FlowID         FlowIDSource
	OptionType     OptionType // OptionIOAMStatic, which 0 stands for, or OptionIOAM
}

// ExportRole is what an exporting node was to the packet (RFC 9326 §3.1).
type ExportRole uint8

const (
	// RoleEncapsulating inserted the option.
	RoleEncapsulating ExportRole = 1 + iota
	// RoleTransit forwarded the packet.
	RoleTransit
	// RoleDecapsulating removed the option.
	RoleDecapsulating
)

// Export is what a node has to tell about one Direct Export option of one
// packet, before any aggregation, sampling and limit of rates.
type Export struct {
	Role         ExportRole
	Ingress      IfIndex // where the packet arrived, 0 when this node generated it
	Egress       IfIndex // where it left, 0 when decapsulating
	Option       DirectExport
	HopLimit     uint8  // as field 0 of a trace has it
	Time         int64  // of departure, decapsulating: of arrival; nanoseconds of TAI
	TransitDelay uint32 // as field 4 of a trace has it
	QueueDepth   uint32 // as field 6 of a trace has it
	Flow         Flow
	Length       int  // bytes of the IPv6 packet that Flow names
	Ends         bool // TCP says with this packet (FIN, RST) that the flow ends
}

// Flow names the packets that belong together: of the packet in the tunnel
// where there is one.
type Flow struct {
	Source          netip.Addr
	Destination     netip.Addr
	FlowLabel       uint32
	NextHeader      NextHeader // the upper layer, or the last that could be reached
	SourcePort      uint16     // 0 when not known
	DestinationPort uint16     // 0 when not known
}

// numberedFlow is what Sequence Numbers count within.
type numberedFlow struct {
	namespace NamespaceID
	flowID    uint32
}

// directExport is the option to insert into a packet, with the next Sequence
// Number of its flow.
func (n *Node) directExport(o DirectExportOption, p packet, hash uint32) DirectExport {
	d := DirectExport{Namespace: o.Namespace, ExtensionFlags: o.ExtensionFlags, Type: o.Type}
	flowID := hash
	switch o.FlowID.Kind {
	case FlowIDLabel:
		flowID = p.flowLabel()
	case FlowIDFixed:
		flowID = o.FlowID.Fixed
	}
	if d.HasFlowID() {
		d.FlowID = flowID
	}
	if d.HasSequence() {
		flow := numberedFlow{o.Namespace, flowID}
		d.Sequence = n.sequences[flow]
		n.sequences[flow]++
	}
	return d
}

// triggers are the validated Direct Exports of a packet.
func (p *packet) triggers() []DirectExport {
	var list []DirectExport
	for _, option := range p.options {
		if isDirectExport(option) {
			d, _ := DecodeDirectExport(option.Data[2:])
			list = append(list, d)
		}
	}
	return list
}

// exports completes what is to be told about a packet for each of its options
// whose namespace has an export (data-plane.md, "Direct Export").
func (n *Node) exports(triggers []DirectExport, packet Export) []Export {
	var list []Export
	for _, d := range triggers {
		namespace, ok := n.namespaces[d.Namespace]
		if !ok || namespace.Export == ExportNone {
			continue
		}
		e := packet
		e.Option = d
		if !d.Type.Has(BitTransitDelay) {
			e.TransitDelay = DataUnavailable
		}
		if !d.Type.Has(BitQueueDepth) {
			e.QueueDepth = DataUnavailable
		}
		list = append(list, e)
	}
	return list
}

// flowOf names the flow of an IPv6 packet.
func flowOf(ip []byte) Flow {
	s, _ := Summarize(ip)
	return Flow{
		Source:          s.Source,
		Destination:     s.Destination,
		FlowLabel:       s.FlowLabel,
		NextHeader:      s.NextHeader,
		SourcePort:      s.SourcePort,
		DestinationPort: s.DestinationPort,
	}
}

// tcpEnds is FIN and RST (RFC 9293 §3.1).
const tcpEnds = 0x05

// endsFlow reports whether TCP says that no more is to come.
func endsFlow(ip []byte) bool {
	upper := findUpperLayer(ip)
	_, _, known := upper.ports(ip)
	return known && upper.next == NextHeaderTCP && len(ip) >= upper.offset+14 && ip[upper.offset+13]&tcpEnds != 0
}

// exportsTo reports whether a packet carries this node's exports, or a later
// fragment of them, whose port nobody knows.
func (n *Node) exportsTo(p packet, upper upperLayer) bool {
	_, port, known := upper.ports(p.ip)
	for _, c := range n.config.Collectors {
		if (!known || port == 0 || c.Port == port) && c.Protocol == upper.next && c.Address.As16() == p.destination() {
			return true
		}
	}
	return false
}

// flowKeys are the multipliers of the flow hash: the first outputs of
// splitmix64, made odd.
func flowKeys(seed uint64) (keys [7]uint64) {
	for i := range keys {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		keys[i] = z ^ z>>31 | 1
	}
	return keys
}

// hasLabelAsFlowID tells that all packets with one flow label, which share a
// Flow ID, are selected or none.
func (e *Encapsulation) hasLabelAsFlowID() bool {
	return slices.ContainsFunc(e.Options, func(o InsertedOption) bool {
		return o.DirectExport != nil && o.DirectExport.FlowID.Kind == FlowIDLabel
	})
}

// flowHash is data-plane.md, "Flow hash".
func (n *Node) flowHash(p packet, upper upperLayer) uint32 {
	words := make([]byte, 0, 6*8)
	words = append(words, p.ip[8:ipv6HeaderLen]...)
	if _, _, known := upper.ports(p.ip); known {
		words = append(words, p.ip[upper.offset:upper.offset+4]...)
	} else {
		words = append(words, 0, 0, 0, 0)
	}
	words = append(words, byte(upper.next), 0, 0, 0)
	return n.hash(append(words, labelWord(p)...))
}

// labelHash is the hash of the flow label alone: the flow hash of a flow whose
// other words are zero.
func (n *Node) labelHash(p packet) uint32 {
	return n.hash(append(make([]byte, 5*8), labelWord(p)...))
}

func labelWord(p packet) []byte {
	return []byte{0, p.ip[1] & 0xf, p.ip[2], p.ip[3], 0, 0, 0, 0}
}

// hash is of six words.
func (n *Node) hash(words []byte) uint32 {
	var h uint64
	for i := range 6 {
		h += binary.LittleEndian.Uint64(words[8*i:]) * n.flowKeys[i]
	}
	h ^= h >> 32
	h *= n.flowKeys[6]
	return uint32(h >> 32)
}
