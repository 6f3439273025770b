// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/ioam"
)

const (
	// Types of ICMPv6 messages (RFC 4443 §4).
	echoRequest = 128
	echoReply   = icmpv6.Type(129)

	longestError = 1280 // octets of an error (RFC 4443 §2.4)
	mostErrors   = 20_000
	headerLen    = 8 // of UDP, and of an echo message
)

func isInvalid(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT)
}

// read takes answers until the socket is closed.
func (p *Prober) read(s *udp.Socket) {
	for {
		list, err := s.Receive()
		if err != nil {
			return
		}
		now := time.Now()
		for i := range list {
			p.answered(&list[i], now)
		}
	}
}

// answered takes a datagram.
func (p *Prober) answered(d *udp.Datagram, now time.Time) {
	a, err := message.DecodeAnswer(d.Data, p.config.Key)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, message.ErrMAC):
		p.ignored[Forged]++
		return
	case err != nil || d.Cut:
		p.ignored[Malformed]++
		return
	case a.Nonce != p.nonce || d.Peer != netip.AddrPortFrom(p.config.Destination, p.config.Port):
		p.ignored[Foreign]++
		return
	}
	r := paths.Reply{Kind: paths.Answered, From: d.Peer.Addr(), Arrived: a.HopLimit}
	if len(a.Trace) > 0 && !p.waiting[a.Number].asks {
		if r.Trace = p.trace(a.Trace); r.Trace == nil {
			p.ignored[Malformed]++
			return
		}
	}
	p.acceptReply(a.ID, r, now)
}

// trace decodes a trace that this run may have sent. Its memory is its own.
func (p *Prober) trace(b []byte) *ioam.Trace {
	t, err := ioam.DecodeTrace(slices.Clone(b))
	if err != nil || t.Check() != nil || t.Namespace != p.config.Namespace || t.Type != p.config.Type ||
		len(t.Data) != 4*t.Type.NodeLen()*p.config.Nodes {
		return nil
	}
	return &t
}

// acceptReply takes the reply to a probe; the caller holds p.mu.
func (p *Prober) acceptReply(id message.ID, r paths.Reply, now time.Time) {
	w, ok := p.waiting[id.Number]
	if !ok || w.flow != int(id.Flow) || w.hops != id.HopLimit {
		p.ignored[Repeated]++
		return
	}
	delete(p.waiting, id.Number)
	r.RoundTrip, r.Sent, r.SentHops = now.Sub(w.sent), w.sent.Round(0), w.hops
	reached := r.Kind == paths.Answered || r.Kind == paths.Echoed || r.Kind == paths.Refused
	p.arrived = p.arrived || reached
	if w.asks && reached {
		p.flows[w.flow].answered = true
		p.longest = max(p.longest, r.RoundTrip)
	}
	if w.asks && r.Kind == paths.Echoed { // it does not say how far the destination is
		return
	}
	if w.walk {
		p.paths.Walked(w.flow, r)
	} else {
		p.paths.Received(w.flow, r)
	}
}

