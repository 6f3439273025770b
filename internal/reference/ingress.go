// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// removal is what a decapsulating node removes (docs/data-plane/ingress.md, step 4).
type removal uint8

const (
	removeNothing removal = iota
	removeTunnel
	removeInline
)

// maxLayers is how many packets, one in the tunnel of another, are treated at most.
const maxLayers = 4

// Ingress does what the ingress hook does with a frame, and with the packet that was in a
// tunnel (docs/data-plane/ingress.md). A frame at an unconfigured interface is untouched.
func (n *Node) Ingress(f Frame) Result {
	result := n.arrive(f)
	for layers := 1; layers < maxLayers && isLayered(result, f.Link); layers++ {
		outer := result
		f.Data = outer.Data
		result = n.arrive(f)
		result.Outer = &outer
	}
	return result
}

// isLayered reports whether the packet that was in a tunnel has headers that this node may
// have to treat.
func isLayered(result Result, link Link) bool {
	at, ok := linkHeaderLen(result.Data, link)
	if result.Outcome != model.OutcomeTunnelDecapsulated || !ok || len(result.Data) < at+ipv6.HeaderLen {
		return false
	}
	switch ioam.NextHeader(result.Data[at+6]) {
	case ioam.NextHeaderHopByHop, ioam.NextHeaderIPv6, ioam.NextHeaderDestination:
		return true
	}
	return false
}

// arrive is Ingress for one packet.
func (n *Node) arrive(f Frame) Result {
	iface, served := n.interfaces[f.Interface]
	if !served {
		return unchanged(f, model.OutcomeUntouched)
	}
	inDomain := iface.Roles&model.RoleIngress != 0
	p, outcome, ok := parseIPv6(bytes.Clone(f.Data), f.Link)
	if ok && !inDomain && iface.Boundary == model.BoundaryDrop && n.guards(p) {
		result := unchanged(f, model.OutcomeBoundaryTunnelDropped)
		result.Verdict = Drop
		return result
	}
	if ok {
		outcome, ok = p.parseHeader()
	}
	if !ok && isEdgeThatDrops(iface, model.RoleIngress) && isUnproven(f, outcome) {
		return dropUnproven(f)
	}
	if !ok {
		return unchanged(f, outcome)
	}
	n.learnPathMTU(p, f.Time)
	if !inDomain {
		return atEdge(f, p, iface)
	}
	if fault, sound := p.check(n.config.Compatibility); !sound {
		result := unchanged(f, fault)
		if n.config.Compatibility == model.CompatibilityMainline {
			result.Verdict = Drop // as ipv6_hop_ioam does in Linux
		}
		return result
	}
	if n.isOwnCopy(p) {
		result := unchanged(f, model.OutcomeLoopbackReceived)
		result.Verdict, result.Record = Drop, arrived(f, p)
		return result
	}
	due, tooLong := n.isCopyDue(p), len(p.header) > model.LoopbackHeader
	var copied *Record
	if due && !tooLong {
		copied = arrived(f, p)
	}
	result := n.inDomain(f, p, iface)
	result.Loopback, result.Withheld = copied, due && tooLong
	return result
}

// inDomain treats the options of a Destination Options header, and of the others.
func (n *Node) inDomain(f Frame, p packet, iface *model.Interface) Result {
	var outcome model.Outcome
	var ok bool
	if p.behind, outcome, ok = n.readDestination(p); !ok {
		return unchanged(f, outcome) // Linux does not look at these options
	}
	if len(p.options) == 0 {
		return n.withoutOptions(f, p)
	}
	return n.treatOptions(f, p, iface)
}

// treatOptions treats every option, and removes what is to be removed.
func (n *Node) treatOptions(f Frame, p packet, iface *model.Interface) Result {
	remove := removeNothing
	switch tunnel := n.judgeTunnel(p); {
	case tunnel == model.OutcomeTunnelDecapsulated:
		remove = removeTunnel
	case tunnel != model.OutcomeNoIOAM:
		return unchanged(f, tunnel)
	case p.behind.marked:
		remove = removeInline
	case slices.ContainsFunc(p.options, n.removable):
		remove, p.behind = removeInline, destination{} // that header stays
	}
	v := visit{hop: n.arriving(f, p, iface, remove), packet: p}
	outcomes := p.treat(func(m module, option ioam.Option) model.Outcome { return m.ingress(n, option, &v) })
	if v.refused { // nothing is reported
		result := unchanged(f, model.OutcomePotDropped)
		result.Verdict, result.Data, result.Options = Drop, p.frame, outcomes
		return result
	}
	var result Result
	switch remove {
	case removeTunnel:
		result = n.endTunnel(f, p)
	case removeInline:
		result = n.removeInline(f, p)
	default:
		result = unchanged(f, slices.Max(outcomes))
		result.Data = p.frame
	}
	// If a header is removed without a report, what was written into it has no
	// reader, unless a proof was verified.
	if reported := result.Record != nil || result.Postcards != nil; reported || v.proved || !result.Outcome.Removed() {
		result.Options = outcomes
	}
	n.terminate(f, p, remove, &result)
	return result
}

