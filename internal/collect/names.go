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

// nameLimits bound the names that exporters send: of a node for each session, and of eight interfaces, at least as many
// as are known of other nodes elsewhere.
func nameLimits(sessions int) nodenames.Limits {
	return nodenames.Limits{Nodes: max(sessions, nodenames.MaxNodes), Interfaces: max(8*sessions, nodenames.MaxInterfaces)}
}

// names are the names that exporters sent in options records: of their observation
// domains, which are nodes, and of interfaces. Beyond the limits, new ones are refused.
type names struct {
	limits     nodenames.Limits
	refused    uint64 // options records with a name that was
	nodes      map[join.Exporter]string
	interfaces map[interfaceKey]string

	ids   map[join.Exporter]nodenames.Node // the ids that an exporter says are its own
	known *nodenames.Names                 // by these ids, which other nodes' records have
	owner map[nodeKey]owner
	both  map[nodeKey]string // nodes with an id that another has, too

	listed []nodenames.Node // known, as it was then
	asked  time.Time
	upTo   uint64 // the changes of known that the list has
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
	since := now.Sub(n.asked)
	if old := n.asked.IsZero() || since < 0 || since >= listedFor; old && (n.listed == nil || n.upTo != n.known.Changes()) {
		n.listed, n.asked, n.upTo = n.known.List(), now, n.known.Changes()
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

func newNames(limits nodenames.Limits) names {
	return names{
		limits: limits,
		nodes:  map[join.Exporter]string{}, interfaces: map[interfaceKey]string{},
		ids: map[join.Exporter]nodenames.Node{}, known: nodenames.NewLimited(limits), owner: map[nodeKey]owner{}, both: map[nodeKey]string{},
	}
}

// learn takes the names from an options record. warn is called for a node that has the id of
// another one.
func (n *names) learn(from join.Exporter, r *record.Reading, data ipfix.DataRecord, warn func(facts string)) {
	domain, iface := r.Names(data)
	fits := true
	if domain.Name != "" {
		about := from
		if domain.Domain.Valid {
			about.Domain = domain.Domain.Value
		}
		fits = put(n.nodes, about, domain.Name, n.limits.Nodes)
		fits = n.identify(about, &domain, warn) && fits
	}
	if iface.Name != "" && iface.Index != 0 {
		fits = put(n.interfaces, interfaceKey{from, iface.Index}, iface.Name, n.limits.Interfaces) && fits
		fits = n.identifyInterface(from, &iface) && fits
	}
	if !fits {
		n.refused++
	}
}

// identify adds the ids of a node; false: there is no room.
func (n *names) identify(from join.Exporter, domain *record.DomainName, warn func(string)) bool {
	if !domain.ID.Valid && !domain.IDWide.Valid {
		return true
	}
	if _, known := n.ids[from]; !known && len(n.ids) >= n.limits.Nodes {
		return false
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
	return n.known.Add(n.unambiguous(node))
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

// identifyInterface adds the ids of an interface; false: there is no room. With an id that two nodes have, no interface
// is known.
func (n *names) identifyInterface(from join.Exporter, iface *record.InterfaceName) bool {
	node, known := n.ids[from]
	if !known || !iface.ID.Valid && !iface.IDWide.Valid {
		return true
	}
	for _, key := range keysOf(node) {
		if n.both[key] != "" {
			return true
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
	return n.known.Add(node)
}

// put is false if there is no room.
func put[K comparable](m map[K]string, key K, name string, limit int) bool {
	if _, known := m[key]; !known && len(m) >= limit {
		return false
	}
	m[key] = record.Printable(name)
	return true
}

func (n *names) node(from join.Exporter) string { return n.nodes[from] }

func (n *names) iface(from join.Exporter, index model.IfIndex) string {
	return n.interfaces[interfaceKey{from, index}]
}
