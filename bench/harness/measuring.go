// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// series is what was measured of a variant: for each round its value, and those
// of the variants that it is compared with.
type series struct {
	own, against, plain, bare []float64

	setups  []int // at which round each set-up but the first begins
	exports report.Exports
}

// measuring is an experiment in progress.
type measuring struct {
	site    *Site
	results map[*Variant]*series

	guard   sync.Mutex       // of missing, while lines are raised
	missing map[string]error // lines that this kernel does not support
}

// RunExperiment raises the lines of an experiment, as often as the options say, and
// measures its variants in turns. Where memory lies differs from one set-up to the
// next, and with it the rate of the same programs: one set-up says how stable a
// figure is, and several say which it is.
func RunExperiment(ctx context.Context, o Options, e Experiment) (r report.Result, err error) {
	if o.Brief {
		e = e.Brief()
	}
	m := &measuring{missing: make(map[string]error), results: make(map[*Variant]*series)}
	if e.Apart {
		apart, release, fault := KeepApart()
		if fault != nil {
			return report.Result{}, fault
		}
		defer func() { err = errors.Join(err, release()) }()
		if !apart {
			e.Notes = append(slices.Clone(e.Notes), "There is one CPU: who reads postcards takes its time from the node.")
		}
	}
	setups := min(max(o.Setups, 1), o.Rounds)
	share := o.Duration / time.Duration(o.Rounds*max(e.Bursts(), 1))
	begun := false
	for n := range setups {
		rounds := o.Rounds*(n+1)/setups - o.Rounds*n/setups
		o.Announce("set-up %d of %d: raising the lines of %d variants", n+1, setups, len(e.Variants))
		err := m.setUp(ctx, e, func() error {
			e.Variants = slices.DeleteFunc(slices.Clone(e.Variants), func(v *Variant) bool { return m.missing[v.key] != nil })
			if !begun {
				begun = true
				if err := o.Alternates.Begin(e.turnNames()); err != nil {
					return err
				}
			}
			return m.rounds(ctx, o, e, rounds, share)
		})
		if err != nil {
			return report.Result{}, err
		}
	}
	r = report.Result{Baseline: e.Baseline, Axis: e.Axis, X: e.X, Setups: setups, Notes: slices.Clone(e.Notes)}
	for key, reason := range m.missing {
		r.Notes = append(r.Notes, fmt.Sprintf("Not measured: %s. %v.", key, reason))
	}
	for _, v := range e.Variants {
		r.Points = append(r.Points, m.results[v].point(v))
	}
	return r, nil
}

// setUp raises all lines, measures, and takes them down.
func (m *measuring) setUp(ctx context.Context, e Experiment, measure func() error) (err error) {
	if m.site, err = NewSite(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.site.Close()) }()
	if err := m.raise(ctx, e); err != nil {
		return err
	}
	for _, s := range m.results {
		s.setups = append(s.setups, len(s.own))
	}
	if err := measure(); err != nil {
		return err
	}
	for _, l := range m.site.Lines {
		if err := l.checkFlows(); err != nil {
			return err
		}
	}
	return nil
}

