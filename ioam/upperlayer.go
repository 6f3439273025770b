// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"net/netip"
)

// upperLayer is what a walk over the extension headers of a packet found.
type upperLayer struct {
	next     NextHeader // the last Next Header value reached
	known    bool       // next is the upper layer, and begins at offset
	offset   int        // bytes from the IPv6 header
	hopByHop bool       // one of the headers is a Hop-by-Hop header
	fragment bool       // of a packet's fragments, this is not the first
}

// findUpperLayer walks at most MaxExtensionHeaders extension headers
// (RFC 8200 §4.1). The packet has at least an IPv6 header.
func findUpperLayer(ip []byte) upperLayer {
	return walkExtensionHeaders(ip, NextHeader(ip[6]), ipv6HeaderLen)
}

// walkExtensionHeaders walks from an offset on, where the header next begins.
func walkExtensionHeaders(ip []byte, next NextHeader, at int) (u upperLayer) {
	for range MaxExtensionHeaders {
		u.next = next
		if !isExtensionHeader(next) {
			u.known, u.offset = true, at
			return u
		}
		u.hopByHop = u.hopByHop || next == NextHeaderHopByHop
		if len(ip) < at+8 { // the least that any extension header has
			return u
		}
		header := ip[at:]
		length := (int(header[1]) + 1) * 8
		switch next {
		case NextHeaderFragment:
			length = 8 // RFC 8200 §4.5
			if binary.BigEndian.Uint16(header[2:])>>3 != 0 {
				// Only the first fragment has the upper-layer header.
				u.next, u.fragment = NextHeader(header[0]), true
				return u
			}
		case NextHeaderAH:
			length = (int(header[1]) + 2) * 4 // RFC 4302 §2.2
		}
		next, at = NextHeader(header[0]), at+length
	}
	u.next, u.known, u.offset = next, !isExtensionHeader(next), at
	return u
}

func isExtensionHeader(next NextHeader) bool {
	switch next {
	case NextHeaderHopByHop, NextHeaderRouting, NextHeaderFragment, NextHeaderAH, NextHeaderDestination:
		return true
	}
	return false
}

// ports are the first four bytes of the transport protocols that have them.
func (u upperLayer) ports(ip []byte) (source, destination uint16, ok bool) {
	if !u.known || !hasPorts(u.next) || len(ip) < u.offset+4 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint16(ip[u.offset:]), binary.BigEndian.Uint16(ip[u.offset+2:]), true
}

// hasPorts reports whether a protocol's header begins with a source and a
// destination port.
func hasPorts(next NextHeader) bool {
	switch next {
	case NextHeaderTCP, NextHeaderUDP, NextHeaderDCCP, NextHeaderSCTP, NextHeaderUDPLite:
		return true
	}
	return false
}

// PacketSummary names a packet and its flow.
type PacketSummary struct {
	Source          netip.Addr
	Destination     netip.Addr
	TrafficClass    uint8
	FlowLabel       uint32 // 20 bits
	HopLimit        uint8
	NextHeader      NextHeader // of the upper layer, or the last one that could be reached
	SourcePort      uint16
	DestinationPort uint16
	HasPorts        bool // the protocol has ports, and they are in the bytes
}

// Summarize reads the first bytes of an IPv6 packet, as in [Record.Packet]; the
// result is false for fewer than 40 bytes or another version. It walks at most
// [MaxExtensionHeaders] extension headers (Hop-by-Hop, Routing, Fragment,
// Destination Options and AH: RFC 8200 §4.1); behind a fragment other than the
// first, or where bytes are missing, there are no ports.
func Summarize(packet []byte) (PacketSummary, bool) {
	if len(packet) < ipv6HeaderLen || packet[0]>>4 != 6 {
		return PacketSummary{}, false
	}
	upper := findUpperLayer(packet)
	source, destination, hasPorts := upper.ports(packet)
	return PacketSummary{
		Source:          netip.AddrFrom16([16]byte(packet[8:24])),
		Destination:     netip.AddrFrom16([16]byte(packet[24:40])),
		TrafficClass:    uint8(binary.BigEndian.Uint16(packet) >> 4),
		FlowLabel:       binary.BigEndian.Uint32(packet) & 0xfffff,
		HopLimit:        packet[7],
		NextHeader:      upper.next,
		SourcePort:      source,
		DestinationPort: destination,
		HasPorts:        hasPorts,
	}, true
}
