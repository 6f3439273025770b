// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/testnet"
)

// built is the file of one of our programs: the one that `make test` built, or
// else a new one.
func built(t *testing.T, name string) string {
	t.Helper()
	if made := os.Getenv("WAYMARK_PROGRAM"); made != "" {
		return filepath.Join(filepath.Dir(made), name)
	}
	program := filepath.Join(t.TempDir(), name)
	build := exec.Command(
		"go",
		"build",
		"-buildvcs=false",
		"-o",
		program,
		"github.com/waymark-net/waymark/"+map[string]string{"waymark": "cmd/waymark", "waymark-bench": "bench/cmd/waymark-bench"}[name],
	)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// quick runs a benchmark as briefly as possible, and checks its JSON.
func quick(t *testing.T, b harness.Benchmark, figure string) report.Result {
	t.Helper()
	testnet.NeedRoot(t)
	var r report.Result
	for range 3 { // other programs may use the machine
		var err error
		if r, err = b.Run(context.Background(), harness.Options{Duration: 50 * time.Millisecond, Rounds: 2}); err != nil {
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

// ofOneSize returns the variants with the shortest packets, and of them those with one
// queue, of those that differ in nothing else: the others take the same way.
func ofOneSize(e harness.Experiment) []*harness.Variant {
	key := func(v *harness.Variant) (report.Dimensions, float64) {
		is, size := v.Is, float64(v.Is.Size)
		is.Size, is.Queues = 0, 0
		if e.X == "bytes" {
			size = v.X
		}
		if v.Is.Queues != 1 {
			size += 0.5
		}
		return is, size
	}
	least := make(map[report.Dimensions]float64)
	for _, v := range e.Variants {
		is, size := key(v)
		if was, ok := least[is]; !ok || size < was {
			least[is] = size
		}
	}
	return slices.DeleteFunc(slices.Clone(e.Variants), func(v *harness.Variant) bool {
		is, size := key(v)
		return size > least[is]
	})
}

// inTurns returns one end of each curve, the least x of one and the greatest of the next.
func inTurns(list []*harness.Variant) []*harness.Variant {
	kept := make(map[report.Dimensions]*harness.Variant)
	greatest := false
	var curves []report.Dimensions
	for _, v := range list {
		if kept[v.Is] == nil {
			kept[v.Is], curves = v, append(curves, v.Is)
		}
	}
	for _, is := range curves {
		for _, v := range list {
			if v.Is == is && v.X > kept[is].X == greatest && v.X != kept[is].X {
				kept[is] = v
			}
		}
		greatest = !greatest
	}
	return slices.DeleteFunc(slices.Clone(list), func(v *harness.Variant) bool { return kept[v.Is] != v })
}

// mostVariants is how many variants of an experiment the test runs, about. `make bench` runs
// all.
const mostVariants = 10

// fewer returns every n-th variant of many.
func fewer(list []*harness.Variant) (kept []*harness.Variant) {
	n := (len(list) + mostVariants - 1) / mostVariants
	for i := 0; i < len(list); i += n {
		kept = append(kept, list[i])
	}
	return kept
}

// Every experiment runs, as briefly as possible, with an end of every curve and
// packets of one size: each variant's arrivals and the nodes' counters are checked.
func TestExperiments(t *testing.T) {
	testnet.NeedRoot(t)
	for _, b := range All() {
		if b.Table == nil {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			e := b.Table()
			figure := "pps"
			if e.Variants[0].Timed {
				figure = "ns"
			}
			e.Variants = e.Brief().Variants
			e.Variants = fewer(inTurns(ofOneSize(e)))
			for _, v := range e.Variants {
				if v.Is.Treatment != plainPackets { // one of them shows that prototypes take turns
					v.Bare = nil
				}
			}
			b.Measure = func(ctx context.Context, o harness.Options) (report.Result, error) {
				return harness.RunExperiment(ctx, o, e)
			}
			r := quick(t, b, figure)
			if len(r.Points) != len(e.Variants) {
				t.Errorf("%d points of %d variants: %s", len(r.Points), len(e.Variants), r.Notes)
			}
			for _, p := range r.Points {
				if p.PPS != nil && *p.PPS < 1000 {
					t.Errorf("%s: %v packets per second", p.Variant, *p.PPS)
				}
			}
		})
	}
}

// Each bare prototype does to packets what the node does that it stands for.
func TestPrototypes(t *testing.T) {
	testnet.NeedRoot(t)
	for _, name := range []string{"fast", "forwarding", "namespaces"} {
		b, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		e := b.Table()
		e.Variants = slices.DeleteFunc(ofOneSize(e), func(v *harness.Variant) bool { return v.Is.By != report.ByBareProgram })
		b.Measure = func(ctx context.Context, o harness.Options) (report.Result, error) {
			return harness.RunExperiment(ctx, o, e)
		}
		if r := quick(t, b, "pps"); len(r.Points) < 3 || len(r.Points) != len(e.Variants) {
			t.Errorf("%s: %d points of %d prototypes", name, len(r.Points), len(e.Variants))
		}
	}
}

func TestFootprint(t *testing.T) {
	testnet.NeedRoot(t)
	program := built(t, "waymark")
	// Three rounds: other tests may take the processor during one of them, and figures are medians.
	f, err := measureFootprint(context.Background(), harness.Options{Rounds: 3, Agent: program}, []int{1, 100})
	if err != nil {
		t.Fatal(err)
	}
	// How often an idle agent wakes up does not depend on the machine; what that costs does, as much as five times.
	for suffix, most := range map[string]float64{"": 150, watching: 400} {
		if list := f.waits[suffix]; len(list) != 3 || harness.Median(list) < 5 || harness.Median(list) > most {
			t.Errorf("the threads of an idle agent%s wait %.0f times a second", suffix, list)
		}
	}
	got := make(map[string]int)
	for _, p := range f.result().Points {
		got[p.Variant]++
		switch {
		case (p.NS == nil) == (p.Bytes == nil):
			t.Errorf("%s: %+v", p.Variant, p)
		case strings.HasPrefix(p.Dimensions.Treatment, agentIdle):
			if *p.NS < 1e5 || *p.NS > 2e8 {
				t.Errorf("%s: %v ns; the aim is %v", p.Variant, *p.NS, p.Aim)
			}
		case p.NS != nil && *p.NS < 1e6,
			p.Bytes != nil && *p.Bytes < 100 && !strings.HasPrefix(p.Variant, "map rule_trie") &&
				!strings.HasPrefix(p.Variant, "map segment_routes"):
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

func TestChange(t *testing.T) {
	testnet.NeedRoot(t)
	numbers := []int{1, 10}
	r, err := measureChange(context.Background(), harness.Options{Rounds: 1}, numbers)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Points {
		if p.NS == nil || *p.NS < 1e5 || *p.NS > 60e9 {
			t.Errorf("%s at %v: %+v", p.Variant, p.X, p)
		}
	}
	if len(r.Points) != len(numbers)*len(changeAims) {
		t.Errorf("%d points", len(r.Points))
	}
}

// A measured agent is removed with everything that it attached and pinned, also
// when the measurement is cancelled or the agent has exited by itself.
func TestFootprintLeavesNothing(t *testing.T) {
	testnet.NeedRoot(t)
	program := built(t, "waymark")
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte(nodeYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := harness.NewSite()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Add(0, "untreated", []harness.Treatment{untreated}, harness.Links{}); err != nil {
		t.Fatal(err)
	}
	f := &footprint{site: s, node: s.Lines["untreated"].Nodes[0], program: program}
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
			pins := filepath.Join(api.Root, "bpf", a.instance.ID)
			if _, err := os.Stat(pins); err != nil {
				t.Fatalf("the agent has pinned nothing: %v", err)
			}
			end(cancel, a)
			time.Sleep(100 * time.Millisecond)
			if err := a.remove(ctx); err == nil {
				t.Error("it was removed as if nothing had happened")
			}
			for _, left := range []string{pins, a.instance.Dir} {
				if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", left, err)
				}
			}
		})
	}
}

// Every part takes some time, and the expensive parts take more than the rest.
// One of three measurements must show this, as other programs may use the
// machine.
func TestParts(t *testing.T) {
	testnet.NeedRoot(t)
	r, err := measureParts(context.Background(), harness.Options{Duration: 2 * time.Second, Rounds: 3}, func(r report.Result) bool {
		return len(implausible(r.Points)) == 0
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Points) != len(parts()) || len(r.Notes) != len(parts())+1 {
		t.Fatalf("%d points and %d notes of %d parts", len(r.Points), len(r.Notes), len(parts()))
	}
	if faults := implausible(r.Points); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
}

// implausible reports the parts whose measured time cannot be right.
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
		"parse", "walk", "trace", "clock", "forward", "lookup", "match", "insert", "redirect", "decapsulate", "record", "stack",
		"traces", "header", "export", "remove",
		"at egress, complete", "at egress, match", "at egress, grow", "at egress, insert",
	} {
		if took[what] < 1 {
			faults = append(faults, fmt.Sprintf("%s takes %v ns", what, took[what]))
		}
	}
	if took["stack"] < 100 {
		faults = append(faults, fmt.Sprintf("the stack takes %v ns", took["stack"]))
	}
	if took["lookup"] < 2*took["forward"] {
		faults = append(faults, fmt.Sprintf("lookup and forward take %v ns", took))
	}
	return faults
}

// Every outcome has a packet that leads to it, except those that only the kernel can
// cause, and those of proofs that a repeated packet cannot have, or that cost what a
// rejected one does.
func TestEveryOutcomeIsMeasured(t *testing.T) {
	unreachable := []model.Outcome{model.OutcomeDecapFailed, model.OutcomeEncapSkippedHeadroom,
		model.OutcomeE2EMeasured, // of options that are removed
		model.OutcomePotAccepted, model.OutcomePotTooOld, model.OutcomePotInvalid, model.OutcomePotDropped}
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
	if _, err := b.Run(ctx, harness.Options{Duration: time.Hour, Rounds: 1}); err == nil {
		t.Error("a cancelled benchmark ran")
	}
}

// The pages are made from the results, which are of one machine and one commit, and no other
// figure is there.
func TestDocumentIsCurrent(t *testing.T) {
	names, err := filepath.Glob("../results/*.json")
	if err != nil {
		t.Fatal(err)
	}
	results, err := report.Read(names)
	if err != nil || len(results) == 0 {
		t.Fatalf("%d results: %v", len(results), err)
	}
	if err := report.OneOrigin(results); err != nil {
		t.Error(err)
	}
	results = Ordered(results)
	want, err := report.Figures(results)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(want, report.Pages(results))
	want["../benchmarks.md"] = report.Markdown(results)
	const cure = "run: rm -f docs/benchmarks/*.svg; " +
		"bin/waymark-bench report --pages docs/benchmarks bench/results/*.json > docs/benchmarks.md"
	for name, content := range want {
		if got, err := os.ReadFile(filepath.Join("../../docs/benchmarks", name)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("docs/benchmarks/%s is not current (%v); %s", name, err, cure)
		}
	}
	figures, err := filepath.Glob("../../docs/benchmarks/*.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, figure := range figures {
		if want[filepath.Base(figure)] == nil {
			t.Errorf("no page shows %s; %s", figure, cure)
		}
	}
}
