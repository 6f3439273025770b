// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

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
		n.new = append(n.new, fmt.Sprintf("other_selection of flow %s at %s: %s\n", record.Printable(at.flow), record.Printable(at.node), record.Printable(end.difference)))
	}
}

func (n *lossNotes) flush(out io.Writer) error {
	_, err := io.WriteString(out, strings.Join(n.new, ""))
	n.new = nil
	return err
}
