// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// textOf is the text in an SVG document.
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
	document := shown(t, r)
	for _, want := range []string{
		"| VARIANT | NUMBER | FIGURE | SPREAD | AIM | OF THE BASELINE |", "| all maps | 10 | 1.50 MiB | 2048 bytes | ≤ 1.00 MiB, missed | 1.50 |",
		"| reload | 1000 | 85.2 ms | – | ≤ 90.0 ms, met | 1.00 |", "| start | 1 | 85.2 ms | – | – | 1.00 |",
	} {
		if !strings.Contains(document, want) {
			t.Errorf("the document lacks %q", want)
		}
	}
}

// committed are the results in bench/results, by name.
func committed(t *testing.T) map[string]Result {
	t.Helper()
	names, err := filepath.Glob("../results/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no results: %v", err)
	}
	results := make(map[string]Result)
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var r Result
		if err := json.Unmarshal(content, &r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		results[r.Name] = r
	}
	return results
}

// Every point of a result has its dimensions, and the sentence made from them.
func TestSentences(t *testing.T) {
	for name, r := range committed(t) {
		seen := make(map[Point]bool)
		for _, p := range r.Points {
			key := Point{Dimensions: p.Dimensions, X: p.X}
			if p.Dimensions == (Dimensions{}) || p.Variant != p.Dimensions.String() || seen[key] {
				t.Errorf("%s: %q of %+v at %v, there already: %v", name, p.Variant, p.Dimensions, p.X, seen[key])
			}
			seen[key] = true
		}
	}
}

// All points of the summary were measured, and the summary stays short.
func TestSummary(t *testing.T) {
	results := committed(t)
	for _, h := range headlines() {
		if !results[h.benchmark].any(func(p Point) bool { return p.Dimensions == h.variant && p.X == h.x }) {
			t.Errorf("%s has no %q at %v", h.benchmark, h.variant, h.x)
		}
	}
	document, err := os.ReadFile("../../docs/benchmarks.md")
	if lines := bytes.Count(document, []byte("\n")); err != nil || lines > 340 {
		t.Errorf("docs/benchmarks.md has %d lines (%v); 340 are the most", lines, err)
	}
}

// The profile has the figures of the decisions, where each pair is in one line.
func TestProfile(t *testing.T) {
	for _, p := range profile() {
		content, err := os.ReadFile(filepath.Join("../../docs/decisions", p.decision))
		if err != nil {
			t.Fatal(err)
		}
		inOneLine := func(before, after float64) bool {
			return slices.ContainsFunc(strings.Split(string(content), "\n"), func(line string) bool {
				has := func(ns float64) bool {
					return regexp.MustCompile(`(^|[^0-9.])` + regexp.QuoteMeta(nanoseconds(ns)) + `(\.0)?($|[^0-9.]|\.[^0-9])`).MatchString(line)
				}
				return has(before) && has(after)
			})
		}
		if !inOneLine(p.before.with, p.after.with) || p.before.without != 0 && !inOneLine(p.before.without, p.after.without) {
			t.Errorf("%s has no line with the times of %q: %+v, %+v", p.decision, p.name, p.before, p.after)
		}
	}
	ns := 12.345
	point := NewPoint(profile()[0].now.Variant, 118)
	point.NS = &ns
	text := string(Markdown([]Result{{Name: "parts", Machine: "one", Kernel: "Linux 6.18.44", Points: []Point{point}}}))
	for _, want := range []string{
		"| Hop-by-Hop header with one trace, ids written | 33 | 14 | 12.3 | [0018](decisions/0018-common-traces-in-one-piece.md) |\n",
		"| a postcard, at tc egress | 125 | 93 | – | [0019](decisions/0019-postcard-rings.md) |\n",
		"| a trace in each of 9 namespaces | 240 | 151 | – | [0021](decisions/0021-common-headers.md) |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Every published value has a point of ours at the same x, once its variant is recorded. What
// only counts is beside what only counts, and what colours, too, beside what does both.
func TestPublished(t *testing.T) {
	papers, err := papersValues()
	if err != nil {
		t.Fatal(err)
	}
	if len(papers.Values) == 0 {
		t.Fatal("no value")
	}
	results := committed(t)
	for _, v := range papers.Values {
		r := results[v.Experiment]
		recorded := r.any(func(p Point) bool { return p.Dimensions == v.Beside })
		for _, x := range v.X {
			if recorded && !r.any(func(p Point) bool { return p.Dimensions == v.Beside && p.X == x }) {
				t.Errorf("%s has no variant %q at %v", v.Experiment, v.Beside, x)
			}
		}
		const both = "counting and colouring"
		if v.Paper == "D" && v.Series != "" && strings.HasSuffix(v.Series, both) != strings.HasSuffix(v.Beside.Treatment, both) {
			t.Errorf("%s: %q is beside %q", v.Experiment, v.Series, v.Beside.Treatment)
		}
		impossible := func(ratio float64) bool { return ratio <= 0 || ratio > 1 }
		if len(v.Ratios) != 1 && len(v.Ratios) != len(v.X) || slices.ContainsFunc(v.Ratios, impossible) || v.Read == "" || papers.Papers[v.Paper].Title == "" {
			t.Errorf("%+v", v)
		}
	}
}

// A figure names every curve, its axes, and the papers.
func TestPlot(t *testing.T) {
	papers, err := papersValues()
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range committed(t) {
		t.Run(name, func(t *testing.T) {
			figure, err := r.Plot()
			if err != nil {
				t.Fatal(err)
			}
			text := textOf(t, figure)
			wanted := []string{r.Title, r.Machine}
			for _, p := range r.Points {
				if p.Aim != 0 && p.PPS != nil {
					wanted = append(wanted, p.Dimensions.name())
				}
			}
			for _, v := range papers.of(name) {
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

// Each figure of the paper is a panel. Every published curve in it is next to one
// of ours, and looks different from all others.
func TestFiguresOfPaper(t *testing.T) {
	papers, err := papersValues()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string]int)
	for _, name := range []string{"dex-encap", "dex-transit", "dex-decap"} {
		for _, p := range committed(t)[name].panels(papers) {
			title, isFigure := strings.CutPrefix(p.title, "figure ")
			looks := make(map[string]bool)
			for i, pair := range p.pairs() {
				looks[fmt.Sprint(styled(i).outline, styled(i).color)] = true
				switch {
				case pair.ours == nil, isFigure && len(pair.published) != 1, !isFigure && len(pair.published) > 0:
					t.Errorf("%s: %+v", p.title, pair)
				case isFigure && !slices.Equal(pair.ours.x, pair.published[0].x):
					t.Errorf("%s: %s has %v next to %v", p.title, pair.name, pair.ours.x, pair.published[0].x)
				}
			}
			if isFigure {
				number, _, _ := strings.Cut(title, ":")
				series[number] = len(p.pairs())
			}
			if len(looks) < min(len(p.pairs()), len(outlines)) {
				t.Errorf("%s: %d of %d curves look different", p.title, len(looks), len(p.pairs()))
			}
		}
	}
	if difference := cmp.Diff(map[string]int{"3": 9, "4": 3, "5": 3, "6": 9, "7": 3, "8": 9, "9": 3}, series); difference != "" {
		t.Error(difference)
	}
}
