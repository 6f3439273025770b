// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/collect/known"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// timeSpan is how far the time of an observation may be from that of its message. Both
// are by the exporter's clock, so it bounds how long an exporter may keep a record.
const timeSpan = 24 * time.Hour

// origin is where and when a record was exported.
type origin struct {
	exporter join.Exporter
	at       time.Time // export time, by the exporter's clock
	feed     known.Feed
}

// maxReadings bounds how many templates' readings are kept. Beyond it, all are dropped
// and made again as needed.
const maxReadings = 1 << 12

// reading is how records of a template are read.
func (c *Collector) reading(t *ipfix.Template) *record.Reading {
	r := c.readings[t]
	if r == nil {
		if len(c.readings) >= maxReadings {
			clear(c.readings)
		}
		r = record.NewReading(t, c.config.Enterprise)
		c.readings[t] = r
	}
	return r
}

// record takes a data record.
func (c *Collector) record(from origin, data ipfix.DataRecord, now time.Time) {
	c.stats.Records++
	r := c.reading(data.Template)
	switch {
	case data.Template.Scope() > 0:
		c.stats.Options++
		c.names.learn(from.exporter, r, data)
		c.verdicts.report(&from, r, data)
		if c.config.Raw {
			c.emit(newOther(from, c.names.node(from.exporter), data))
		}
		return
	case !r.IOAM:
		c.stats.Others++
		c.emit(newOther(from, c.names.node(from.exporter), data))
		return
	}
	check := checking{enterprise: c.config.Enterprise}
	var take func()
	switch {
	case r.Hop:
		h := r.HopOf(data, check.beyond)
		check.about(r, h.Time, from.at)
		check.hop(h)
		take = func() { c.stats.Hops++; c.hop(from, h, now) }
	case r.Flow:
		f := r.FlowOf(data, check.beyond)
		check.about(r, f.Time, from.at)
		check.flow(r, f)
		take = func() { c.stats.Flows++; c.flow(from, f) }
	case r.Loss:
		l := r.LossOf(data, check.beyond)
		check.time(l.Time, from.at)
		check.loss(l)
		take = func() { c.stats.Losses++; c.measurement(from, &l.Measurement); c.emit(l) }
	case r.Delay:
		d := r.DelayOf(data, check.beyond)
		check.time(d.Time, from.at)
		check.delay(d)
		take = func() { c.stats.Delays++; c.measurement(from, &d.Measurement); c.emit(d) }
	case r.Block:
		b := r.BlockOf(data, check.beyond)
		check.time(b.Time, from.at)
		check.block(b)
		take = func() { c.stats.Blocks++; c.block(from, b, now) }
	case r.EdgeFlow:
		f := r.EdgeFlowOf(data, check.beyond)
		check.about(r, f.Time, from.at)
		check.edgeFlow(f)
		take = func() { c.stats.EdgeFlows++; c.edgeFlow(from, f) }
	default:
		p := r.Postcard(data, check.beyond)
		check.about(r, p.Time, from.at)
		take = func() { c.stats.Postcards++; c.postcard(from, p, now) }
	}
	if check.fault != noFault {
		c.stats.Faults[check.fault]++
		c.verdicts.base.TroubleOf(from.feed)
		return
	}
	take()
}

// checking finds impossible values in a record.
type checking struct {
	enterprise ipfix.Enterprise
	fault      Fault // the first
}

func (c *checking) note(f Fault) {
	if c.fault == noFault {
		c.fault = f
	}
}

// Elements whose out-of-range values are a special case.
const (
	elementFlowEndReason ipfix.ElementID = 136
	elementNodeRole      ipfix.ElementID = 17
)

// beyond notes a value that is beyond the range of its element. A flow label of more
// than 20 bits is one; a new flowEndReason is not an error.
func (c *checking) beyond(v ipfix.Value) {
	switch {
	case v.Field.Enterprise == ipfix.EnterpriseIANA && v.Field.ID == elementFlowEndReason:
	case v.Field.Enterprise == c.enterprise && v.Field.ID == elementNodeRole:
		c.note(FaultRole)
	default:
		c.note(FaultValue)
	}
}

// about checks the fields that all records about IOAM need, and the time of an
// observation.
func (c *checking) about(r *record.Reading, at instant.Time, exported time.Time) {
	if !r.Namespace {
		c.note(FaultNamespace)
	}
	c.time(at, exported)
}

func (c *checking) time(at instant.Time, exported time.Time) {
	if d := exported.Sub(at.Time); !at.IsZero() && (d > timeSpan || d < -timeSpan) {
		c.note(FaultTime)
	}
}

func (c *checking) hop(h *record.Hop) {
	if h.Count.Valid && h.Index.Value >= max(h.Count.Value, 1) {
		c.note(FaultTraceIndex)
	}
}

func (c *checking) flow(r *record.Reading, f *record.Flow) {
	if !f.Last.IsZero() && f.Last.Before(f.First.Time) || beyond(f.First) || beyond(f.Last) || f.HopLimit.Max != 0 && f.HopLimit.Max < f.HopLimit.Min ||
		r.Packets && f.Packets == 0 && f.Bytes > 0 || f.TransitDelay != nil && f.TransitDelay.Max < f.TransitDelay.Min {
		c.note(FaultFlow)
	}
}

