// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/record"
)

// page writes an answer for people: what it is about in a line, a table, and what it lacks.
type page struct {
	out    io.Writer
	screen columns.Screen
	nodes  bool // also a line for each node
}

// line writes a line, folded.
func (p *page) line(format string, values ...any) error {
	_, err := io.WriteString(p.screen.Writer(p.out), columns.Fold(fmt.Sprintf(format, values...)+"\n", p.screen.Width, "  "))
	return err
}

func table(list ...columns.Column) *columns.Table { return &columns.Table{Columns: list} }

// nameOf is a node by its name, or else by what is known of it.
func nameOf(n *node) string {
	if n == nil {
		return ""
	}
	switch {
	case n.Node != "":
		return record.Printable(n.Node)
	case n.Exporter != "":
		return record.Printable(n.Exporter)
	case n.ID != nil:
		return strconv.FormatUint(*n.ID, 10)
	}
	return "?"
}

func interfaceOf(i *iface) string {
	if i == nil {
		return ""
	}
	return cmp.Or(record.Printable(i.Name), strconv.FormatUint(uint64(i.Index), 10))
}

// way is a path by the names of its nodes.
func way[N any](nodes []N, of func(*N) *node) string {
	var list []string
	for i := range nodes {
		list = append(list, nameOf(of(&nodes[i])))
	}
	return strings.Join(list, " > ")
}

func duration(ns int64) string { return columns.Duration(time.Duration(ns)) }

// optional is a duration that may not be known.
func optional(ns *int64) string {
	if ns == nil {
		return ""
	}
	return duration(*ns)
}

// percentiles are three cells.
func percentiles(d *delays) []string {
	if d == nil {
		return []string{"", "", ""}
	}
	return []string{duration(d.P50), duration(d.P95), duration(d.P99)}
}

