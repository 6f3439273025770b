// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// sizeOfParts is the length of the frames, and restoredBytes are restored in each,
// so that only the programs differ. Both frames of a part with more are as long.
const (
	sizeOfParts   = 118
	restoredBytes = 100
)

// step is a program on a packet; a part of the path is the difference of two
// steps.
type step struct {
	name    string
	node    *datapath.Runner     // nil: a program that does nothing
	plane   *datapath.Forwarding // nil where nothing is forwarded
	program *ebpf.Program
	frame   []byte
	grows   int  // bytes that the program adds
	keep    bool // they are added after the IPv6 header
	bytes   int  // restored in each run
	restore *harness.Restorer
	in      harness.SKB
	records bool // each packet writes one
	values  int  // that 16 bits of the packets take in turn; 0: they are all the same
	varied  int  // where these bits are
	counted func(datapath.Counters) uint64

	took []float64 // ns, by round
}

// runs is how often the step runs in one batch.
func (s *step) runs() int {
	if s.records {
		return recordRuns
	}
	return batchRuns
}

// partsRun measures the parts of a packet's path.
type partsRun struct {
	site    *harness.Site
	node    *harness.Node
	xdp, tc *harness.Restorer
	empty   []*ebpf.Program
	steps   map[string]*step
	order   []*step

	grow, shrink, egressGrow, egressShrink []float64            // ns, by round
	live                                   map[string][]float64 // ns, by line and round
}

// Lines that live frames cross.
const (
	liveStack     = "untreated"
	liveArrival   = "a hook at ingress"
	liveDeparture = "a hook at egress"
	liveFast      = "fast"
)

var liveLines = []struct {
	name string
	harness.Treatment
}{
	{liveStack, untreated}, {liveArrival, emptyArrival}, {liveDeparture, emptyDeparture},
	{liveFast, forwardingFast(transit(datapath.AttachXDP))},
}

func runParts(ctx context.Context, o harness.Options) (report.Result, error) {
	return measureParts(ctx, o, func(report.Result) bool { return true })
}

// mostAttempts is how often parts are measured until a result is accepted.
const mostAttempts = 3

// measureParts measures with the same programs until a result is accepted, or there were enough.
func measureParts(ctx context.Context, o harness.Options, accept func(report.Result) bool) (r report.Result, err error) {
	p := &partsRun{steps: make(map[string]*step)}
	if p.site, err = harness.NewSite(); err != nil {
		return report.Result{}, err
	}
	defer func() { err = errors.Join(err, p.site.Close()) }()
	for i, l := range liveLines {
		if err := p.site.Add(i, l.name, []harness.Treatment{l.Treatment}, harness.Links{SinkInXDP: l.Fast}); err != nil {
			return report.Result{}, err
		}
	}
	p.node = p.site.Lines[liveStack].Nodes[0]
	// the kernel looks routes up in the namespace of the process that runs the
	// program
	err = harness.InNamespace(p.node.Namespace, func() error {
		defer p.close()
		o.Announce("loading the programs")
		if err := p.load(); err != nil {
			return err
		}
		for range mostAttempts {
			if err := p.measure(ctx, o); err != nil {
				return err
			}
			if r = p.result(); accept(r) {
				return nil
			}
		}
		return nil
	})
	return r, err
}

func (p *partsRun) close() {
	for _, s := range p.order {
		if s.node != nil {
			s.node.Close()
		}
	}
	for _, r := range []*harness.Restorer{p.xdp, p.tc} {
		if r != nil {
			r.Close()
		}
	}
	for _, program := range p.empty {
		program.Close()
	}
}

