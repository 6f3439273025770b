// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ioam"
)

// names turns the numbers of a trace into what the topology calls them.
type names struct {
	topology *lab.Topology
	nodes    map[ioam.NodeID]*lab.NodeSpec
}

func newNames(t *lab.Topology) *names {
	n := &names{topology: t, nodes: map[ioam.NodeID]*lab.NodeSpec{}}
	for i := range t.Nodes {
		spec := &t.Nodes[i]
		if spec.Agent != nil && spec.Agent.Settings != nil && spec.Agent.Settings.Node.ID != nil {
			n.nodes[*spec.Agent.Settings.Node.ID] = spec
		}
	}
	return n
}

func (n *names) node(id ioam.NodeID) string {
	if spec := n.nodes[id]; spec != nil {
		return spec.Name
	}
	return "node"
}

// link is the name of an interface; empty when nothing has that id.
func (n *names) link(node ioam.NodeID, id ioam.InterfaceID) string {
	if spec := n.nodes[node]; spec != nil {
		for _, i := range spec.Agent.Settings.Interfaces {
			if i.ID != nil && *i.ID == id {
				return i.Name
			}
		}
	}
	return ""
}

// hop is what one node wrote, ready to be read.
type hop struct {
	node     string // name, with the id behind it
	in, out  string // "-" when the node did not know
	hopLimit string
	since    time.Duration // since the time of the node before
	timed    bool          // since is known
	held     time.Duration // transit delay
	measured bool          // held is known
}

// path is the way of one packet.
type path struct {
	hops     []hop
	total    time.Duration // from the first node's time to the last one's
	timed    bool
	overflow bool
}

// follow reads a trace along the way of its packet.
func (n *names) follow(r *export.TraceRecord) path {
	p := path{overflow: r.Overflow}
	var first, last time.Time
	for _, node := range r.Nodes {
		h := hop{node: "?", in: "-", out: "-", hopLimit: "-"}
		if node.NodeID.Valid {
			h.node = fmt.Sprintf("%s(%d)", n.node(node.NodeID.Value), node.NodeID.Value)
		}
		if node.HopLimit.Valid {
			h.hopLimit = fmt.Sprint(node.HopLimit.Value)
		}
		h.in, h.out = n.end(node.NodeID.Value, node.IngressID), n.end(node.NodeID.Value, node.EgressID)
		if node.Timestamp.Valid {
			at := node.Timestamp.Value
			if !last.IsZero() {
				h.since, h.timed = at.Sub(last), true
			}
			if first.IsZero() {
				first = at
			}
			last = at
		}
		if node.TransitDelay.Valid && !node.TransitDelayOverflow {
			h.held, h.measured = time.Duration(node.TransitDelay.Value), true
		}
		p.hops = append(p.hops, h)
	}
	if len(r.Nodes) > 1 && !first.IsZero() && last != first {
		p.total, p.timed = last.Sub(first), true
	}
	return p
}

func (n *names) end(node ioam.NodeID, id export.Field[ioam.InterfaceID]) string {
	if !id.Valid {
		return "-"
	}
	if name := n.link(node, id.Value); name != "" {
		return fmt.Sprintf("%s(%d)", name, id.Value)
	}
	return fmt.Sprint(id.Value)
}

// protocol names the upper layer of a traced packet.
func protocol(next ioam.NextHeader) string {
	switch next {
	case nextICMPv6:
		return "ping"
	case nextUDP:
		return "udp"
	case nextTCP:
		return "tcp"
	}
	return fmt.Sprintf("next-header-%d", next)
}
