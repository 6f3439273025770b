// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// decades are the numbers of a thing that a node has.
var decades = []int{1, 10, 100, 1000}

// footprint collects measurements of all rounds, by curve and x.
type footprint struct {
	site    *harness.Site
	node    *harness.Node
	program string // waymark's own
	numbers []int
	order   []report.Dimensions
	values  map[report.Dimensions]map[float64][]float64
	bytes   map[report.Dimensions]bool // curves in bytes; the others are in ns
	waits   map[string][]float64       // of idle agents' threads in a second, by the suffix of idle
}

// numberOf are the dimensions of a measurement by the number of a thing.
func numberOf(what, thing string) report.Dimensions {
	return report.Dimensions{Treatment: what, NumberOf: thing}
}

// grown is one of the things that a node may have many of.
type grown struct {
	name   string
	config func(c model.NodeConfig, n int) model.NodeConfig
	yaml   func(n int) string
}

func allGrown() []grown {
	return []grown{
		{"namespaces", withNamespaces, namespacesYAML},
		{"encapsulations", withEncapsulations, encapsulationsYAML},
	}
}

func runFootprint(ctx context.Context, o harness.Options) (report.Result, error) {
	f, err := measureFootprint(ctx, o, decades)
	if err != nil {
		return report.Result{}, err
	}
	return f.result(), nil
}

// measureFootprint measures memory and the time to get ready, for each of the
// numbers, which start with one. It ignores the duration in the options.
func measureFootprint(ctx context.Context, o harness.Options, numbers []int) (f *footprint, err error) {
	directory, err := os.MkdirTemp("", "waymark-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	f = &footprint{
		numbers: numbers, values: make(map[report.Dimensions]map[float64][]float64),
		bytes: make(map[report.Dimensions]bool), waits: make(map[string][]float64),
	}
	if f.program, err = o.AgentFile(); err != nil {
		return nil, err
	}
	if f.site, err = harness.NewSite(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.site.Close()) }()
	if err := f.site.Add(0, "untreated", []harness.Treatment{untreated}, harness.Links{}); err != nil {
		return nil, err
	}
	f.node = f.site.Lines["untreated"].Nodes[0]
	if err := f.fastMemory(); err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		o.Announce("round %d of %d", round+1, o.Rounds)
		if err := f.round(ctx, round, directory); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// round measures everything once, at every number.
func (f *footprint) round(ctx context.Context, round int, directory string) error {
	list := slices.Clone(f.numbers)
	if round%2 == 1 {
		slices.Reverse(list)
	}
	for _, n := range list {
		for _, g := range allGrown() {
			if err := ctx.Err(); err != nil {
				return err
			}
			if round == 0 {
				if err := f.memory(g, n); err != nil {
					return fmt.Errorf("%d %s: %w", n, g.name, err)
				}
			}
			if err := f.load(g, n, filepath.Join(f.site.Pins, fmt.Sprintf("footprint-%d", round))); err != nil {
				return fmt.Errorf("%d %s: %w", n, g.name, err)
			}
			file := filepath.Join(directory, "node.yaml")
			if err := os.WriteFile(file, []byte(nodeYAML+g.yaml(n)), 0o600); err != nil {
				return err
			}
			if err := f.agent(ctx, g, n, file); err != nil {
				return fmt.Errorf("an agent with %d %s: %w", n, g.name, err)
			}
		}
	}
	file := filepath.Join(directory, "idle.yaml")
	for _, each := range []struct{ suffix, yaml string }{
		{"", nodeYAML}, {watching, strings.ReplaceAll(nodeYAML, "egress]", "egress], forwarding: fast")},
	} {
		if err := os.WriteFile(file, []byte(each.yaml), 0o600); err != nil {
			return err
		}
		if err := f.idle(ctx, each.suffix, file); err != nil {
			return fmt.Errorf("an idle agent: %w", err)
		}
	}
	return nil
}

// footprintAims are the most that the project allows, in bytes or ns, where it
// has an aim.
var footprintAims = map[string]float64{
	agentStart: 1e9, agentStart + watching: 1e9,
	agentMemory: 40e6, agentIdleMemory: 40e6, agentIdleMemory + watching: 40e6,
	agentIdle: 5e6, agentIdle + watching: 10e6,
}

func (f *footprint) add(curve report.Dimensions, x int, value float64, inBytes bool) {
	if f.values[curve] == nil {
		f.values[curve] = make(map[float64][]float64)
		f.order = append(f.order, curve)
	}
	f.bytes[curve] = inBytes
	f.values[curve][float64(x)] = append(f.values[curve][float64(x)], value)
}

