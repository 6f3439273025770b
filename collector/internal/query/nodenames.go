// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// NamesQuestion asks for names.
type NamesQuestion struct {
	Range
	Limit int
}

// Names are the names of nodes and interfaces, by the ids that nodes write into packets.
type Names struct {
	Answer
	Nodes []NodeNames `json:"nodes"`
}

// NodeNames is the name of a node, and those of its interfaces.
type NodeNames struct {
	ID         *ioam.NodeID     `json:"node_id,omitempty"`
	IDWide     *ioam.NodeIDWide `json:"node_id_wide,omitempty"`
	Name       string           `json:"name"`
	Interfaces []InterfaceNames `json:"interfaces"`
}

// InterfaceNames is the name of an interface.
type InterfaceNames struct {
	ID          *ioam.InterfaceID     `json:"id,omitempty"`
	IDWide      *ioam.InterfaceIDWide `json:"id_wide,omitempty"`
	Name        string                `json:"name"`
	Description string                `json:"description,omitempty"`
}

// NamesOf answers with what the exporters of the running collector said. A role with a scope learns the names of nodes
// that packets in its scope passed in a time, and nothing of their interfaces: these have other customers' names.
func (q *Queries) NamesOf(ctx context.Context, ask NamesQuestion) (*Names, error) {
	a := &Names{Nodes: []NodeNames{}}
	a.From, a.Until = instant.Of(ask.From), instant.Of(ask.Until)
	if q.Names == nil {
		return a, nil
	}
	confined, list := Confined(ctx), q.Names()
	if confined {
		passed, err := q.passed(ctx, ask.Range, &a.Answer)
		if err != nil {
			return nil, err
		}
		list = namedIn(passed, list)
	}
	for _, n := range list {
		if len(a.Nodes) == ask.Limit {
			a.Cut = cutAt(ask.Limit)
			break
		}
		one := NodeNames{
			ID: unless(n.ID, ioam.NodeIDUnavailable), IDWide: unless(n.IDWide, ioam.NodeIDWideUnavailable), Name: n.Name,
			Interfaces: []InterfaceNames{},
		}
		if !confined {
			one.Interfaces = interfacesOf(n)
		}
		a.Nodes = append(a.Nodes, one)
	}
	return a, nil
}

// namedIn are the nodes of a list that have one of these ids. Packets do not tell whether an id is of 24 or 56 bits: of one
// that is that of two nodes by another name, nothing is said, because one may be another customer's.
func namedIn(ids map[uint64]bool, list []nodenames.Node) (in []nodenames.Node) {
	named, differs := make(map[uint64]string), make(map[uint64]bool)
	for _, n := range list {
		id := idOf(&n)
		if before, known := named[id]; known && before != n.Name {
			differs[id] = true
		}
		named[id] = n.Name
	}
	for _, n := range list {
		if id := idOf(&n); ids[id] && !differs[id] {
			in = append(in, n)
		}
	}
	return in
}

// idOf is the only id of a node in a list of names.
func idOf(n *nodenames.Node) uint64 {
	if n.ID == ioam.NodeIDUnavailable {
		return uint64(n.IDWide)
	}
	return uint64(n.ID)
}

func interfacesOf(n nodenames.Node) []InterfaceNames {
	list := make([]InterfaceNames, len(n.Interfaces))
	for k, i := range n.Interfaces {
		list[k] = InterfaceNames{
			ID:     unless(i.ID, ioam.InterfaceIDUnavailable),
			IDWide: unless(i.IDWide, ioam.InterfaceIDWideUnavailable), Name: i.Name, Description: i.Description,
		}
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

// passed are the ids of the nodes that packets in the scope passed.
func (q *Queries) passed(ctx context.Context, in Range, answer *Answer) (map[uint64]bool, error) {
	ids := map[uint64]bool{}
	err := q.ask(ctx, in, answer, func(ctx context.Context, r *store.Reading) error {
		query := store.Union(r.Files, "SELECT DISTINCT unnest(node) FROM FILE(paths)")
		return rows(ctx, r.DB, query+" LIMIT $1", []any{mostNames}, func(scan func(...any) error) error {
			var id uint64
			err := scan(&id)
			ids[id] = id != store.NoNode
			return err
		})
	})
	return ids, err
}
