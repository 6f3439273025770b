// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// lossColumns are the columns of the table of blocks.
var lossColumns = []columns.Column{
	{Name: "flow", MinWidth: 5}, {Name: "block", Rank: 7, MinWidth: 11}, {Name: "start", MinWidth: 9}, {Name: "from", MinWidth: 7}, {Name: "to", MinWidth: 7},
	{Name: "verdict", MinWidth: 9}, {Name: "sent", Rank: 4, MinWidth: 8}, {Name: "received", Rank: 8, MinWidth: 8}, {Name: "lost", MinWidth: 4}, {Name: "ratio", Rank: 3, MinWidth: 5},
	{Name: "duplicated", Rank: 9, MinWidth: 10}, {Name: "delay", Rank: 2, MinWidth: 9}, {Name: "clocks", Rank: 8, MinWidth: 8}, {Name: "reasons", Rank: 1, MinWidth: 12, CutTo: 12}, {Name: "warning", Rank: 5, CutTo: 14},
}

// newLossTable is a table of blocks. With reserve, its columns are as wide as most values need,
// because rows come one by one.
func newLossTable(reserve bool) columns.Table {
	t := columns.Table{}
	for _, c := range lossColumns {
		if c.Name = strings.ToUpper(c.Name); !reserve {
			c.MinWidth = 0
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}

// lossNotes are lines below the table: how the packets that nodes select differ. Each comes once,
// until it changes.
type lossNotes struct {
	said map[lossEnd]string
	new  []string
}

// lossEnd is a node of a flow.
type lossEnd struct{ flow, node string }

func (n *lossNotes) add(r *record.Loss) {
	for _, end := range []struct {
		point            loss.PointID
		node, difference string
	}{{r.From, r.FromNode, r.FromDifference}, {r.To, r.ToNode, r.ToDifference}} {
		at := lossEnd{r.Flow, cmp.Or(end.node, strconv.Itoa(int(end.point)))}
		if n.said[at] == end.difference {
			continue
		}
		if n.said == nil {
			n.said = make(map[lossEnd]string)
		}
		n.said[at] = end.difference
		if end.difference == "" {
			delete(n.said, at)
			continue
		}
		n.new = append(
			n.new,
			fmt.Sprintf(
				"other_selection of flow %s at %s: %s\n",
				record.Printable(at.flow),
				record.Printable(at.node),
				record.Printable(end.difference),
			),
		)
	}
}

func (n *lossNotes) flush(out io.Writer) error {
	_, err := io.WriteString(out, strings.Join(n.new, ""))
	n.new = nil
	return err
}
