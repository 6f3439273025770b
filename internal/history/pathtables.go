// SPDX-License-Identifier: Apache-2.0

package history

import (
	"io"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/columns"
)

// whole is what the answer lacks, also about the other time.
func (a *paths) whole() *answer {
	all := a.answer
	if a.Before != nil {
		all.Gaps = slices.Concat(all.Gaps, a.Before.Gaps)
		if all.Cut == nil {
			all.Cut = a.Before.Cut
		}
	}
	return &all
}

// compared is a path in the time that was asked about, and in the other one.
type compared struct{ now, before *path }

// any is the path in the time in which packets took it.
func (c *compared) any() *path {
	if c.now != nil {
		return c.now
	}
	return c.before
}

// compared are the paths of both times, those of the time that was asked about first.
func (a *paths) compared() (list []compared) {
	place := map[string]int{}
	for i := range a.Paths {
		place[a.Paths[i].ID] = i
		list = append(list, compared{now: &a.Paths[i]})
	}
	if a.Before == nil {
		return list
	}
	for i := range a.Before.Paths {
		one := &a.Before.Paths[i]
		if at, ok := place[one.ID]; ok {
			list[at].before = one
			continue
		}
		list = append(list, compared{before: one})
	}
	return list
}

// pathRows writes a table, and below each row its path, which would seldom fit into a column; below writes more.
func (p *page) pathRows(t *columns.Table, path func(row int) string, below func(row int) error) error {
	row := -1 // the names of columns
	for line := range strings.Lines(t.String(p.screen)) {
		if _, err := io.WriteString(p.screen.Writer(p.out), line); err != nil {
			return err
		}
		if row >= 0 {
			if text := path(row); text != "" {
				if err := p.line("  %s", text); err != nil {
					return err
				}
			}
			if err := below(row); err != nil {
				return err
			}
		}
		row++
	}
	return nil
}

// paths shows the slowest first, and marks of each the slowest node and segment.
func (p *page) paths(a *paths) error {
	slices.SortStableFunc(a.Paths, func(a, b path) int { return worst(a.Delay, b.Delay) })
	if err := p.line("%s on %s, %s", columns.Counted(a.Packets, "packet"), columns.Counted(len(a.Paths), "path"), a.span()); err != nil {
		return err
	}
	if a.Instead != nil {
		if err := p.instead(a.Instead); err != nil || a.Before == nil {
			return err
		}
	}
	if a.Packets == 0 && a.Before == nil {
		return p.line("no packet with its path came in this time; 'waymark-collector status' says what came from which exporter")
	}
	if b := a.Before; b != nil {
		err := p.line("before: %s on %s, %s", columns.Counted(b.Packets, "packet"), columns.Counted(len(b.Paths), "path"), b.span())
		if err != nil {
			return err
		}
	}
	t := table(
		columns.Column{Name: "PACKETS", AlignRight: true, Rank: 3},
		columns.Column{Name: "SHARE", AlignRight: true},
		columns.Column{Name: "BEFORE", AlignRight: true, Rank: 1},
		delayColumns[0], delayColumns[1], delayColumns[2],
		columns.Column{Name: "BEFORE", AlignRight: true, Rank: 1},
		columns.Column{Name: "LOST", AlignRight: true, Rank: 1},
		columns.Column{Name: "CUT", AlignRight: true, Rank: 2},
		columns.Column{Name: "SLOWEST", CutTo: 12},
	)
	list := a.compared()
	for i := range list {
		t.Add(list[i].cells()...)
	}
	path := func(row int) string { return way(list[row].any().Hops, func(h *hop) *node { return &h.node }) }
	return p.pathRows(t, path, func(row int) error {
		if !p.nodes {
			return nil
		}
		return p.hops(list[row].any().Hops)
	})
}

// cells are those of a path. Of one that is only in the other time, nothing else is known: the answer may be cut.
func (c *compared) cells() []string {
	share, p99 := "", ""
	if c.before != nil {
		share, p99 = columns.Percent(c.before.Share), percentiles(c.before.Delay)[2]
	}
	if c.now == nil {
		return []string{"", "", share, "", "", "", p99}
	}
	d := percentiles(c.now.Delay)
	return []string{
		count(c.now.Packets), columns.Percent(c.now.Share), share, d[0], d[1], d[2], p99, lost(c.now.Lost, c.now.LossKnown), some(c.now.Incomplete),
		slowest(c.now.Hops),
	}
}

// slowest is where most of a path's time goes, by the median.
func slowest(hops []hop) string {
	most, text := int64(0), ""
	for i := range hops {
		if h := hops[i].Held; h != nil && h.P50 > most {
			most, text = h.P50, nameOf(&hops[i].node)+" "+duration(h.P50)
		}
		// The time since the node before has what this one held.
		if s := hops[i].Since; i > 0 && s != nil {
			link := s.P50
			if hops[i].Held != nil {
				link -= hops[i].Held.P50
			}
			if link > most {
				most, text = link, nameOf(&hops[i-1].node)+">"+nameOf(&hops[i].node)+" "+duration(link)
			}
		}
	}
	return text
}

func (p *page) hops(hops []hop) error {
	t := &columns.Table{Indent: "    ", Columns: []columns.Column{{Name: "NODE", CutTo: 12}, {Name: "IN", Rank: 3}, {Name: "OUT", Rank: 2},
		{Name: "HELD P50", AlignRight: true}, {Name: "P99", AlignRight: true},
		{Name: "SINCE P50", AlignRight: true}, {Name: "P99", AlignRight: true}, {Name: "NEGATIVE", AlignRight: true, Rank: 4}}}
	for i := range hops {
		h := &hops[i]
		held, since := percentiles(h.Held), percentiles(h.Since)
		t.Add(nameOf(&h.node), interfaceOf(h.Ingress), interfaceOf(h.Egress), held[0], held[2], since[0], since[2], some(h.Negative))
	}
	return t.Flush(p.out, p.screen)
}
