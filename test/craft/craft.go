// SPDX-License-Identifier: Apache-2.0

// Package craft builds packets for tests: IPv6 (RFC 8200), its extension headers,
// Ethernet with VLAN tags, and payloads. It checks nothing, so that a test can
// build malformed packets.
package craft

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
)

// Hex reads hexadecimal digits and ignores white space between them.
func Hex(t testing.TB, text ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(strings.Join(text, "")), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Next Header values.
const (
	HopByHop           = 0
	TCP                = 6
	UDP                = 17
	IPv6InIPv6         = 41
	Routing            = 43
	Fragment           = 44
	Authentication     = 51
	ICMPv6             = 58
	NoNext             = 59
	DestinationOptions = 60
)

// HeaderLen is the length of an IPv6 header.
const HeaderLen = 40

// IPv6 is an IPv6 header.
type IPv6 struct {
	Class               uint8
	Label               uint32
	Next                byte
	HopLimit            byte
	Source, Destination netip.Addr
}

// Between is a header with hop limit 64.
func Between(source, destination string, next byte) IPv6 {
	return IPv6{Next: next, HopLimit: 64, Source: netip.MustParseAddr(source), Destination: netip.MustParseAddr(destination)}
}

// With returns the packet that has this header and the concatenated payload
// parts.
func (h IPv6) With(payload ...[]byte) []byte {
	length := 0
	for _, part := range payload {
		length += len(part)
	}
	return append(h.Header(length), bytes.Join(payload, nil)...)
}

// Header returns the header alone, with the given payload length.
func (h IPv6) Header(length int) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, HeaderLen+length), 6<<28|uint32(h.Class)<<20|h.Label)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, h.Next, h.HopLimit)
	source, destination := h.Source.As16(), h.Destination.As16()
	return append(append(b, source[:]...), destination[:]...)
}

// Options is a Hop-by-Hop or Destination Options header: pad bytes of padding,
// the options unchanged, and padding to a multiple of 8 bytes.
func Options(next byte, pad int, options ...[]byte) []byte {
	h := append([]byte{next, 0}, padding(pad)...)
	for _, o := range options {
		h = append(h, o...)
	}
	h = append(h, padding(-len(h)&7)...)
	h[1] = byte(len(h)/8 - 1)
	return h
}

// padding is Pad1, or PadN of n bytes.
func padding(n int) []byte {
	b := make([]byte, n)
	if n > 1 {
		b[0], b[1] = 1, byte(n-2)
	}
	return b
}

// Datagram is UDP without a checksum.
func Datagram(source, destination uint16, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, source)
	b = binary.BigEndian.AppendUint16(b, destination)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return append(append(b, 0, 0), payload...)
}

// Segment is TCP without a checksum and without options.
func Segment(source, destination uint16, flags byte, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 20+len(payload)), source)
	b = binary.BigEndian.AppendUint16(b, destination)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 5<<4, flags, 0, 0, 0, 0, 0, 0)
	return append(b, payload...)
}

// Message is an ICMPv6 message without a checksum.
func Message(kind, code byte, body ...byte) []byte {
	return append([]byte{kind, code, 0, 0}, body...)
}

// Tag is a VLAN tag.
type Tag struct{ Type, Control uint16 }

// Ethernet puts an Ethernet header in front of an IPv6 packet; addresses may be
// nil.
func Ethernet(destination, source []byte, packet []byte, tags ...Tag) []byte {
	f := make([]byte, 12, 14+4*len(tags)+len(packet))
	copy(f, destination)
	copy(f[6:], source)
	for _, tag := range tags {
		f = binary.BigEndian.AppendUint16(f, tag.Type)
		f = binary.BigEndian.AppendUint16(f, tag.Control)
	}
	return append(append(f, 0x86, 0xdd), packet...)
}

// Sum adds 16-bit words to begin (RFC 1071); an odd last byte counts as the first
// of its word.
func Sum(begin int, b []byte) uint16 {
	for i, c := range b {
		begin += int(c) << (8 * (1 - i&1))
	}
	for begin > 0xffff {
		begin = begin>>16 + begin&0xffff
	}
	return uint16(begin)
}

// sumAt is the offset of the checksum in an upper-layer header.
var sumAt = map[byte]int{TCP: 16, UDP: 6, ICMPv6: 2}

// Seal fills in the checksum of the TCP, UDP or ICMPv6 at the end of an IPv6
// packet (RFC 8200 §8.1), after Hop-by-Hop and Destination Options headers.
func Seal(p []byte) []byte {
	next, at := p[6], HeaderLen
	for next == HopByHop || next == DestinationOptions {
		next, at = p[at], at+8*(int(p[at+1])+1)
	}
	field := p[at+sumAt[next]:][:2]
	clear(field)
	begin := int(Sum(len(p)-at+int(next), p[8:HeaderLen]))
	binary.BigEndian.PutUint16(field, ^Sum(begin, p[at:]))
	return p
}