func (p *partsRun) measure(ctx context.Context, o harness.Options) error {
	p.forget()
	share := o.Duration / time.Duration(o.Rounds)
	for round := range o.Rounds {
		o.Announce("round %d of %d", round+1, o.Rounds)
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

// forget drops what was measured before.
func (p *partsRun) forget() {
	for _, s := range p.order {
		s.took = nil
	}
	p.grow, p.shrink, p.egressGrow, p.egressShrink = nil, nil, nil, nil
	p.live = make(map[string][]float64)
}

// frames measures live frames on each line, in turns.
func (p *partsRun) frames(share time.Duration) error {
	took, lines := make(map[string][]float64), slices.Clone(liveLines)
	for began := time.Now(); time.Since(began) < share || len(took) == 0; slices.Reverse(lines) {
		for _, l := range lines {
			s := harness.Stream{Frame: harness.Plain(harness.Destination, sizeOfParts)}
			pps, _, err := p.site.Traffic.Rate(p.site.Lines[l.name], s, shortBurst)
			if err != nil {
				return err
			}
			took[l.name] = append(took[l.name], 1e9/pps)
		}
	}
	for _, l := range lines {
		p.live[l.name] = append(p.live[l.name], harness.Middle(took[l.name]))
	}
	return nil
}

// round measures all steps, in turns, and the changes of length that are parts of some.
func (p *partsRun) round(share time.Duration, backwards bool) error {
	batches, err := p.takeTurns(share, backwards)
	if err != nil {
		return err
	}
	release, err := harness.PinThread(0)
	if err != nil {
		return err
	}
	defer release()
	a, err := p.xdp.MiddleAdjustments(false, batches, batchRuns)
	if err != nil {
		return err
	}
	p.grow, p.shrink = append(p.grow, a.Grow), append(p.shrink, a.Shrink)
	if a, err = p.tc.MiddleAdjustments(true, batches, batchRuns); err != nil {
		return err
	}
	p.egressGrow, p.egressShrink = append(p.egressGrow, a.Grow), append(p.egressShrink, a.Shrink)
	return nil
}

// takeTurns measures all steps, in turns, and returns how many batches there were of
// each.
func (p *partsRun) takeTurns(share time.Duration, backwards bool) (batches int, err error) {
	release, err := harness.PinThread(0)
	if err != nil {
		return 0, err
	}
	defer release()
	before := make(map[*step]uint64)
	for _, s := range p.order {
		if before[s], err = s.count(); err != nil {
			return 0, err
		}
	}
	turns := make(map[*step][]float64)
	var total time.Duration
	for ; batches < leastTurns || total < share; batches++ {
		for i := range p.order {
			s := p.order[i]
			if backwards {
				s = p.order[len(p.order)-1-i]
			}
			took, err := p.batch(s)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", s.name, err)
			}
			if total += took; batches > 0 { // the first batch is a warm-up
				turns[s] = append(turns[s], float64(took.Nanoseconds())/float64(s.runs()))
			}
		}
	}
	for _, s := range p.order {
		s.took = append(s.took, harness.Middle(turns[s]))
		after, err := s.count()
		if err != nil {
			return 0, err
		}
		if n, runs := after-before[s], uint64(batches*s.runs()); s.node != nil && n+n/batchRuns+1 < runs {
			return 0, fmt.Errorf("only %d of %d packets were what is measured: %s", n, runs, s.name)
		}
	}
	return batches, nil
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
	what := harness.Restoration{Size: s.bytes, Length: len(s.frame) + s.grows, Keep: s.keep, Values: s.values, Varied: s.varied}
	took, err := s.restore.Run(s.program, s.frame, what, s.in, s.runs())
	if err == nil && s.records {
		err = s.node.DiscardRecords()
	}
	return took, err
}

// load makes every step.
func (p *partsRun) load() (err error) {
	if p.xdp, err = harness.NewRestorer(ebpf.XDP); err != nil {
		return err
	}
	if p.tc, err = harness.NewRestorer(ebpf.SchedCLS); err != nil {
		return err
	}
	xdp, tc, err := harness.EmptyPrograms()
	if err != nil {
		return err
	}
	p.empty = append(p.empty, xdp, tc)
	p.order = append(p.order,
		&step{name: stepNothing, bytes: restoredBytes, program: xdp, restore: p.xdp, frame: harness.Plain(harness.Elsewhere, sizeOfParts)},
		&step{name: stepEgressNothing, bytes: restoredBytes, program: tc, restore: p.tc, frame: harness.Plain(harness.Elsewhere, sizeOfParts)})
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
	options := mostOptions // the stack takes as many, or else packets with more are left to it
	cfg := datapath.Config{Node: place(l.config, p.node.InIndex(), p.node.OutIndex()), StackOptions: &options}
	if l.fast {
		cfg.Fast = map[model.IfIndex]bool{p.node.InIndex(): true}
	}
	if err := cfg.Node.Validate(); err != nil {
		return nil, err
	}
	s := &step{
		name:    l.name,
		restore: p.xdp,
		grows:   l.grows,
		keep:    l.keep,
		bytes:   cmp.Or(l.restores, restoredBytes),
		records: l.records,
		counted: l.counted,
	}
	index, hook := p.node.InIndex(), datapath.HookIngressXDP
	if l.egress {
		s.restore, s.in = p.tc, harness.ArrivedAt(index)
		index, hook = p.node.OutIndex(), datapath.HookEgressTC
	}
	s.frame = harness.With(l.frame, 0, 0, 0, 0, 0, 0, 0) // the link-layer address of a Runner's interfaces
	if l.arrives {
		var err error
		if s.frame, err = arrived(cfg, p.node.InIndex(), s.frame); err != nil {
			return nil, err
		}
	}
	runner, err := datapath.NewRunner(cfg, index, hook)
	if err != nil {
		return nil, err
	}
	s.node, s.program = runner, runner.Program(hook)
	if err := s.prepare(l, p.node.OutIndex()); err != nil {
		runner.Close()
		return nil, err
	}
	return s, nil
}

// prepare gives the programs what an agent would give them.
func (s *step) prepare(l stepSpec, out model.IfIndex) (err error) {
	if l.unread {
		if err := s.node.SetRecordsWanted(0); err != nil {
			return err
		}
	}
	if !l.fast {
		return nil
	}
	if s.plane, err = s.node.Forwarding(); err != nil {
		return err
	}
	if err := s.plane.Renew(datapath.Routing{Key: l.key, MTU: datapath.AnyMTU}); err != nil {
		return err
	}
	return s.plane.SetDevices([]model.IfIndex{out})
}

// result computes the differences.
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
		p.NS, p.Spread = harness.Figure(harness.Median(over), 1), harness.Spread(over, 1)
		p.Reference, p.Ratio = report.Round(harness.Median(reference), 1), report.Round(harness.Median(ratio), 3)
		r.Points = append(r.Points, p)
		r.Notes = append(r.Notes, fmt.Sprintf("*%s*: %s", part.name, part.limit))
	}
	return r
}
