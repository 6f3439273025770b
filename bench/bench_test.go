// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/testnet"
)

// quick runs a benchmark as briefly as it can be run, and checks its JSON.
func quick(t *testing.T, b Benchmark, figure string) report.Result {
	t.Helper()
	testnet.NeedRoot(t)
	var r report.Result
	for range 3 { // others may be at work on the machine
		var err error
		if r, err = b.Run(context.Background(), Options{Duration: 50 * time.Millisecond, Rounds: 2}); err != nil {
			t.Fatalf("%+v", err)
		}
		if !slices.ContainsFunc(r.Points, func(p report.Point) bool { return p.Ratio <= 0 }) {
			break
		}
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
	if decoded.Name != b.Name || decoded.Machine == "" || !strings.HasPrefix(decoded.Kernel, "Linux ") || decoded.Baseline == "" {
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
		if _, ok := p[figure].(float64); !ok || ns == pps || ratio <= 0 || p["x"].(float64) < 0 {
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
	b, err := Find("cost")
	if err != nil {
		t.Fatal(err)
	}
	r := quick(t, b, "ns")
	if len(r.Points) != len(costCases()) {
		t.Errorf("%d points of %d cases", len(r.Points), len(costCases()))
	}
	for _, p := range r.Points {
		if p.Instructions == 0 || p.Reference <= 0 {
			t.Errorf("%s: %d verified instructions, the plain packet took %v ns", p.Variant, p.Instructions, p.Reference)
		}
	}
}

// Every experiment runs, as briefly as it can, with the ends of every curve:
// each variant is held to what arrives and to the nodes' counters.
func TestExperiments(t *testing.T) {
	testnet.NeedRoot(t)
	for _, b := range All() {
		if b.make == nil {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			e := b.make()
			figure := "pps"
			if e.variants[0].timed {
				figure = "ns"
			}
			e.variants = ends(e.brief().variants)
			b.run = func(ctx context.Context, o Options) (report.Result, error) { return runExperiment(ctx, o, e) }
			r := quick(t, b, figure)
			if len(r.Points) != len(e.variants) {
				t.Errorf("%d points of %d variants: %s", len(r.Points), len(e.variants), r.Notes)
			}
			for _, p := range r.Points {
				if p.PPS != nil && *p.PPS < 1000 {
					t.Errorf("%s: %v packets per second", p.Variant, *p.PPS)
				}
			}
		})
	}
}

func TestFootprint(t *testing.T) {
	testnet.NeedRoot(t)
	program := filepath.Join(t.TempDir(), "waymark")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../cmd/waymark").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := measureFootprint(context.Background(), Options{Rounds: 2, Agent: program}, []int{1, 100})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	for _, p := range r.Points {
		got[p.Variant]++
		switch {
		case (p.NS == nil) == (p.Bytes == nil):
			t.Errorf("%s: %+v", p.Variant, p)
		case strings.HasPrefix(p.Dimensions.Treatment, agentIdle):
			// a busy machine makes each wake dearer, but not many times
			if *p.NS < 1e5 || *p.NS > 4*footprintAims[p.Dimensions.Treatment] {
				t.Errorf("%s: %v ns; the aim is %v", p.Variant, *p.NS, p.Aim)
			}
		case p.NS != nil && *p.NS < 1e6, p.Bytes != nil && *p.Bytes < 100 && !strings.HasPrefix(p.Variant, "map rule_trie"):
			t.Errorf("%s at %v takes next to nothing: %+v", p.Variant, p.X, p)
		}
	}
	for name, points := range map[string]int{
		"map clock": 1, "map namespaces, by namespaces": 2, "map encapsulations, by encapsulations": 2, "map next_hops, by next-hops": len(destinations),
		"agent: resident memory, by namespaces": 2, "agent: start, by encapsulations": 2, "reload, by namespaces": 2,
		agentIdle: 1, agentIdle + watching: 1, agentIdleMemory: 1, agentIdleMemory + watching: 1, agentStart: 1, agentStart + watching: 1,
	} {
		if got[name] != points {
			t.Errorf("%d points of %q instead of %d", got[name], name, points)
		}
	}
	for name := range footprintAims {
		if got[name]+got[name+", by namespaces"] == 0 {
			t.Errorf("the aim of %q is no figure's", name)
		}
	}
}

// An agent that is measured goes with all it attached and pinned, also when
// measuring it is broken off, and when it has ended by itself.
func TestFootprintLeavesNothing(t *testing.T) {
	testnet.NeedRoot(t)
	program := filepath.Join(t.TempDir(), "waymark")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../cmd/waymark").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte(nodeYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := newSite()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.add(0, "untreated", []treatment{untreated}, false); err != nil {
		t.Fatal(err)
	}
	f := &footprint{site: s, node: s.lines["untreated"].nodes[0], program: program}
	for name, end := range map[string]func(cancel func(), a *runningAgent){
		"broken off": func(cancel func(), _ *runningAgent) { cancel() },
		"ended":      func(_ func(), a *runningAgent) { a.command.Process.Signal(os.Interrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			a, err := f.start(ctx, file)
			if err != nil {
				t.Fatal(err)
			}
			pins := filepath.Join(api.Root, "bpf", a.place.ID)
			if _, err := os.Stat(pins); err != nil {
				t.Fatalf("the agent has pinned nothing: %v", err)
			}
			end(cancel, a)
			time.Sleep(100 * time.Millisecond)
			if err := a.remove(ctx); err == nil {
				t.Error("it was removed as if nothing had happened")
			}
			for _, left := range []string{pins, a.place.Dir} {
				if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", left, err)
				}
			}
		})
	}
}

