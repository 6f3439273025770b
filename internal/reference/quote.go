// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The reasons why a quote does not lead to the source of a packet.
var (
	ErrQuoteForeign  = errors.New("not a packet that this node encapsulates")
	ErrQuoteTooShort = errors.New("too little is quoted of the inner packet")
)

// quotedAtLeast is the least of the upper layer that a host needs to find the
// socket: ports, or an echo's identifier (RFC 4443 §2.4 c quotes more if
// possible).
const quotedAtLeast = 8

// Quoted is the inner packet of a tunneled packet that an ICMPv6 error quotes.
type Quoted struct {
	// Packet is the quote as it would be without the tunnel: no outer header, no
	// Hop-by-Hop header, and with the hop limit and the traffic class that
	// routers had given to the outer header.
	Packet []byte
	// Length is the length of the whole inner packet in bytes.
	Length int
	// Removed is how many bytes of the quote were in front of it.
	Removed int
	Source  netip.Addr
	// Own reports whether the encapsulation also puts this node's own packets
	// into the tunnel; if not, the packet is not this node's own.
	Own bool
}

// Quoted reads the beginning of a tunneled packet that an ICMPv6 error quotes
// (RFC 4443 §2.4 c). This node must have been able to make it: the tunnel, the
// Hop-by-Hop header with its options, and the inner packet must match one of the
// encapsulations. The quote is not changed; the error is ErrQuoteForeign or
// ErrQuoteTooShort.
func (n *Node) Quoted(quote []byte) (Quoted, error) {
	if len(quote) < ipv6.HeaderLen {
		return Quoted{}, ErrQuoteTooShort
	}
	outer := packet{ip: quote}
	if quote[0]>>4 != 6 || !n.isTunnel(outer) {
		return Quoted{}, ErrQuoteForeign
	}
	if err := outer.findHeaders(); err != nil {
		return Quoted{}, err
	}
	removed := ipv6.HeaderLen + outer.headersLen()
	inner := packet{ip: quote[removed:]}
	if len(inner.ip) < ipv6.HeaderLen {
		return Quoted{}, ErrQuoteTooShort
	}
	length := ipv6.HeaderLen + inner.payloadLength()
	payload := outer.headersLen() + length
	if payload > 0xffff {
		payload = 0 // of a packet that was not segmented yet (GSO)
	}
	if inner.ip[0]>>4 != 6 || inner.payloadLength() == 0 || outer.payloadLength() != payload ||
		outer.flowLabel() != inner.flowLabel() || outer.hopLimit() > inner.hopLimit() {
		return Quoted{}, ErrQuoteForeign
	}
	inner.ip = inner.ip[:min(len(inner.ip), length)]
	if len(inner.ip) < min(ipv6.HeaderLen+quotedAtLeast, length) {
		return Quoted{}, ErrQuoteTooShort
	}
	switch parsed, _, ok := parse(inner.ip, LinkNone); {
	case !ok && len(inner.ip) < length:
		return Quoted{}, ErrQuoteTooShort // the quote ends in the inner Hop-by-Hop header
	case !ok || len(parsed.options) > 0:
		return Quoted{}, ErrQuoteForeign // packets with IOAM are not encapsulated, and the sender must not see IOAM
	}
	ok, own := n.isEncapsulated(outer, inner)
	if !ok {
		return Quoted{}, ErrQuoteForeign
	}
	q := Quoted{Packet: bytes.Clone(inner.ip), Length: length, Removed: removed, Source: netip.AddrFrom16(inner.source()), Own: own}
	// Routers changed these fields in the outer header (RFC 8200 §3, §7).
	copy(q.Packet[:2], quote[:2])
	q.Packet[1] = q.Packet[1]&0xf0 | inner.ip[1]&0x0f
	q.Packet[7] = outer.hopLimit()
	return q, nil
}

// findHeaders finds the headers of an encapsulation in a quoted tunnel: a Hop-by-Hop header,
// a Destination Options header, or both.
func (p *packet) findHeaders() error {
	find := func(wanted ioam.NextHeader, header *[]byte) error {
		if p.nextAfter() != wanted {
			return nil
		}
		found, err := ioam.DecodeExtensionHeader(p.ip[ipv6.HeaderLen+p.headersLen():])
		if err != nil {
			return ErrQuoteTooShort
		}
		*header = found.Bytes
		return nil
	}
	if err := find(ioam.NextHeaderHopByHop, &p.header); err != nil {
		return err
	}
	if err := find(ioam.NextHeaderDestination, &p.behind.header); err != nil {
		return err
	}
	if p.headersLen() == 0 || p.nextAfter() != ioam.NextHeaderIPv6 {
		return ErrQuoteForeign
	}
	return nil
}

// isTunnel reports whether the packet has the addresses of some tunnel.
func (n *Node) isTunnel(outer packet) bool {
	for i := range n.config.Encapsulations {
		if hasEnds(&n.config.Encapsulations[i], outer) {
			return true
		}
	}
	return false
}

