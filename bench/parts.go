// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// sizeOfParts is the length of every frame, and restoredBytes are put back of
// each: so that only the programs differ.
const (
	sizeOfParts   = 118
	restoredBytes = 100
)

// step is a program on a packet; parts of the way are differences of steps.
type step struct {
	name    string
	node    *datapath.Runner     // nil for a program that does nothing
	plane   *datapath.Forwarding // nil where nothing is forwarded
	program *ebpf.Program
	frame   []byte
	grows   int  // bytes that the program adds
	keep    bool // behind the IPv6 header
	restore *restorer
	in      skb
	records bool // each packet writes one
	counted func(datapath.Counters) uint64

	took []float64 // ns, by round
}

// runs is how often the step runs at a time.
func (s *step) runs() int {
	if s.records {
		return recordRuns
	}
	return batchRuns
}

// partsRun measures the parts of a packet's way.
type partsRun struct {
	site    *site
	node    *node
	xdp, tc *restorer
	empty   []*ebpf.Program
	steps   map[string]*step
	order   []*step

	grow, shrink, egressGrow, egressShrink []float64            // ns, by round
	live                                   map[string][]float64 // ns, by line and round
}

// Lines that live frames pass.
const (
	liveStack     = "untreated"
	liveArrival   = "a hook at ingress"
	liveDeparture = "a hook at egress"
	liveFast      = "fast"
)

var liveLines = []struct {
	name string
	treatment
}{
	{liveStack, untreated}, {liveArrival, emptyArrival}, {liveDeparture, emptyDeparture},
	{liveFast, transit(datapath.AttachXDP).forwardingFast()},
}

func runParts(ctx context.Context, o Options) (r report.Result, err error) {
	p := &partsRun{steps: make(map[string]*step), live: make(map[string][]float64)}
	if p.site, err = newSite(); err != nil {
		return report.Result{}, err
	}
	defer func() { err = errors.Join(err, p.site.close()) }()
	for i, l := range liveLines {
		if err := p.site.add(i, l.name, []treatment{l.treatment}, l.fast); err != nil {
			return report.Result{}, err
		}
	}
	p.node = p.site.lines[liveStack].nodes[0]
	// the kernel is asked for a route in the namespace of who runs the program
	err = inNamespace(p.node.ns, func() error {
		defer p.close()
		return p.measure(ctx, o)
	})
	if err != nil {
		return report.Result{}, err
	}
	return p.result(), nil
}

func (p *partsRun) close() {
	for _, s := range p.order {
		if s.node != nil {
			s.node.Close()
		}
	}
	for _, r := range []*restorer{p.xdp, p.tc} {
		if r != nil {
			r.close()
		}
	}
	for _, program := range p.empty {
		program.Close()
	}
}

func (p *partsRun) measure(ctx context.Context, o Options) error {
	o.progress("loading the programs")
	if err := p.load(); err != nil {
		return err
	}
	share := o.Duration / time.Duration(o.Rounds)
	for round := range o.Rounds {
		o.progress("round %d of %d", round+1, o.Rounds)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.round(share/2, round%2 == 1); err != nil {
			return err
		}
		if err := p.frames(share / 2); err != nil {
			return err
		}
	}
	return nil
}

// frames lets live frames pass each line in turn for a while.
func (p *partsRun) frames(share time.Duration) error {
	took, lines := make(map[string][]float64), slices.Clone(liveLines)
	for began := time.Now(); time.Since(began) < share || len(took) == 0; slices.Reverse(lines) {
		for _, l := range lines {
			s := stream{frame: plain(destination, sizeOfParts)}
			pps, _, err := p.site.traffic.rate(p.site.lines[l.name], s, shortBurst)
			if err != nil {
				return err
			}
			took[l.name] = append(took[l.name], 1e9/pps)
		}
	}
	for _, l := range lines {
		p.live[l.name] = append(p.live[l.name], middle(took[l.name]))
	}
	return nil
}

