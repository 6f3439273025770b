// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// column is one property of a point.
type column struct {
	title string
	value func(Point) string
}

const none = "–"

// columns are those that a result needs.
func (r Result) columns() []column {
	list := []column{
		{"variant", func(p Point) string { return p.Variant }},
		{r.xName(), func(p Point) string { return strconv.FormatFloat(p.X, 'g', -1, 64) }},
	}
	aims := r.any(func(p Point) bool { return p.Aim != 0 })
	switch {
	case r.any(func(p Point) bool { return p.PPS != nil }) && !r.any(func(p Point) bool { return p.Bytes != nil }):
		list = append(list,
			column{"Mpps", func(p Point) string { return fmt.Sprintf("%.3f", *p.PPS/1e6) }},
			column{"against the baseline", func(p Point) string { return percent(p.Ratio) }},
			column{"spread", func(p Point) string { return spreadText(p, "%.1f%%", 100) }},
		)
		if aims {
			list = append(list, column{"aim", func(p Point) string {
				return aimText(p.Aim, r.verdictOnAim(p), "≥ "+lossText(p.Aim))
			}})
		}
		if r.any(func(p Point) bool { return p.PlainRatio != 0 && p.PlainRatio != p.Ratio }) {
			list = append(list, column{"against plain packets", plainRatio})
		}
		if r.any(func(p Point) bool { return p.PlainAim != 0 }) {
			list = append(list, column{"aim", func(p Point) string {
				verdict := missed
				if p.metPlain() {
					verdict = met
				}
				return aimText(p.PlainAim, verdict, "≥ "+ratioText(p.PlainAim))
			}})
		}
		list = append(list, r.moreOfRates()...)
	case r.any(func(p Point) bool { return p.Bytes != nil }):
		list = append(list,
			column{"figure", Point.figure},
			column{"spread", Point.spreadFigure},
		)
		if aims {
			list = append(list, column{"aim", func(p Point) string { return aimText(p.Aim, r.verdict(p), p.aimSign()+p.aimFigure()) }})
		}
		list = append(list,
			column{"of the baseline", func(p Point) string { return fmt.Sprintf("%.2f", p.Ratio) }},
		)
	default:
		title := "ns more"
		if r.any(func(p Point) bool { _, u := r.figure(p); return u != addedUnit }) {
			title = "ns"
		}
		list = append(list,
			column{title, func(p Point) string {
				if p.isBaseline() && title != "ns" {
					return none
				}
				return fmt.Sprintf("%.1f", *p.NS)
			}},
			column{"spread", func(p Point) string { return spreadText(p, "%.1f", 1) }},
		)
		if aims {
			list = append(list, column{"aim", func(p Point) string { return aimText(p.Aim, r.verdict(p), fmt.Sprintf("≤ %.0f", p.Aim)) }})
		}
		list = append(list,
			column{"baseline, ns", func(p Point) string { return fmt.Sprintf("%.1f", p.Reference) }},
			column{"ratio", func(p Point) string { return fmt.Sprintf("%.2f", p.Ratio) }},
		)
	}
	if r.any(func(p Point) bool { return p.Instructions != 0 }) {
		list = append(list,
			column{"restoring, ns", func(p Point) string {
				if p.Restore == 0 {
					return none
				}
				return fmt.Sprintf("%.1f", p.Restore)
			}},
			column{"verified instructions", func(p Point) string { return fmt.Sprint(p.Instructions) }},
		)
	}
	return list
}

// moreOfRates are columns that not all tables of rates have.
func (r Result) moreOfRates() (list []column) {
	if r.any(func(p Point) bool { return p.BareRatio != 0 }) {
		list = append(list, column{"of the bare prototype", bareRatio})
	}
	if r.any(func(p Point) bool { return p.Setups != nil }) {
		list = append(list, column{"set-ups", Point.setupsText})
	}
	if r.any(func(p Point) bool { return p.Exports != nil }) {
		list = append(list, column{"postcards lost", postcardsLost})
	}
	return list
}

