// SPDX-License-Identifier: Apache-2.0

package record

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/ioam"
)

// Packet names the packet that a record is about.
type Packet struct {
	Source          netip.Addr
	Destination     netip.Addr
	NextHeader      ioam.NextHeader // the upper layer, or the last header that could be read
	SourcePort      *uint16         // absent when the protocol has no ports, or they cannot be read
	DestinationPort *uint16         // as SourcePort
	FlowLabel       uint32
	Length          int // bytes, from the IPv6 header on; 0 for a flow
}

// Sections of a packet in IPFIX; in JSON the flow label comes after the ports.
const (
	sectionEnds section = iota
	sectionPorts
)

// packetTable declares the fields of a packet.
var packetTable = table[*Packet]{
	field("source", "", "IPv6 address.", func(p *Packet) *netip.Addr { return &p.Source }, address()).
		ipfix(sectionEnds, "sourceIPv6Address").when(packetKnown).also("sourceIPv4Address"),
	field("destination", "", "IPv6 address.", func(p *Packet) *netip.Addr { return &p.Destination }, address()).
		ipfix(sectionEnds, "destinationIPv6Address").when(packetKnown).also("destinationIPv4Address"),
	field("next_header", "", "Protocol number of the upper layer, or of the last header that could be read.",
		func(p *Packet) *ioam.NextHeader { return &p.NextHeader }, number[ioam.NextHeader]()).
		ipfix(sectionEnds, "protocolIdentifier").when(packetKnown),
	field("source_port", "", "Absent when the protocol has no ports, or they cannot be read.",
		func(p *Packet) **uint16 { return &p.SourcePort }, port()).
		ipfix(sectionPorts, "sourceTransportPort").when(packetPorts),
	field("destination_port", "", "As `source_port`.", func(p *Packet) **uint16 { return &p.DestinationPort }, port()).
		ipfix(sectionPorts, "destinationTransportPort").when(packetPorts),
	field("flow_label", "", "IPv6 flow label.", func(p *Packet) *uint32 { return &p.FlowLabel }, number[uint32]()).
		ipfix(sectionEnds, "flowLabelIPv6").when(packetKnown),
	field("length", "bytes", "Bytes from the IPv6 header on, without the bytes of IOAM and its tunnel; absent in a flow.",
		func(p *Packet) *int { return &p.Length }, present(integer[int]())).
		ipfix(sectionPorts, "ipTotalLength[4]").when(lengthKnown),
}

// packetField declares the packet that a record is about.
func packetField[R any](at func(R) *Packet, as codec[*Packet]) column[R] {
	return within(
		field("packet", "", "The packet within the tunnel, absent when it is not known.", at, as),
		packetTable,
		sectionPacket,
		at,
		at,
	)
}

// packetConditions says what is known of a packet, except its length.
func packetConditions(p *Packet) conditions {
	switch {
	case !p.Source.Is6() || !p.Destination.Is6():
		return 0
	case p.SourcePort == nil || p.DestinationPort == nil:
		return 1 << packetKnown
	}
	return 1<<packetKnown | 1<<packetPorts
}

// ParsePacket reads the IPv6 packet at the start of b, which may be only its
// first bytes; length is the whole packet's. ok is false when b does not begin
// with an IPv6 header.
func ParsePacket(b []byte, length int) (p Packet, ok bool) {
	s, ok := ipv6.Summarize(b)
	if !ok {
		return Packet{}, false
	}
	p = Packet{
		Source:      s.Source,
		Destination: s.Destination,
		NextHeader:  s.NextHeader,
		FlowLabel:   s.FlowLabel,
		Length:      length,
	}
	if s.HasPorts {
		p.SourcePort, p.DestinationPort = &s.SourcePort, &s.DestinationPort
	}
	return p, true
}
