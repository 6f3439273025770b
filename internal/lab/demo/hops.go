// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/delay"
	"github.com/waymark-net/waymark/internal/record"
)

// hops sum up how long the nodes of paths held packets, and how long these took to the next node.
type hops struct {
	order []string
	of    map[string]*hop
}

type hop struct {
	packets    int
	held, next delay.Distribution
}

// add adds a path, whose nodes have their names.
func (h *hops) add(r *record.Trace) {
	if h.of == nil {
		h.of = map[string]*hop{}
	}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		name := n.Label()
		at := h.of[name]
		if at == nil {
			at = &hop{}
			h.of[name], h.order = at, append(h.order, name)
		}
		at.packets++
		if n.TransitDelay.Valid {
			at.held.Add(time.Duration(n.TransitDelay.Value))
		}
		if i+1 < len(r.Nodes) && n.Timestamp.Valid && r.Nodes[i+1].Timestamp.Valid {
			at.next.Add(r.Nodes[i+1].Timestamp.Value.Sub(n.Timestamp.Value))
		}
	}
}

// table is a line for each node.
func (h *hops) table(screen columns.Screen) string {
	t := columns.Table{Columns: []columns.Column{
		{Name: "NODE"}, {Name: "PACKETS", Rank: 3, AlignRight: true}, {Name: "HELD MEDIAN", Rank: 1, AlignRight: true},
		{Name: "HELD P95", AlignRight: true},
		{Name: "TO NEXT MEDIAN", Rank: 2, AlignRight: true}, {Name: "TO NEXT P95", AlignRight: true},
	}}
	for _, name := range h.order {
		at := h.of[name]
		row := []string{name, fmt.Sprint(at.packets)}
		for _, s := range []*delay.Summary{at.held.Summary(), at.next.Summary()} {
			if s == nil {
				row = append(row, "", "")
				continue
			}
			row = append(row, columns.Duration(time.Duration(s.Median)), columns.Duration(time.Duration(s.P95)))
		}
		t.Add(row...)
	}
	return t.String(screen)
}
