// SPDX-License-Identifier: Apache-2.0

// Package nodenames turns the ids that nodes write into packets into the names of nodes
// and of their interfaces.
package nodenames

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/waymark-net/waymark/ioam"
)

// Limits of what New keeps: names also come from the network.
const (
	MaxNodes      = 4096
	MaxInterfaces = 1 << 14
)

// Limits bound the names of nodes by ids of each width, and those of interfaces.
type Limits struct{ Nodes, Interfaces int }

// Node is a node with its ids, of which it has at least one.
type Node struct {
	ID         ioam.NodeID     // ioam.NodeIDUnavailable: none
	IDWide     ioam.NodeIDWide // ioam.NodeIDWideUnavailable: none
	Name       string
	Interfaces []Interface
}

// Interface is an interface of a node, with its ids.
type Interface struct {
	ID          ioam.InterfaceID     // ioam.InterfaceIDUnavailable: none
	IDWide      ioam.InterfaceIDWide // ioam.InterfaceIDWideUnavailable: none
	Name        string
	Description string // what its operator wrote about it, such as the kernel's ifalias
}

// Names are the names of nodes. A nil one knows none. It may be read by several
// goroutines while none adds to it. All names that it gives are [Printable].
type Names struct {
	nodes      map[ioam.NodeID]string
	wide       map[ioam.NodeIDWide]string
	interfaces map[interfaceKey]Interface
	limits     Limits
	changes    uint64
}

// interfaceKey is an interface by ids of one width.
type interfaceKey struct {
	node, id uint64
	wide     bool
}

// New makes the names of some nodes. Of two names of one id, the last remains.
func New(nodes ...Node) *Names { return NewLimited(Limits{MaxNodes, MaxInterfaces}, nodes...) }

// NewLimited makes the names of some nodes, with other limits than New.
func NewLimited(limits Limits, nodes ...Node) *Names {
	n := &Names{
		nodes: map[ioam.NodeID]string{}, wide: map[ioam.NodeIDWide]string{}, interfaces: map[interfaceKey]Interface{}, limits: limits,
	}
	for _, node := range nodes {
		n.Add(node)
	}
	return n
}

// Add adds the names of a node and its interfaces, and replaces those that their ids had. False: there was no room for
// some of them.
func (n *Names) Add(node Node) bool {
	name, fits := Printable(node.Name), true
	if node.ID != ioam.NodeIDUnavailable && name != "" {
		fits = add(n, n.nodes, node.ID, name, n.limits.Nodes) && fits
	}
	if node.IDWide != ioam.NodeIDWideUnavailable && name != "" {
		fits = add(n, n.wide, node.IDWide, name, n.limits.Nodes) && fits
	}
	for _, i := range node.Interfaces {
		i.Name, i.Description = Printable(i.Name), Printable(i.Description)
		if node.ID != ioam.NodeIDUnavailable && i.ID != ioam.InterfaceIDUnavailable {
			fits = add(n, n.interfaces, interfaceKey{uint64(node.ID), uint64(i.ID), false}, i, n.limits.Interfaces) && fits
		}
		if node.IDWide != ioam.NodeIDWideUnavailable && i.IDWide != ioam.InterfaceIDWideUnavailable {
			fits = add(n, n.interfaces, interfaceKey{uint64(node.IDWide), uint64(i.IDWide), true}, i, n.limits.Interfaces) && fits
		}
	}
	return fits
}

// Changes grows with each name that is added, or that replaces another one.
func (n *Names) Changes() uint64 { return n.changes }

// AddUnknown adds the names of others whose ids have none here.
func (n *Names) AddUnknown(others *Names) {
	if others == nil {
		return
	}
	addUnknown(n, n.nodes, others.nodes, n.limits.Nodes)
	addUnknown(n, n.wide, others.wide, n.limits.Nodes)
	addUnknown(n, n.interfaces, others.interfaces, n.limits.Interfaces)
}

func addUnknown[K, V comparable](n *Names, to, from map[K]V, limit int) {
	for key, v := range from {
		if _, known := to[key]; !known {
			add(n, to, key, v, limit)
		}
	}
}

// add is false if there is no room.
func add[K, V comparable](n *Names, m map[K]V, key K, v V, limit int) bool {
	before, known := m[key]
	if !known && len(m) >= limit {
		return false
	}
	if !known || before != v {
		n.changes++
	}
	m[key] = v
	return true
}

// Node is the name of the node with an id, "" if it is not known.
func (n *Names) Node(id ioam.NodeID) string {
	if n == nil {
		return ""
	}
	return n.nodes[id]
}

// NodeWide is the name of the node with a wide id, "" if it is not known.
func (n *Names) NodeWide(id ioam.NodeIDWide) string {
	if n == nil {
		return ""
	}
	return n.wide[id]
}

// Interface is the name of an interface of a node, "" if it is not known.
func (n *Names) Interface(node ioam.NodeID, id ioam.InterfaceID) string {
	return n.about(interfaceKey{uint64(node), uint64(id), false}).Name
}

// InterfaceWide is the name of an interface by its wide id, "" if it is not known.
func (n *Names) InterfaceWide(node ioam.NodeIDWide, id ioam.InterfaceIDWide) string {
	return n.about(interfaceKey{uint64(node), uint64(id), true}).Name
}

// Description is what the operator of an interface wrote about it, "" if that is not known.
func (n *Names) Description(node ioam.NodeID, id ioam.InterfaceID) string {
	return n.about(interfaceKey{uint64(node), uint64(id), false}).Description
}

func (n *Names) about(key interfaceKey) Interface {
	if n == nil {
		return Interface{}
	}
	return n.interfaces[key]
}

// List are the nodes in the order of their ids, those of wide ids last: one for each id, so
// that a node with two ids comes twice.
func (n *Names) List() []Node {
	if n == nil {
		return nil
	}
	of := map[interfaceKey][]Interface{}
	for _, key := range slices.SortedFunc(maps.Keys(n.interfaces), compare) {
		i := n.interfaces[key]
		if key.wide {
			i.ID = ioam.InterfaceIDUnavailable
		} else {
			i.IDWide = ioam.InterfaceIDWideUnavailable
		}
		node := interfaceKey{node: key.node, wide: key.wide}
		of[node] = append(of[node], i)
	}
	var list []Node
	for _, id := range slices.Sorted(maps.Keys(n.nodes)) {
		list = append(list, Node{id, ioam.NodeIDWideUnavailable, n.nodes[id], of[interfaceKey{node: uint64(id)}]})
	}
	for _, id := range slices.Sorted(maps.Keys(n.wide)) {
		list = append(list, Node{ioam.NodeIDUnavailable, id, n.wide[id], of[interfaceKey{node: uint64(id), wide: true}]})
	}
	return list
}

func compare(a, b interfaceKey) int {
	return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.id, b.id))
}

// Label is a node for people: its name, else "node ID".
func Label[T ioam.NodeID | ioam.NodeIDWide](name string, id T) string {
	if name != "" {
		return name
	}
	return fmt.Sprintf("node %d", id)
}
