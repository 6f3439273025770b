// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// NodeName is the name of a node by one of its ids.
type NodeName struct {
	ID         *ioam.NodeID     `json:"node_id,omitempty"`
	IDWide     *ioam.NodeIDWide `json:"node_id_wide,omitempty"`
	Name       string           `json:"name"`
	Interfaces []InterfaceName  `json:"interfaces"`
}

// InterfaceName is the name of an interface by its id of the same width.
type InterfaceName struct {
	ID          *ioam.InterfaceID     `json:"id,omitempty"`
	IDWide      *ioam.InterfaceIDWide `json:"id_wide,omitempty"`
	Name        string                `json:"name"`
	Description string                `json:"description,omitempty"`
}

// NodeNames are names as the API gives them.
func NodeNames(names *nodenames.Names) []NodeName {
	list := []NodeName{}
	for _, n := range names.List() {
		node := NodeName{
			ID:         unless(n.ID, ioam.NodeIDUnavailable),
			IDWide:     unless(n.IDWide, ioam.NodeIDWideUnavailable),
			Name:       n.Name,
			Interfaces: []InterfaceName{},
		}
		for _, i := range n.Interfaces {
			node.Interfaces = append(node.Interfaces, InterfaceName{
				ID: unless(
					i.ID,
					ioam.InterfaceIDUnavailable,
				), IDWide: unless(i.IDWide, ioam.InterfaceIDWideUnavailable), Name: i.Name, Description: i.Description,
			})
		}
		list = append(list, node)
	}
	return list
}

// unless is nil for the value that means "none".
func unless[T comparable](v, none T) *T {
	if v == none {
		return nil
	}
	return &v
}

// valueOr is the value that p points to, or none if p is nil.
func valueOr[T any](p *T, none T) T {
	if p == nil {
		return none
	}
	return *p
}

// Names are the names of nodes and interfaces that the agent knows.
func (c *Client) Names(ctx context.Context) (*nodenames.Names, error) {
	var list []NodeName
	if err := c.do(ctx, http.MethodGet, "/v1/names", nil, &list); err != nil {
		return nil, err
	}
	names := nodenames.New()
	for i := range list {
		names.Add(list[i].Node())
	}
	return names, nil
}

// Node is the node with its names.
func (n *NodeName) Node() nodenames.Node {
	node := nodenames.Node{ID: valueOr(n.ID, ioam.NodeIDUnavailable), IDWide: valueOr(n.IDWide, ioam.NodeIDWideUnavailable), Name: n.Name}
	for _, i := range n.Interfaces {
		node.Interfaces = append(node.Interfaces, nodenames.Interface{
			ID:     valueOr(i.ID, ioam.InterfaceIDUnavailable),
			IDWide: valueOr(i.IDWide, ioam.InterfaceIDWideUnavailable), Name: i.Name, Description: i.Description,
		})
	}
	return node
}
