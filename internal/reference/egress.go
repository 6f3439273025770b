// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Egress does what the egress hook does with a frame (docs/data-plane/egress.md). A
// frame at an unconfigured interface is untouched.
func (n *Node) Egress(f Frame) Result {
	iface, served := n.interfaces[f.Interface]
	if !served {
		return unchanged(f, model.OutcomeUntouched)
	}
	n.countSent(f)
	p, outcome, ok := parse(bytes.Clone(f.Data), f.Link)
	if !ok && isEdgeThatDrops(iface, model.RoleEgress) && isUnproven(f, outcome) {
		return dropUnproven(f)
	}
	if !ok {
		return unchanged(f, outcome)
	}
	if iface.Roles&model.RoleEgress == 0 {
		return atEdge(f, p, iface)
	}
	if len(p.options) == 0 {
		return n.encapsulate(f, p, iface, model.OutcomeNoIOAM)
	}
	if from, proven := n.arrival(f); from != nil && from.Roles&model.RoleIngress != 0 {
		return n.nest(f, p, iface, n.completeAll(f, p, iface, proven))
	}
	if f.Ingress != 0 {
		return n.nest(f, p, iface, unchanged(f, model.OutcomeUntouched))
	}
	return n.encapsulate(f, p, iface, model.OutcomeUntouched)
}

// nest encapsulates a packet that arrived with IOAM, if a rule is for such packets. The
// packet's own options were treated.
func (n *Node) nest(f Frame, p packet, iface *model.Interface, treated Result) Result {
	if treated.Outcome.Malformed() {
		return treated
	}
	if p, _, _ = parse(bytes.Clone(treated.Data), f.Link); len(p.frame) != len(f.Data) {
		f.GSOSize = treated.GSOSize // it has grown
	}
	index, ok := n.ruleFor(p, ipv6.FindUpperLayer(p.ip), iface)
	if !ok || !n.config.Encapsulations[index].Nested {
		return treated
	}
	f.Data = p.frame
	result := n.encapsulate(f, p, iface, treated.Outcome)
	result.Outcome = max(result.Outcome, treated.Outcome)
	result.Options = treated.Options
	result.Postcards = append(treated.Postcards, result.Postcards...)
	return result
}

// completeAll completes the node data that this node's ingress hook wrote.
func (n *Node) completeAll(f Frame, p packet, iface *model.Interface, proven bool) Result {
	if fault, sound := p.check(n.config.Compatibility); !sound {
		return unchanged(f, fault)
	}
	v := visit{
		hop: hop{
			hopLimit: p.hopLimit(), egress: iface, time: f.Time, timeKnown: true,
			queue: n.queueDepth(f), buffer: n.bufferOccupancy(f), unproven: !proven || len(n.decapsulations) > 0,
		},
		packet:   p,
		postcard: n.passing(f, p),
	}
	outcomes := p.treat(func(m module, option ioam.Option) model.Outcome { return m.egress(n, option, &v) })
	result := unchanged(f, 0)
	result.Data, result.GSOSize = n.growAll(f, p, v.hop, outcomes)
	result.Outcome, result.Options, result.Postcards = slices.Max(outcomes), outcomes, v.postcards
	return result
}

// passing is what a transit node reports about a packet.
func (n *Node) passing(f Frame, p packet) model.Postcard {
	e := model.Postcard{
		Role: model.RoleTransit, Ingress: f.Ingress, Egress: f.Interface, HopLimit: p.hopLimit(), Time: f.Time,
		TransitDelay: ioam.DataUnavailable, QueueDepth: n.queueDepth(f), BufferOccupancy: n.bufferOccupancy(f), Flow: flowOf(p.ip),
		Length: len(p.ip) - len(p.header), Ends: endsFlow(p.ip),
	}
	past := p.pastDestination()
	if inner, ok := past.tunneled(); ok {
		e.Flow, e.Length, e.Ends = flowOf(inner), len(inner), endsFlow(inner)
	}
	if f.Arrived != 0 && n.config.Compatibility == model.CompatibilityDefault {
		e.TransitDelay = uint32(min(uint64(f.Time-f.Arrived), uint64(ioam.TransitDelayOverflow)))
	}
	return e
}
