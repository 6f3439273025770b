// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// middle and range1 are simple statistics for these tests.
func middle(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

func range1(v []float64, _ int) *float64 {
	r := Round(slices.Max(v)-slices.Min(v), 4)
	return &r
}

var (
	stock = Dimensions{Treatment: "kernel forwarding", By: ByKernel, Format: "plain packets", Sink: "XDP", Queues: 1}
	fast  = Dimensions{Treatment: "decapsulation", Way: WayFast, Format: "no reader of records", Sink: "XDP", Queues: 1}
	added = Dimensions{Treatment: "against itself", Way: WayFast, Comparison: AgainstOneCPU, Size: 78}
)

// run is what a round measured, as ratios, all at one x.
func run(commit string, ratios map[Dimensions]float64) Result {
	r := Result{Name: "fast", Machine: "one", Versions: map[string]string{"commit": commit}}
	for _, d := range []Dimensions{stock, fast, added} {
		ratio, ok := ratios[d]
		if !ok {
			continue
		}
		p := NewPoint(d, 78)
		pps := ratio * 1000
		p.PPS, p.Ratio, p.Reference = &pps, ratio, 1000
		r.Points = append(r.Points, p)
	}
	return r
}

// Rates are divided by the baseline of the same turn; figures are medians over rounds, and
// changes those of each round.
func TestCompare(t *testing.T) {
	was := fast
	was.Format = "nobody wants records"
	var before, after []Result
	for _, ratios := range [][2]map[Dimensions]float64{
		{{stock: 1, fast: 2}, {stock: 1, fast: 3, added: 1}},
		{{stock: 1, fast: 2}, {stock: 1, fast: 4, added: 1}},
		{{stock: 1, fast: 4}, {stock: 1, fast: 5, added: 1}},
	} {
		old := run("2f9c85e0", ratios[0])
		for i, p := range old.Points {
			if p.Dimensions == fast {
				old.Points[i] = Point{Variant: was.String(), Dimensions: was, X: 78, PPS: p.PPS, Ratio: p.Ratio, Reference: p.Reference}
			}
		}
		gone := NewPoint(Dimensions{Treatment: "gone"}, 78)
		gone.PPS = old.Points[0].PPS
		old.Points = append(old.Points, gone)
		before, after = append(before, old), append(after, run("abcdef012345678", ratios[1]))
	}
	c, err := Compare(before, after, middle, range1)
	if err != nil {
		t.Fatal(err)
	}
	spread := func(v float64) *float64 { return &v }
	want := []Changed{{fast.String(), fast, 78, OfBaseline, 2, 4, 1.5, spread(0.75)}}
	if difference := cmp.Diff(want, c.Points); difference != "" {
		t.Error(difference)
	}
	if difference := cmp.Diff([][]string{{"gone (78 bytes)"}, {added.String() + " (78 bytes)"}},
		[][]string{c.OnlyBefore, c.OnlyAfter}); difference != "" {
		t.Error(difference)
	}
	var table strings.Builder
	if err := c.WriteText(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"fast on one, : commit 2f9c85e0, then abcdef012345, 3 rounds\n",
		"| decapsulation, no reader of records, sink in XDP, one queue | 78 bytes | 2.00 of baseline | 4.00 of baseline | +50.0% | 75.0% |",
	} {
		text := strings.ReplaceAll(table.String(), "fast forwarding, ", "")
		if !strings.Contains(inCells(text), want) && !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Times are compared as they are, in the rounds in which both are more than 0.
func TestCompareTimes(t *testing.T) {
	ns := func(v float64) *float64 { return &v }
	cost := func(took float64) Result {
		p := NewPoint(Dimensions{Hook: "tc egress", Outcome: "encap_inserted"}, 78)
		p.NS = ns(took)
		return Result{Name: "cost", Points: []Point{p}}
	}
	c, err := Compare([]Result{cost(100)}, []Result{cost(60)}, middle, range1)
	if err != nil || len(c.Points) != 1 || c.Points[0].Figure != InNS || c.Points[0].Change != 0.6 {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = Compare([]Result{cost(0), cost(50), cost(50)}, []Result{cost(60), cost(-1), cost(25)}, middle, range1)
	if err != nil || len(c.Points) != 1 || c.Points[0].Change != 0.5 || c.Points[0].Before != 50 || c.Points[0].After != 25 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = Compare([]Result{cost(0)}, []Result{cost(60)}, middle, range1); err != nil || len(c.Points) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	rate := func(ratio float64) Result {
		p := NewPoint(Dimensions{Treatment: "transit", Comparison: AgainstOneCPU, Size: 78}, 2)
		p.PPS, p.Ratio, p.Reference = ns(1e6), ratio, 5e5
		return Result{Name: "cores", Points: []Point{p}}
	}
	c, err = Compare([]Result{rate(1.6)}, []Result{rate(2)}, middle, range1)
	if err != nil || len(c.Points) != 1 || c.Points[0].Figure != OfBaseline || c.Points[0].Before != 1.6 || c.Points[0].Change != 1.25 {
		t.Errorf("%+v, %v", c, err)
	}
	// A rate that is kept now and was not before is a change, although it is its own baseline.
	kept := rate(1)
	kept.Points[0].Reference = 1e6
	if c, err = Compare([]Result{rate(0.8)}, []Result{kept}, middle, range1); err != nil || len(c.Points) != 1 || c.Points[0].Change != 1.25 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = Compare([]Result{kept}, []Result{kept}, middle, range1); err != nil || len(c.Points) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Compare([]Result{rate(1)}, nil, middle, range1); err == nil {
		t.Error("a result was compared with none")
	}
}
