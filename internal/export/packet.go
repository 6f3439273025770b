// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/binary"
	"net/netip"

	"github.com/waymark-net/waymark/ioam"
)

const ipv6HeaderLen = 40

// Packet names the packet that a record is about.
type Packet struct {
	Source          netip.Addr      `json:"source"`
	Destination     netip.Addr      `json:"destination"`
	NextHeader      ioam.NextHeader `json:"next_header"`                // the upper layer, or the last header that could be read
	SourcePort      *uint16         `json:"source_port,omitempty"`      // absent when the protocol has no ports, or they cannot be read
	DestinationPort *uint16         `json:"destination_port,omitempty"` // as SourcePort
	FlowLabel       uint32          `json:"flow_label"`
	Length          int             `json:"length"` // bytes, from the IPv6 header on
}

// ParsePacket reads the IPv6 packet at the start of b, which may be only its
// first bytes; length is the packet's, 0 for what its header says. ok is false
// when b does not begin with an IPv6 header.
func ParsePacket(b []byte, length int) (p Packet, ok bool) {
	if len(b) < ipv6HeaderLen || b[0]>>4 != 6 {
		return Packet{}, false
	}
	if length == 0 {
		length = ipv6HeaderLen + int(binary.BigEndian.Uint16(b[4:]))
	}
	p = Packet{
		Source:      netip.AddrFrom16([16]byte(b[8:24])),
		Destination: netip.AddrFrom16([16]byte(b[24:40])),
		FlowLabel:   binary.BigEndian.Uint32(b) & 0xfffff,
		Length:      length,
	}
	next, at, first := upperLayer(b)
	p.NextHeader = next
	if first && hasPorts(next) && at+4 <= len(b) {
		source, destination := binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint16(b[at+2:])
		p.SourcePort, p.DestinationPort = &source, &destination
	}
	return p, true
}

func hasPorts(h ioam.NextHeader) bool {
	switch h {
	case ioam.NextHeaderTCP, ioam.NextHeaderUDP, ioam.NextHeaderSCTP, ioam.NextHeaderDCCP, ioam.NextHeaderUDPLite:
		return true
	}
	return false
}

// upperLayer walks the extension headers (RFC 8200 §4.1) to the upper-layer
// header and its offset. first is false when it is not there to be read:
// behind a first fragment, or beyond the bytes or the number of headers looked at.
func upperLayer(b []byte) (next ioam.NextHeader, at int, first bool) {
	next, at = ioam.NextHeader(b[6]), ipv6HeaderLen
	for range ioam.MaxExtensionHeaders {
		var size int
		switch next {
		case ioam.NextHeaderHopByHop, ioam.NextHeaderRouting, ioam.NextHeaderDestination:
			if at+2 > len(b) {
				return next, at, false
			}
			size = (int(b[at+1]) + 1) * 8
		case ioam.NextHeaderAH:
			if at+2 > len(b) {
				return next, at, false
			}
			size = (int(b[at+1]) + 2) * 4 // RFC 4302 §2.2
		case ioam.NextHeaderFragment:
			if at+4 > len(b) {
				return next, at, false
			}
			if binary.BigEndian.Uint16(b[at+2:])&^7 != 0 { // RFC 8200 §4.5
				return ioam.NextHeader(b[at]), at, false
			}
			size = 8
		default:
			return next, at, true
		}
		next, at = ioam.NextHeader(b[at]), at+size
	}
	switch next {
	case ioam.NextHeaderHopByHop, ioam.NextHeaderRouting, ioam.NextHeaderDestination, ioam.NextHeaderAH, ioam.NextHeaderFragment:
		return next, at, false
	}
	return next, at, true
}