// arriving is the data of this node about a packet that it receives.
func (n *Node) arriving(f Frame, p packet, iface *model.Interface, remove removal) hop {
	h := hop{
		hopLimit:   p.hopLimit() - 1, // as when the packet leaves the node (RFC 9197 §4.4.2.1)
		ingress:    iface,
		time:       f.Time,
		timeKnown:  true,
		delay:      ioam.DataUnavailable,
		queue:      ioam.DataUnavailable,
		buffer:     ioam.DataUnavailable,
		complement: n.complement(),
	}
	if n.config.Compatibility == model.CompatibilityDefault && remove == removeNothing {
		h.delay = delayPlaceholder(f.Time)
	}
	return h
}

// removable reports whether a validated option has a module, and a namespace marked
// remove.
func (n *Node) removable(option ioam.Option) bool {
	namespace := n.namespaceOf(option)
	return namespace != nil && namespace.Remove
}

// withoutOptions removes a tunnel without IOAM in a Hop-by-Hop header, if it ends here, or
// a Destination Options header.
func (n *Node) withoutOptions(f Frame, p packet) Result {
	outcome := n.judgeTunnel(p)
	switch {
	case outcome == model.OutcomeTunnelDecapsulated:
		return n.endTunnel(f, p)
	case outcome != model.OutcomeNoIOAM || !p.behind.marked:
		return unchanged(f, outcome)
	}
	return n.removeInline(f, p)
}

// endTunnel decapsulates, unless an unknown option asks nodes to discard the
// packet (RFC 8200 §4.2).
func (n *Node) endTunnel(f Frame, p packet) Result {
	if p.discard || p.behind.discards {
		result := unchanged(f, model.OutcomeRemovalPartial)
		result.Data = p.frame
		return result
	}
	return n.decapsulate(f, p)
}

// decapsulate removes the outer IPv6 header and the headers that were read.
func (n *Node) decapsulate(f Frame, p packet) Result {
	result := unchanged(f, model.OutcomeTunnelDecapsulated)
	result.Data = append([]byte{}, p.link...)
	result.Data = append(result.Data, p.ip[ipv6.HeaderLen+p.headersLen():]...)

	inner := packet{ip: result.Data[len(p.link):]}
	outerECN, innerECN := p.trafficClass()&3, inner.trafficClass()&3
	const notECT, ect1, ect0, ce = 0, 1, 2, 3
	if outerECN == ce && innerECN != notECT || outerECN == ect1 && innerECN == ect0 { // RFC 6040 §4.2
		inner.ip[1] = inner.ip[1]&^(3<<4) | outerECN<<4
	}
	// Each router that the tunnel crossed counts (RFC 8200 §3, Hop Limit).
	inner.ip[7] = min(inner.hopLimit(), p.hopLimit())
	result.Edges = n.measure(f, p.behind, inner.ip, &p)
	n.report(f, p, &result)
	return result
}

// removeInline removes what is to be removed of the headers that were read.
func (n *Node) removeInline(f Frame, p packet) Result {
	if n.removesWhole(p) {
		result := unchanged(f, model.OutcomeInlineRemoved)
		result.Data = p.removeHeaders()
		result.Edges = n.measure(f, p.behind, result.Data[len(p.link):], nil)
		n.report(f, p, &result)
		return result
	}
	if n.isExtractable(p) {
		return n.extract(f, p)
	}
	result := unchanged(f, model.OutcomeRemovalPartial)
	result.Data = p.frame
	return result
}

// report adds the record and the postcards of a removed header to the packet's
// result.
func (n *Node) report(f Frame, p packet, result *Result) {
	ip := result.Data[len(p.link):]
	v := visit{packet: p, postcard: model.Postcard{
		Role: model.RoleDecapsulating, Ingress: f.Interface, HopLimit: p.hopLimit() - 1, Time: f.Time,
		TransitDelay: ioam.DataUnavailable, QueueDepth: ioam.DataUnavailable, BufferOccupancy: ioam.DataUnavailable, Flow: flowOf(ip),
		Length: len(ip), Ends: endsFlow(ip),
	}}
	for _, option := range p.options {
		if m := soundModuleOf(option); m != nil {
			m.remove(n, option, &v)
		}
	}
	result.Postcards = v.postcards
	if v.recorded {
		result.Record = &Record{
			Time:      f.Time,
			Interface: f.Interface,
			Outcome:   result.Outcome,
			Length:    len(ip),
			Packet:    bytes.Clone(ip[:min(len(ip), RecordPacketSize)]),
			Header:    bytes.Clone(p.header),
		}
	}
}
