// SPDX-License-Identifier: Apache-2.0

package bench

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

// experiment is a table: what is sent through which lines, and what has to
// come of it. A new experiment is a new table; how it is measured is here.
type experiment struct {
	axis     string // what x is
	x        string // the same in a word or two
	baseline string // what the ratio is to
	variants []*variant
	notes    []string
	// apart keeps whoever reads samples off the CPU that forwards.
	apart bool
	// together is how many variants take turns with one measurement of what all
	// of them are compared with; 0 is one.
	together int
}

// variant is one point of a curve: packets through a line.
type variant struct {
	is      report.Dimensions // the curve
	x       float64
	line    []treatment // one for each node
	send    stream
	arrives arrival
	wants   []want
	// timed: the least time from source to sink is measured, instead of packets
	// per second at the sink.
	timed bool
	// sinkInXDP takes packets before the kernel makes an skb of them, which
	// only those have no need of that the node redirects in XDP.
	sinkInXDP bool

	// against is the variant that this one is compared with, itself when nil.
	against *variant
	// plain is the same without a Hop-by-Hop header, where against has one.
	plain *variant
	// The least ratio to either that the project asks for; 0: none. The limit is
	// what may keep it from there.
	aim, plainAim float64
	limit         *report.Limit
	// exports is how the first node exports what the first of wants counts; none
	// for packets without anything to export.
	exports model.ExportMode
	// thorough variants are left out when a benchmark runs in passing.
	thorough bool

	key    string // of the line
	looked bool
}

// arrival holds what arrived at the sink against what was sent.
type arrival func(sent, arrived []byte) error

// want is how a share of the packets must end at a hook of a node.
type want struct {
	node    int // 0 is the first of the line
	hook    datapath.Hook
	outcome model.Outcome
	share   float64 // 0: all of them
}

// hookForwarded stands for what a node forwards without the stack.
const hookForwarded datapath.Hook = "fast forwarding"

// has wants all packets to have an outcome at the node's ingress or egress.
func has(node int, hook datapath.Hook, outcome model.Outcome) want {
	return want{node: node, hook: hook, outcome: outcome}
}

// turn is variants that are compared with the same ones.
type turn []*variant

// turns divides the variants of an experiment, in their order.
func (e experiment) turns() []turn {
	type others struct{ against, plain *variant }
	var list []turn
	open := make(map[others]int) // the turn that has room
	for _, v := range e.variants {
		key := others{v.against, v.plain}
		if i, ok := open[key]; ok && len(list[i]) < e.together {
			list[i] = append(list[i], v)
			continue
		}
		open[key] = len(list)
		list = append(list, turn{v})
	}
	return list
}

