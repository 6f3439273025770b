// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
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
}

type interfaceKey struct {
	join.Exporter
	index model.IfIndex
}

func newNames() names {
	return names{map[join.Exporter]string{}, map[interfaceKey]string{}}
}

// learn takes the names from an options record.
func (n *names) learn(from join.Exporter, r *record.Reading, data ipfix.DataRecord) {
	domain, iface := r.Names(data)
	if domain.Name != "" {
		about := from
		if domain.Domain.Valid {
			about.Domain = domain.Domain.Value
		}
		put(n.nodes, about, domain.Name, nodeNameLimit)
	}
	if iface.Name != "" && iface.Index != 0 {
		put(n.interfaces, interfaceKey{from, iface.Index}, iface.Name, interfaceNameLimit)
	}
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