// loss checks that the numbers agree with each other and with the verdict.
func (c *checking) loss(l *record.Loss) {
	exact, duplicated := l.Verdict.Exact(), l.Verdict == loss.Duplicated
	wrong := beyond(l.Start) || l.Lost.Valid != exact || l.Duplicated.Valid != (exact || duplicated) || l.LostMin.Valid != duplicated
	if exact || duplicated {
		wrong = wrong || !l.Sent.Valid || !l.Received.Valid
	}
	if exact {
		wrong = wrong || l.Sent.Value-l.Lost.Value != l.Received.Value-l.Duplicated.Value || l.Lost.Value > l.Sent.Value || l.Lost.Value > 0 && l.Duplicated.Value > 0
	}
	if duplicated {
		wrong = wrong || l.Duplicated.Value == 0 || l.LostMin.Value > l.Sent.Value || l.Received.Value > l.Sent.Value && l.Received.Value-l.Sent.Value > l.Duplicated.Value
	}
	if wrong {
		c.note(FaultMeasurement)
	}
}

func (c *checking) delay(d *record.Delay) {
	if beyond(d.Start) || d.Samples == 0 || d.Min > d.Mean || d.Min > d.P95 {
		c.note(FaultMeasurement)
	}
}

// block checks that the block is one that points of a flow can count.
func (c *checking) block(b *record.Block) {
	if t := timing(b); t.Validate() != nil || b.Number > math.MaxInt64/b.Length-2 || b.LastPoint == 0 || b.LastPoint >= loss.MaxPoints || b.Point > b.LastPoint {
		c.note(FaultMeasurement)
	}
}

// edgeFlow checks that the times and the delays are in order.
func (c *checking) edgeFlow(f *record.EdgeFlow) {
	if !f.Last.IsZero() && f.Last.Before(f.First.Time) || beyond(f.First) || beyond(f.Last) || f.Delay != nil && (f.Delay.Max < f.Delay.Min || f.Delay.Count > f.Packets) {
		c.note(FaultFlow)
	}
}

// beyond reports a time that RFC 3339 cannot hold, and so no record.
func beyond(t instant.Time) bool { return !t.IsZero() && instant.Of(t.Time).IsZero() }

// postcard joins a postcard, or writes it unjoined.
func (c *Collector) postcard(from origin, p *record.Postcard, now time.Time) {
	at := p.Time.Time
	p.Time, p.Node = instant.Of(at), c.names.node(from.exporter)
	p.Ingress, p.Egress = c.names.iface(from.exporter, p.IngressIfIndex), c.names.iface(from.exporter, p.EgressIfIndex)
	joinable := p.FlowID.Valid && p.Sequence.Valid && p.Role != 0
	if !joinable {
		c.stats.Unjoinable++
	}
	if !joinable || c.config.Raw {
		c.emit(p)
		return
	}
	card := join.Postcard{
		Key:      join.Key{Namespace: p.Namespace, FlowID: p.FlowID.Value, Sequence: p.Sequence.Value},
		Exporter: from.exporter, Node: nodeID(&p.Data), Role: p.Role,
		HasHopLimit: p.Data.HopLimit.Valid, HopLimit: p.Data.HopLimit.Value,
		Time: nodeTime(p.Data.Timestamp, at), Record: p,
	}
	if p.Packet.Source.IsValid() {
		card.Source = p.Packet.Source.As16()
	}
	c.joiner.Add(card, now)
}

func nodeID(d *record.NodeData) uint64 {
	switch {
	case d.NodeIDWide.Valid:
		return uint64(d.NodeIDWide.Value)
	case d.NodeID.Valid:
		return uint64(d.NodeID.Value)
	}
	return join.NoNode
}

// nodeTime is the node's timestamp if that is plausible, else the time when the packet
// was observed.
func nodeTime(t record.Field[time.Time], observed time.Time) time.Time {
	if d := t.Value.Sub(observed); !t.Valid || !observed.IsZero() && (d > timeSpan || d < -timeSpan) {
		return observed
	}
	return t.Value
}

// measurement completes a loss or a delay.
func (c *Collector) measurement(from origin, m *record.Measurement) {
	m.Time, m.Node, m.Start = instant.Of(m.Time.Time), c.names.node(from.exporter), instant.Of(m.Start.Time)
	if m.Time.IsZero() {
		m.Time = instant.Of(from.at)
	}
}

func (c *Collector) flow(from origin, f *record.Flow) {
	f.Time, f.Node = instant.Of(f.Time.Time), c.names.node(from.exporter)
	if f.Time.IsZero() {
		f.Time = instant.Of(from.at)
	}
	f.Ingress, f.Egress = c.names.iface(from.exporter, f.IngressIfIndex), c.names.iface(from.exporter, f.EgressIfIndex)
	c.emit(f)
}

// edgeFlow completes a flow from edge to edge.
func (c *Collector) edgeFlow(from origin, f *record.EdgeFlow) {
	f.Time, f.Node = instant.Of(f.Time.Time), c.names.node(from.exporter)
	if f.Time.IsZero() {
		f.Time = instant.Of(from.at)
	}
	c.emit(f)
}
