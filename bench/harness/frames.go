// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/binary"
	"net/netip"
)

// Offsets and lengths in a frame without VLAN tags.
const (
	EthernetHeader = 14
	IPv6Header     = 40
	AtNextHeader   = EthernetHeader + 6
)

const (
	NextHBH  = 0
	NextUDP  = 17
	NextIPv6 = 41
	NextICMP = 58
	NextNone = 59
)

// Ethernet puts an IPv6 packet into a frame.
func Ethernet(packet []byte) []byte {
	frame := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd}
	return append(frame, packet...)
}

// IPv6 is a packet with a body after its header.
func IPv6(from, to netip.Addr, next byte, body []byte) []byte {
	p := []byte{0x60, 0, 0, 0}
	p = binary.BigEndian.AppendUint16(p, uint16(len(body)))
	p = append(p, next, 64)
	p = append(p, from.AsSlice()...)
	p = append(p, to.AsSlice()...)
	return append(p, body...)
}

// UDP is a datagram of `length` bytes, header included.
func UDP(length int) []byte {
	d := make([]byte, length)
	binary.BigEndian.PutUint16(d, 4242)
	binary.BigEndian.PutUint16(d[2:], 9)
	binary.BigEndian.PutUint16(d[4:], uint16(length))
	d[6], d[7] = 0xff, 0xff // a checksum that no node verifies
	return d
}

// Plain is a frame of `length` bytes that carries only UDP.
func Plain(to netip.Addr, length int) []byte {
	return Ethernet(IPv6(Source, to, NextUDP, UDP(length-EthernetHeader-IPv6Header)))
}

// With returns a copy of b with other bytes at an offset.
func With(b []byte, offset int, values ...byte) []byte {
	out := append([]byte(nil), b...)
	copy(out[offset:], values)
	return out
}