// hasEnds reports whether the rule makes a tunnel with the packet's addresses.
func hasEnds(e *model.Encapsulation, outer packet) bool {
	return e.Mode != model.ModeInline && e.TunnelSource.As16() == outer.source() && e.TunnelDestination.As16() == outer.destination()
}

// isEncapsulated reports whether some rule puts the inner packet into such a
// packet, and whether it would do so for this node's own packets, too.
func (n *Node) isEncapsulated(outer, inner packet) (ok, own bool) {
	upper := ipv6.FindUpperLayer(inner.ip)
	if isControl(inner, upper, true) || n.exportsTo(inner, upper) || upper.Segments {
		return false, false // they are never encapsulated, ICMPv6 errors among them (RFC 4443 §2.4 e)
	}
	if a := netip.AddrFrom16(inner.source()); a.IsLoopback() || a.Is4In6() {
		return false, false // there is no host to send the error to
	}
	hash := n.flowHash(inner, upper)
	for i := range n.config.Interfaces {
		index, matches := n.ruleFor(inner, upper, &n.config.Interfaces[i])
		if !matches {
			continue
		}
		rule := &n.config.Encapsulations[index]
		if hasEnds(rule, outer) && n.takesFlow(rule, inner, hash) && inserts(rule, outer) {
			ok, own = true, own || rule.Mode == model.ModeEncap
		}
	}
	return ok, own
}

// inserts reports whether the rule inserts such headers, whatever nodes on the path have
// written into them.
func inserts(e *model.Encapsulation, outer packet) bool {
	var hopByHop, destination []model.InsertedOption
	for _, o := range e.Options {
		if o.EdgeToEdge != nil {
			destination = append(destination, o)
		} else {
			hopByHop = append(hopByHop, o)
		}
	}
	grown := slices.ContainsFunc(hopByHop, grows) && len(outer.header) >= e.HopByHopLen()
	return (grown || len(outer.header) == e.HopByHopLen()) && holds(outer.header, hopByHop) &&
		len(outer.behind.header) == e.DestinationLen() && holds(outer.behind.header, destination)
}

// holds reports whether a header holds these options.
func holds(header []byte, options []model.InsertedOption) bool {
	at, count := 4, 0 // after the first padding
	for option, err := range (ioam.ExtensionHeader{Bytes: header}).Options() {
		if count == 0 && option.Offset == at+4 && slices.ContainsFunc(options, grows) {
			at += 4 // the padding before it has grown
		}
		switch {
		case err != nil:
			return false
		case option.Type.IsPadding():
			continue
		case count == len(options) || option.Offset != at || !isWritten(options[count], option):
			return false
		}
		at += 2 + len(option.Data)
		count++
	}
	return count == len(options)
}

// isWritten reports whether an option is the inserted one, with or without
// changes by nodes on the path.
func isWritten(o model.InsertedOption, option ioam.Option) bool {
	if length := 2 + len(option.Data); length != o.Len() && (!grows(o) || length < o.Len()) || option.Data[0] != 0 {
		return false
	}
	if t := o.Trace; t != nil {
		kind := ioam.IOAMPreallocatedTrace
		if t.Incremental {
			kind = ioam.IOAMIncrementalTrace
		}
		changed := ioam.FlagOverflow
		if t.Loopback > 0 {
			changed |= ioam.FlagLoopback // one in N packets has it
		}
		trace, err := ioam.DecodeTrace(option.Data[2:])
		return err == nil && option.Type == ioam.OptionIOAM && ioam.IOAMType(option.Data[1]) == kind &&
			trace.Namespace == t.Namespace && trace.Type == t.Type && int(trace.NodeLen) == t.Type.NodeLen() &&
			trace.Flags&^changed == 0 && trace.Reserved == 0 &&
			int(trace.RemainingLen) <= t.Size/4
	}
	if o.Proof != nil {
		proof, err := ioam.DecodeProofOfTransit(option.Data[2:])
		return err == nil && isProofOfTransit(option) && proof.Namespace == o.Proof.Namespace && proof.Flags == 0
	}
	if o.EdgeToEdge != nil {
		return isWrittenEdge(*o.EdgeToEdge, option)
	}
	d := o.DirectExport
	kind := d.OptionType
	if kind == 0 {
		kind = ioam.OptionIOAMStatic
	}
	if option.Type != kind || !isDirectExport(option) {
		return false
	}
	quoted, err := ioam.DecodeDirectExport(option.Data[2:])
	return err == nil && quoted.Namespace == d.Namespace && quoted.Flags == 0 &&
		quoted.ExtensionFlags == d.ExtensionFlags && quoted.Type == d.Type &&
		binary.BigEndian.Uint32(option.Data[6:])&0xff == 0
}