// worst orders by the 99th percentile, the greatest first; what is not known is last.
func worst(a, b *delays) int {
	of := func(d *delays) int64 {
		if d == nil {
			return math.MinInt64
		}
		return d.P99
	}
	return cmp.Compare(of(b), of(a))
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

// lost is how many packets were lost: nothing where that cannot be known. A zero is one that was measured.
func lost(n uint64, known bool) string {
	if known {
		return count(n)
	}
	return some(n)
}

// some is a number, and nothing for 0.
func some(n uint64) string {
	if n == 0 {
		return ""
	}
	return count(n)
}

// layout is how a table shows times of the clock: with the date if the answer, or one of them, is of several days.
func (a *answer) layout(clock string, times ...time.Time) string {
	day := func(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }
	for _, t := range append(times, a.Until) {
		if !t.IsZero() && !day(t).Equal(day(a.From)) {
			return "2006-01-02 " + clock
		}
	}
	return clock
}

// span is a time as text, without what both ends have in common.
func (a *answer) span() string {
	from, until := a.From.UTC(), a.Until.UTC()
	last := "15:04:05"
	if from.Truncate(24*time.Hour) != until.Truncate(24*time.Hour) {
		last = "2006-01-02 15:04:05"
	}
	return from.Format("2006-01-02 15:04:05") + " to " + until.Format(last) + " UTC"
}

var delayColumns = []columns.Column{
	{Name: "P50", AlignRight: true},
	{Name: "P95", AlignRight: true, Rank: 5},
	{Name: "P99", AlignRight: true},
}

// changes shows the latest first: when, who moved, how many, and the paths that most took.
func (p *page) changes(a *changes) error {
	if err := p.line("%s, %s", columns.Counted(len(a.Changes), "change"), a.span()); err != nil {
		return err
	}
	several := slices.ContainsFunc(a.Changes, func(c change) bool { return c.Namespace != a.Changes[0].Namespace })
	for i := range a.Changes {
		c := &a.Changes[i]
		in := ""
		if several {
			in = fmt.Sprintf(" of namespace %d", c.Namespace)
		}
		err := p.line(
			"%s  %s > %s: %s of the packets%s moved",
			c.Time.UTC().Format("2006-01-02 15:04:05"),
			cmp.Or(record.Printable(c.Source), "?"),
			cmp.Or(record.Printable(c.Destination), "?"),
			columns.Percent(c.Moved),
			in,
		)
		if err != nil {
			return err
		}
		t := &columns.Table{
			Indent:  "    ",
			Unnamed: true,
			Columns: []columns.Column{{Name: "", CutTo: 6}, {Name: "", AlignRight: true}, {Name: "", AlignRight: true}, {Name: "", CutTo: 20}},
		}
		for _, side := range []struct {
			word   string
			shares []share
		}{{"was", c.Was}, {"became", c.Became}} {
			for k := range side.shares {
				s := &side.shares[k]
				word := side.word
				if k > 0 {
					word = " "
				}
				t.Add(word, columns.Percent(s.Share), optional(s.Delay), way(s.Nodes, func(n *node) *node { return n }))
			}
		}
		if err := t.Flush(p.out, p.screen); err != nil {
			return err
		}
	}
	return nil
}

// segments keeps the order of the answer, the worst first.
func (p *page) segments(a *segments) error {
	if err := p.line("%s, %s", columns.Counted(len(a.Segments), "segment"), a.span()); err != nil {
		return err
	}
	t := table(
		columns.Column{Name: "FROM", CutTo: 10},
		columns.Column{Name: "OUT", Rank: 4, CutTo: 6},
		columns.Column{Name: "TO", CutTo: 10},
		columns.Column{Name: "PACKETS", AlignRight: true, Rank: 3},
		columns.Column{
			Name:       "LOST",
			AlignRight: true,
			Rank:       1,
		},
		columns.Column{Name: "LINK P50", AlignRight: true},
		columns.Column{Name: "P99", AlignRight: true},
		columns.Column{Name: "BEFORE", AlignRight: true, Rank: 1},
		columns.Column{
			Name:       "HELD P50",
			AlignRight: true,
			Rank:       2,
		},
		columns.Column{Name: "P99", AlignRight: true},
		columns.Column{Name: "BEFORE", AlignRight: true, Rank: 2},
		columns.Column{Name: "NEGATIVE", AlignRight: true, Rank: 5},
	)
	for i := range a.Segments {
		s := &a.Segments[i]
		link, held, before := percentiles(s.Link), percentiles(s.Held), [2]string{}
		if s.Baseline != nil {
			before = [2]string{percentiles(s.Baseline.Link)[2], percentiles(s.Baseline.Held)[2]}
		}
		t.Add(
			nameOf(&s.From),
			interfaceOf(s.Egress),
			nameOf(s.To),
			count(s.Packets),
			lost(s.Lost, s.LossKnown && s.To == nil),
			link[0],
			link[2],
			before[0],
			held[0],
			held[2],
			before[1],
			some(s.Negative),
		)
	}
	return t.Flush(p.out, p.screen)
}

// grid shows pairs with loss first, then the slowest.
func (p *page) grid(a *grid) error {
	slices.SortStableFunc(a.Pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(ratio(b.Lost, b.Packets), ratio(a.Lost, a.Packets)), worst(a.Delay, b.Delay))
	})
	if err := p.line("%s of nodes, %s", columns.Counted(len(a.Pairs), "pair"), a.span()); err != nil {
		return err
	}
	list := append(
		[]columns.Column{
			{Name: "FROM", CutTo: 10},
			{Name: "TO", CutTo: 10},
			{Name: "PACKETS", AlignRight: true},
			{Name: "LOST", AlignRight: true},
			{Name: "BEFORE", AlignRight: true, Rank: 2},
			{Name: "PATHS", AlignRight: true, Rank: 3},
		},
		delayColumns...)
	t := table(append(list, columns.Column{Name: "BEFORE", AlignRight: true, Rank: 1},
		columns.Column{Name: "NEGATIVE", AlignRight: true, Rank: 4})...)
	for i := range a.Pairs {
		one, before, p99 := &a.Pairs[i], "", ""
		if one.Before != nil {
			before, p99 = lost(one.Before.Lost, one.LossKnown), percentiles(one.Before.Delay)[2]
		}
		cells := append(
			[]string{nameOf(&one.From), nameOf(one.To), count(one.Packets), lost(one.Lost, one.LossKnown), before, count(one.Paths)},
			percentiles(one.Delay)...)
		t.Add(append(cells, p99, some(one.Negative))...)
	}
	return t.Flush(p.out, p.screen)
}