// raise makes every line that a variant or its baseline needs, several in
// parallel, as the kernel's verifier takes most of the time.
func (m *measuring) raise(ctx context.Context, e Experiment) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	begun := make(map[string]bool)
	for _, v := range e.Variants {
		for _, each := range (Turn{v}).Members() {
			each.key, each.looked = each.LineKey(), false
			if begun[each.key] {
				continue
			}
			number := len(begun)
			begun[each.key] = true
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				err := m.site.Add(number, each.key, each.Line, Links{Queues: each.Queues, SinkInXDP: each.SinkInXDP})
				switch {
				case errors.Is(err, errNoKernelIOAM):
					m.guard.Lock()
					defer m.guard.Unlock()
					m.missing[each.key] = err
				case err != nil:
					return fmt.Errorf("%s: %w", each.Is, err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// rounds measures every variant once per round, and reverses the order each time.
func (m *measuring) rounds(ctx context.Context, o Options, e Experiment, rounds int, share time.Duration) error {
	list := e.turns()
	for round := range rounds {
		o.Announce("round %d of %d", round+1, rounds)
		for _, t := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := o.Alternates.Turn(t.name(), func() ([]report.Point, error) {
				return m.turn(t, share, round%2 == 1)
			})
			if err != nil {
				return err
			}
		}
		slices.Reverse(list)
	}
	return nil
}

// turn measures variants and what they are compared with one right after the
// other, so that other work on the machine affects them alike.
func (m *measuring) turn(t Turn, share time.Duration, backwards bool) (points []report.Point, err error) {
	list := t.Members()
	if backwards {
		slices.Reverse(list)
	}
	values := make(map[*Variant]float64)
	for _, each := range list {
		value, err := m.burst(each, share)
		if err != nil {
			return nil, fmt.Errorf("%s at %v: %s: %w", t[0].Is, t[0].X, each.Is, err)
		}
		values[each] = value
	}
	for _, v := range t {
		now := series{own: []float64{values[v]}}
		if v.Against != nil {
			now.against = []float64{v.Against.faster(values)}
		}
		if v.Plain != nil {
			now.plain = []float64{v.Plain.faster(values)}
		}
		if v.Bare != nil {
			now.bare = []float64{values[v.Bare]}
		}
		s := m.seriesOf(v)
		s.own, s.against = append(s.own, now.own...), append(s.against, now.against...)
		s.plain, s.bare = append(s.plain, now.plain...), append(s.bare, now.bare...)
		points = append(points, now.point(v))
	}
	return points, nil
}

// faster is the figure of the variant, or of its rival if that is better.
func (v *Variant) faster(values map[*Variant]float64) float64 {
	if v.Rival == nil {
		return values[v]
	}
	if v.Timed {
		return min(values[v], values[v.Rival])
	}
	return max(values[v], values[v.Rival])
}

func (m *measuring) seriesOf(v *Variant) *series {
	if m.results[v] == nil {
		m.results[v] = &series{}
	}
	return m.results[v]
}

// burst measures a variant once. The first time, it checks what arrives.
func (m *measuring) burst(v *Variant, share time.Duration) (value float64, err error) {
	l := m.site.Lines[v.key]
	if v.Shared {
		release, fault := shareCPUs(max(v.Send.Senders, 1))
		if fault != nil {
			return 0, fault
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	if err := m.lookAt(v, l); err != nil {
		return 0, err
	}
	before, err := l.counters()
	if err != nil {
		return 0, err
	}
	measure := m.site.Traffic.Rate
	if v.Timed {
		measure = m.site.Traffic.delay
	}
	value, packets, err := measure(l, v.Send, share)
	if err != nil {
		return 0, err
	}
	if packets == 0 {
		return 0, errors.New("no packet arrived at the sink")
	}
	after, err := l.counters()
	if err != nil {
		return 0, err
	}
	if err := v.check(l, before, after, packets); err != nil {
		return 0, err
	}
	return value, m.exports(v, l, before, after)
}

// lookAt checks the packets of a variant at the sink, before it is first measured.
func (m *measuring) lookAt(v *Variant, l *line) error {
	if v.looked {
		return nil
	}
	counted := v.watchCounting(l)
	arrived, err := m.site.Traffic.look(l, v.Send)
	if err != nil {
		return err
	}
	if err := v.Arrives(v.Send.like(arrived), arrived); err != nil {
		return err
	}
	l.looks += looked
	if _, err := m.site.Traffic.settled(); err != nil {
		return err
	}
	if err := counted(looked); err != nil {
		return err
	}
	if v.Audits != nil {
		if err := m.site.Traffic.audit(l, v); err != nil {
			return err
		}
	}
	v.looked = true
	return nil
}

// counters returns the counters of each node; none for nodes without our
// programs.
func (l *line) counters() ([][]datapath.Counters, error) {
	out := make([][]datapath.Counters, len(l.Nodes))
	for i, n := range l.Nodes {
		if n.counters == nil {
			continue
		}
		var err error
		if out[i], err = n.counters(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// check compares the nodes' counters with the expected outcomes of the packets.
func (v *Variant) check(l *line, before, after [][]datapath.Counters, packets uint64) error {
	for _, w := range v.Wants {
		index := w.interfaceOf(l)
		n := w.of(after[w.Node], index) - w.of(before[w.Node], index)
		expected := float64(packets)
		if w.Share > 0 {
			expected *= w.Share
		}
		// Packets may be lost after the hook, and sampling may be inside a
		// period.
		least, most := expected-expected/100-2, expected+expected/50+2
		if got := float64(n); got < least || w.Share > 0 && got > most {
			return fmt.Errorf("%d of %d packets ended as %s at the %s hook of node %d instead of %.0f",
				n, packets, w.Outcome, w.Hook, w.Node+1, expected)
		}
	}
	return nil
}

// interfaceOf is the interface whose counters Want is about.
func (w Want) interfaceOf(l *line) model.IfIndex {
	if w.Hook == datapath.HookEgressTC {
		return l.Nodes[w.Node].OutIndex()
	}
	return l.Nodes[w.Node].InIndex()
}

func (w Want) of(counters []datapath.Counters, index model.IfIndex) uint64 {
	for _, c := range counters {
		switch {
		case c.Index != index:
		case w.Hook == HookForwarded:
			return c.Forwarded[w.Outcome]
		case w.Hook == datapath.HookEgressTC:
			return c.Egress[w.Outcome]
		default:
			return c.Ingress[w.Outcome]
		}
	}
	return 0
}
