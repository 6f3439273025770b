// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/ioam"
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
	grows   int // bytes that the program adds
	counted func(datapath.Counters) uint64

	took []float64 // ns, by round
}

// partsRun measures the parts of fast forwarding.
type partsRun struct {
	site    *site
	node    *node
	restore *restorer
	empty   *ebpf.Program
	steps   map[string]*step
	order   []*step

	grow, shrink, live []float64 // ns, by round
}

func runParts(ctx context.Context, o Options) (r Result, err error) {
	p := &partsRun{steps: make(map[string]*step)}
	if p.site, err = newSite(); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, p.site.close()) }()
	if err := p.site.add(0, "untreated", []treatment{untreated}, false); err != nil {
		return Result{}, err
	}
	p.node = p.site.lines["untreated"].nodes[0]
	if err := p.site.add(1, "fast", []treatment{transit(datapath.AttachXDP).forwardingFast()}, true); err != nil {
		return Result{}, err
	}
	// the kernel is asked for a route in the namespace of who runs the program
	err = inNamespace(p.node.ns, func() error {
		defer p.close()
		return p.measure(ctx, o)
	})
	if err != nil {
		return Result{}, err
	}
	return p.result(), nil
}

func (p *partsRun) close() {
	for _, s := range p.order {
		if s.node != nil {
			s.node.Close()
		}
	}
	if p.restore != nil {
		p.restore.close()
	}
	if p.empty != nil {
		p.empty.Close()
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
		if err := p.round(share*3/4, round%2 == 1); err != nil {
			return err
		}
		pps, _, err := p.site.traffic.rate(p.site.lines["fast"], stream{frame: plain(destination, sizeOfParts)}, share/4)
		if err != nil {
			return err
		}
		p.live = append(p.live, 1e9/pps)
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
	turns, runs := make(map[*step][]float64), uint64(0)
	var total time.Duration
	for batch := 0; batch < leastTurns || total < share; batch++ {
		runs += batchRuns
		for i := range p.order {
			s := p.order[i]
			if backwards {
				s = p.order[len(p.order)-1-i]
			}
			took, err := p.batch(s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if total += took; batch > 0 { // the first warms up
				turns[s] = append(turns[s], float64(took.Nanoseconds())/batchRuns)
			}
		}
	}
	for _, s := range p.order {
		s.took = append(s.took, middle(turns[s]))
		after, err := s.count()
		if err != nil {
			return err
		}
		if n := after - before[s]; s.node != nil && n+n/batchRuns+1 < runs {
			return fmt.Errorf("only %d of %d packets were what is measured: %s", n, runs, s.name)
		}
	}
	a, err := p.restore.measureAdjustments(false, batchRuns)
	if err != nil {
		return err
	}
	p.grow, p.shrink = append(p.grow, a.grow), append(p.shrink, a.shrink)
	return nil
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
	what := restoration{size: restoredBytes, length: len(s.frame) + s.grows}
	return p.restore.run(s.program, s.frame, what, skb{}, batchRuns)
}

// load makes every step.
func (p *partsRun) load() (err error) {
	if p.restore, err = newRestorer(ebpf.XDP); err != nil {
		return err
	}
	spec, err := loadHooks()
	if err != nil {
		return err
	}
	if p.empty, err = ebpf.NewProgram(spec.Programs[hooksProgEmptyXdp]); err != nil {
		return fmt.Errorf("load a program that does nothing: %w", err)
	}
	p.order = append(p.order, &step{name: stepNothing, program: p.empty, frame: plain(elsewhere, sizeOfParts)})
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
		cfg.Fast = map[ioam.IfIndex]bool{p.node.inIndex(): true}
	}
	if err := cfg.Node.Validate(); err != nil {
		return nil, err
	}
	runner, err := datapath.NewRunner(cfg, p.node.inIndex(), datapath.HookIngressXDP)
	if err != nil {
		return nil, err
	}
	s := &step{name: l.name, node: runner, program: runner.Program(datapath.HookIngressXDP), grows: l.grows, counted: l.counted}
	s.frame = with(l.frame, 0, 0, 0, 0, 0, 0, 0) // the address of a Runner's interfaces
	if !l.fast {
		return s, nil
	}
	if s.plane, err = runner.Forwarding(); err == nil {
		err = s.plane.Renew(l.key)
	}
	if err == nil && !l.noDevice {
		err = s.plane.SetDevices([]ioam.IfIndex{p.node.outIndex()})
	}
	if err != nil {
		runner.Close()
		return nil, err
	}
	return s, nil
}

// result takes the differences.
func (p *partsRun) result() Result {
	r := Result{
		Baseline: "the program and packet with all but this part",
		Axis:     "bytes of the frame", X: "bytes",
		Notes: []string{
			"Programs and packets take turns in batches of one run; a part is the difference between two of them. Caches are warm, and nothing else happens: a part is what it takes at least.",
		},
	}
	for _, part := range parts() {
		var over, ratio, reference []float64
		for i := range p.live {
			took, before := part.of(p, i)
			over, ratio, reference = append(over, took), append(ratio, (before+took)/before), append(reference, before)
		}
		r.Points = append(r.Points, Point{
			Variant: part.name, X: sizeOfParts, NS: figure(median(over), 1), Spread: spread(over, 1),
			Reference: round(median(reference), 1), Ratio: round(median(ratio), 3),
		})
		r.Notes = append(r.Notes, fmt.Sprintf("*%s*: %s", part.name, part.limit))
	}
	return r
}
