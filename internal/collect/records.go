// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/collect/known"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// origin is where and when a record was exported.
type origin struct {
	exporter join.Exporter
	at       time.Time // export time, by the exporter's clock
	feed     known.Feed
	session  *ipfix.Session
	state    *exporterState // nil: it is not kept
}

// maxReadings bounds how many templates' readings are kept. Beyond it, all are dropped
// and made again as needed.
const maxReadings = 1 << 12

// reading is how records of a template are read.
func (c *joining) reading(t *ipfix.Template) *record.Reading {
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
func (c *joining) record(from origin, data ipfix.DataRecord, now time.Time) {
	c.stats.Records++
	r := c.reading(data.Template)
	var ahead *read
	if len(c.ahead) > 0 {
		ahead, c.ahead = &c.ahead[0], c.ahead[1:]
	}
	switch {
	case data.Template.Scope() > 0:
		c.judgePending()
		c.stats.Options++
		c.names.learn(from.exporter, r, data, func(facts string) { c.emit(sharedID(facts, now)) })
		c.verdicts.report(&from, r, data)
		if c.config.Raw {
			c.emit(newOther(from, c.names.node(from.exporter), data, now))
		}
		return
	case !r.IOAM:
		c.stats.Others++
		c.emit(newOther(from, c.names.node(from.exporter), data, now))
		return
	}
	if ahead == nil {
		one := c.readOne(r, data, from.at)
		ahead = &one
	}
	d := ahead.data
	if ahead.fault != record.NoFault {
		c.judgePending()
		c.stats.Faults[ahead.fault]++
		c.verdicts.base.TroubleOf(from.feed)
		return
	}
	c.stats.Data[d.Kind]++
	c.sender = sender{c, from}
	d.Complete(&c.sender)
	c.accept(from, d.Value, now)
}

// sharedID warns of two nodes with one id.
func sharedID(facts string, now time.Time) *record.Warning {
	return &record.Warning{
		Time: instant.Of(now), Code: string(health.NodeIDShared), Beyond: true,
		Facts: facts, Cure: "give each node its own node.id (or net.ipv6.ioam6_id)",
	}
}

// accept joins and compares records of the kinds that it knows, and writes all others.
func (c *joining) accept(from origin, data any, now time.Time) {
	switch r := data.(type) {
	case *record.Postcard:
		c.postcard(from, r, now)
	case *record.Hop:
		c.hop(from, r, now)
	case *record.Block:
		c.block(from.exporter, r, now)
	case record.Record:
		c.emit(r)
	}
}

// sender completes the records of an exporter. The lock is held.
type sender struct {
	joining *joining
	origin  origin
}

// Node is the exporter's name, if it has sent one.
func (s *sender) Node() string { return s.joining.names.node(s.origin.exporter) }

// Interface is an interface's name, if the exporter has sent one.
func (s *sender) Interface(index model.IfIndex) string {
	return s.joining.names.iface(s.origin.exporter, index)
}

// Exported is when the message was sent.
func (s *sender) Exported() time.Time { return s.origin.at }

// checking finds impossible values in a record.
type checking struct {
	enterprise ipfix.Enterprise
	fault      record.Fault // the first
}

func (c *checking) recordFault(f record.Fault) {
	if c.fault == record.NoFault {
		c.fault = f
	}
}

// Elements whose out-of-range values are a special case.
const (
	elementFlowEndReason ipfix.ElementID = 136
	elementNodeRole      ipfix.ElementID = 17
)

// noteOutOfRange notes a value that is beyond the range of its element. A flow label of more
// than 20 bits is one; a new flowEndReason is not an error.
func (c *checking) noteOutOfRange(v ipfix.Value) {
	switch {
	case v.Field.Enterprise == ipfix.EnterpriseIANA && v.Field.ID == elementFlowEndReason:
	case v.Field.Enterprise == c.enterprise && v.Field.ID == elementNodeRole:
		c.recordFault(record.FaultRole)
	default:
		c.recordFault(record.FaultValue)
	}
}

// postcard joins a postcard, or writes it unjoined.
func (c *joining) postcard(from origin, p *record.Postcard, now time.Time) {
	from.state.observed(p.Time.Time, now)
	c.lag.observed(p.Time.Time, from.at)
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
		Time: nodeTime(p.Data.Timestamp, p.Time.Time), Record: p,
	}
	if p.Packet.Source.IsValid() {
		card.Source = p.Packet.Source.As16()
	}
	if !c.shardsHaveTime {
		c.shardsHaveTime = true
		c.shards.addTask(advanceTime, now, len(c.results))
	}
	if c.shards.add(card, now, len(c.results)); c.shards.tasks >= mostTasks {
		c.judgePending()
	}
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
	if d := t.Value.Sub(observed); !t.Valid || !observed.IsZero() && (d > record.TimeSpan || d < -record.TimeSpan) {
		return observed
	}
	return t.Value
}
