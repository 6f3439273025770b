// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// lossColumns are the columns of the table, and how wide they are at least where rows come
// one by one.
var lossColumns = [...]struct {
	name    string
	reserve int
}{
	{"flow", 8}, {"block", 11}, {"start", 13}, {"from", 8}, {"to", 8}, {"verdict", 9}, {"sent", 8}, {"received", 8}, {"lost", 8}, {"ratio", 9}, {"duplicated", 10}, {"delay", 11},
	{"clocks", 8}, {"reasons", 14}, {"warning", 0},
}

// lossTable aligns rows with those before them. The names of columns come first, and again
// when a column has become wider.
type lossTable struct {
	widths [len(lossColumns)]int
	begun  bool
	rows   [][]string // not written yet
}

// reserve makes columns as wide as most values need, so that they seldom grow.
func (t *lossTable) reserve() {
	for i, c := range lossColumns {
		t.widths[i] = c.reserve
	}
}

// add adds a row; a value that is not known is empty.
func (t *lossTable) add(row []string) {
	for i, text := range row {
		if text == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// flush writes the rows that were added.
func (t *lossTable) flush(out io.Writer) error {
	if len(t.rows) == 0 {
		return nil
	}
	grown := !t.begun
	var names []string
	for i, c := range lossColumns {
		names = append(names, strings.ToUpper(c.name))
		t.widths[i] = max(t.widths[i], len(c.name))
		for _, row := range t.rows {
			if n := utf8.RuneCountInString(row[i]); n > t.widths[i] {
				t.widths[i] = n
				grown = grown || i < len(lossColumns)-1 // nothing follows the last one
			}
		}
	}
	var b strings.Builder
	if grown {
		t.write(&b, names)
	}
	for _, row := range t.rows {
		t.write(&b, row)
	}
	t.begun, t.rows = true, nil
	_, err := io.WriteString(out, b.String())
	return err
}

func (t *lossTable) write(b *strings.Builder, row []string) {
	last := len(row) - 1
	for i, text := range row[:last] {
		b.WriteString(text)
		b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(text)+2))
	}
	b.WriteString(row[last])
	b.WriteByte('\n')
}
