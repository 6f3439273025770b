// SPDX-License-Identifier: Apache-2.0

package query

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// PacketOf is a record as questions show it when it is kept; nil: it is no packet.
func PacketOf(r record.Record) *Packet {
	number, _ := store.PathOf(r)
	switch r := r.(type) {
	case *record.Path:
		p := packetOfAll(&r.Packet, r.Time, uint16(r.Namespace), "postcards")
		p.FlowID, p.Sequence, p.Reason, p.Delay, p.Path = &r.FlowID, &r.Sequence, r.Reason.String(), r.Delay, ID(number)
		p.Verdict = verdictOf(r.Verdict)
		for i := range r.Nodes {
			p.Nodes = append(p.Nodes, nodeOfPath(&r.Nodes[i]))
		}
		return p
	case *record.Trace:
		if !store.IsTraffic(r) {
			return nil
		}
		p := packetOfAll(&r.Packet, r.Time, uint16(r.Namespace), "trace")
		p.Path = ID(number)
		if r.Source == record.SourceKernel {
			p.Source = "kernel"
		}
		p.ofTrace(r)
		return p
	}
	return nil
}

func verdictOf(v record.PathVerdict) string {
	if v == 0 {
		v = record.PathUnknown
	}
	return v.String()
}

// packetOfAll has what packets of all sources have.
func packetOfAll(of *record.Packet, at instant.Time, namespace uint16, source string) *Packet {
	return &Packet{
		Time: at, Source: source, Namespace: namespace, From: addressText(of.Source), To: addressText(of.Destination),
		NextHeader: uint8(of.NextHeader),
		SourcePort: of.SourcePort, DestinationPort: of.DestinationPort, FlowLabel: of.FlowLabel, Length: uint32(max(of.Length, 0)),
		Nodes: []PacketNode{},
	}
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// nodeOf has what a node wrote.
func nodeOf(d *record.NodeData) PacketNode {
	var n PacketNode
	switch {
	case d.NodeIDWide.Valid:
		id := uint64(d.NodeIDWide.Value)
		n.ID = &id
	case d.NodeID.Valid:
		id := uint64(d.NodeID.Value)
		n.ID = &id
	}
	if d.HopLimit.Valid {
		n.HopLimit = &d.HopLimit.Value
	}
	if d.Timestamp.Valid {
		at := instant.Of(d.Timestamp.Value)
		n.Time = &at
	}
	if d.TransitDelay.Valid {
		n.Held = &d.TransitDelay.Value
	}
	if d.QueueDepth.Valid {
		n.Queue = &d.QueueDepth.Value
	}
	return n
}

func nodeOfPath(of *record.PathNode) PacketNode {
	n := nodeOf(&of.NodeData)
	n.Name, n.Exporter, n.Role, n.Since = of.Node, addressText(of.Exporter), of.Role.String(), of.SincePrevious
	n.Ingress, n.Egress = interfaceOf(uint32(of.IngressIfIndex), of.Ingress), interfaceOf(uint32(of.EgressIfIndex), of.Egress)
	return n
}

// interfaceOf is nil if the interface is not known.
func interfaceOf(index uint32, name string) *Interface {
	if index == 0 {
		return nil
	}
	return &Interface{index, name}
}

// ofTrace adds the nodes of a trace, and what follows from them.
func (p *Packet) ofTrace(r *record.Trace) {
	p.Reason, p.Verdict = record.PathComplete.String(), record.PathArrived.String()
	if r.OnItsWay {
		p.Verdict = record.PathUnknown.String()
	}
	if r.Overflow.Valid && r.Overflow.Value {
		p.Reason = record.PathHopMissing.String()
	}
	var first, before time.Time
	for i := range r.Nodes {
		d := &r.Nodes[i]
		n := nodeOf(d)
		n.Name, n.Role = d.NodeName, record.Transit.String()
		switch i {
		case 0:
			n.Role = record.Encapsulating.String()
		case len(r.Nodes) - 1:
			n.Role = record.Decapsulating.String()
		}
		n.Ingress = interfaceOf(store.InterfaceID(d.IngressID, d.IngressIDWide), d.IngressName)
		n.Egress = interfaceOf(store.InterfaceID(d.EgressID, d.EgressIDWide), d.EgressName)
		if d.Timestamp.Valid {
			at := d.Timestamp.Value
			if first.IsZero() {
				first, p.Time = at, instant.Of(at)
			} else {
				since, whole := at.Sub(before).Nanoseconds(), at.Sub(first).Nanoseconds()
				n.Since, p.Delay = &since, &whole
			}
			before = at
		}
		p.Nodes = append(p.Nodes, n)
	}
}

// BlockOf is a record of loss as questions show it.
func BlockOf(r *record.Loss) *Block {
	b := &Block{
		MeasuredSegment: MeasuredSegment{r.Flow, int64(r.FlowID), r.Scope.String(), int64(r.From), int64(r.To), r.FromNode, r.ToNode},
		Start:           r.Start, Length: int64(r.Length), Verdict: r.Verdict.String(),
	}
	if r.Start.IsZero() {
		b.Start = r.Time
	}
	for _, name := range append(r.FromReasons.Names(), r.ToReasons.Names()...) {
		if !slices.Contains(b.Reasons, name) {
			b.Reasons = append(b.Reasons, name)
		}
	}
	for field, into := range map[*record.Field[uint64]]**int64{
		&r.Block: &b.Number, &r.Sent: &b.Sent, &r.Received: &b.Received, &r.Lost: &b.Lost, &r.LostMin: &b.LostMin,
	} {
		if field.Valid {
			n := int64(field.Value)
			*into = &n
		}
	}
	return b
}

// EventOf is an event or a warning as questions show it; nil: the record is neither.
func EventOf(r record.Record) *Event {
	switch r := r.(type) {
	case *record.Event:
		e := &Event{Kind: record.KindEvent, Time: r.Time, Node: r.Node, Name: r.Name, Severity: string(r.Severity), Subject: r.Subject,
			Text: r.Facts}
		if !r.Since.IsZero() {
			e.Since = &r.Since
		}
		for _, l := range r.Labels {
			put(&e.Labels, l.Name, l.Text)
		}
		for _, v := range r.Values {
			put(&e.Values, v.Name, v.Number)
		}
		return e
	case *record.Warning:
		e := &Event{Kind: record.KindWarning, Time: r.Time, Name: r.Code, Severity: string(record.SeverityInfo), Subject: r.Flow, Text: r.Facts,
			Cure: r.Cure}
		if r.Beyond {
			e.Severity = string(record.SeverityWarning)
		}
		if e.Subject == "" && r.FlowID > 0 {
			e.Subject = strconv.FormatUint(uint64(r.FlowID), 10)
		}
		return e
	}
	return nil
}

func put[V any](m *map[string]V, name string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = value
}

// Match reports whether the flows that are asked for have a packet.
func (f *Flows) Match(namespace uint16, p *record.Packet) bool {
	return (f.Namespace == nil || *f.Namespace == namespace) && in(f.Source, p.Source) && in(f.Destination, p.Destination) &&
		(f.NextHeader == nil || *f.NextHeader == uint8(p.NextHeader) && p.Source.IsValid()) && is(f.SourcePort, p.SourcePort) &&
		is(f.DestinationPort, p.DestinationPort) &&
		(is(f.Port, p.SourcePort) || is(f.Port, p.DestinationPort))
}

func in(prefix netip.Prefix, a netip.Addr) bool { return !prefix.IsValid() || prefix.Contains(a) }

func is(wanted, port *uint16) bool { return wanted == nil || port != nil && *port == *wanted }
