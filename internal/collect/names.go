// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// Bounds of the names that exporters send.
const (
	nodeNameLimit      = 4096
	interfaceNameLimit = 1 << 14
)

// names are the names that exporters sent in options records: of their observation
// domains, which are nodes, and of interfaces. Beyond the limits, new ones are ignored.
type names struct {
	nodes      map[join.Exporter]string
	interfaces map[interfaceKey]string

	ids   map[join.Exporter]nodenames.Node // the ids that an exporter says are its own
	known *nodenames.Names                 // by these ids, which other nodes' records have
	owner map[nodeKey]owner
	both  map[nodeKey]string // nodes with an id that another has, too

	listed []nodenames.Node // known, as it was then
	asked  time.Time
}

// listedFor is for how long a list of the known names is given again: to make one takes milliseconds, in which
// nothing is joined.
const listedFor = time.Second

// Names are the nodes and interfaces that are known by their ids, as of a second ago at most. A node with ids of
// both widths comes once for each. Callers share the list and do not change it.
func (c *Collector) Names() []nodenames.Node {
	c.joining.mu.Lock()
	defer c.joining.mu.Unlock()
	return c.joining.names.list(time.Now())
}

func (n *names) list(now time.Time) []nodenames.Node {
	if since := now.Sub(n.asked); n.asked.IsZero() || since < 0 || since >= listedFor {
		n.listed, n.asked = n.known.List(), now
	}
	return n.listed
}

// nodeKey is an id of a node, of 24 or 56 bits.
type nodeKey struct {
	id   uint64
	wide bool
}

// owner is the first node that said that an id is its own.
type owner struct {
	exporter join.Exporter
	name     string
}

type interfaceKey struct {
	join.Exporter
	index model.IfIndex
}

func newNames() names {
	return names{
		nodes: map[join.Exporter]string{}, interfaces: map[interfaceKey]string{},
		ids: map[join.Exporter]nodenames.Node{}, known: nodenames.New(), owner: map[nodeKey]owner{}, both: map[nodeKey]string{},
	}
}

// learn takes the names from an options record. warn is called for a node that has the id of
// another one.
func (n *names) learn(from join.Exporter, r *record.Reading, data ipfix.DataRecord, warn func(facts string)) {
	domain, iface := r.Names(data)
	if domain.Name != "" {
		about := from
		if domain.Domain.Valid {
			about.Domain = domain.Domain.Value
		}
		put(n.nodes, about, domain.Name, nodeNameLimit)
		n.identify(about, &domain, warn)
	}
	if iface.Name != "" && iface.Index != 0 {
		put(n.interfaces, interfaceKey{from, iface.Index}, iface.Name, interfaceNameLimit)
		n.identifyInterface(from, &iface)
	}
}

// identify takes the ids of a node.
func (n *names) identify(from join.Exporter, domain *record.DomainName, warn func(string)) {
	if !domain.ID.Valid && !domain.IDWide.Valid {
		return
	}
	if _, known := n.ids[from]; !known && len(n.ids) == nodeNameLimit {
		return
	}
	node := nodenames.Node{ID: ioam.NodeIDUnavailable, IDWide: ioam.NodeIDWideUnavailable, Name: nodenames.Printable(domain.Name)}
	if domain.ID.Valid {
		node.ID = domain.ID.Value
	}
	if domain.IDWide.Valid {
		node.IDWide = domain.IDWide.Value
	}
	n.ids[from] = node
	for _, key := range keysOf(node) {
		n.own(key, owner{from, node.Name}, warn)
	}
	n.known.Add(n.unambiguous(node))
}

func keysOf(node nodenames.Node) (list []nodeKey) {
	if node.ID != ioam.NodeIDUnavailable {
		list = append(list, nodeKey{uint64(node.ID), false})
	}
	if node.IDWide != ioam.NodeIDWideUnavailable {
		list = append(list, nodeKey{uint64(node.IDWide), true})
	}
	return list
}

// own notes whose id it is. A node may export from several addresses, by one name.
func (n *names) own(key nodeKey, by owner, warn func(string)) {
	before, known := n.owner[key]
	if !known || before.exporter == by.exporter {
		n.owner[key] = by
		return
	}
	if before.name == by.name || n.both[key] != "" {
		return
	}
	n.both[key] = before.name + " or " + by.name
	warn(fmt.Sprintf("node id %d is that of %s (exporter %s, domain %d) and of %s (exporter %s, domain %d)",
		key.id, before.name, before.exporter.Addr, before.exporter.Domain, by.name, by.exporter.Addr, by.exporter.Domain))
}

// unambiguous is a node by all names that its ids may mean.
func (n *names) unambiguous(node nodenames.Node) nodenames.Node {
	for _, key := range keysOf(node) {
		if both := n.both[key]; both != "" {
			node.Name = both
		}
	}
	return node
}

// identifyInterface takes the ids of an interface. With an id that two nodes have, no interface
// is known.
func (n *names) identifyInterface(from join.Exporter, iface *record.InterfaceName) {
	node, known := n.ids[from]
	if !known || !iface.ID.Valid && !iface.IDWide.Valid {
		return
	}
	for _, key := range keysOf(node) {
		if n.both[key] != "" {
			return
		}
	}
	i := nodenames.Interface{
		ID:          ioam.InterfaceIDUnavailable,
		IDWide:      ioam.InterfaceIDWideUnavailable,
		Name:        iface.Name,
		Description: iface.Description,
	}
	if iface.ID.Valid {
		i.ID = iface.ID.Value
	}
	if iface.IDWide.Valid {
		i.IDWide = iface.IDWide.Value
	}
	node.Interfaces = []nodenames.Interface{i}
	n.known.Add(node)
}

func put[K comparable](m map[K]string, key K, name string, limit int) {
	if _, known := m[key]; known || len(m) < limit {
		m[key] = record.Printable(name)
	}
}

func (n *names) node(from join.Exporter) string { return n.nodes[from] }

func (n *names) iface(from join.Exporter, index model.IfIndex) string {
	return n.interfaces[interfaceKey{from, index}]
}
