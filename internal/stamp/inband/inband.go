// SPDX-License-Identifier: Apache-2.0

// Package inband sends UDP datagrams through the segments of an SRv6 flow (RFC 8754), in the
// form that the flow's packets have. Only their outer source is another one, so that no
// node takes them for the flow's.
package inband

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/srv6"
)

// Path is the way of a flow's packets.
type Path struct {
	Source   netip.Addr // of the datagrams, and of the outer header
	Segments []netip.Addr
	Mode     srv6.Mode
	Label    uint32 // flow label of the outer header, 20 bits, by which routers choose among equal ways (RFC 6438)
}

const (
	ipv6Len  = 40
	udpLen   = 8
	nextUDP  = 17
	nextIPv6 = 41
	hopLimit = 255 // as of datagrams that are sent otherwise (RFC 8762 §4.3.1)
	// longest leaves room for all headers in the outer one's payload.
	longest = 0xffff - 2*ipv6Len - udpLen - 8 - 17*16
)

var errPath = errors.New("a path needs a source and 1 to 16 segments, all IPv6 addresses")

// Packet is the IPv6 packet of a datagram from a port of the path's source.
func (p *Path) Packet(port uint16, to netip.AddrPort, class uint8, payload []byte) ([]byte, error) {
	n := len(p.Segments)
	if n == 0 || n > 16 || !p.Source.Is6() || !to.Addr().Is6() ||
		slices.ContainsFunc(p.Segments, func(a netip.Addr) bool { return !a.Is6() }) {
		return nil, errPath
	}
	if len(payload) > longest {
		return nil, fmt.Errorf("a datagram of %d octets is too long", len(payload))
	}
	if p.Mode == srv6.ModeInline {
		return p.inline(port, to, class, payload)
	}
	outer := srv6.SRH{NextHeader: nextIPv6, SegmentsLeft: uint8(n - 1)}
	first := 0
	if p.Mode == srv6.ModeReduced {
		first = 1 // the first segment is in the destination only (RFC 8754 §4.1.1)
	}
	for i := n - 1; i >= first; i-- {
		outer.Segments = append(outer.Segments, p.Segments[i])
	}
	inside := Path{Source: p.Source} // label 0: no node on the way chooses a path by it
	inner := appendDatagram(inside.header(to.Addr(), class, nextUDP, udpLen+len(payload)), p.Source, to.Addr(), port, to.Port(), payload)
	if len(outer.Segments) == 0 {
		return append(p.header(p.Segments[0], class, nextIPv6, len(inner)), inner...), nil
	}
	return p.through(outer, class, inner)
}

// inline has the segments in the datagram's own packet; its destination is the last one.
func (p *Path) inline(port uint16, to netip.AddrPort, class uint8, payload []byte) ([]byte, error) {
	h := srv6.SRH{NextHeader: nextUDP, SegmentsLeft: uint8(len(p.Segments)), Segments: []netip.Addr{to.Addr()}}
	for i := len(p.Segments) - 1; i >= 0; i-- {
		h.Segments = append(h.Segments, p.Segments[i])
	}
	return p.through(h, class, appendDatagram(nil, p.Source, to.Addr(), port, to.Port(), payload))
}

// through puts the headers in front of what goes through the segments.
func (p *Path) through(h srv6.SRH, class uint8, rest []byte) ([]byte, error) {
	srh, err := h.Append(nil)
	if err != nil {
		return nil, err
	}
	b := p.header(p.Segments[0], class, srv6.NextHeaderRouting, len(srh)+len(rest))
	return append(append(b, srh...), rest...), nil
}

// header is an IPv6 header from the path's source (RFC 8200 §3).
func (p *Path) header(to netip.Addr, class, next uint8, length int) []byte {
	b := binary.BigEndian.AppendUint32(nil, 6<<28|uint32(class)<<20|p.Label&0xfffff)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, next, hopLimit)
	b = append(b, p.Source.AsSlice()...)
	return append(b, to.AsSlice()...)
}

func appendDatagram(b []byte, from, to netip.Addr, fromPort, toPort uint16, payload []byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint16(b, fromPort)
	b = binary.BigEndian.AppendUint16(b, toPort)
	b = binary.BigEndian.AppendUint16(b, uint16(udpLen+len(payload)))
	b = append(append(b, 0, 0), payload...)
	sum := icmpv6.Checksum(append(from.AsSlice(), to.AsSlice()...), nextUDP, b[at:])
	if sum == 0 { // 0 says that there is no checksum (RFC 8200 §8.1)
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(b[at+6:], sum)
	return b
}

// Sender sends through paths. It needs CAP_NET_RAW.
type Sender struct{ raw *icmpv6.Sender }

// NewSender opens a socket in the network namespace of the calling thread.
func NewSender() (*Sender, error) {
	raw, err := icmpv6.NewSender()
	if err != nil {
		return nil, problem.Wrap(err, "packets through segments need root or CAP_NET_RAW")
	}
	return &Sender{raw}, nil
}

// Send sends a datagram from a port of the path's source.
func (s *Sender) Send(p *Path, port uint16, to netip.AddrPort, class uint8, payload []byte) error {
	b, err := p.Packet(port, to, class, payload)
	if err != nil {
		return err
	}
	return s.raw.Send(b)
}

// Close ends the sender.
func (s *Sender) Close() error { return s.raw.Close() }
