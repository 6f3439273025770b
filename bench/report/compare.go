// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/waymark-net/waymark/internal/instant"
)

// BeforeAfter compares what two programs measured in turns on one machine, with the same
// benchmark. Fields may be added, never changed.
type BeforeAfter struct {
	BeforeAfter string       `json:"before_after"` // the benchmark's name
	Title       string       `json:"title,omitempty"`
	Machine     string       `json:"machine"`
	Kernel      string       `json:"kernel"`
	Time        instant.Time `json:"time"`
	Rounds      int          `json:"rounds"` // how often each program ran
	X           string       `json:"x"`

	// Before and After are the versions of the programs.
	Before map[string]string `json:"before"`
	After  map[string]string `json:"after"`
	Points []Changed         `json:"points"`
	// OnlyBefore and OnlyAfter are variants that one of the programs does not measure.
	OnlyBefore []string `json:"only_before,omitempty"`
	OnlyAfter  []string `json:"only_after,omitempty"`
}

// Changed is a variant at an x that both programs measured. Figures are medians over the
// rounds.
type Changed struct {
	Variant    string     `json:"variant"`
	Dimensions Dimensions `json:"dimensions"`
	X          float64    `json:"x"`
	Figure     Figure     `json:"figure"`
	Before     float64    `json:"before"`
	After      float64    `json:"after"`
	// Change is the median of After divided by Before in each round where both are more
	// than 0, and Spread the distance between the quartiles of that.
	Change float64  `json:"change"`
	Spread *float64 `json:"spread,omitempty"`
}

// Figure says what is compared.
type Figure string

// The figures.
const (
	OfBaseline Figure = "times_baseline" // the rate, divided by the baseline's in the same turn
	InNS       Figure = "ns"
	InBytes    Figure = "bytes"
)

// renamed are words of dimensions that older programs used.
var renamed = map[string]string{"nobody wants records": "no reader of records"}

// place is a variant at an x.
type place struct {
	is Dimensions
	x  float64
}

// places are the points of a result by what they are, by its present name.
func (r Result) places() map[place]Point {
	list := make(map[place]Point)
	for _, p := range r.Points {
		d := p.Dimensions
		d.Treatment, d.Format = cmp.Or(renamed[d.Treatment], d.Treatment), cmp.Or(renamed[d.Format], d.Format)
		list[place{d, p.X}] = p
	}
	return list
}

// value is a point's figure.
func (p Point) value(f Figure) float64 {
	switch f {
	case OfBaseline:
		return p.Ratio
	case InBytes:
		return *p.Bytes
	}
	return *p.NS
}

// figureOf is what can be compared of a point that both results have.
func figureOf(was, is Point) Figure {
	switch {
	case is.NS != nil && was.NS != nil:
		return InNS
	case is.Bytes != nil && was.Bytes != nil:
		return InBytes
	case is.PPS == nil || was.PPS == nil:
		return ""
	}
	return OfBaseline
}

// Compare compares results of two programs, in the order in which they took turns.
func Compare(before, after []Result, median func([]float64) float64, spread func([]float64, int) *float64) (BeforeAfter, error) {
	if len(before) != len(after) || len(before) == 0 {
		return BeforeAfter{}, fmt.Errorf("compare %d results with %d: each program has to run as often as the other", len(before), len(after))
	}
	last := after[len(after)-1]
	c := BeforeAfter{
		BeforeAfter: last.Name, Title: last.Title, Machine: last.Machine, Kernel: last.Kernel, Time: after[0].Time, Rounds: len(after),
		X:      last.xName(),
		Before: before[0].Versions, After: last.Versions,
	}
	old := before[0].places()
	for _, p := range last.Points {
		at := place{p.Dimensions, p.X}
		was, ok := old[at]
		if !ok {
			c.OnlyAfter = append(c.OnlyAfter, fmt.Sprintf("%s (%v %s)", p.Variant, p.X, c.X))
			continue
		}
		delete(old, at)
		f := figureOf(was, p)
		if f == "" || p.isBaseline() && was.isBaseline() && f == OfBaseline {
			continue
		}
		changed := Changed{Variant: p.Variant, Dimensions: p.Dimensions, X: p.X, Figure: f}
		var b, a, change []float64
		for i := range before {
			one, found := before[i].places()[at]
			other, foundToo := after[i].places()[at]
			if !found || !foundToo {
				return BeforeAfter{}, fmt.Errorf("%s at %v: not measured in round %d", p.Variant, p.X, i+1)
			}
			b, a = append(b, one.value(f)), append(a, other.value(f))
			if b[i] > 0 && a[i] > 0 { // differences of times may be 0, or less
				change = append(change, a[i]/b[i])
			}
		}
		if len(change) == 0 {
			continue
		}
		changed.Before, changed.After = Round(median(b), 4), Round(median(a), 4)
		changed.Change, changed.Spread = Round(median(change), 4), spread(change, 4)
		c.Points = append(c.Points, changed)
	}
	for _, at := range slices.SortedFunc(maps.Keys(old), func(a, b place) int {
		return cmp.Or(strings.Compare(a.is.String(), b.is.String()), cmp.Compare(a.x, b.x))
	}) {
		c.OnlyBefore = append(c.OnlyBefore, fmt.Sprintf("%s (%v %s)", at.is, at.x, c.X))
	}
	return c, nil
}

// cells are a row of the table.
func (c Changed) cells(x string) []string {
	value := func(v float64) string {
		switch c.Figure {
		case InNS:
			return fmt.Sprintf("%.1f ns", v)
		case InBytes:
			return memoryText(v)
		}
		return fmt.Sprintf("%.2f of baseline", v)
	}
	noise := none
	if c.Spread != nil {
		noise = fmt.Sprintf("%.1f%%", 100**c.Spread)
	}
	return []string{c.Variant, fmt.Sprintf("%v %s", c.X, x), value(c.Before), value(c.After), percent(c.Change), noise}
}

// shortCommit is the commit of a program, as git abbreviates it.
func shortCommit(versions map[string]string) string {
	commit := cmp.Or(versions["commit"], versions["waymark"])
	return commit[:min(len(commit), 12)]
}

var beforeAfterTitles = []string{"variant", "x", "before", "after", "change", "spread"}

// WriteText prints a comparison for a terminal.
func (c BeforeAfter) WriteText(w io.Writer) error {
	fmt.Fprintf(
		w,
		"%s on %s, %s: commit %s, then %s, %d rounds\n",
		c.BeforeAfter,
		c.Machine,
		c.Kernel,
		shortCommit(c.Before),
		shortCommit(c.After),
		c.Rounds,
	)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(beforeAfterTitles, "\t")))
	for _, p := range c.Points {
		fmt.Fprintln(table, strings.Join(p.cells(c.X), "\t"))
	}
	return table.Flush()
}
