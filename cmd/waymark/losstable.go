// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/waymark-net/waymark/internal/columns"
)

// lossColumns are the columns of the table of blocks.
var lossColumns = []columns.Column{
	{Name: "flow", Least: 6}, {Name: "block", Rank: 5, Least: 11}, {Name: "start", Rank: 3, Least: 13}, {Name: "from", Least: 8}, {Name: "to", Least: 8},
	{Name: "verdict", Least: 9}, {Name: "sent", Rank: 4, Least: 8}, {Name: "received", Rank: 6, Least: 8}, {Name: "lost", Least: 6}, {Name: "ratio", Least: 6},
	{Name: "duplicated", Rank: 7, Least: 10}, {Name: "delay", Least: 9}, {Name: "clocks", Rank: 6, Least: 8}, {Name: "reasons", Rank: 1, Least: 14}, {Name: "warning", Enough: 14},
}

// newLossTable is a table of blocks. With reserve, its columns are as wide as most values need,
// because rows come one by one.
func newLossTable(reserve bool) columns.Table {
	t := columns.Table{}
	for _, c := range lossColumns {
		if c.Name = strings.ToUpper(c.Name); !reserve {
			c.Least = 0
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}
