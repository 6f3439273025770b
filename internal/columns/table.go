// SPDX-License-Identifier: Apache-2.0

package columns

import (
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column is a column of a table.
type Column struct {
	Name       string
	Rank       int  // where there is no room, columns of the greatest rank go first; 0: it stays
	AlignRight bool // aligned at the right, as numbers are
	MinWidth   int  // how wide it is at least, so that rows that come one by one seldom make it wider
	CutTo      int  // it is rather cut to this width than that another column goes; 0: it is not
}

// Table is a table that is written at once, or row by row as they come: then it has the names
// of columns again when other columns are shown or one has become wider.
type Table struct {
	Columns []Column
	Indent  string
	Unnamed bool // without the names of columns

	rows   [][]string // not written yet
	widths []int      // of what was written
	shown  []int      // columns
	begun  bool
}

// gap is the room between two columns.
const gap = 2

// none is a cell without a value.
const none = "-"

// Add adds a row. A cell that is missing or empty has no value.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(t.Columns))
	for i := range row {
		if i < len(cells) {
			row[i] = cells[i]
		}
		if row[i] == "" {
			row[i] = none
		}
	}
	t.rows = append(t.rows, row)
}

// Flush writes the rows that were added, none of them wider than the screen.
func (t *Table) Flush(w io.Writer, s Screen) error {
	if len(t.rows) == 0 {
		return nil
	}
	_, err := s.Writer(w).Write([]byte(t.text(s)))
	return err
}

// text is what is written now.
func (t *Table) text(s Screen) string {
	widths := t.measure()
	shown := t.choose(widths, s.Width)
	widths = t.squeeze(widths, shown, s.Width)
	head := !t.begun || !slices.Equal(shown, t.shown)
	for i, column := range shown {
		if t.begun && widths[column] > t.widths[column] && i < len(shown)-1 { // nothing follows the last one
			head = true
		}
	}
	var b strings.Builder
	if head && !t.Unnamed {
		names := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			names[i] = c.Name
		}
		t.line(&b, names, shown, widths)
	}
	for _, row := range t.rows {
		t.line(&b, row, shown, widths)
	}
	t.begun, t.rows, t.shown, t.widths = true, nil, shown, widths
	return b.String()
}

// measure is how wide each column would be.
func (t *Table) measure() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = c.MinWidth
		if !t.Unnamed {
			widths[i] = max(widths[i], Width(c.Name))
		}
		if t.begun {
			widths[i] = max(widths[i], t.widths[i])
		}
		for _, row := range t.rows {
			widths[i] = max(widths[i], Width(row[i]))
		}
	}
	return widths
}

// choose are the columns for which there is room. Those without any value go first, except
// where rows come one by one.
func (t *Table) choose(widths []int, room int) []int {
	var shown []int
	for i := range t.Columns {
		shown = append(shown, i)
	}
	if room <= 0 {
		return shown
	}
	widths = t.enough(widths)
	shown = slices.DeleteFunc(shown, func(i int) bool {
		c := t.Columns[i]
		return c.Rank > 0 && c.MinWidth == 0 && !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != none })
	})
	var gone []int // the greatest rank first
	for t.total(widths, shown) > room {
		last := -1
		for at, i := range shown {
			if rank := t.Columns[i].Rank; rank > 0 && (last < 0 || rank >= t.Columns[shown[last]].Rank) {
				last = at
			}
		}
		if last < 0 {
			break
		}
		gone = append(gone, shown[last])
		shown = slices.Delete(shown, last, last+1)
	}
	for _, i := range slices.Backward(gone) { // a wide column that went leaves room for narrow ones
		at, _ := slices.BinarySearch(shown, i)
		if with := slices.Insert(slices.Clone(shown), at, i); t.total(widths, with) <= room {
			shown = with
		}
	}
	return shown
}

func (t *Table) total(widths, shown []int) int {
	sum := Width(t.Indent) + gap*(len(shown)-1)
	for _, i := range shown {
		sum += widths[i]
	}
	return sum
}

// enough are the widths that columns need at least.
func (t *Table) enough(widths []int) []int {
	list := slices.Clone(widths)
	for i, c := range t.Columns {
		if c.CutTo > 0 {
			list[i] = min(list[i], max(c.CutTo, c.MinWidth, Width(c.Name)))
		}
	}
	return list
}

// narrowest is how narrow a column may be made.
const narrowest = 4

// squeeze makes the widest columns narrower until all fit.
func (t *Table) squeeze(widths, shown []int, room int) []int {
	widths = slices.Clone(widths)
	for room > 0 && t.total(widths, shown) > room {
		widest := shown[0]
		for _, i := range shown {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= narrowest {
			break
		}
		widths[widest]--
	}
	return widths
}

func (t *Table) line(b *strings.Builder, row []string, shown, widths []int) {
	var line strings.Builder
	line.WriteString(t.Indent)
	for at, i := range shown {
		cell := ansi.Truncate(row[i], widths[i], "…")
		pad := strings.Repeat(" ", widths[i]-Width(cell))
		switch last := at == len(shown)-1; {
		case t.Columns[i].AlignRight:
			line.WriteString(pad + cell)
		case last:
			line.WriteString(cell)
		default:
			line.WriteString(cell + pad)
		}
		if at < len(shown)-1 {
			line.WriteString(strings.Repeat(" ", gap))
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// String is the table as a text for a screen. It is not written again.
func (t *Table) String(s Screen) string {
	if len(t.rows) == 0 {
		return ""
	}
	return t.text(s)
}
