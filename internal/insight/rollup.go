// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// Interval is what was seen in one interval: a rollup. Its JSON names are a contract, as those of all
// types below: they are added to, never changed.
type Interval struct {
	Start   instant.Time `json:"start"`
	Length  int64        `json:"length_ns"` // of an interval that is open or was cut, as long as it was
	Open    bool         `json:"open,omitempty"`
	Watched int64        `json:"watched_ns"`         // for how long of it records were made
	Records uint64       `json:"records"`            // that were taken
	LeftOut uint64       `json:"left_out,omitempty"` // records beyond the rate that is taken
	Pairs   []*Pair      `json:"pairs"`
}

// Pair is the traffic from one prefix to another.
type Pair struct {
	Source      string  `json:"source"` // name of a prefix, a prefix, or "other"
	Destination string  `json:"destination"`
	Packets     uint64  `json:"packets"`
	Loss        Loss    `json:"loss,omitzero"` // by Sequence Numbers: between the ends, the hop is not known
	Paths       []*Path `json:"paths"`
}

// Loss counts packets of which it is known whether they were lost.
type Loss struct {
	Sent uint64 `json:"sent"`
	Lost uint64 `json:"lost"`
}

func (l *Loss) add(o Loss) {
	l.Sent += o.Sent
	l.Lost += o.Lost
}

// Ratio is which part of the packets was lost; known is false if that of none is known.
func (l Loss) Ratio() (ratio float64, known bool) {
	if l.Sent == 0 {
		return 0, false
	}
	return float64(min(l.Lost, l.Sent)) / float64(l.Sent), true
}

// Path is one way between two prefixes. A path without hops has the packets of all paths that had no
// room for their own entry.
type Path struct {
	ID         string             `json:"path"`              // the same for the same hops, wherever and whenever; "other"
	Flow       string             `json:"flow,omitempty"`    // the measured flow whose points are the hops, from 0 on
	FlowID     uint32             `json:"flow_id,omitempty"` // its number
	Packets    uint64             `json:"packets"`
	Incomplete uint64             `json:"incomplete,omitempty"` // packets of which a node is missing in the list
	Delay      exponential.Delays `json:"delay,omitzero"`       // from the first node to the last
	Negative   uint64             `json:"negative,omitempty"`   // packets whose delay is negative: the clocks differ by more
	Hops       []Hop              `json:"hops,omitempty"`

	idle record.Field[uint64] // the last block in which no packet of a measured flow was sent
}

// measuredID is the ID of all paths of measured flows.
const measuredID = "flow"

// measured reports whether the path is that of a measured flow.
func (p *Path) measured() bool { return p.ID == measuredID }

// Hop is one node of a path, and the segment after it.
type Hop struct {
	Place
	Packets  uint64             `json:"packets"`
	Held     exponential.Delays `json:"held,omitzero"`      // from arrival to the egress hook, which is before the queue
	ToNext   exponential.Delays `json:"to_next,omitzero"`   // from the egress hook here to the arrival at the next node: queue and link
	Negative uint64             `json:"negative,omitempty"` // packets whose ToNext is negative
	// HeldIncluded: ToNext has a time, too, for which a node held packets, because that node does not say how
	// long: this one in a trace, the next one in a path that is joined from exports.
	HeldIncluded bool  `json:"held_included,omitempty"`
	Queue        Depth `json:"queue,omitzero"`
	Loss         Loss  `json:"loss,omitzero"` // after this node, before the next one that is known
	// Uncertain are blocks of a measured flow of which it is not known what was lost after this node: they are not in Loss.
	Uncertain uint64    `json:"blocks_uncertain,omitempty"`
	Baseline  *Baseline `json:"baseline,omitempty"`
}

// Place is a node and the interfaces by which packets pass it. Absent is what packets do not say.
type Place struct {
	Node      string `json:"node,omitempty"` // name or address, where a record has it
	NodeID    uint64 `json:"node_id,omitempty"`
	Wide      bool   `json:"node_id_wide,omitempty"` // NodeID is the wide one
	IngressID uint64 `json:"ingress_id,omitempty"`
	EgressID  uint64 `json:"egress_id,omitempty"`

	// Names of the ids, in reports alone.
	IngressName string `json:"ingress_name,omitempty"`
	EgressName  string `json:"egress_name,omitempty"`
}

// Depth is what nodes wrote about the depth of their egress queue; Waymark's count packets.
type Depth struct {
	Count uint64 `json:"count"`
	Sum   uint64 `json:"sum"`
	Max   uint32 `json:"max"`
}

func (d *Depth) add(o Depth) {
	d.Count += o.Count
	d.Sum += o.Sum
	d.Max = max(d.Max, o.Max)
}

// Baseline is what is usual at a hop: see [baseline]. Absent is what is not known yet.
type Baseline struct {
	Held   *int64 `json:"held_p95_ns,omitempty"`
	ToNext *int64 `json:"to_next_p95_ns,omitempty"`
}

// reset empties all that counts in a path, and keeps its memory.
func (p *Path) reset() {
	p.Packets, p.Incomplete, p.Negative = 0, 0, 0
	p.Delay.Reset()
	for i := range p.Hops {
		h := &p.Hops[i]
		h.Packets, h.Negative, h.HeldIncluded, h.Queue, h.Loss, h.Uncertain, h.Baseline = 0, 0, false, Depth{}, Loss{}, 0, nil
		h.Held.Reset()
		h.ToNext.Reset()
	}
}

// used reports whether the path counted anything.
func (p *Path) used() bool {
	if p.Packets > 0 {
		return true
	}
	for i := range p.Hops {
		if p.Hops[i].Loss.Sent > 0 || p.Hops[i].Uncertain > 0 {
			return true
		}
	}
	return false
}

// merge adds what the same path counted in another interval.
func (p *Path) merge(o *Path) {
	p.Packets += o.Packets
	p.Incomplete += o.Incomplete
	p.Negative += o.Negative
	p.Delay.Merge(&o.Delay)
	for i := len(p.Hops); i < len(o.Hops); i++ { // a measured flow whose further points were not known yet
		p.Hops = append(p.Hops, Hop{Place: o.Hops[i].Place})
	}
	for i := range o.Hops {
		h, g := &p.Hops[i], &o.Hops[i]
		h.Packets += g.Packets
		h.Negative += g.Negative
		h.HeldIncluded = h.HeldIncluded || g.HeldIncluded
		h.Held.Merge(&g.Held)
		h.ToNext.Merge(&g.ToNext)
		h.Queue.add(g.Queue)
		h.Loss.add(g.Loss)
		h.Uncertain += g.Uncertain
		if g.Baseline != nil {
			h.Baseline = g.Baseline
		}
	}
}
