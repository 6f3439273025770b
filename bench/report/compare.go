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
	OfKernel   Figure = "times_kernel"   // the rate, divided by that of the kernel's plain packets in the same run
	OfBaseline Figure = "times_baseline" // the rate, divided by the baseline's in the same run
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

// plainFormats are what experiments call plain packets that the kernel forwards.
var plainFormats = []string{"plain packets", "no IOAM", ""}

// plainKernel is the kernel's rate for plain packets on the links of a point; 0: it was
// not measured.
func (r Result) plainKernel(p Point) (pps float64) {
	for _, other := range r.Points {
		a, b := other.Dimensions, p.Dimensions
		if a.By == ByKernel && slices.Contains(plainFormats, a.Format) && other.PPS != nil && other.X == p.X &&
			a.Sink == b.Sink && a.Queues == b.Queues && a.Flows == b.Flows && a.Size == b.Size && a.Comparison == b.Comparison {
			pps = max(pps, *other.PPS)
		}
	}
	return pps
}

// value is a point's figure.
func (r Result) value(p Point, f Figure) float64 {
	switch f {
	case OfKernel:
		if kernel := r.plainKernel(p); kernel > 0 {
			return *p.PPS / kernel
		}
		return 0
	case OfBaseline:
		return p.Ratio
	case InBytes:
		return *p.Bytes
	}
	return *p.NS
}

// figureOf is what can be compared of a point that both results have.
func figureOf(before, after Result, was, is Point) Figure {
	switch {
	case is.NS != nil && was.NS != nil:
		return InNS
	case is.Bytes != nil && was.Bytes != nil:
		return InBytes
	case is.PPS == nil || was.PPS == nil:
		return ""
	case before.plainKernel(was) > 0 && after.plainKernel(is) > 0:
		return OfKernel
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
		BeforeAfter: last.Name, Title: last.Title, Machine: last.Machine, Kernel: last.Kernel, Time: after[0].Time, Rounds: len(after), X: last.xName(),
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
		f := figureOf(before[0], last, was, p)
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
			b, a = append(b, before[i].value(one, f)), append(a, after[i].value(other, f))
			if b[i] > 0 && a[i] > 0 { // differences of times may be 0, or less
				change = append(change, a[i]/b[i])
			}
		}
		if len(change) == 0 {
			continue
		}
		changed.Before, changed.After = Round(median(b), 4), Round(median(a), 4)
		changed.Change, changed.Spread = Round(median(change), 4), spread(change, 4)
		if f == OfKernel && p.Dimensions.By == ByKernel && changed.Before == 1 && changed.After == 1 {
			continue // what the others are divided by
		}
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
		case OfBaseline:
			return fmt.Sprintf("%.2f of baseline", v)
		}
		return fmt.Sprintf("%.2f × kernel", v)
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
	fmt.Fprintf(w, "%s on %s, %s: commit %s, then %s, %d rounds\n", c.BeforeAfter, c.Machine, c.Kernel, shortCommit(c.Before), shortCommit(c.After), c.Rounds)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(beforeAfterTitles, "\t")))
	for _, p := range c.Points {
		fmt.Fprintln(table, strings.Join(p.cells(c.X), "\t"))
	}
	return table.Flush()
}
