// SPDX-License-Identifier: Apache-2.0

// Package pathmtu learns the path MTU of tunnels from ICMPv6 Packet Too Big
// messages (RFC 4443 §3.2), as RFC 8201 requires of senders. The source of a
// tunneled packet is the encapsulating node, whose kernel has no tunnel of its
// own and so ignores these messages.
package pathmtu

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Minimum is the MTU that every IPv6 link has (RFC 8200 §5), in bytes.
const Minimum = 1280

// TooBig is the content of a Packet Too Big message about a tunnelled packet.
type TooBig struct {
	MTU                 uint32 // of the link that was too small for the packet, in bytes
	Source, Destination netip.Addr
	Length              int // of the packet, in bytes; 0 when its header does not say
}

// The reasons why a message is not about a tunnel.
var (
	ErrMalformed  = errors.New("not a Packet Too Big message with an IPv6 header in it")
	ErrNotTunnels = errors.New("not about a packet of a tunnel")
)

const (
	typeTooBig = 2
	icmpLen    = 8 // type, code, checksum, MTU
	ipv6Len    = 40

	nextHopByHop    = 0
	nextIPv6        = 41
	nextDestination = 60
)

// after returns the next header after an extension header and what follows, or IPv6 where the quote ends before.
func after(header []byte) (next byte, rest []byte) {
	switch len(header) {
	case 0:
		return nextIPv6, nil
	case 1:
		return header[0], nil
	}
	length := (int(header[1]) + 1) * 8
	return header[0], header[min(length, len(header)):]
}

// ParseTooBig reads a message from its ICMPv6 header on; the kernel has checked
// the checksum. The quoted packet must be a tunneled one, as far as it is quoted:
// an IPv6 header, a Hop-by-Hop header unless some node has removed it, a Destination
// Options header if it has an Edge-to-Edge option (RFC 9486 §3), IPv6. The error is ErrMalformed or ErrNotTunnels.
func ParseTooBig(message []byte) (TooBig, error) {
	if len(message) < icmpLen+ipv6Len || message[0] != typeTooBig || message[icmpLen]>>4 != 6 {
		return TooBig{}, ErrMalformed
	}
	quoted := message[icmpLen:]
	next, rest := quoted[6], quoted[ipv6Len:]
	if next == nextHopByHop {
		next, rest = after(rest)
	}
	if next == nextDestination {
		next, _ = after(rest)
	}
	if next != nextIPv6 {
		return TooBig{}, ErrNotTunnels
	}
	big := TooBig{
		MTU:         binary.BigEndian.Uint32(message[4:]),
		Source:      netip.AddrFrom16([16]byte(quoted[8:24])),
		Destination: netip.AddrFrom16([16]byte(quoted[24:40])),
	}
	// 0 means a packet beyond 64 KiB, which the kernel segments after it was
	// counted
	if payload := int(binary.BigEndian.Uint16(quoted[4:])); payload != 0 {
		big.Length = ipv6Len + payload
	}
	return big, nil
}