// round lets all steps take turns for a while.
func (p *partsRun) round(share time.Duration, backwards bool) error {
	release, err := pinThread(0)
	if err != nil {
		return err
	}
	defer release()
	before := make(map[*step]uint64)
	for _, s := range p.order {
		if before[s], err = s.count(); err != nil {
			return err
		}
	}
	turns, batches := make(map[*step][]float64), 0
	var total time.Duration
	for ; batches < leastTurns || total < share; batches++ {
		for i := range p.order {
			s := p.order[i]
			if backwards {
				s = p.order[len(p.order)-1-i]
			}
			took, err := p.batch(s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if total += took; batches > 0 { // the first warms up
				turns[s] = append(turns[s], float64(took.Nanoseconds())/float64(s.runs()))
			}
		}
	}
	for _, s := range p.order {
		s.took = append(s.took, middle(turns[s]))
		after, err := s.count()
		if err != nil {
			return err
		}
		if n, runs := after-before[s], uint64(batches*s.runs()); s.node != nil && n+n/batchRuns+1 < runs {
			return fmt.Errorf("only %d of %d packets were what is measured: %s", n, runs, s.name)
		}
	}
	a, err := p.xdp.middleAdjustments(false, batches)
	if err != nil {
		return err
	}
	p.grow, p.shrink = append(p.grow, a.grow), append(p.shrink, a.shrink)
	if a, err = p.tc.middleAdjustments(true, batches); err != nil {
		return err
	}
	p.egressGrow, p.egressShrink = append(p.egressGrow, a.grow), append(p.egressShrink, a.shrink)
	return nil
}

// middleAdjustments is what a change of length takes in the middle of so many
// measurements.
func (r *restorer) middleAdjustments(keep bool, times int) (adjustments, error) {
	var grow, shrink []float64
	for range times {
		a, err := r.measureAdjustments(keep, batchRuns)
		if err != nil {
			return adjustments{}, err
		}
		grow, shrink = append(grow, a.grow), append(shrink, a.shrink)
	}
	return adjustments{grow: middle(grow), shrink: middle(shrink)}, nil
}

func (s *step) count() (uint64, error) {
	if s.node == nil {
		return 0, nil
	}
	counters, err := s.node.Counters()
	if err != nil {
		return 0, err
	}
	return s.counted(counters), nil
}

func (p *partsRun) batch(s *step) (time.Duration, error) {
	if s.plane != nil {
		if err := s.plane.Beat(); err != nil {
			return 0, err
		}
	}
	what := restoration{size: restoredBytes, length: len(s.frame) + s.grows, keep: s.keep}
	took, err := s.restore.run(s.program, s.frame, what, s.in, s.runs())
	if err == nil && s.records {
		err = s.node.DiscardRecords()
	}
	return took, err
}

// load makes every step.
func (p *partsRun) load() (err error) {
	if p.xdp, err = newRestorer(ebpf.XDP); err != nil {
		return err
	}
	if p.tc, err = newRestorer(ebpf.SchedCLS); err != nil {
		return err
	}
	spec, err := loadHooks()
	if err != nil {
		return err
	}
	for _, each := range []struct {
		step, program string
		restore       *restorer
	}{{stepNothing, hooksProgEmptyXdp, p.xdp}, {stepEgressNothing, hooksProgEmptyTc, p.tc}} {
		program, err := ebpf.NewProgram(spec.Programs[each.program])
		if err != nil {
			return fmt.Errorf("load a program that does nothing: %w", err)
		}
		p.empty = append(p.empty, program)
		p.order = append(p.order, &step{name: each.step, program: program, restore: each.restore, frame: plain(elsewhere, sizeOfParts)})
	}
	for _, l := range stepsOfParts() {
		s, err := p.loadStep(l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		p.order = append(p.order, s)
	}
	for _, s := range p.order {
		p.steps[s.name] = s
	}
	return nil
}

func (p *partsRun) loadStep(l stepSpec) (*step, error) {
	cfg := datapath.Config{Node: place(l.config, p.node.inIndex(), p.node.outIndex())}
	if l.fast {
		cfg.Fast = map[model.IfIndex]bool{p.node.inIndex(): true}
	}
	if err := cfg.Node.Validate(); err != nil {
		return nil, err
	}
	s := &step{name: l.name, restore: p.xdp, grows: l.grows, keep: l.keep, records: l.records, counted: l.counted}
	index, hook := p.node.inIndex(), datapath.HookIngressXDP
	if l.egress {
		s.restore, s.in = p.tc, arrivedAt(index)
		index, hook = p.node.outIndex(), datapath.HookEgressTC
	}
	s.frame = with(l.frame, 0, 0, 0, 0, 0, 0, 0) // the address of a Runner's interfaces
	if l.arrives {
		var err error
		if s.frame, err = arrived(cfg, p.node.inIndex(), s.frame); err != nil {
			return nil, err
		}
	}
	runner, err := datapath.NewRunner(cfg, index, hook)
	if err != nil {
		return nil, err
	}
	s.node, s.program = runner, runner.Program(hook)
	if err := s.prepare(l, p.node.outIndex()); err != nil {
		runner.Close()
		return nil, err
	}
	return s, nil
}

// prepare tells the programs what an agent would.
func (s *step) prepare(l stepSpec, out model.IfIndex) (err error) {
	if l.unread {
		return s.node.SetRecordsWanted(false)
	}
	if !l.fast {
		return nil
	}
	if s.plane, err = s.node.Forwarding(); err != nil {
		return err
	}
	if err := s.plane.Renew(datapath.Routing{Key: l.key, MTU: datapath.AnyMTU}); err != nil || l.noDevice {
		return err
	}
	return s.plane.SetDevices([]model.IfIndex{out})
}

// result takes the differences.
func (p *partsRun) result() report.Result {
	r := report.Result{
		Baseline: "the program and packet with all but this part",
		Axis:     "bytes of the frame", X: "bytes",
		Notes: []string{
			"Programs and packets take turns in batches of one run; a part is the difference between two of them. Caches are warm, and nothing else happens: a part is what it takes at least.",
		},
	}
	for _, part := range parts() {
		var over, ratio, reference []float64
		for i := range p.grow {
			took, before := part.of(p, i)
			over, ratio, reference = append(over, took), append(ratio, (before+took)/before), append(reference, before)
		}
		p := report.NewPoint(part.is(), sizeOfParts)
		p.NS, p.Spread = figure(median(over), 1), spread(over, 1)
		p.Reference, p.Ratio = report.Round(median(reference), 1), report.Round(median(ratio), 3)
		r.Points = append(r.Points, p)
		r.Notes = append(r.Notes, fmt.Sprintf("*%s*: %s", part.name, part.limit))
	}
	return r
}