// Every part takes some time, and what is known to be dear more than the rest: in
// one of three measurements at least, as others may be at work on the machine.
func TestParts(t *testing.T) {
	testnet.NeedRoot(t)
	var faults []string
	for range 3 {
		r, err := runParts(context.Background(), Options{Duration: 2 * time.Second, Rounds: 3})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Points) != len(parts()) || len(r.Notes) != len(parts())+1 {
			t.Fatalf("%d points and %d notes of %d parts", len(r.Points), len(r.Notes), len(parts()))
		}
		if faults = implausible(r.Points); len(faults) == 0 {
			return
		}
	}
	t.Error(strings.Join(faults, "\n"))
}

// implausible tells which parts cannot have taken what they seem to.
func implausible(points []report.Point) (faults []string) {
	took := make(map[string]float64)
	for _, p := range points {
		what, _, _ := strings.Cut(p.Variant, ":")
		took[what] += *p.NS
		if isLive := what == "hook"; *p.NS < -3 && !isLive || p.Reference <= 0 {
			faults = append(faults, fmt.Sprintf("%s: %v ns after %v", p.Variant, *p.NS, p.Reference))
		}
	}
	for _, what := range []string{
		"parse", "fill", "clock", "lookup", "match", "insert", "redirect", "decapsulate", "record", "stack",
		"at egress, complete", "at egress, match", "at egress, grow", "at egress, insert",
	} {
		if took[what] < 1 {
			faults = append(faults, fmt.Sprintf("%s takes %v ns", what, took[what]))
		}
	}
	if took["stack"] < 100 {
		faults = append(faults, fmt.Sprintf("the stack takes %v ns", took["stack"]))
	}
	if took["lookup"] < 2*took["send"] {
		faults = append(faults, fmt.Sprintf("lookup and send take %v ns", took))
	}
	return faults
}

func TestPinsLeaveNothing(t *testing.T) {
	testnet.NeedRoot(t)
	mounts := func() string {
		content, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	directory := t.TempDir()
	t.Setenv("TMPDIR", directory)
	path, release, err := privatePins()
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
	unreachable := []model.Outcome{model.OutcomeDecapFailed, model.OutcomeEncapSkippedHeadroom}
	for _, o := range model.Outcomes() {
		measured := slices.ContainsFunc(costCases(), func(c costCase) bool { return c.outcome == o })
		if measured == slices.Contains(unreachable, o) {
			t.Errorf("%s: measured: %v", o, measured)
		}
	}
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC, datapath.HookEgressTC} {
		for _, o := range []model.Outcome{model.OutcomeTraceFilled, model.OutcomeBoundaryDropped, model.OutcomeMalformedHeader} {
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

func TestDocumentIsCurrent(t *testing.T) {
	names, err := filepath.Glob("results/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var results []report.Result
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var r report.Result
		if err := json.Unmarshal(content, &r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		results = append(results, r)
	}
	want := report.Markdown(Ordered(results))
	got, err := os.ReadFile("../docs/benchmarks.md")
	const cure = "run: bin/waymark-bench report --figures docs/benchmarks bench/results/*.json > docs/benchmarks.md"
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/benchmarks.md is not current (%v); %s", err, cure)
	}
	for _, r := range results {
		want, err := r.Plot()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("../docs/benchmarks", r.Name+".svg"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the figure of %s is not current (%v); %s", r.Name, err, cure)
		}
	}
}
