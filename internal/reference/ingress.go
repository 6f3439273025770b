// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"slices"
)

// removal is what a decapsulating node takes away (data-plane.md, ingress
// step 4).
type removal uint8

const (
	removeNothing removal = iota
	removeTunnel
	removeInline
)

// Ingress does what the ingress hook does with a frame (data-plane.md,
// "Ingress"). A frame at an interface that is not configured is untouched.
func (n *Node) Ingress(f Frame) Result {
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
	if isEdgeThatDrops(iface, model.RoleIngress) && isUnproven(f, p, outcome, ok) {
		return dropUnproven(f)
	}
	if !ok {
		return unchanged(f, outcome)
	}
	n.hear(p, f.Time)
	if !inDomain && len(p.options) == 0 {
		return unchanged(f, model.OutcomeNoIOAM)
	}
	if !inDomain {
		return atBoundary(f, p, iface.Boundary)
	}
	if len(p.options) == 0 {
		return n.endBareTunnel(f, p)
	}
	if fault, bad := p.malformed(n.config.Compatibility); bad {
		result := unchanged(f, fault)
		if n.config.Compatibility == model.CompatibilityMainline {
			result.Verdict = Drop // as ipv6_hop_ioam does in Linux
		}
		return result
	}

	remove := removeNothing
	switch tunnel := n.judgeTunnel(p); {
	case tunnel == model.OutcomeTunnelDecapsulated:
		remove = removeTunnel
	case tunnel != model.OutcomeNoIOAM:
		return unchanged(f, tunnel)
	case slices.ContainsFunc(p.options, n.removable):
		remove = removeInline
	}
	h := n.arriving(f, p, iface, remove)
	outcome = 0
	for _, option := range p.options {
		outcome = max(outcome, n.fill(option, h))
	}
	switch remove {
	case removeTunnel:
		return n.endTunnel(f, p)
	case removeInline:
		return n.removeInline(f, p)
	}
	result := unchanged(f, outcome)
	result.Data = p.frame
	return result
}

// arriving is what this node says about a packet that it receives.
func (n *Node) arriving(f Frame, p packet, iface *model.Interface, remove removal) hop {
	h := hop{
		hopLimit:  p.hopLimit() - 1, // as at egress from the node (RFC 9197 §4.4.2.1)
		ingress:   iface,
		time:      f.Time,
		timeKnown: true,
		delay:     ioam.DataUnavailable,
		queue:     ioam.DataUnavailable,
	}
	if n.config.Compatibility == model.CompatibilityDefault && remove == removeNothing {
		h.delay = delayPlaceholder(f.Time)
	}
	return h
}

// removable reports whether a validated option is a trace or a Direct Export of
// a namespace marked remove.
func (n *Node) removable(option ioam.Option) bool {
	namespace := n.namespaceOf(option)
	return namespace != nil && namespace.Remove
}

// endBareTunnel takes a packet without IOAM out of its tunnel, if that ends here.
func (n *Node) endBareTunnel(f Frame, p packet) Result {
	if outcome := n.judgeTunnel(p); outcome != model.OutcomeTunnelDecapsulated {
		return unchanged(f, outcome)
	}
	return n.endTunnel(f, p)
}

// endTunnel decapsulates, unless an option says that who does not know it
// discards the packet (RFC 8200 §4.2).
func (n *Node) endTunnel(f Frame, p packet) Result {
	if p.discard {
		result := unchanged(f, model.OutcomeRemovalPartial)
		result.Data = p.frame
		return result
	}
	return n.decapsulate(f, p)
}

// decapsulate removes the outer IPv6 header and the Hop-by-Hop header.
func (n *Node) decapsulate(f Frame, p packet) Result {
	result := unchanged(f, model.OutcomeTunnelDecapsulated)
	result.Data = append([]byte{}, p.link...)
	result.Data = append(result.Data, p.ip[ipv6.HeaderLen+len(p.header):]...)

	inner := packet{ip: result.Data[len(p.link):]}
	outerECN, innerECN := p.trafficClass()&3, inner.trafficClass()&3
	const notECT, ect1, ect0, ce = 0, 1, 2, 3
	if outerECN == ce && innerECN != notECT || outerECN == ect1 && innerECN == ect0 { // RFC 6040 §4.2
		inner.ip[1] = inner.ip[1]&^(3<<4) | outerECN<<4
	}
	// Each router that the tunnel passed counts (RFC 8200 §3, Hop Limit).
	inner.ip[7] = min(inner.hopLimit(), p.hopLimit())
	n.report(f, p, &result)
	return result
}

// removeInline removes the Hop-by-Hop header, if all of it may go.
func (n *Node) removeInline(f Frame, p packet) Result {
	whole := p.pure && !p.isFollowed()
	for _, option := range p.options {
		whole = whole && n.removable(option)
	}
	if !whole {
		result := unchanged(f, model.OutcomeRemovalPartial)
		result.Data = p.frame
		return result
	}
	result := unchanged(f, model.OutcomeInlineRemoved)
	result.Data = p.removeHeader()
	n.report(f, p, &result)
	return result
}

// report adds the record and the exports of a removed header to what became of
// its packet.
func (n *Node) report(f Frame, p packet, result *Result) {
	ip := result.Data[len(p.link):]
	if slices.ContainsFunc(p.options, isPreallocatedTrace) {
		result.Record = &Record{
			Time:      f.Time,
			Interface: f.Interface,
			Outcome:   result.Outcome,
			Length:    len(ip),
			Packet:    bytes.Clone(ip[:min(len(ip), RecordPacketSize)]),
			Header:    bytes.Clone(p.header),
		}
	}
	result.Exports = n.exports(p.triggers(), model.Export{
		Role: model.RoleDecapsulating, Ingress: f.Interface, HopLimit: p.hopLimit() - 1, Time: f.Time,
		TransitDelay: ioam.DataUnavailable, QueueDepth: ioam.DataUnavailable, Flow: flowOf(ip), Length: len(ip), Ends: endsFlow(ip),
	})
}
