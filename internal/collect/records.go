// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// timeSpan is how far the time of an observation may be from that of its
// message: by one clock, so it bounds how long an exporter may keep a record.
const timeSpan = 24 * time.Hour

// origin is where and when a record was exported.
type origin struct {
	exporter join.Exporter
	at       time.Time // export time, by the exporter's clock
}

// record takes a data record.
func (c *Collector) record(from origin, record ipfix.DataRecord, now time.Time) {
	c.stats.Records++
	r := read(record, c.config.Enterprise)
	switch {
	case record.Template.Scope() > 0:
		c.stats.Options++
		c.names.learn(from.exporter, r)
		if c.config.Raw {
			c.emit(newOtherRecord(from, c.names.node(from.exporter), record))
		}
		return
	case !r.ioam:
		c.stats.Others++
		c.emit(newOtherRecord(from, c.names.node(from.exporter), record))
		return
	}
	r.check(from.at)
	if r.fault != noFault {
		c.stats.Faults[r.fault]++
		return
	}
	switch {
	case r.hopIndex.Valid:
		c.stats.Hops++
		c.hop(from, r, now)
	case r.packets.Valid || r.octets.Valid:
		c.stats.Flows++
		c.emit(c.flow(from, r))
	default:
		c.stats.Postcards++
		c.postcard(from, r, now)
	}
}

// check looks for what cannot be.
func (r *reading) check(exported time.Time) {
	if !r.namespace.Valid {
		r.note(FaultNamespace)
	}
	if d := exported.Sub(r.at); !r.at.IsZero() && (d > timeSpan || d < -timeSpan) {
		r.note(FaultTime)
	}
	if r.hopIndex.Valid && r.hopCount.Valid && r.hopIndex.Value >= max(r.hopCount.Value, 1) {
		r.note(FaultTraceIndex)
	}
	f := &r.flow
	if !f.Last.IsZero() && f.Last.Before(f.First.Time) || beyond(f.First) || beyond(f.Last) || f.HopLimit.Max != 0 && f.HopLimit.Max < f.HopLimit.Min ||
		r.packets.Valid && r.packets.Value == 0 && r.octets.Value > 0 ||
		f.TransitDelay != nil && f.TransitDelay.Count > 0 && f.TransitDelay.Max < f.TransitDelay.Min {
		r.note(FaultFlow)
	}
}

// beyond reports a time that RFC 3339 cannot hold, and so no record.
func beyond(t instant.Time) bool { return !t.IsZero() && instant.Of(t.Time).IsZero() }

// postcard joins a postcard, or shows it as it is.
func (c *Collector) postcard(from origin, r *reading, now time.Time) {
	p := &export.Postcard{
		Kind: export.KindPostcard, Time: instant.Of(r.at), Node: c.names.node(from.exporter), Role: r.role.Value,
		Ingress: c.names.iface(from.exporter, r.ingress), Egress: c.names.iface(from.exporter, r.egress),
		IngressIfIndex: r.ingress, EgressIfIndex: r.egress,
		Option: r.optionType(ioam.IOAMDirectExport).String(), Namespace: r.namespace.Value, TraceType: r.traceType.Value,
		Flags: r.dexFlags, ExtensionFlags: r.extension.Value, FlowID: r.flowID, Sequence: r.sequence, Packet: r.packet, Data: r.data,
	}
	joinable := r.flowID.Valid && r.sequence.Valid && r.role.Valid
	if !joinable {
		c.stats.Unjoinable++
	}
	if !joinable || c.config.Raw {
		c.emit(p)
		return
	}
	card := join.Postcard{
		Key:      join.Key{Namespace: p.Namespace, FlowID: r.flowID.Value, Sequence: r.sequence.Value},
		Exporter: from.exporter, Node: r.nodeID(), Role: p.Role,
		HasHopLimit: p.Data.HopLimit.Valid, HopLimit: p.Data.HopLimit.Value,
		Time: r.nodeTime(), Record: p,
	}
	if r.packet.Source.IsValid() {
		card.Source = r.packet.Source.As16()
	}
	c.joiner.Add(card, now)
}

func (r *reading) optionType(usual ioam.IOAMType) ioam.IOAMType {
	if r.option.Valid {
		return r.option.Value
	}
	return usual
}

func (r *reading) nodeID() uint64 {
	switch {
	case r.data.NodeIDWide.Valid:
		return uint64(r.data.NodeIDWide.Value)
	case r.data.NodeID.Valid:
		return uint64(r.data.NodeID.Value)
	}
	return join.NoNode
}

// nodeTime is the node's timestamp, unless it cannot be one; else when the
// packet was observed.
func (r *reading) nodeTime() time.Time {
	t := r.data.Timestamp
	if d := t.Value.Sub(r.at); !t.Valid || !r.at.IsZero() && (d > timeSpan || d < -timeSpan) {
		return r.at
	}
	return t.Value
}

func (c *Collector) flow(from origin, r *reading) *export.Flow {
	f := r.flow
	f.Kind, f.Time, f.Node, f.Role = export.KindFlow, instant.Of(r.at), c.names.node(from.exporter), r.role.Value
	if f.Time.IsZero() {
		f.Time = instant.Of(from.at)
	}
	f.Ingress, f.Egress = c.names.iface(from.exporter, r.ingress), c.names.iface(from.exporter, r.egress)
	f.IngressIfIndex, f.EgressIfIndex = r.ingress, r.egress
	f.Namespace, f.TraceType, f.FlowID, f.Packet = r.namespace.Value, r.traceType.Value, r.flowID, r.packet
	f.Packets, f.Bytes = r.packets.Value, r.octets.Value
	return &f
}
