// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// column is one property of a point.
type column struct {
	title string
	value func(Point) string
}

// columns are what a result has to show.
func (r Result) columns() []column {
	percent := func(ratio float64) string { return fmt.Sprintf("%+.1f%%", 100*(ratio-1)) }
	cost := len(r.Points) > 0 && r.Points[0].NS != nil
	list := []column{
		{"variant", func(p Point) string { return p.Variant }},
		{"bytes", func(p Point) string { return fmt.Sprintf("%.0f", p.X) }},
	}
	if cost {
		return append(list,
			column{"ns more", func(p Point) string { return fmt.Sprintf("%.1f", *p.NS) }},
			column{"spread", func(p Point) string { return spreadText(p, "%.1f", 1) }},
			column{"aim", func(p Point) string { return aim(p, fmt.Sprintf("≤ %.0f", p.Aim)) }},
			column{"plain, ns", func(p Point) string { return fmt.Sprintf("%.1f", p.Reference) }},
			column{"ratio", func(p Point) string { return fmt.Sprintf("%.2f", p.Ratio) }},
			column{"restoring, ns", func(p Point) string {
				if p.Restore == 0 {
					return "–"
				}
				return fmt.Sprintf("%.1f", p.Restore)
			}},
			column{"verified instructions", func(p Point) string { return fmt.Sprint(p.Instructions) }},
		)
	}
	return append(list,
		column{"Mpps", func(p Point) string { return fmt.Sprintf("%.3f", *p.PPS/1e6) }},
		column{"against the same packets untreated", func(p Point) string { return percent(p.Ratio) }},
		column{"spread", func(p Point) string { return spreadText(p, "%.1f%%", 100) }},
		column{"aim", func(p Point) string { return aim(p, fmt.Sprintf("≥ %.0f%%", 100*(p.Aim-1))) }},
		column{"against plain packets", func(p Point) string { return percent(p.PlainRatio) }},
	)
}

func spreadText(p Point, format string, scale float64) string {
	if p.Spread == nil {
		return "–"
	}
	return fmt.Sprintf(format, scale*(*p.Spread))
}

func aim(p Point, text string) string {
	switch {
	case p.Aim == 0:
		return "–"
	case !p.Met():
		return text + ", missed"
	}
	return text + ", met"
}

// WriteText prints a result for people at a terminal.
func (r Result) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s, %s\nbaseline: %s\n", r.Name, r.Machine, r.Kernel, r.Baseline)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	columns := r.columns()
	row := func(cell func(column) string) {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = cell(c)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	row(func(c column) string { return strings.ToUpper(c.title) })
	for _, p := range r.Points {
		row(func(c column) string { return c.value(p) })
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, note)
	}
	_, err := fmt.Fprintln(w)
	return err
}
