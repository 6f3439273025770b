// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
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

// All points that the pages show were measured, once their benchmark was, and the first page is
// one screen.
func TestSummary(t *testing.T) {
	results := committed(t)
	for _, shown := range Shown() {
		r, recorded := results[shown.Benchmark]
		if recorded && !r.any(func(p Point) bool { return p.Dimensions == shown.Variant && p.X == shown.X }) {
			t.Errorf("%s has no %q at %v", shown.Benchmark, shown.Variant, shown.X)
		}
	}
	if n := len(summary()); n < 5 || n > 8 {
		t.Errorf("%d figures in the summary", n)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	fast := headline{"fast", fastest("transit", "ids"), longBytes}
	if _, p, ok := fast.find(slices.Collect(maps.Values(results))); ok {
		if want := fmt.Sprintf("forwards %.1f times as many packets as the kernel", p.PlainRatio); !strings.Contains(string(readme), want) {
			t.Errorf("README.md does not say %q, as the results do", want)
		}
	}
	document, err := os.ReadFile("../../docs/benchmarks.md")
	if lines := bytes.Count(document, []byte("\n")); err != nil || lines > 50 {
		t.Errorf("docs/benchmarks.md has %d lines (%v); 50 are the most", lines, err)
	}
}

// A reader sees what a figure is compared with, and in whose words.
func TestSummaryTable(t *testing.T) {
	rate, took, memory := 7.74e6, 10.14, 35.5*(1<<20)
	results := []Result{
		{Name: "fast", Machine: "Intel(R) Xeon(R) Processor, 2 CPUs, amd64", Kernel: "Linux 6.18.44", Versions: map[string]string{"waymark": "0.1.0"}},
		{Name: "forwarding"}, {Name: "cost"}, {Name: "footprint"}, {Name: "srv6-fast"},
	}
	for _, s := range summary() {
		for i := range results {
			if results[i].Name != s.benchmark {
				continue
			}
			p := NewPoint(s.variant, s.x)
			switch s.benchmark {
			case "cost":
				p.NS = &took
			case "footprint":
				p.Bytes = &memory
			case "srv6-fast":
				p.PPS, p.Ratio = &rate, 2.57
			case "forwarding":
				p.PPS, p.Ratio, p.PlainRatio = &rate, 0.9, 0.828
			default:
				p.PPS, p.Ratio, p.PlainRatio = &rate, 2.87, 2.78
			}
			results[i].Points = append(results[i].Points, p)
		}
	}
	text := string(Markdown(results))
	for _, want := range []string{
		"\nWaymark 0.1.0 on Intel Xeon, 2 CPUs, amd64, Linux 6.18.44.\n",
		"| Waymark through the kernel's stack: the same | 7.740 Mpps | -17.2% against the kernel forwarding plain packets | `forwarding` |\n",
		"| Waymark with `forwarding: fast`: the same | 7.740 Mpps | 2.8 times the kernel forwarding plain packets | `fast` |\n",
		"| fast: End of SRv6, with the loss of 1000 flows measured | 7.740 Mpps | 2.6 times the kernel's SRv6, which measures nothing | `srv6-fast` |\n",
		"| time that writing the ids adds to a packet in XDP | 10.1 ns | a packet that is left alone | `cost` |\n",
		"| memory of an idle agent | 35.50 MiB | – | `footprint` |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := string(Markdown(nil)); strings.Contains(text, "Mpps") {
		t.Errorf("figures without a result: %s", text)
	}
}

// Results of two machines or commits stand in no table; another build of a kernel is none.
func TestOneOrigin(t *testing.T) {
	of := func(name, machine, kernel, commit string) Result {
		return Result{Name: name, Machine: machine, Kernel: kernel, Versions: map[string]string{"commit": commit, "go": "go1"}}
	}
	fast := of("fast", "Xeon", "Linux 6.18.44-fc-v657", "93b7562afe5e")
	for _, test := range []struct {
		other Result
		want  string // empty: they may
	}{
		{of("cost", "Xeon", "Linux 6.18.44-fc-v657", "93b7562afe5e"), ""},
		{of("cost", "Xeon", "Linux 6.18.44-fc-v669", "93b7562afe5e"), ""},
		{of("cost", "EPYC", "Linux 6.18.44-fc-v657", "93b7562afe5e"), "cost (EPYC, Linux 6.18.44-fc; commit 93b7562afe5e; go go1); fast (Xeon, Linux 6.18.44-fc; commit"},
		{of("cost", "Xeon", "Linux 6.18.45-fc-v657", "93b7562afe5e"), "results of 2 machines or commits"},
		{of("cost", "Xeon", "Linux 6.18.44-fc-v657", "280b835ba6e2"), "record all of them with: make benchmarks"},
	} {
		err := OneOrigin([]Result{fast, test.other})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %v, want %q", test.other, err, test.want)
		}
		if fast.SameOrigin(test.other) != (test.want == "") {
			t.Errorf("%+v has the same origin: %v", test.other, test.want != "")
		}
	}
	if err := OneOrigin(nil); err != nil {
		t.Error(err)
	}
}

// A result is read as it was written, and has a line for each point.
func TestWriteJSON(t *testing.T) {
	rate := 1e6
	p := NewPoint(Dimensions{Treatment: "transit", Way: WayFast}, 78)
	p.PPS, p.Limit = &rate, &Limit{Why: "the hooks"}
	r := Result{
		Name:     "fast",
		Title:    `"points": null`,
		Machine:  "one",
		Points:   []Point{p, p},
		Rounds:   9,
		Notes:    []string{"a"},
		Versions: map[string]string{"go": "go1"},
	}
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(b.String(), `"variant":"fast forwarding, transit`); lines != 2 || strings.Count(b.String(), "\n  {") != 2 {
		t.Errorf("%s", b.String())
	}
	file := filepath.Join(t.TempDir(), "fast.json")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff([]Result{r}, got); difference != "" {
		t.Error(difference)
	}
	for _, content := range []string{`"figures"`, `{"before_after":"fast"}`} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read([]string{file}); err == nil || !strings.Contains(err.Error(), "waymark-bench run NAME --json") {
			t.Errorf("%s: %v", content, err)
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
		if len(v.Ratios) != 1 && len(v.Ratios) != len(v.X) || slices.ContainsFunc(v.Ratios, impossible) || v.Read == "" ||
			papers.Papers[v.Paper].Title == "" {
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
	series, want := make(map[string]int), make(map[string]int)
	for name, figures := range map[string]map[string]int{
		"dex-encap": {"3": 9, "4": 3, "5": 3}, "dex-transit": {"6": 9, "7": 3}, "dex-decap": {"8": 9, "9": 3},
	} {
		r, recorded := committed(t)[name]
		if !recorded {
			continue
		}
		maps.Copy(want, figures)
		for _, p := range r.panels(papers) {
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
	if difference := cmp.Diff(want, series); difference != "" {
		t.Error(difference)
	}
}
