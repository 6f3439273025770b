// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/model"
)

// Bounds of the names that exporters tell.
const (
	nodeNameLimit      = 4096
	interfaceNameLimit = 1 << 14
	nameLen            = 64
)

// names are those that exporters told in options records: of their observation
// domains, which are nodes, and of interfaces. When there are too many, new
// ones are not learnt.
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

// learn takes what an options record says.
func (n *names) learn(from join.Exporter, r *reading) {
	if r.domainName != "" {
		about := from
		if r.domain.Valid {
			about.Domain = r.domain.Value
		}
		put(n.nodes, about, r.domainName, nodeNameLimit)
	}
	if index := max(r.ingress, r.egress); r.interfaceName != "" && index != 0 {
		put(n.interfaces, interfaceKey{from, index}, r.interfaceName, interfaceNameLimit)
	}
}

func put[K comparable](m map[K]string, key K, name string, limit int) {
	if _, known := m[key]; known || len(m) < limit {
		m[key] = printable(name)
	}
}

// printable is a name as it may be shown: a terminal obeys some characters.
func printable(name string) string {
	if len(name) > nameLen {
		name = strings.ToValidUTF8(name[:nameLen], "")
	}
	for _, c := range name {
		if !unicode.IsPrint(c) {
			return strconv.QuoteToASCII(name)
		}
	}
	return name
}

func (n *names) node(from join.Exporter) string { return n.nodes[from] }

func (n *names) iface(from join.Exporter, index model.IfIndex) string {
	return n.interfaces[interfaceKey{from, index}]
}