// members are what is measured in a turn.
func (t turn) members() (list []*variant) {
	for _, other := range []*variant{t[0].against, t[0].plain} {
		if other != nil && !slices.Contains(list, other) {
			list = append(list, other)
		}
	}
	for _, v := range t {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// bursts is how many measurements a round has.
func (e experiment) bursts() (n int) {
	for _, t := range e.turns() {
		n += len(t.members())
	}
	return n
}

// brief is the experiment as it is measured in passing.
func (e experiment) brief() experiment {
	e.variants = slices.DeleteFunc(slices.Clone(e.variants), func(v *variant) bool { return v.thorough })
	return e
}

// ends are the variants with the least and the greatest x of each curve.
func ends(list []*variant) []*variant {
	end := make(map[report.Dimensions][2]float64)
	for _, v := range list {
		was, ok := end[v.is]
		if !ok {
			was = [2]float64{v.x, v.x}
		}
		end[v.is] = [2]float64{min(was[0], v.x), max(was[1], v.x)}
	}
	return slices.DeleteFunc(slices.Clone(list), func(v *variant) bool { return v.x > end[v.is][0] && v.x < end[v.is][1] })
}

// endsInPassing leaves what is between the ends of each curve to measuring in
// earnest.
func (e *experiment) endsInPassing() {
	kept := ends(e.variants)
	for _, v := range e.variants {
		v.thorough = !slices.Contains(kept, v)
	}
}

// series is what was measured of a variant: a value for each round, and what
// the variants that it is compared with had in the same round.
type series struct {
	own, against, plain []float64
	exports             report.Exports
}

// measuring is an experiment in progress.
type measuring struct {
	site    *site
	results map[*variant]*series

	guard   sync.Mutex       // of what follows, while lines are raised
	missing map[string]error // lines that this kernel cannot have
}

// runExperiment raises the lines of an experiment and lets its variants take
// turns.
func runExperiment(ctx context.Context, o Options, e experiment) (r report.Result, err error) {
	if o.Brief {
		e = e.brief()
	}
	m := &measuring{missing: make(map[string]error), results: make(map[*variant]*series)}
	if m.site, err = newSite(); err != nil {
		return report.Result{}, err
	}
	defer func() { err = errors.Join(err, m.site.close()) }()
	if err := m.raise(ctx, o, e); err != nil {
		return report.Result{}, err
	}
	if e.apart {
		apart, release, fault := keepApart()
		if fault != nil {
			return report.Result{}, fault
		}
		defer func() { err = errors.Join(err, release()) }()
		if !apart {
			e.notes = append(slices.Clone(e.notes), "There is one CPU: who reads postcards takes its time from the node.")
		}
	}
	e.variants = slices.DeleteFunc(slices.Clone(e.variants), func(v *variant) bool { return m.missing[v.key] != nil })
	if err := m.rounds(ctx, o, e); err != nil {
		return report.Result{}, err
	}
	for _, l := range m.site.lines {
		if err := l.checkFlows(); err != nil {
			return report.Result{}, err
		}
	}
	r = report.Result{Baseline: e.baseline, Axis: e.axis, X: e.x, Notes: slices.Clone(e.notes)}
	for key, reason := range m.missing {
		r.Notes = append(r.Notes, fmt.Sprintf("Not measured: %s. %v.", key, reason))
	}
	for _, v := range e.variants {
		r.Points = append(r.Points, m.point(v))
	}
	return r, nil
}

// raise makes every line that a variant or its baseline needs, several at a
// time: most of it is the kernel's verifier at work.
func (m *measuring) raise(ctx context.Context, o Options, e experiment) error {
	o.progress("raising the lines of %d variants", len(e.variants))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	begun := make(map[string]bool)
	for _, v := range e.variants {
		for _, each := range (turn{v}).members() {
			each.key = each.lineKey()
			if begun[each.key] {
				continue
			}
			number := len(begun)
			begun[each.key] = true
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				err := m.site.add(number, each.key, each.line, each.sinkInXDP)
				switch {
				case errors.Is(err, errNoKernelIOAM):
					m.guard.Lock()
					defer m.guard.Unlock()
					m.missing[each.key] = err
				case err != nil:
					return fmt.Errorf("%s: %w", each.is, err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// lineKey tells lines apart.
func (v *variant) lineKey() string {
	var names []string
	for _, t := range v.line {
		names = append(names, t.name)
	}
	if v.sinkInXDP {
		names = append(names, "sink in XDP")
	}
	return strings.Join(names, " | ")
}

// rounds measures every variant once a round, in an order that is turned round
// every time.
func (m *measuring) rounds(ctx context.Context, o Options, e experiment) error {
	share := o.Duration / time.Duration(o.Rounds*max(e.bursts(), 1))
	list := e.turns()
	for round := range o.Rounds {
		o.progress("round %d of %d", round+1, o.Rounds)
		for _, t := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := m.turn(t, share, round%2 == 1); err != nil {
				return err
			}
		}
		slices.Reverse(list)
	}
	return nil
}

// turn measures variants and what they are compared with, one right after the
// other: what else the machine does meets them alike.
func (m *measuring) turn(t turn, share time.Duration, backwards bool) error {
	list := t.members()
	if backwards {
		slices.Reverse(list)
	}
	values := make(map[*variant]float64)
	for _, each := range list {
		value, err := m.burst(each, share)
		if err != nil {
			return fmt.Errorf("%s at %v: %s: %w", t[0].is, t[0].x, each.is, err)
		}
		values[each] = value
	}
	for _, v := range t {
		s := m.seriesOf(v)
		s.own = append(s.own, values[v])
		if v.against != nil {
			s.against = append(s.against, values[v.against])
		}
		if v.plain != nil {
			s.plain = append(s.plain, values[v.plain])
		}
	}
	return nil
}

func (m *measuring) seriesOf(v *variant) *series {
	if m.results[v] == nil {
		m.results[v] = &series{}
	}
	return m.results[v]
}

// burst measures a variant once. The first time, it looks at what arrives.
func (m *measuring) burst(v *variant, share time.Duration) (float64, error) {
	l := m.site.lines[v.key]
	if !v.looked {
		arrived, err := m.site.traffic.look(l, v.send)
		if err != nil {
			return 0, err
		}
		if err := v.arrives(v.send.like(arrived), arrived); err != nil {
			return 0, err
		}
		v.looked = true
		l.looks += looked
		if _, err := m.site.traffic.settled(); err != nil {
			return 0, err
		}
	}
	before, err := l.counters()
	if err != nil {
		return 0, err
	}
	measure := m.site.traffic.rate
	if v.timed {
		measure = m.site.traffic.delay
	}
	value, packets, err := measure(l, v.send, share)
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

// counters reads those of each node; none for nodes without programs of ours.
func (l *line) counters() ([][]datapath.Counters, error) {
	out := make([][]datapath.Counters, len(l.nodes))
	for i, n := range l.nodes {
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

// check holds the nodes' counters to what the packets had to become.
func (v *variant) check(l *line, before, after [][]datapath.Counters, packets uint64) error {
	for _, w := range v.wants {
		index := w.interfaceOf(l)
		n := w.of(after[w.node], index) - w.of(before[w.node], index)
		expected := float64(packets)
		if w.share > 0 {
			expected *= w.share
		}
		// Packets may be lost behind the hook, and a period of sampling be begun.
		least, most := expected-expected/100-2, expected+expected/50+2
		if got := float64(n); got < least || w.share > 0 && got > most {
			return fmt.Errorf("%d of %d packets ended as %s at the %s hook of node %d instead of %.0f",
				n, packets, w.outcome, w.hook, w.node+1, expected)
		}
	}
	return nil
}

// interfaceOf is the interface that counts.
func (w want) interfaceOf(l *line) model.IfIndex {
	if w.hook == datapath.HookEgressTC {
		return l.nodes[w.node].outIndex()
	}
	return l.nodes[w.node].inIndex()
}

func (w want) of(counters []datapath.Counters, index model.IfIndex) uint64 {
	for _, c := range counters {
		switch {
		case c.Index != index:
		case w.hook == hookForwarded:
			return c.Forwarded[w.outcome]
		case w.hook == datapath.HookEgressTC:
			return c.Egress[w.outcome]
		default:
			return c.Ingress[w.outcome]
		}
	}
	return 0
}

// point sums a variant up: medians over the rounds.
func (m *measuring) point(v *variant) report.Point {
	s := m.results[v]
	against := s.against
	if v.against == nil {
		against = s.own
	}
	ratios, added := make([]float64, len(s.own)), make([]float64, len(s.own))
	for i, own := range s.own {
		ratios[i], added[i] = own/against[i], own-against[i]
	}
	p := report.NewPoint(v.is, v.x)
	p.Aim, p.PlainAim, p.Ratio, p.Reference = v.aim, v.plainAim, report.Round(median(ratios), 4), report.Round(median(against), 0)
	if v.aim != 0 || v.plainAim != 0 {
		p.Limit = v.limit
	}
	if s.exports != (report.Exports{}) {
		p.Exports = &s.exports
	}
	relative := make([]float64, len(s.own))
	for i, own := range s.own {
		relative[i] = own / median(s.own)
	}
	switch {
	case v.timed && v.against == nil:
		p.NS, p.Spread = figure(median(s.own), 0), spread(s.own, 1)
	case v.timed:
		p.NS, p.Spread = figure(median(added), 1), spread(added, 1)
	case v.against == nil:
		p.PPS, p.Spread = figure(median(s.own), 0), spread(relative, 4)
	default:
		p.PPS, p.Spread = figure(median(s.own), 0), spread(ratios, 4)
	}
	if v.plain == nil {
		if v.against == nil || v.against.line[0].config == nil {
			p.PlainRatio = p.Ratio
		}
		return p
	}
	for i, own := range s.own {
		ratios[i] = own / s.plain[i]
	}
	p.PlainRatio = report.Round(median(ratios), 4)
	return p
}

func figure(v float64, digits int) *float64 {
	v = report.Round(v, digits)
	return &v
}
