// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"encoding/binary"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Egress does what the egress hook does with a frame (data-plane.md,
// "Egress"). A frame at an interface that is not configured is untouched.
func (n *Node) Egress(f Frame) Result {
	iface, served := n.interfaces[f.Interface]
	if !served {
		return unchanged(f, model.OutcomeUntouched)
	}
	p, outcome, ok := parse(bytes.Clone(f.Data), f.Link)
	if isEdgeThatDrops(iface, model.RoleEgress) && isUnproven(f, p, outcome, ok) {
		return dropUnproven(f)
	}
	if !ok {
		return unchanged(f, outcome)
	}
	if len(p.options) == 0 {
		return n.encapsulate(f, p, iface, model.OutcomeNoIOAM)
	}
	if iface.Roles&model.RoleEgress == 0 {
		return atBoundary(f, p, iface.Boundary)
	}
	if from, byMaster := n.arrival(f); from != nil && from.Roles&model.RoleIngress != 0 {
		return n.completeAll(f, p, iface, byMaster)
	}
	if f.Ingress != 0 { // one trace is enough: nested ones would be lost on the way
		return unchanged(f, model.OutcomeUntouched)
	}
	return n.encapsulate(f, p, iface, model.OutcomeUntouched)
}

// completeAll completes the node data that this node's ingress hook wrote.
func (n *Node) completeAll(f Frame, p packet, iface *model.Interface, byMaster bool) Result {
	if fault, bad := p.malformed(n.config.Compatibility); bad {
		return unchanged(f, fault)
	}
	outcome := model.Outcome(0)
	for _, option := range p.options {
		outcome = max(outcome, n.complete(option, f, iface, byMaster))
	}
	result := unchanged(f, outcome)
	result.Data = p.frame
	result.Exports = n.exports(p.triggers(), n.passing(f, p))
	return result
}

// passing is what this node, a transit node, exports about a packet.
func (n *Node) passing(f Frame, p packet) model.Export {
	e := model.Export{
		Role: model.RoleTransit, Ingress: f.Ingress, Egress: f.Interface, HopLimit: p.hopLimit(), Time: f.Time,
		TransitDelay: ioam.DataUnavailable, QueueDepth: n.queueDepth(f), Flow: flowOf(p.ip), Length: len(p.ip) - len(p.header), Ends: endsFlow(p.ip),
	}
	if inner, ok := p.tunneled(); ok {
		e.Flow, e.Length, e.Ends = flowOf(inner), len(inner), endsFlow(inner)
	}
	if f.Arrived != 0 && n.config.Compatibility == model.CompatibilityDefault {
		e.TransitDelay = uint32(min(uint64(f.Time-f.Arrived), uint64(ioam.TransitDelayOverflow)))
	}
	return e
}

// complete writes what only the way out knows into one option.
func (n *Node) complete(option ioam.Option, f Frame, iface *model.Interface, byMaster bool) model.Outcome {
	trace, namespace, outcome, ok := n.knownTrace(option)
	if !ok {
		return outcome
	}
	// The newest node's data are where RemainingLen points (RFC 9197 §4.4.1).
	start := 4 * int(trace.RemainingLen)
	length := len(n.appendNodeData(nil, trace.Type, namespace, hop{}))
	if start+length > len(trace.Data) {
		return model.OutcomeUntouched
	}
	own := ioam.NodeData{Type: trace.Type, Bytes: trace.Data[start : start+length]}
	// What came by a member that is not served, or inside a tunnel, may carry
	// another node's data, or what this node finished some other time.
	unproven := byMaster || len(n.decapsulations) > 0
	if wrote, proven := n.wrote(own); !wrote || unproven && (!proven || !isUnfinished(own)) {
		return model.OutcomeUntouched
	}
	if field := own.Field(ioam.BitInterfaces); field != nil {
		binary.BigEndian.PutUint16(field[2:], uint16(iface.ID))
	}
	if field := own.Field(ioam.BitInterfacesWide); field != nil {
		binary.BigEndian.PutUint32(field[4:], uint32(iface.IDWide))
	}
	if field := own.Field(ioam.BitTransitDelay); field != nil && n.config.Compatibility == model.CompatibilityDefault {
		value := binary.BigEndian.Uint32(field)
		if value&ioam.TransitDelayOverflow != 0 && value != ioam.DataUnavailable {
			binary.BigEndian.PutUint32(field, transitDelay(f.Time, value))
		}
	}
	if field := own.Field(ioam.BitQueueDepth); field != nil {
		binary.BigEndian.PutUint32(field, n.queueDepth(f))
	}
	return model.OutcomeTraceFilled
}

// wrote reports whether node data hold this node's id, if their type has one;
// that proves something unless the id is "not available".
func (n *Node) wrote(data ioam.NodeData) (wrote, proven bool) {
	if field := data.Field(ioam.BitNode); field != nil {
		return ioam.NodeID(binary.BigEndian.Uint32(field))&ioam.NodeIDUnavailable == n.config.ID, n.config.ID != ioam.NodeIDUnavailable
	}
	if field := data.Field(ioam.BitNodeWide); field != nil {
		return ioam.NodeIDWide(binary.BigEndian.Uint64(field))&ioam.NodeIDWideUnavailable == n.config.IDWide, n.config.IDWide != ioam.NodeIDWideUnavailable
	}
	return true, false
}

// isUnfinished reports whether no field that completion writes has a value yet.
func isUnfinished(data ioam.NodeData) bool {
	_, egress := data.EgressID()
	_, egressWide := data.EgressIDWide()
	_, queue := data.QueueDepth()
	delay := data.Field(ioam.BitTransitDelay)
	return !egress && !egressWide && !queue && (delay == nil || delay[0]&0x80 != 0)
}