// handleICMP takes an ICMPv6 message. Those about packets of others are none of its business.
func (p *Prober) handleICMP(m icmpv6.Message) {
	now := time.Now()
	if len(m.Body) < icmpv6.HeaderLen {
		return
	}
	kind, code := icmpv6.Type(m.Body[0]), m.Body[1]
	if kind == echoReply {
		if a, err := message.QuotedProbe(m.Body[icmpv6.HeaderLen:]); err == nil && a.Nonce == p.nonce && m.Source == p.config.Destination {
			p.mu.Lock()
			defer p.mu.Unlock()
			// An echo reply does not say with which hop limit the request arrived.
			p.acceptReply(a, paths.Reply{Kind: paths.Echoed, From: m.Source}, now)
		}
		return
	}
	id, arrived, header, ok := p.quoted(m.Body[icmpv6.HeaderLen:])
	if !ok {
		return
	}
	r := paths.Reply{Kind: paths.Failed, From: m.Source, Arrived: arrived, Error: describe(kind, code)}
	switch {
	case kind == icmpv6.TimeExceeded && code == 0:
		r.Kind = paths.Exceeded
	case kind == icmpv6.Unreachable && code == icmpv6.PortUnreachable && m.Source == p.config.Destination:
		r.Kind = paths.Refused
	}
	if b := message.TraceOf(header); b != nil {
		r.Trace = p.trace(b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acceptReply(id, r, now)
}

// quoted reads a probe of this run that an error quotes: the hop limit with which it
// arrived, and its Hop-by-Hop header.
func (p *Prober) quoted(ip []byte) (id message.ID, arrived uint8, header []byte, ok bool) {
	if len(ip) < ipv6.HeaderLen || ip[0]>>4 != 6 || netip.AddrFrom16([16]byte(ip[24:40])) != p.config.Destination {
		return id, 0, nil, false
	}
	upper := ipv6.FindUpperLayer(ip)
	want := ioam.NextHeaderUDP
	if p.config.Echo {
		want = ioam.NextHeaderICMPv6
	}
	if !upper.Known || upper.Next != want || upper.Offset+headerLen > len(ip) {
		return id, 0, nil, false
	}
	id, err := message.QuotedProbe(ip[upper.Offset+headerLen:])
	if err != nil || id.Nonce != p.nonce {
		return id, 0, nil, false
	}
	if ioam.NextHeader(ip[6]) == ioam.NextHeaderHopByHop {
		header = ip[ipv6.HeaderLen:upper.Offset]
	}
	return id, ip[7], header, true
}

// describe names an error.
func describe(kind icmpv6.Type, code uint8) string {
	name := icmpv6.ErrorName(kind, code)
	if kind == icmpv6.ParameterProblem {
		name += ": a node does not take the Hop-by-Hop header"
	}
	return name
}

// findSource finds the address from which the kernel sends to the destination.
func (p *Prober) findSource() error {
	if p.config.Source.IsValid() {
		return nil
	}
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.config.Destination, p.config.Port))
	if p.config.Scope != 0 {
		to.Zone = fmt.Sprint(p.config.Scope)
	}
	conn, err := net.DialUDP("udp6", nil, to) // it sends nothing
	if err != nil {
		return problem.Wrap(
			fmt.Errorf("find a source for %v: %w", p.config.Destination, err),
			fmt.Sprintf("check the address and 'ip -6 route get %v'", p.config.Destination),
		)
	}
	defer conn.Close()
	p.config.Source = conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().WithZone("")
	return nil
}

// packet is a whole packet up to its Hop-by-Hop header, for an upper layer of a length.
func (p *Prober) packet(f *flow, id message.ID, header []byte, upper int) []byte {
	b := make([]byte, ipv6.HeaderLen, ipv6.HeaderLen+len(header)+upper)
	binary.BigEndian.PutUint32(b, 6<<28|f.label)
	binary.BigEndian.PutUint16(b[4:], uint16(len(header)+upper))
	b[6], b[7] = byte(ioam.NextHeaderHopByHop), id.HopLimit
	source, destination := p.config.Source.As16(), p.config.Destination.As16()
	copy(b[8:], source[:])
	copy(b[24:], destination[:])
	return append(b, header...)
}

// echoRequest is a whole packet. The flow is in the flow label and the identifier.
func (p *Prober) echoRequest(f *flow, id message.ID, header, payload []byte) []byte {
	b := p.packet(f, id, header, headerLen+len(payload))
	addresses, at := b[8:ipv6.HeaderLen], len(b)
	b = append(b, echoRequest, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(f.label))
	b = binary.BigEndian.AppendUint16(b, uint16(id.Number))
	b = append(b, payload...)
	binary.BigEndian.PutUint16(b[at+2:], icmpv6.Checksum(addresses, unix.IPPROTO_ICMPV6, b[at:]))
	return b
}