// xName is a short name of x.
func (r Result) xName() string {
	if r.X == "" {
		return "bytes"
	}
	return r.X
}

func (r Result) any(is func(Point) bool) bool { return slices.ContainsFunc(r.Points, is) }

func percent(ratio float64) string { return fmt.Sprintf("%+.1f%%", 100*(ratio-1)) }

// figure is memory, a rate or a time in a readable unit.
func (p Point) figure() string {
	switch {
	case p.Bytes != nil:
		return memoryText(*p.Bytes)
	case p.PPS != nil:
		return fmt.Sprintf("%.0f a second", *p.PPS)
	}
	return timeText(*p.NS)
}

func timeText(ns float64) string {
	if ns < 1e5 {
		return fmt.Sprintf("%.0f ns", ns)
	}
	return fmt.Sprintf("%.1f ms", ns/1e6)
}

func (p Point) spreadFigure() string {
	switch {
	case p.Spread == nil:
		return none
	case p.Bytes != nil:
		return memoryText(*p.Spread)
	}
	if *p.NS < 1e5 {
		return timeText(*p.Spread)
	}
	return fmt.Sprintf("%.1f ms", *p.Spread/1e6)
}

func (p Point) aimFigure() string {
	switch {
	case p.Bytes != nil:
		return memoryText(p.Aim)
	case p.PPS != nil:
		return fmt.Sprintf("%.0f%%", 100*p.Aim)
	}
	return timeText(p.Aim)
}

// aimSign says whether the aim is the most or, for a rate, the least.
func (p Point) aimSign() string {
	if p.Bytes == nil && p.PPS != nil {
		return "≥ "
	}
	return "≤ "
}

func memoryText(bytes float64) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%.2f MiB", bytes/(1<<20))
	case bytes >= 10<<10:
		return fmt.Sprintf("%.1f KiB", bytes/(1<<10))
	}
	return fmt.Sprintf("%.0f bytes", bytes)
}

func spreadText(p Point, format string, scale float64) string {
	if p.Spread == nil {
		return none
	}
	return fmt.Sprintf(format, scale*(*p.Spread))
}

func aimText(aim float64, v verdict, text string) string {
	if aim == 0 {
		return none
	}
	return text + ", " + string(v)
}

func lossText(aim float64) string {
	return strconv.FormatFloat(Round(100*(aim-1), 1), 'f', -1, 64) + "%"
}

// ratioText is an aim for the comparison with plain packets: a loss, or a multiple.
func ratioText(aim float64) string {
	if aim < 1 {
		return lossText(aim)
	}
	return fmt.Sprintf("%v times", aim)
}

func plainRatio(p Point) string {
	switch {
	case p.PlainRatio == 0:
		return none
	case p.PlainAim >= 1:
		return fmt.Sprintf("%.2f times", p.PlainRatio)
	}
	return percent(p.PlainRatio)
}

// bareRatio is the comparison with a bare prototype, with its aim.
func bareRatio(p Point) string {
	switch {
	case p.BareRatio == 0:
		return none
	case p.BareAim == 0:
		return fmt.Sprintf("%.2f", p.BareRatio)
	case p.metBare():
		return fmt.Sprintf("%.2f (≥ %v, %s)", p.BareRatio, p.BareAim, met)
	}
	return fmt.Sprintf("%.2f (≥ %v, %s)", p.BareRatio, p.BareAim, missed)
}

// setupsText is the least and the greatest median of a set-up.
func (p Point) setupsText() string {
	if p.Setups == nil {
		return none
	}
	return fmt.Sprintf("%.2f to %.2f", p.Setups.Least, p.Setups.Most)
}

func postcardsLost(p Point) string {
	if p.Exports == nil || p.Exports.Written+p.Exports.Lost == 0 {
		return none
	}
	return fmt.Sprintf("%.2f%%", 100*p.Exports.loss())
}

// WriteText prints a result for a terminal.
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
	for _, remark := range r.Notes {
		fmt.Fprintln(w, remark)
	}
	_, err := fmt.Fprintln(w)
	return err
}
