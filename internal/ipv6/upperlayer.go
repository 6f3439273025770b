// SPDX-License-Identifier: Apache-2.0

// Package ipv6 reads IPv6 headers: it walks the extension headers to the upper
// layer (RFC 8200 §4.1) and names a packet and its flow.
package ipv6

import (
	"encoding/binary"
	"github.com/waymark-net/waymark/ioam"
	"net/netip"
)

// HeaderLen is the length of the IPv6 header in bytes (RFC 8200 §3).
const HeaderLen = 40

// MaxExtensionHeaders is how many headers are walked to find the upper layer.
const MaxExtensionHeaders = 8

// UpperLayer is the result of a walk over the extension headers of a packet.
type UpperLayer struct {
	Next     ioam.NextHeader // the last Next Header value reached
	Known    bool            // Next is the upper layer, and begins at offset
	Offset   int             // bytes from the IPv6 header
	HopByHop bool            // one of the headers is a Hop-by-Hop header
	AH       bool            // one of the headers, or the next one, is an Authentication header
	Segments bool            // a Routing header has segments left (RFC 8200 §4.4)
	Fragment bool            // of a packet's fragments, this is not the first

	Destinations []int // where the Destination Options headers begin that were read
}

// FindUpperLayer walks at most MaxExtensionHeaders extension headers
// (RFC 8200 §4.1). The packet has at least an IPv6 header.
func FindUpperLayer(ip []byte) UpperLayer {
	return Walk(ip, ioam.NextHeader(ip[6]), HeaderLen)
}

// Walk walks from an offset on, where the header next begins.
func Walk(ip []byte, next ioam.NextHeader, at int) (u UpperLayer) {
	defer func() { u.AH = u.AH || u.Next == ioam.NextHeaderAH }()
	for range MaxExtensionHeaders {
		u.Next = next
		u.AH = u.AH || next == ioam.NextHeaderAH
		if !IsExtensionHeader(next) {
			u.Known, u.Offset = true, at
			return u
		}
		u.HopByHop = u.HopByHop || next == ioam.NextHeaderHopByHop
		if len(ip) < at+8 { // the least that any extension header has
			return u
		}
		header := ip[at:]
		length := (int(header[1]) + 1) * 8
		switch next {
		case ioam.NextHeaderDestination:
			u.Destinations = append(u.Destinations, at)
		case ioam.NextHeaderRouting:
			u.Segments = u.Segments || header[3] > 0
		case ioam.NextHeaderFragment:
			length = 8 // RFC 8200 §4.5
			if binary.BigEndian.Uint16(header[2:])>>3 != 0 {
				// Only the first fragment has the upper-layer header.
				u.Next, u.Fragment = ioam.NextHeader(header[0]), true
				return u
			}
		case ioam.NextHeaderAH:
			length = (int(header[1]) + 2) * 4 // RFC 4302 §2.2
		}
		next, at = ioam.NextHeader(header[0]), at+length
	}
	u.Next, u.Known, u.Offset = next, !IsExtensionHeader(next), at
	return u
}

// IsExtensionHeader reports whether a walk continues after a header of this kind.
func IsExtensionHeader(next ioam.NextHeader) bool {
	switch next {
	case ioam.NextHeaderHopByHop, ioam.NextHeaderRouting, ioam.NextHeaderFragment, ioam.NextHeaderAH, ioam.NextHeaderDestination:
		return true
	}
	return false
}

// Ports are the first four bytes of the transport protocols that have them.
func (u UpperLayer) Ports(ip []byte) (source, destination uint16, ok bool) {
	if !u.Known || !HasPorts(u.Next) || len(ip) < u.Offset+4 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint16(ip[u.Offset:]), binary.BigEndian.Uint16(ip[u.Offset+2:]), true
}

// HasPorts reports whether a protocol's header begins with a source and a
// destination port.
func HasPorts(next ioam.NextHeader) bool {
	switch next {
	case ioam.NextHeaderTCP, ioam.NextHeaderUDP, ioam.NextHeaderDCCP, ioam.NextHeaderSCTP, ioam.NextHeaderUDPLite:
		return true
	}
	return false
}

// Summary names a packet and its flow.
type Summary struct {
	Source          netip.Addr
	Destination     netip.Addr
	TrafficClass    uint8
	FlowLabel       uint32 // 20 bits
	HopLimit        uint8
	NextHeader      ioam.NextHeader // of the upper layer, or the last one that could be reached
	SourcePort      uint16
	DestinationPort uint16
	HasPorts        bool // the protocol has ports, and they are in the bytes
}

// Summarize reads the first bytes of an IPv6 packet, as a record keeps them; the
// result is false for fewer than 40 bytes or another version. It walks at most
// [MaxExtensionHeaders] extension headers (Hop-by-Hop, Routing, Fragment,
// Destination Options and AH: RFC 8200 §4.1); after a fragment other than the
// first, or where bytes are missing, there are no ports.
func Summarize(packet []byte) (Summary, bool) {
	if len(packet) < HeaderLen || packet[0]>>4 != 6 {
		return Summary{}, false
	}
	upper := FindUpperLayer(packet)
	source, destination, hasPorts := upper.Ports(packet)
	return Summary{
		Source:          netip.AddrFrom16([16]byte(packet[8:24])),
		Destination:     netip.AddrFrom16([16]byte(packet[24:40])),
		TrafficClass:    uint8(binary.BigEndian.Uint16(packet) >> 4),
		FlowLabel:       binary.BigEndian.Uint32(packet) & 0xfffff,
		HopLimit:        packet[7],
		NextHeader:      upper.Next,
		SourcePort:      source,
		DestinationPort: destination,
		HasPorts:        hasPorts,
	}, true
}
