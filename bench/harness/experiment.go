// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// Experiment is a table of variants: what is sent through which lines, and the
// expected result. A new experiment is a new table; this file measures it.
type Experiment struct {
	Axis     string // what x is
	X        string // short form of Axis
	Baseline string // what the ratio compares with
	Variants []*Variant
	Notes    []string
	// Apart keeps readers of samples off the forwarding CPU.
	Apart bool
	// Together is how many variants share one measurement of what they are
	// compared with; 0 is one.
	Together int
}

// Variant is one point of a curve: packets that cross a line.
type Variant struct {
	Is      report.Dimensions // its curve
	X       float64
	Line    []Treatment // one for each node
	Send    Stream
	Arrives Arrival
	Wants   []Want
	// Counted says that each packet is of a flow that the first node measures.
	Counted bool
	// Timed measures the least time from source to sink instead of packets per
	// second at the sink.
	Timed bool
	// SinkInXDP takes packets before the kernel makes an skb of them. Only
	// packets that the node redirects in XDP need no skb.
	SinkInXDP bool
	// Queues is how many each link has; 0: one for each CPU. A kernel that has
	// several hashes each packet to choose one.
	Queues int

	// Against is the variant that this one is compared with; nil compares with
	// itself.
	Against *Variant
	// Plain is like Against without a Hop-by-Hop header, where Against has one.
	Plain *Variant
	// Rival is the same packets in other lines, for a baseline: variants are
	// compared with the faster of the two.
	Rival *Variant
	// Aim and PlainAim are the least ratios to Against and Plain that the project
	// wants; 0: none. Limit says what may keep it from the aim.
	Aim, PlainAim float64
	Limit         *report.Limit
	// Exports is how the first node exports the packets that Wants[0] counts;
	// none for packets that carry nothing to export.
	Exports model.ExportMode
	// Shared keeps those that read the exports to the CPUs that send, where they
	// go first: all work is then done by these CPUs, however many they are.
	Shared bool
	// Audits checks the numbers in packets before the first measurement; nil: there
	// are none.
	Audits *Audit
	// Thorough variants are only measured in full runs.
	Thorough bool

	key    string // of Line
	looked bool
}

// Aims sets a variant's aim, and the limit that may keep it from that.
func (v *Variant) Aims(aim float64, l *report.Limit) { v.Aim, v.Limit = aim, l }

// PlainAims sets the aim of a variant that is compared with plain packets, too.
func (v *Variant) PlainAims(aim float64, l *report.Limit) { v.PlainAim, v.Limit = aim, l }

// At sets a variant's curve, x and comparison.
func (v *Variant) At(d report.Dimensions, x float64, against *Variant) *Variant {
	v.Is, v.X, v.Against = d, x, against
	return v
}

// Arrival compares what arrived at the sink with what was sent.
type Arrival func(sent, arrived []byte) error

// Want says that a share of the packets must have an outcome at a node's hook.
type Want struct {
	Node    int // 0 is the first in the line
	Hook    datapath.Hook
	Outcome model.Outcome
	Share   float64 // 0: all packets
}

// HookForwarded stands for packets that a node forwards without the stack.
const HookForwarded datapath.Hook = "fast forwarding"

// Has returns the Want that all packets have an outcome at the node's ingress or
// egress.
func Has(node int, hook datapath.Hook, outcome model.Outcome) Want {
	return Want{Node: node, Hook: hook, Outcome: outcome}
}

// Brief is the experiment as a short run measures it.
func (e Experiment) Brief() Experiment {
	e.Variants = slices.DeleteFunc(slices.Clone(e.Variants), func(v *Variant) bool { return v.Thorough })
	return e
}

// Ends returns the variants with the least and the greatest x of each curve.
func Ends(list []*Variant) []*Variant {
	end := make(map[report.Dimensions][2]float64)
	for _, v := range list {
		was, ok := end[v.Is]
		if !ok {
			was = [2]float64{v.X, v.X}
		}
		end[v.Is] = [2]float64{min(was[0], v.X), max(was[1], v.X)}
	}
	return slices.DeleteFunc(slices.Clone(list), func(v *Variant) bool { return v.X > end[v.Is][0] && v.X < end[v.Is][1] })
}

// EndsInPassing makes short runs measure only the ends of each curve.
func (e *Experiment) EndsInPassing() {
	kept := Ends(e.Variants)
	for _, v := range e.Variants {
		v.Thorough = !slices.Contains(kept, v)
	}
}

// series is what was measured of a variant: for each round its value, and those
// of the variants that it is compared with.
type series struct {
	own, against, plain []float64
	exports             report.Exports
}

// measuring is an experiment in progress.
type measuring struct {
	site    *Site
	results map[*Variant]*series

	guard   sync.Mutex       // of missing, while lines are raised
	missing map[string]error // lines that this kernel does not support
}

// RunExperiment raises the lines of an experiment and measures its variants in
// turns.
func RunExperiment(ctx context.Context, o Options, e Experiment) (r report.Result, err error) {
	if o.Brief {
		e = e.Brief()
	}
	m := &measuring{missing: make(map[string]error), results: make(map[*Variant]*series)}
	if m.site, err = NewSite(); err != nil {
		return report.Result{}, err
	}
	defer func() { err = errors.Join(err, m.site.Close()) }()
	if err := m.raise(ctx, o, e); err != nil {
		return report.Result{}, err
	}
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
	e.Variants = slices.DeleteFunc(slices.Clone(e.Variants), func(v *Variant) bool { return m.missing[v.key] != nil })
	if err := m.rounds(ctx, o, e); err != nil {
		return report.Result{}, err
	}
	for _, l := range m.site.Lines {
		if err := l.checkFlows(); err != nil {
			return report.Result{}, err
		}
	}
	r = report.Result{Baseline: e.Baseline, Axis: e.Axis, X: e.X, Notes: slices.Clone(e.Notes)}
	for key, reason := range m.missing {
		r.Notes = append(r.Notes, fmt.Sprintf("Not measured: %s. %v.", key, reason))
	}
	for _, v := range e.Variants {
		r.Points = append(r.Points, m.results[v].point(v))
	}
	return r, nil
}

// raise makes every line that a variant or its baseline needs, several in
// parallel, as the kernel's verifier takes most of the time.
func (m *measuring) raise(ctx context.Context, o Options, e Experiment) error {
	o.Announce("raising the lines of %d variants", len(e.Variants))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	begun := make(map[string]bool)
	for _, v := range e.Variants {
		for _, each := range (Turn{v}).Members() {
			each.key = each.LineKey()
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

// LineKey identifies a line.
func (v *Variant) LineKey() string {
	var names []string
	for _, t := range v.Line {
		names = append(names, t.Name)
	}
	if v.SinkInXDP {
		names = append(names, "sink in XDP")
	}
	if v.Queues > 0 {
		names = append(names, fmt.Sprintf("queues: %d", v.Queues))
	}
	return strings.Join(names, " | ")
}

// rounds measures every variant once per round, and reverses the order each time.
func (m *measuring) rounds(ctx context.Context, o Options, e Experiment) error {
	share := o.Duration / time.Duration(o.Rounds*max(e.Bursts(), 1))
	list := e.turns()
	var names []string
	for _, t := range list {
		names = append(names, t.name())
	}
	if err := o.Alternates.Begin(names); err != nil {
		return err
	}
	for round := range o.Rounds {
		o.Announce("round %d of %d", round+1, o.Rounds)
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
		s := m.seriesOf(v)
		s.own, s.against, s.plain = append(s.own, now.own...), append(s.against, now.against...), append(s.plain, now.plain...)
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
