// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Curves: the time that a change of the configuration takes, by what changes.
const (
	firstStart          = "first start: nothing is attached"
	firstInXDP          = "first start, XDP at ingress"
	firstInClsact       = "first start, attach: clsact"
	restart             = "restart: programs are attached"
	changeEncapsulation = "change of an encapsulation"
	changeNamespace     = "change of a namespace"
	changeRole          = "change of an interface's role"
	removal             = "removal: until no packet is treated"
)

// changeCurves are the curves in the order in which they are shown.
var changeCurves = []string{firstStart, firstInXDP, firstInClsact, restart, changeEncapsulation, changeNamespace, changeRole, removal}

// changeAims are the project's aims at 1000 interfaces and encapsulations.
var changeAims = map[string]float64{
	firstStart: 2e9, firstInXDP: 2e9, firstInClsact: 2e9, restart: 2e9, removal: 2e9,
	changeEncapsulation: 50e6, changeNamespace: 50e6, changeRole: 50e6,
}

// changes collects times in ns of all rounds, by what changes and by the number
// of interfaces.
type changes map[string]map[int][]float64

func (c changes) add(what string, n int, took time.Duration) {
	if c[what] == nil {
		c[what] = make(map[int][]float64)
	}
	c[what][n] = append(c[what][n], float64(took.Nanoseconds()))
}

func runChange(ctx context.Context, o harness.Options) (report.Result, error) {
	return measureChange(ctx, o, []int{1, 10, 100, 200, 1000})
}

// measureChange measures the time until a configuration takes effect, for each
// number of interfaces; the first number must be one. It ignores the duration in
// the options.
func measureChange(ctx context.Context, o harness.Options, numbers []int) (report.Result, error) {
	directory, release, err := harness.PrivatePins()
	if err != nil {
		return report.Result{}, err
	}
	defer release()
	c := make(changes)
	for round := range o.Rounds {
		o.Announce("round %d of %d", round+1, o.Rounds)
		for _, n := range numbers {
			if err := ctx.Err(); err != nil {
				return report.Result{}, err
			}
			pins := filepath.Join(directory, fmt.Sprintf("%d-%d", round, n))
			if err := c.measure(n, pins); err != nil {
				return report.Result{}, fmt.Errorf("%d interfaces: %w", n, err)
			}
		}
	}
	return c.result(numbers), nil
}

// measure makes a node with n interfaces and as many encapsulations, and changes
// its configuration.
func (c changes) measure(n int, pins string) error {
	ns, err := harness.NewNamespace()
	if err != nil {
		return err
	}
	defer ns.Close()
	return harness.InNamespace(ns, func() error {
		cfg, err := manyInterfaces(n)
		if err != nil {
			return err
		}
		if err := cfg.Node.Validate(); err != nil {
			return err
		}
		if err := c.change(cfg, n, pins); err != nil {
			return err
		}
		for _, first := range []struct {
			what string
			mode datapath.AttachMode
		}{{firstInXDP, datapath.AttachXDP}, {firstInClsact, datapath.AttachClsact}} {
			if err := c.first(cfg, n, pins, first.what, first.mode); err != nil {
				return fmt.Errorf("%s: %w", first.what, err)
			}
		}
		return nil
	})
}

// first applies the configuration where nothing is attached, in a mode.
func (c changes) first(cfg datapath.Config, n int, pins, what string, mode datapath.AttachMode) error {
	cfg.Attach = make(map[model.IfIndex]datapath.AttachMode)
	for _, i := range cfg.Node.Interfaces {
		cfg.Attach[i.Index] = mode
	}
	begun := time.Now()
	d, err := datapath.Open(datapath.Options{PinPath: pins})
	if err != nil {
		return err
	}
	if err = d.Apply(cfg); err == nil {
		c.add(what, n, time.Since(begun))
	}
	err = errors.Join(err, d.Remove())
	d.AwaitLeft()
	return err
}

// change applies the configuration, and then others that differ from it a little.
func (c changes) change(cfg datapath.Config, n int, pins string) (err error) {
	d, err := datapath.Open(datapath.Options{PinPath: pins})
	if err != nil {
		return err
	}
	defer func() {
		begun := time.Now()
		err = errors.Join(err, d.Remove())
		c.add(removal, n, time.Since(begun))
		d.AwaitLeft()
	}()
	apply := func(what string, begun time.Time) error {
		if err := d.Apply(cfg); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		c.add(what, n, time.Since(begun))
		return nil
	}
	if err := apply(firstStart, time.Now()); err != nil {
		return err
	}

	cfg.Node.Encapsulations = slices.Clone(cfg.Node.Encapsulations)
	cfg.Node.Encapsulations[n/2].Options = model.Traces(oneNode(typeTimes))
	if err := apply(changeEncapsulation, time.Now()); err != nil {
		return err
	}
	cfg.Node.Namespaces = slices.Clone(cfg.Node.Namespaces)
	cfg.Node.Namespaces[0].Data++
	if err := apply(changeNamespace, time.Now()); err != nil {
		return err
	}
	cfg.Node.Interfaces = slices.Clone(cfg.Node.Interfaces)
	cfg.Node.Interfaces[n/2].Roles = model.RoleEgress
	cfg.Node.Interfaces[n/2].Boundary = model.BoundaryIgnore
	if err := apply(changeRole, time.Now()); err != nil {
		return err
	}

	if err := d.Close(); err != nil {
		return err
	}
	begun := time.Now()
	again, err := datapath.Open(datapath.Options{PinPath: pins})
	if err != nil {
		return err
	}
	d = again
	return apply(restart, begun)
}

// manyInterfaces makes n interfaces in this namespace, each with an
// encapsulation.
func manyInterfaces(n int) (datapath.Config, error) {
	node := withEncapsulations(nodeConfig(), n)
	node.Interfaces = nil
	indexes, err := harness.AddInterfaces(n)
	if err != nil {
		return datapath.Config{}, err
	}
	for i, index := range indexes {
		node.Interfaces = append(node.Interfaces, model.Interface{
			Index: index, Name: fmt.Sprintf("n%d", i), ID: ioam.InterfaceID(i + 1), IDWide: ioam.InterfaceIDWide(i + 1),
			Roles: model.RoleIngress | model.RoleEgress, MTU: 1500,
		})
		node.Encapsulations[i].Interface = index
	}
	return datapath.Config{Node: node}, nil
}

func (c changes) result(numbers []int) report.Result {
	r := report.Result{
		Baseline: "the same with one interface",
		Axis:     "interfaces, each with an encapsulation", X: "number",
		Notes: []string{
			"The time is from the call until all hooks use the new configuration. The aim is for 1000 interfaces.",
			"The first start waits for the kernel: it attaches one program after the other to tcx, and waits each time until no CPU uses the previous list. Where the driver has native XDP, that holds for egress alone.",
			"With attach: clsact it does not wait, but Linux drops what an interface sends while a queueing discipline is added to it.",
			"A removal replaces all programs by empty ones. It waits for half a second while the kernel takes these off, and does the rest in the background.",
		},
	}
	for _, what := range changeCurves {
		one := harness.Median(c[what][numbers[0]])
		for _, n := range numbers {
			values := c[what][n]
			p := report.NewPoint(numberOf(what, "interfaces"), float64(n))
			p.NS, p.Reference = harness.Figure(harness.Median(values), 0), report.Round(one, 0)
			p.Ratio, p.Spread = report.Round(harness.Median(values)/one, 3), harness.Spread(values, 0)
			if n == 1000 {
				p.Aim = changeAims[what]
			}
			r.Points = append(r.Points, p)
		}
	}
	return r
}
