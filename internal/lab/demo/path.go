// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// namesOf are the names of a topology's nodes and of their interfaces.
func namesOf(t *lab.Topology) *nodenames.Names {
	names := nodenames.New()
	for i := range t.Nodes {
		spec := &t.Nodes[i]
		if spec.Agent == nil || spec.Agent.Settings == nil || spec.Agent.Settings.Node.ID == nil {
			continue
		}
		node := nodenames.Node{ID: *spec.Agent.Settings.Node.ID, IDWide: ioam.NodeIDWideUnavailable, Name: spec.Name}
		for _, link := range spec.Agent.Settings.Interfaces {
			if link.ID != nil {
				node.Interfaces = append(node.Interfaces, nodenames.Interface{ID: *link.ID, IDWide: ioam.InterfaceIDWideUnavailable, Name: link.Name})
			}
		}
		names.Add(node)
	}
	return names
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
