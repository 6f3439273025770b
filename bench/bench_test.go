// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/ioam"
)

// quick runs a benchmark as briefly as it can be run, and checks its JSON.
func quick(t *testing.T, name, figure string) Result {
	t.Helper()
	b, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Run(context.Background(), Options{Duration: 50 * time.Millisecond, Rounds: 2})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var decoded struct {
		Name, Machine, Kernel, Baseline string
		Points                          []map[string]any
	}
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	if decoded.Name != name || decoded.Machine == "" || !strings.HasPrefix(decoded.Kernel, "Linux ") || decoded.Baseline == "" {
		t.Errorf("the head of the result is %+v", decoded)
	}
	seen := make(map[any]bool)
	for _, p := range decoded.Points {
		key := [2]any{p["variant"], p["x"]}
		if seen[key] {
			t.Errorf("%v is there twice", key)
		}
		seen[key] = true
		_, ns := p["ns"].(float64)
		_, pps := p["pps"].(float64)
		ratio, _ := p["ratio"].(float64)
		if _, ok := p[figure].(float64); !ok || ns == pps || ratio <= 0 || p["x"].(float64) < 54 {
			t.Errorf("%v: %v", p["variant"], p)
		}
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Points {
		if !strings.Contains(text.String(), p.Variant) {
			t.Errorf("the table lacks %q", p.Variant)
		}
	}
	return r
}

func TestCost(t *testing.T) {
	r := quick(t, "cost", "ns")
	if len(r.Points) != len(costCases()) {
		t.Errorf("%d points of %d cases", len(r.Points), len(costCases()))
	}
	for _, p := range r.Points {
		if p.Instructions == 0 || p.Reference <= 0 {
			t.Errorf("%s: %d verified instructions, the plain packet took %v ns", p.Variant, p.Instructions, p.Reference)
		}
	}
}

func TestForwarding(t *testing.T) {
	r := quick(t, "forwarding", "pps")
	if len(r.Notes) > 0 {
		t.Errorf("not everything was measured: %s", r.Notes)
	}
	if want := len(variants()) * len(sizes); len(r.Points) != want {
		t.Errorf("%d points instead of %d", len(r.Points), want)
	}
	for _, p := range r.Points {
		if *p.PPS < 1000 {
			t.Errorf("%s: %v packets per second", p.Variant, *p.PPS)
		}
	}
}

func TestForwardingLeavesNothing(t *testing.T) {
	mounts := func() string {
		content, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	directory := t.TempDir()
	path, release, err := privatePins(directory)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if strings.Contains(mounts(), directory) {
		t.Errorf("%s is still mounted", directory)
	}
	if err := os.Mkdir(filepath.Join(path, "pins"), 0o700); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("%s holds %v (%v)", directory, left, err)
	}
}

// Only what the kernel alone decides has no packet that leads to it.
func TestEveryOutcomeIsMeasured(t *testing.T) {
	unreachable := []ioam.Outcome{ioam.OutcomeDecapFailed, ioam.OutcomeEncapSkippedHeadroom}
	for _, o := range ioam.Outcomes() {
		measured := slices.ContainsFunc(costCases(), func(c costCase) bool { return c.outcome == o })
		if measured == slices.Contains(unreachable, o) {
			t.Errorf("%s: measured: %v", o, measured)
		}
	}
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC, datapath.HookEgressTC} {
		for _, o := range []ioam.Outcome{ioam.OutcomeTraceFilled, ioam.OutcomeBoundaryDropped, ioam.OutcomeMalformedHeader} {
			if !slices.ContainsFunc(costCases(), func(c costCase) bool { return c.hook == hook && c.outcome == o }) {
				t.Errorf("%s at %s is not measured", o, hook)
			}
		}
	}
}

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b, err := Find("forwarding")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Run(ctx, Options{Duration: time.Hour, Rounds: 1}); err == nil {
		t.Error("a cancelled benchmark ran")
	}
}

func TestQuantiles(t *testing.T) {
	values := []float64{9, 1, 5, 3, 7}
	if m, s := median(values), spread(values, 1); m != 5 || s == nil || *s != 4 {
		t.Errorf("median %v, spread %v", m, s)
	}
	if s := spread(values[:1], 1); s != nil {
		t.Errorf("one value has the spread %v", *s)
	}
	if values[0] != 9 {
		t.Error("the values were reordered")
	}
	if m := median([]float64{1, 2}); m != 1.5 {
		t.Errorf("median of two: %v", m)
	}
	if m := median([]float64{4}); m != 4 {
		t.Errorf("median of one: %v", m)
	}
	if m := middle([]float64{1000, 2, 3, -500}); m != 2.5 {
		t.Errorf("middle half: %v", m)
	}
	if m := middle([]float64{4}); m != 4 {
		t.Errorf("middle of one: %v", m)
	}
	if !math.IsNaN(median(nil)) {
		t.Error("nothing has a median")
	}
}

func TestAims(t *testing.T) {
	ns := func(v float64) *float64 { return &v }
	r := Result{Name: "cost", Points: []Point{
		{Variant: "quick", NS: ns(30), Aim: 30}, {Variant: "slow", NS: ns(30.1), Aim: 30}, {Variant: "aimless", NS: ns(1e6)},
	}}
	f := Result{Name: "forwarding", Points: []Point{
		{Variant: "fast", PPS: ns(1e6), Ratio: 0.96, Aim: 0.96}, {Variant: "lame", PPS: ns(1e6), Ratio: 0.9599, Aim: 0.96},
	}}
	document := string(Markdown([]Result{r, f}))
	for _, want := range []string{
		"Of 2 aims, 1 were met. Missed: slow (0 bytes).", "Of 2 aims, 1 were met. Missed: lame (0 bytes).",
		"| slow | 0 | 30.1 |", "≤ 30, missed", "≤ 30, met", "≥ -4%, missed", "| aimless | 0 | 1000000.0 | – | – |",
	} {
		if !strings.Contains(document, want) {
			t.Errorf("the document lacks %q", want)
		}
	}
}

func TestDocumentIsCurrent(t *testing.T) {
	names, err := filepath.Glob("results/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var r Result
		if err := json.Unmarshal(content, &r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		results = append(results, r)
	}
	got, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil || !bytes.Equal(got, Markdown(results)) {
		t.Errorf("docs/benchmarks.md is not current (%v); run: bin/waymark bench report bench/results/*.json > docs/benchmarks.md", err)
	}
}
