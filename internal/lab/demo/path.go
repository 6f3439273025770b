// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ioam"
)

// names turns the numbers of a trace into the topology's names.
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

// Node is the name of a node; empty when nothing has that id.
func (n *names) Node(id ioam.NodeID) string {
	if spec := n.nodes[id]; spec != nil {
		return spec.Name
	}
	return ""
}

// Interface is the name of an interface; empty when nothing has that id.
func (n *names) Interface(node ioam.NodeID, id ioam.InterfaceID) string {
	if spec := n.nodes[node]; spec != nil {
		for _, i := range spec.Agent.Settings.Interfaces {
			if i.ID != nil && *i.ID == id {
				return i.Name
			}
		}
	}
	return ""
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