// percent is a share that may not be known.
func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return columns.Percent(*share)
}

func ratio(part, whole uint64) float64 { return float64(part) / float64(max(whole, 1)) }

// losses shows what lost the greatest share first. Blocks of which the loss is not known have a column of their own.
func (p *page) losses(a *losses) error {
	if err := p.line("%s of measured flows, %s", columns.Counted(len(a.Flows), "segment"), a.span()); err != nil {
		return err
	}
	t := table(
		columns.Column{Name: "FLOW", CutTo: 10},
		columns.Column{Name: "FROM", CutTo: 10},
		columns.Column{Name: "TO", CutTo: 10},
		columns.Column{Name: "SENT", AlignRight: true, Rank: 1},
		columns.Column{
			Name:       "LOST",
			AlignRight: true,
		},
		columns.Column{Name: "RATIO", AlignRight: true},
		columns.Column{Name: "BEFORE", AlignRight: true, Rank: 1},
		columns.Column{Name: "BLOCKS", AlignRight: true, Rank: 2},
		columns.Column{Name: "UNCERTAIN", AlignRight: true},
		columns.Column{Name: "SCOPE", Rank: 3},
	)
	for i := range a.Flows {
		f := &a.Flows[i]
		missing, before := "", ""
		if f.Blocks > f.Uncertain { // else nothing is known
			missing = count(f.Lost)
		}
		if f.Before != nil {
			before = percent(f.Before.Ratio)
		}
		t.Add(
			cmp.Or(record.Printable(f.Flow), strconv.FormatInt(f.FlowID, 10)),
			cmp.Or(record.Printable(f.FromNode), strconv.FormatInt(f.From, 10)),
			cmp.Or(record.Printable(f.ToNode), strconv.FormatInt(f.To, 10)),
			count(f.Sent),
			missing,
			percent(f.Ratio),
			before,
			count(f.Blocks),
			count(f.Uncertain),
			record.Printable(f.Scope),
		)
	}
	if err := t.Flush(p.out, p.screen); err != nil || len(a.Edges) == 0 {
		return err
	}
	if err := p.line("%s from edge to edge", columns.Counted(len(a.Edges), "flow")); err != nil {
		return err
	}
	t = table(
		columns.Column{Name: "SOURCE", CutTo: 12},
		columns.Column{Name: "DESTINATION", CutTo: 12},
		columns.Column{Name: "AT", CutTo: 8, Rank: 1},
		columns.Column{Name: "PACKETS", AlignRight: true},
		columns.Column{Name: "LOST", AlignRight: true},
		columns.Column{
			Name:       "UNKNOWN",
			AlignRight: true,
		},
		columns.Column{Name: "TWICE", AlignRight: true, Rank: 2},
		columns.Column{Name: "REORDERED", AlignRight: true, Rank: 3},
	)
	for i := range a.Edges {
		e := &a.Edges[i]
		missing := ""
		if e.Lost != nil {
			missing = strconv.FormatInt(*e.Lost, 10)
		}
		t.Add(
			record.Printable(e.Source),
			record.Printable(e.Destination),
			record.Printable(e.Node),
			strconv.FormatInt(e.Packets, 10),
			missing,
			strconv.FormatInt(e.Unknown, 10),
			strconv.FormatInt(e.Duplicates, 10),
			strconv.FormatInt(e.Reordered, 10),
		)
	}
	return t.Flush(p.out, p.screen)
}
