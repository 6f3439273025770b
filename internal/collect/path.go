// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// newPath makes the record of a path.
func newPath(p *join.Path) *record.Path {
	first := p.Postcards[0].Record
	r := &record.Path{
		Namespace: p.Namespace, TraceType: first.TraceType, FlowID: p.FlowID, Sequence: p.Sequence,
		Packet: first.Packet, Complete: p.Reason == record.PathComplete, Nodes: make([]record.PathNode, len(p.Postcards)), Reason: p.Reason,
	}
	sincePrevious := make([]int64, len(p.Postcards))
	for i := range p.Postcards {
		card, d := &p.Postcards[i], p.Postcards[i].Record
		n := record.PathNode{
			Node: d.Node, Exporter: card.Exporter.Addr, Role: d.Role, Ingress: d.Ingress, Egress: d.Egress,
			IngressIfIndex: d.IngressIfIndex, EgressIfIndex: d.EgressIfIndex, NodeData: d.Data,
		}
		n.Timestamp = record.NewField(card.Time, !card.Time.IsZero())
		if since, ok := p.Since(i); ok {
			sincePrevious[i] = since.Nanoseconds()
			n.SincePrevious = &sincePrevious[i]
		}
		if r.Time.IsZero() {
			r.Time = instant.Of(card.Time)
		}
		r.Nodes[i] = n
	}
	for _, h := range p.Missing {
		r.Missing = append(r.Missing, int(h)) // []uint8 would be base64
	}
	if i, ok := p.LastSeen(); ok {
		n := &r.Nodes[i]
		r.LastSeen = &record.LastSeen{Node: n.Node, Exporter: n.Exporter, NodeID: n.NodeID, HopLimit: n.HopLimit, Egress: n.Egress}
		if n.EgressIfIndex != 0 {
			r.LastSeen.EgressID = record.NewField(n.EgressIfIndex, true)
		}
	}
	if d, ok := p.EndToEnd(); ok {
		r.Delay = nanoseconds(d)
	}
	return r
}

func nanoseconds(d time.Duration) *int64 {
	n := d.Nanoseconds()
	return &n
}
