// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// The bytes that the papers say their headers add.
func TestPaperHeaders(t *testing.T) {
	var options, namespaces []int
	for n := 1; n <= 9; n++ {
		options = append(options, overhead(model.ModeEncap, pathInEach(1, fields(n))))
		namespaces = append(namespaces, overhead(model.ModeEncap, pathInEach(n, fields(1))))
	}
	if difference := cmp.Diff([]int{72, 80, 96, 104, 120, 128, 152, 176, 200}, options); difference != "" {
		t.Error("options", difference)
	}
	if difference := cmp.Diff([]int{72, 96, 120, 144, 168, 192, 216, 240, 264}, namespaces); difference != "" {
		t.Error("namespaces", difference)
	}
	if most := overhead(model.ModeInline, pathInEach(1, fields(len(fieldBits)))); most < 180 || most > 220 {
		t.Errorf("11 options add %d bytes instead of about 200", most)
	}
}

// Every published value has a variant of ours at the same x.
func TestPublished(t *testing.T) {
	papers, err := papersValues()
	if err != nil {
		t.Fatal(err)
	}
	if len(papers.Values) == 0 {
		t.Fatal("no value")
	}
	ours := make(map[string]map[string][]float64) // by experiment and variant
	for _, v := range papers.Values {
		if ours[v.Experiment] == nil {
			b, err := Find(v.Experiment)
			if err != nil || b.make == nil {
				t.Fatalf("%q is no experiment: %v", v.Experiment, err)
			}
			ours[v.Experiment] = curvesOf(b.make())
		}
		for _, x := range v.X {
			if !slices.Contains(ours[v.Experiment][v.Beside], x) {
				t.Errorf("%s has no variant %q at %v", v.Experiment, v.Beside, x)
			}
		}
		impossible := func(ratio float64) bool { return ratio <= 0 || ratio > 1 }
		if len(v.Ratios) != 1 && len(v.Ratios) != len(v.X) || slices.ContainsFunc(v.Ratios, impossible) || v.Read == "" || papers.Papers[v.Paper].Title == "" {
			t.Errorf("%+v", v)
		}
	}
}

// invented is a result of every variant of a benchmark.
func invented(b Benchmark) Result {
	r := Result{Name: b.Name, Machine: "a machine", Kernel: "Linux 6.18", Baseline: "nothing", Axis: "how many", X: "number"}
	spread := 0.02
	for i, v := range b.make().variants {
		p := Point{Variant: v.name, X: v.x, Ratio: 1, Reference: 1e6, Spread: &spread}
		figure := 1e6
		if v.against != nil {
			figure = 1e6 - float64(i+1)*1000
			p.Ratio = figure / 1e6
		}
		if v.timed {
			p.NS = &figure
		} else {
			p.PPS = &figure
		}
		r.Points = append(r.Points, p)
	}
	return r
}

// A figure names every curve, what is on its axes, and the papers.
func TestPlot(t *testing.T) {
	papers, err := papersValues()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range All() {
		if b.make == nil {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			r := invented(b)
			figure, err := r.Plot()
			if err != nil {
				t.Fatal(err)
			}
			text := textOf(t, figure)
			wanted := []string{b.Title, "a machine"}
			for _, v := range b.make().variants {
				if name, _ := split(v.name); v.against != nil {
					wanted = append(wanted, name)
				}
			}
			for _, v := range papers.of(b.Name) {
				wanted = append(wanted, "published", v.source(), papers.Papers[v.Paper].Title)
			}
			for _, want := range wanted {
				if !strings.Contains(text, want) {
					t.Errorf("the figure lacks %q", want)
				}
			}
		})
	}
	if _, err := (Result{Name: "cost"}).Plot(); err == nil {
		t.Error("nothing was drawn")
	}
}

// textOf is what is written in an SVG document.
func textOf(t *testing.T, document []byte) string {
	t.Helper()
	var text strings.Builder
	for decoder := xml.NewDecoder(bytes.NewReader(document)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok {
			text.Write(data)
			text.WriteByte('\n')
		}
	}
}

func TestUnits(t *testing.T) {
	memory, time, spread := 1536.0*1024, 85.25e6, 2048.0
	r := Result{Name: "footprint", X: "number", Points: []Point{
		{Variant: "all maps", X: 10, Bytes: &memory, Ratio: 1.5, Spread: &spread, Aim: 1 << 20}, {Variant: "reload", X: 1000, NS: &time, Ratio: 1, Aim: 90e6},
		{Variant: "start", X: 1, NS: &time, Ratio: 1},
	}}
	document, err := Markdown([]Result{r})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| variant | number | figure | spread | aim | of the baseline |", "| all maps | 10 | 1.50 MiB | 2048 bytes | ≤ 1.00 MiB, missed | 1.50 |",
		"| reload | 1000 | 85.2 ms | – | ≤ 90.0 ms, met | 1.00 |", "| start | 1 | 85.2 ms | – | – | 1.00 |", "![footprint: ", "(benchmarks/footprint.svg)",
	} {
		if !strings.Contains(string(document), want) {
			t.Errorf("the document lacks %q", want)
		}
	}
}

// A share of the packets has to be met from both sides, all of them from one.
func TestShares(t *testing.T) {
	device := func(index int) netlink.Link { return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}} }
	l := &line{nodes: []*node{{in: device(1), out: device(2)}}}
	counted := func(n uint64) [][]datapath.Counters {
		c := datapath.Counters{Index: 2}
		c.Egress[model.OutcomeEncapInserted] = n
		return [][]datapath.Counters{{{Index: 1}, c}}
	}
	for _, test := range []struct {
		share   float64
		n       uint64
		allowed bool
	}{
		{0, 10_000, true}, {0, 9900, true}, {0, 9800, false}, {0, 12_000, true},
		{0.01, 100, true}, {0.01, 96, false}, {0.01, 105, false}, {0.0001, 0, true}, {0.0001, 4, false}, {1, 10_000, true}, {1, 11_000, false},
	} {
		v := &variant{wants: []want{{hook: datapath.HookEgressTC, outcome: model.OutcomeEncapInserted, share: test.share}}}
		if err := v.check(l, counted(5), counted(5+test.n), 10_000); (err == nil) != test.allowed {
			t.Errorf("%d of 10000 at a share of %v: %v", test.n, test.share, err)
		}
	}
}
