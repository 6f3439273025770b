// SPDX-License-Identifier: Apache-2.0

package query

import "strings"

// Passing selects packets by where they passed. Paths have it, of which there are few, so that it is quick.
type Passing struct {
	Segment  *ID     // from a node to the next one; nil: any
	From, To *uint64 // node_id of the first and of the last node that reported them; nil: any
}

// where is a condition on packets p of a file, to be added to others; "": all are selected.
func (g *Passing) where(p *parameters) string {
	on := ""
	if g.Segment != nil {
		on += " AND list_contains(segments, " + p.add(uint64(*g.Segment)) + "::UBIGINT)"
	}
	if g.From != nil {
		on += " AND node[1] = " + p.add(*g.From) + "::UBIGINT"
	}
	if g.To != nil {
		on += " AND node[-1] = " + p.add(*g.To) + "::UBIGINT"
	}
	if on == "" {
		return ""
	}
	return " AND p.path IN (SELECT number FROM FILE(paths) WHERE true" + on + ")"
}

// selected is the part of a query that selects the packets that are asked for.
func (ask *PathsQuestion) selected() (where string, p *parameters) {
	where, p = packetsOf(ask.Range, &ask.Flows)
	return where + ask.Passing.where(p), p
}

// selection is the same of questions that rollups answer, too: their rows have paths.
func (ask *PathsQuestion) selection() *selection {
	s := selected(ask.Range, &ask.Flows)
	passing := ask.Passing.where(s.parameters)
	if s.flows == "" {
		passing = strings.TrimPrefix(passing, " AND ")
	}
	s.flows += passing
	return s
}
