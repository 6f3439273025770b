// SPDX-License-Identifier: Apache-2.0

package query

import (
	"github.com/waymark-net/waymark/internal/exponential"
)

// NodeTotal is a node on all listed paths.
type NodeTotal struct {
	Node
	Packets uint64  `json:"packets"`
	Held    *Delays `json:"held,omitempty"`
}

// SegmentTotal is a segment on all listed paths.
type SegmentTotal struct {
	ID       ID      `json:"segment"`
	Packets  uint64  `json:"packets"`
	Since    *Delays `json:"since,omitempty"`
	Negative uint64  `json:"since_negative,omitempty"`
}

// totals add up what was measured on several paths.
type totals struct {
	nodes    []NodeTotal
	segments []SegmentTotal
	node     map[string]int
	segment  map[ID]int
	holds    []exponential.Delays
	links    []exponential.Delays
}

func newTotals(paths []Path) *totals {
	t := &totals{nodes: []NodeTotal{}, segments: []SegmentTotal{}, node: map[string]int{}, segment: map[ID]int{}}
	for i := range paths {
		hops := paths[i].Hops
		for k := range hops {
			key := hops[k].Node.key()
			if _, ok := t.node[key]; !ok {
				t.node[key] = len(t.nodes)
				t.nodes = append(t.nodes, NodeTotal{Node: hops[k].Node})
			}
			t.nodes[t.node[key]].Packets += paths[i].Packets
			if k == len(hops)-1 {
				break // nothing follows
			}
			id := hops[k].Segment
			if _, ok := t.segment[id]; !ok {
				t.segment[id] = len(t.segments)
				t.segments = append(t.segments, SegmentTotal{ID: id})
			}
			t.segments[t.segment[id]].Packets += paths[i].Packets
		}
	}
	t.holds, t.links = make([]exponential.Delays, len(t.nodes)), make([]exponential.Delays, len(t.segments))
	return t
}

// held adds what a node held on one path.
func (t *totals) held(at *Hop, h *exponential.Delays) {
	if h != nil {
		t.holds[t.node[at.Node.key()]].Merge(h)
	}
}

// since adds the time after a node on one path.
func (t *totals) since(from *Hop, h *exponential.Delays, negative uint64) {
	i := t.segment[from.Segment]
	t.segments[i].Negative += negative
	if h != nil {
		t.links[i].Merge(h)
	}
}

func (t *totals) list() ([]NodeTotal, []SegmentTotal) {
	for i := range t.nodes {
		t.nodes[i].Held = delaysOf(&t.holds[i])
	}
	for i := range t.segments {
		t.segments[i].Since = delaysOf(&t.links[i])
	}
	return t.nodes, t.segments
}
