// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// judgeTunnel decides whether a packet, whose IOAM options are valid, is taken
// out of a tunnel: OutcomeTunnelDecapsulated; OutcomeNoIOAM if it is in no tunnel
// that ends here; otherwise the reason why it is refused (docs/data-plane/tunnel-ends.md).
func (n *Node) judgeTunnel(p packet) model.Outcome {
	ip, tunnel := p.tunneled()
	end, here := n.decapsulations[p.destination()]
	if !tunnel || !here {
		return model.OutcomeNoIOAM
	}
	from := netip.AddrFrom16(p.source())
	isFrom := func(source netip.Prefix) bool { return source.Contains(from) }
	isKnown := func(o ioam.Option) bool { return n.namespaceOf(o) != nil }
	switch {
	case !p.isWholeTunnel():
		return model.OutcomeMalformedTunnel
	case len(end.Sources) > 0 && !slices.ContainsFunc(end.Sources, isFrom):
		return model.OutcomeDecapRefusedSource
	case !end.Bare && !p.behind.known && !slices.ContainsFunc(p.options, isKnown):
		return model.OutcomeDecapRefusedBare
	case isOfLink(packet{ip: ip}, ipv6.FindUpperLayer(ip)):
		return model.OutcomeDecapRefusedInner
	}
	return model.OutcomeTunnelDecapsulated
}

// guards reports whether a packet from outside is, or may be, in a tunnel to an
// end that this node knows.
func (n *Node) guards(p packet) bool {
	if !n.tunnelDestinations[p.destination()] {
		return false
	}
	last := ipv6.FindUpperLayer(p.ip).Next
	return last == ioam.NextHeaderIPv6 || ipv6.IsExtensionHeader(last)
}

// isOfLink reports whether a packet must not leave its link, or may be such a
// packet because its upper layer cannot be found. Later fragments do not matter,
// because without the first one they are not reassembled.
func isOfLink(p packet, upper ipv6.UpperLayer) bool {
	if isLocal(p.source()) || isLocal(p.destination()) || ipv6.IsExtensionHeader(upper.Next) {
		return true
	}
	if !upper.Known || upper.Next != ioam.NextHeaderICMPv6 {
		return false
	}
	return len(p.ip) <= upper.Offset || isLinkMessage(p.ip[upper.Offset])
}

// isLocal reports whether routers do not forward packets with an address:
// multicast, link-local, or with 64 leading zero bits, such as the unspecified
// and the loopback address and those that hold an IPv4 address (RFC 4291 §2.5,
// 2.7).
func isLocal(a [16]byte) bool {
	return isMulticast(a) || isLinkLocalUnicast(a) || [8]byte(a[:8]) == [8]byte{}
}

// isLinkMessage reports whether routers do not forward ICMPv6 messages of a type
// (RFC 4890 §4.3.3).
func isLinkMessage(kind uint8) bool {
	switch {
	case kind >= 130 && kind <= 137, // MLD (RFC 2710), neighbour discovery (RFC 4861 §4)
		kind == 141, kind == 142, // inverse neighbour discovery (RFC 3122)
		kind == 143,              // MLDv2 (RFC 3810 §5.2)
		kind == 148, kind == 149, // SEND (RFC 3971 §6.4)
		kind >= 151 && kind <= 153: // multicast router discovery (RFC 4286)
		return true
	}
	return false
}
