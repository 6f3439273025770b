// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/collector/internal/store"
)

// Node is a node of a path.
type Node struct {
	Name     string  `json:"node,omitempty"`
	Exporter string  `json:"exporter,omitempty"`
	ID       *uint64 `json:"node_id,omitempty"`
}

// key is the same for the same node, which may have reported from several addresses. In different namespaces, two nodes
// may have the same id, and are one if they have the same name.
func (n *Node) key() string {
	if n.ID == nil {
		return n.Exporter
	}
	return "/" + strconv.FormatUint(*n.ID, 10) + "/" + n.Name
}

// Interface is an interface of a node.
type Interface struct {
	Index uint32 `json:"index"`
	Name  string `json:"name,omitempty"`
}

// mostNames bounds the names that one question looks at.
const mostNames = 100_000

// names are those that exporters sent.
type names struct {
	nodes      map[nodeKey]string
	byID       map[uint64]string // of all exporters, and of traces; "": they differ
	interfaces map[interfaceKey]string
}

type nodeKey struct {
	exporter string
	id       uint64
}

type interfaceKey struct {
	exporter string
	index    uint32
}

// namesIn reads the names of all nodes and interfaces in files. Later ones win.
func namesIn(ctx context.Context, r *store.Reading) (*names, error) {
	n := &names{map[nodeKey]string{}, map[uint64]string{}, map[interfaceKey]string{}}
	err := namesOf(ctx, r, "node", "nodes", func(exporter string, id uint64, name string) {
		n.nodes[nodeKey{exporter, id}] = name
		if before, named := n.byID[id]; named && before != name {
			name = ""
		}
		n.byID[id] = name
	})
	if err != nil {
		return nil, err
	}
	return n, namesOf(ctx, r, "ifindex", "interfaces", func(exporter string, id uint64, name string) {
		n.interfaces[interfaceKey{exporter, uint32(id)}] = name
	})
}

// namesOf reads the names of a table of all files, those of the latest file last.
func namesOf(ctx context.Context, r *store.Reading, column, table string, add func(exporter string, id uint64, name string)) error {
	var list []string
	for i := range r.Files {
		list = append(list, fmt.Sprintf("(SELECT %d AS file, row_number() OVER () AS place, coalesce(exporter, ''), %s::UBIGINT, name "+
			"FROM %s LIMIT %d)", i, column, r.Files[i].From(table), mostNames))
	}
	query := "SELECT * EXCLUDE (file, place) FROM (" + strings.Join(list, "\nUNION ALL\n") + ") ORDER BY file, place"
	return rows(ctx, r.DB, query, nil, func(scan func(...any) error) error {
		var exporter, name string
		var id uint64
		err := scan(&exporter, &id, &name)
		add(exporter, id, name)
		return err
	})
}

func (n *names) node(exporter string, id uint64) Node {
	node := Node{Name: n.nodes[nodeKey{exporter, id}], Exporter: exporter}
	if exporter == "" { // of a trace: its nodes may be known by their postcards, and two namespaces may have one id
		node.Name = n.byID[id]
	}
	if id != store.NoNode {
		node.ID = &id
	}
	return node
}

// iface is nil for an interface that is not known. Of a trace, it is that of a node without an exporter.
func (n *names) iface(exporter string, node uint64, index uint32) *Interface {
	if index == 0 {
		return nil
	}
	if exporter == "" {
		exporter = store.InterfaceOwner(netip.Addr{}, node)
	}
	return &Interface{index, n.interfaces[interfaceKey{exporter, index}]}
}

// definition is a path: its nodes, and the segments between them.
type definition struct {
	namespace       uint16
	complete        bool
	exporter        []string
	node            []uint64
	role            []uint8
	ingress, egress []uint32
	hops            []int64
	segments        []uint64
}

// definitions reads paths by their numbers.
func definitions(ctx context.Context, r *store.Reading, ids []uint64) (map[uint64]*definition, error) {
	found := map[uint64]*definition{}
	query := store.Union(
		r.Files,
		"SELECT path, namespace, complete, exporter, node, role, ingress, egress, hops, segments FROM FILE(paths) WHERE path = ANY($1)",
	)
	err := rows(ctx, r.DB, query, []any{ids}, func(scan func(...any) error) error {
		var path uint64
		var d definition
		var lists [7]any
		err := scan(&path, &d.namespace, &d.complete,
			&lists[0], &lists[1], &lists[2], &lists[3], &lists[4], &lists[5], &lists[6])
		if err != nil {
			return err
		}
		for i := range list(lists[1]) {
			exporter, _ := list(lists[0])[i].(string)
			id, _ := list(lists[1])[i].(uint64)
			segment, _ := list(lists[6])[i].(uint64)
			d.exporter, d.node, d.segments = append(d.exporter, exporter), append(d.node, id), append(d.segments, segment)
			d.role = append(d.role, uint8(whole(list(lists[2])[i])))
			d.ingress, d.egress = append(d.ingress, uint32(whole(list(lists[3])[i]))), append(d.egress, uint32(whole(list(lists[4])[i])))
			d.hops = append(d.hops, whole(list(lists[5])[i]))
		}
		found[path] = &d
		return nil
	})
	return found, err
}

// list is a list of the database.
func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// text is a text that may be NULL.
func text(s sql.NullString) string { return s.String }
