// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"net/netip"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

const (
	ethernetHeader = 14
	ipv6Header     = 40

	nextHBH  = 0
	nextUDP  = 17
	nextIPv6 = 41
	nextICMP = 58
	nextNone = 59
)

// Addresses of all measurements. Traffic goes from source to destination,
// tunnels end at tunnelEnd, and no encapsulation matches elsewhere.
var (
	source      = netip.MustParseAddr("2001:db8:1::2")
	destination = netip.MustParseAddr("2001:db8:2::2")
	elsewhere   = netip.MustParseAddr("2001:db8:4::2")
	tunnelStart = netip.MustParseAddr("2001:db8:a::1")
	tunnelEnd   = netip.MustParseAddr("2001:db8:b::1")
)

// ethernet frames an IPv6 packet.
func ethernet(packet []byte) []byte {
	frame := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd}
	return append(frame, packet...)
}

// ipv6 is a packet with a body behind its header.
func ipv6(from, to netip.Addr, next byte, body []byte) []byte {
	p := []byte{0x60, 0, 0, 0}
	p = binary.BigEndian.AppendUint16(p, uint16(len(body)))
	p = append(p, next, 64)
	p = append(p, from.AsSlice()...)
	p = append(p, to.AsSlice()...)
	return append(p, body...)
}

// udp is a datagram in `length` bytes, its header included.
func udp(length int) []byte {
	d := make([]byte, length)
	binary.BigEndian.PutUint16(d, 4242)
	binary.BigEndian.PutUint16(d[2:], 9)
	binary.BigEndian.PutUint16(d[4:], uint16(length))
	d[6], d[7] = 0xff, 0xff // nobody on the way looks at it
	return d
}

// plain is a frame of `length` bytes with UDP and nothing else in it.
func plain(to netip.Addr, length int) []byte {
	return ethernet(ipv6(source, to, nextUDP, udp(length-ethernetHeader-ipv6Header)))
}

// hopByHop is a Hop-by-Hop header with options that are 4n-aligned, each a
// multiple of 4 bytes (RFC 8200 §4.3), and the body behind it.
func hopByHop(next byte, body []byte, options ...[]byte) []byte {
	h := []byte{next, 0, 1, 0}
	for _, o := range options {
		h = append(h, o...)
	}
	if len(h)%8 != 0 {
		h = append(h, 1, 2, 0, 0)
	}
	h[1] = byte(len(h)/8 - 1)
	return append(h, body...)
}

// trace is a pre-allocated trace option with room for one node's data.
func trace(id ioam.NamespaceID, kind ioam.TraceType) []byte {
	return traceOption(model.TraceOption{Namespace: id, Type: kind, Size: dataSize(kind)}, 0)
}

// traceOption is a pre-allocated trace option into which some nodes have
// written their data.
func traceOption(t model.TraceOption, written int) []byte {
	free := t.Size - written*dataSize(t.Type)
	o := []byte{0x31, byte(10 + t.Size), 0, 0}
	o = binary.BigEndian.AppendUint16(o, uint16(t.Namespace))
	o = binary.BigEndian.AppendUint16(o, uint16(t.Type.NodeLen())<<11|uint16(free/4))
	o = binary.BigEndian.AppendUint32(o, uint32(t.Type)<<8)
	return append(o, make([]byte, t.Size)...)
}

// with returns a copy of b with the bytes at an offset changed.
func with(b []byte, offset int, values ...byte) []byte {
	out := append([]byte(nil), b...)
	copy(out[offset:], values)
	return out
}

// repeat is n copies of an option.
func repeat(option []byte, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = option
	}
	return out
}

// traced is a frame whose Hop-by-Hop header carries the options.
func traced(options ...[]byte) []byte {
	return ethernet(ipv6(source, destination, nextHBH, hopByHop(nextNone, nil, options...)))
}

// padded lengthens a frame by a UDP datagram behind its Hop-by-Hop header.
func padded(length int, options ...[]byte) []byte {
	header := len(hopByHop(nextUDP, nil, options...))
	body := udp(max(length-ethernetHeader-ipv6Header-header, 8))
	return ethernet(ipv6(source, destination, nextHBH, hopByHop(nextUDP, body, options...)))
}

// tunnelled is an IPv6 packet in IPv6, with the options in the outer packet.
func tunnelled(inner []byte, options ...[]byte) []byte {
	if len(options) == 0 {
		return ethernet(ipv6(tunnelStart, tunnelEnd, nextIPv6, inner))
	}
	return ethernet(ipv6(tunnelStart, tunnelEnd, nextHBH, hopByHop(nextIPv6, inner, options...)))
}