// memory reads from the kernel what the maps and programs of one interface take.
func (f *footprint) memory(g grown, n int) error {
	runner, err := datapath.NewRunner(datapath.Config{Node: g.config(nodeConfig(), n)}, other, datapath.HookIngressXDP, datapath.HookEgressTC)
	if err != nil {
		return err
	}
	defer runner.Close()
	held, err := runner.Memory()
	if err != nil {
		return err
	}
	var all uint64
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if name == "programs" {
			f.add(numberOf("programs", g.name), n, float64(held[name]), true)
			continue
		}
		all += held[name]
		f.add(numberOf("map "+name, g.name), n, float64(held[name]), true)
	}
	f.add(numberOf("all maps", g.name), n, float64(all), true)
	return nil
}

// fastMemory adds the memory of fast forwarding, by the number of destinations in
// its cache.
func (f *footprint) fastMemory() error {
	for _, n := range destinations {
		cfg := datapath.Config{Node: nodeConfig(), Fast: map[model.IfIndex]bool{other: true}, NextHops: n}
		runner, err := datapath.NewRunner(cfg, other, datapath.HookIngressXDP, datapath.HookEgressTC)
		if err != nil {
			return err
		}
		held, err := runner.Memory()
		runner.Close()
		if err != nil {
			return err
		}
		f.add(numberOf("map next_hops", "next-hops"), n, float64(held["next_hops"]), true)
		if n == 1 {
			f.add(numberOf("programs, with fast forwarding", ""), n, float64(held["programs"]), true)
		}
	}
	return nil
}

// load measures the time from nothing to attached programs at two interfaces, and
// the time to load the next generation.
func (f *footprint) load(g grown, n int, pins string) error {
	return harness.InNamespace(f.node.Namespace, func() error {
		cfg := datapath.Config{Node: g.config(place(nodeConfig(), f.node.InIndex(), f.node.OutIndex()), n)}
		if err := cfg.Node.Validate(); err != nil {
			return err
		}
		started := time.Now()
		d, err := datapath.Open(datapath.Options{PinPath: pins})
		if err != nil {
			return err
		}
		for _, what := range []string{"load and attach", "reload"} {
			if err := d.Apply(cfg); err != nil {
				return errors.Join(err, d.Remove())
			}
			f.add(numberOf(what, g.name), n, float64(time.Since(started).Nanoseconds()), false)
			started = time.Now()
		}
		return d.Remove()
	})
}

// result compares each figure with that for one of the thing. A map with only one
// size has one point.
func (f *footprint) result() report.Result {
	r := report.Result{
		Baseline: "the same with one",
		Axis:     "how many there are", X: "number",
		Notes: []string{
			"Maps are as the kernel counts them, all CPUs together. Programs and the map \"counters\" are those of one interface, other maps are shared by all.",
			"\"Load and attach\" and \"reload\" are of the data plane at two interfaces; the agent's start is from its process to its first answer, its reload from request to answer.",
			"\"next-hops\" is the setting of this name: how many destinations each CPU remembers for fast forwarding. Without fast forwarding the map has one set.",
			"Resident memory is that of the agent's process right after its first answer; \"idle\": some seconds later, when nothing has happened since.",
			"The processor time of an idle second is that of all of the agent's threads, without traffic and without anybody who wants records.",
		},
	}
	varies := make(map[string]bool) // by what was measured
	for curve, values := range f.values {
		what := curve.Treatment
		varies[what] = varies[what] || !f.bytes[curve] || !isConstant(values)
	}
	shown := make(map[string]bool)
	for _, curve := range f.order {
		what := curve.Treatment
		values := f.values[curve]
		switch {
		case varies[what] && !f.bytes[curve], !isConstant(values):
			for _, x := range slices.Sorted(maps.Keys(values)) {
				r.Points = append(r.Points, f.point(curve, curve, x))
			}
		case !varies[what] && !shown[what]:
			shown[what] = true
			r.Points = append(r.Points, f.point(curve, numberOf(what, ""), 1))
		}
	}
	return r
}

func isConstant(values map[float64][]float64) bool {
	for _, list := range values {
		if list[0] != values[1][0] {
			return false
		}
	}
	return true
}

func (f *footprint) point(curve, is report.Dimensions, x float64) report.Point {
	values := f.values[curve][x]
	one := harness.Median(f.values[curve][1])
	p := report.NewPoint(is, x)
	p.Ratio, p.Reference, p.Spread = 1, report.Round(one, 0), harness.Spread(values, 0)
	if x == 1 {
		p.Aim = footprintAims[curve.Treatment]
	}
	if one > 0 {
		p.Ratio = report.Round(harness.Median(values)/one, 3)
	}
	if f.bytes[curve] {
		p.Bytes = harness.Figure(harness.Median(values), 0)
	} else {
		p.NS = harness.Figure(harness.Median(values), 0)
	}
	return p
}
