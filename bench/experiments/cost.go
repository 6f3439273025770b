// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

const (
	batchRuns  = 4000 // runs of a program on a frame: well below a millisecond
	recordRuns = 500  // what a ring of records takes before it wakes its reader
	leastTurns = 5    // of both packets in a round; the first warms up
)

// costRun holds what the cases of one run need.
type costRun struct {
	nodes     map[string]*datapath.Runner // by configuration and hook
	restorers map[ebpf.ProgramType]*harness.Restorer
	points    []*costPoint
}

// costPoint collects the measurements of one case.
type costPoint struct {
	costCase
	node    *datapath.Runner
	program *ebpf.Program
	restore *harness.Restorer
	what    harness.Restoration

	over, reference, ratio, restoring []float64 // by round
}

func runCost(ctx context.Context, o harness.Options) (report.Result, error) {
	o.Announce("loading the programs of %d configurations", len(costConfigs()))
	run, err := newCostRun(costCases())
	if err != nil {
		return report.Result{}, err
	}
	defer run.close()
	return run.measure(ctx, o)
}

// measure measures all cases in turns.
func (r *costRun) measure(ctx context.Context, o harness.Options) (report.Result, error) {
	release, err := harness.PinThread(0)
	if err != nil {
		return report.Result{}, err
	}
	defer release()
	for _, p := range r.points {
		p.over, p.reference, p.ratio, p.restoring = nil, nil, nil, nil
	}
	share := o.Duration / time.Duration(o.Rounds*len(r.points)*2)
	if err := r.rounds(ctx, o, share); err != nil {
		return report.Result{}, err
	}
	result := report.Result{
		Baseline: "the same program on a plain IPv6 packet of the same length",
		Axis:     "bytes of the frame", X: "bytes",
		Notes: []string{
			"Restoring the frame is in both figures and cancels; the change of its length is measured apart and taken off.",
			"Records are read between runs, so that none is lost; no reader waits for them while the packet is timed.",
		},
	}
	for _, p := range r.points {
		point, err := p.result()
		if err != nil {
			return report.Result{}, err
		}
		result.Points = append(result.Points, point)
	}
	return result, nil
}

// rounds measures every case once per round.
func (r *costRun) rounds(ctx context.Context, o harness.Options, share time.Duration) error {
	var names []string
	for _, p := range r.points {
		names = append(names, p.name())
	}
	if err := o.Alternates.Begin(names); err != nil {
		return err
	}
	for round := range o.Rounds {
		o.Announce("round %d of %d", round+1, o.Rounds)
		for _, p := range r.points {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := o.Alternates.Turn(p.name(), func() ([]report.Point, error) {
				if err := p.measure(share, round%2 == 1); err != nil {
					return nil, err
				}
				point := report.NewPoint(p.is(), float64(len(p.frame)))
				point.NS, point.Ratio = harness.Figure(p.over[round], 1), report.Round(p.ratio[round], 3)
				return []report.Point{point}, nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", p.is(), err)
			}
		}
	}
	return nil
}

// name tells a case from the others.
func (p *costPoint) name() string { return fmt.Sprintf("%s at %d", p.is(), len(p.frame)) }

func (r *costRun) close() {
	for _, n := range r.nodes {
		n.Close()
	}
	for _, n := range r.restorers {
		n.Close()
	}
}

// newCostRun loads what the cases need.
func newCostRun(cases []costCase) (*costRun, error) {
	r := &costRun{nodes: make(map[string]*datapath.Runner), restorers: make(map[ebpf.ProgramType]*harness.Restorer)}
	if err := r.prepare(cases); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *costRun) prepare(cases []costCase) error {
	configs := costConfigs()
	for _, c := range cases {
		cfg, ok := configs[c.config]
		if !ok {
			return fmt.Errorf("%s: no configuration is called %q", c.is(), c.config)
		}
		p, err := r.point(c, cfg)
		if err != nil {
			return fmt.Errorf("%s: %w", c.is(), err)
		}
		r.points = append(r.points, p)
	}
	return nil
}

// point loads what a case needs and does not share with an earlier case.
func (r *costRun) point(c costCase, cfg model.NodeConfig) (*costPoint, error) {
	key := fmt.Sprintf("%s at %s", c.config, c.hook)
	node := r.nodes[key]
	if node == nil {
		if err := cfg.Validate(); err != nil {
			return nil, err
		}
		var err error
		if node, err = datapath.NewRunner(datapath.Config{Node: cfg}, ours, c.hook); err != nil {
			return nil, err
		}
		r.nodes[key] = node
		if isUnread(c.config) {
			if err := node.SetRecordsWanted(0); err != nil {
				return nil, err
			}
		}
	}
	p := &costPoint{costCase: c, node: node, program: node.Program(c.hook)}
	kind := p.program.Type()
	if r.restorers[kind] == nil {
		restore, err := harness.NewRestorer(kind)
		if err != nil {
			return nil, err
		}
		r.restorers[kind] = restore
	}
	p.restore = r.restorers[kind]
	if p.completes() {
		frame, err := arrived(datapath.Config{Node: cfg}, other, c.frame)
		if err != nil {
			return nil, err
		}
		p.frame = frame
	}
	var err error
	p.what, err = harness.FindRestoration(p.program, p.frame, p.in)
	if p.outcome == model.OutcomeEncapNotSelected {
		p.what.Length = len(p.frame) // the first packet is the one that is selected, and is longer
	}
	return p, err
}

// completes reports whether the packet must have passed our own ingress hook.
func (c costCase) completes() bool {
	return c.hook == datapath.HookEgressTC && c.outcome == model.OutcomeTraceFilled
}

// arrived is a frame after the ingress hook of an interface.
func arrived(cfg datapath.Config, index model.IfIndex, frame []byte) ([]byte, error) {
	ingress, err := datapath.NewRunner(cfg, index, datapath.HookIngressTC)
	if err != nil {
		return nil, err
	}
	defer ingress.Close()
	frame, err = harness.RunOnce(ingress.Program(datapath.HookIngressTC), frame, harness.SKB{})
	if err == nil {
		frame[harness.EthernetHeader+7]-- // the stack decrements the hop limit
	}
	return frame, err
}

// turns collects the times of batches, in ns per run.
type turns struct {
	plain, wanted []float64
	runs          uint64 // runs of each packet
}

// measure runs the plain packet and the case in turns for about twice `share`, in
// batches that are short compared with other work on the machine.
func (p *costPoint) measure(share time.Duration, caseFirst bool) error {
	const attempts = 5
	for range attempts {
		t, counted, err := p.takeTurns(share, caseFirst)
		if err != nil {
			return err
		}
		if counted > 2*t.runs {
			continue // a signal interrupted the run, and the kernel started it again
		}
		return p.keep(t)
	}
	return problem.New(fmt.Sprintf("interrupted %d times in a row", attempts), "measure on a quieter machine")
}

// keep stores the results of a round.
func (p *costPoint) keep(t turns) error {
	plainNS, caseNS := harness.Middle(t.plain), harness.Middle(t.wanted)
	var off float64
	if p.what.Length != len(p.frame) {
		var costs []float64
		for range len(t.plain) {
			a, err := p.restore.MeasureAdjustments(p.what.Keep, batchRuns)
			if err != nil {
				return err
			}
			costs = append(costs, a.Cost(p.what, p.frame))
		}
		off = harness.Middle(costs)
		p.restoring = append(p.restoring, off)
	}
	p.over = append(p.over, caseNS-plainNS-off)
	p.reference = append(p.reference, plainNS)
	p.ratio = append(p.ratio, (caseNS-off)/plainNS)
	return nil
}

// takeTurns runs batches of both packets and checks the outcome of every single
// run. It also returns how often the program ran.
func (p *costPoint) takeTurns(share time.Duration, caseFirst bool) (t turns, counted uint64, err error) {
	before, err := p.node.Counters()
	if err != nil {
		return t, 0, err
	}
	plain, times := p.plain(), batchRuns
	if p.records() {
		times = recordRuns
	}
	var total time.Duration
	for batch := 0; batch < leastTurns || total < 2*share; batch++ {
		frames, took := [2][]byte{plain, p.frame}, [2]time.Duration{}
		for i := range frames {
			if caseFirst {
				i = 1 - i
			}
			if took[i], err = p.batch(frames[i], times); err != nil {
				return t, 0, err
			}
		}
		t.runs += uint64(times)
		if batch == 0 {
			continue // warm-up
		}
		total += took[0] + took[1]
		t.plain = append(t.plain, float64(took[0].Nanoseconds())/float64(times))
		t.wanted = append(t.wanted, float64(took[1].Nanoseconds())/float64(times))
	}
	after, err := p.node.Counters()
	if err != nil {
		return t, 0, err
	}
	counted, err = p.check(before, after, t.runs)
	return t, counted, err
}

// batch runs the program `times` times on a frame.
func (p *costPoint) batch(frame []byte, times int) (time.Duration, error) {
	if p.isHeld() {
		if err := arriveNow(frame); err != nil {
			return 0, err
		}
	}
	took, err := p.restore.Run(p.program, frame, p.what, p.in, times)
	if err == nil && p.records() {
		err = p.node.DiscardRecords()
	}
	return took, err
}

// check checks how often the program ran with each packet, that there was no
// other outcome, and that no record was lost. The kernel repeats an interrupted
// run, so there may be more runs than asked for.
func (p *costPoint) check(before, after datapath.Counters, runs uint64) (uint64, error) {
	was, is := before.Ingress, after.Ingress
	if p.hook == datapath.HookEgressTC {
		was, is = before.Egress, after.Egress
	}
	want := make(map[model.Outcome]uint64)
	want[model.OutcomeNoIOAM] += runs
	want[p.outcome] += runs
	var all uint64
	for o := range model.NumOutcomes {
		n := is[o] - was[o]
		all += n
		switch {
		case want[o] == 0 && n > 0 && !p.mayAlso(o):
			return 0, fmt.Errorf("%d of %d packets ended as %s instead of %s", n, runs, o, p.outcome)
		case n+n/batchRuns < want[o]:
			return 0, fmt.Errorf("only %d of %d packets ended as %s", n, want[o], o)
		}
	}
	if lost := after.RecordsLost - before.RecordsLost; lost > 0 {
		return 0, fmt.Errorf("%d records were lost", lost)
	}
	if suppressed := after.ExportsSuppressed - before.ExportsSuppressed; suppressed > 0 {
		return 0, fmt.Errorf("%d exports were suppressed", suppressed)
	}
	return all, nil
}

// mayAlso allows the one packet in a million that a sampling node selects.
func (c costCase) mayAlso(o model.Outcome) bool {
	return c.outcome == model.OutcomeEncapNotSelected && o == model.OutcomeEncapInserted
}

// result summarizes a case.
func (p *costPoint) result() (report.Point, error) {
	info, err := p.program.Info()
	if err != nil {
		return report.Point{}, fmt.Errorf("%s: read the program's data: %w", p.is(), err)
	}
	instructions, _ := info.VerifiedInstructions()
	ns := report.Round(harness.Median(p.over), 1)
	point := report.NewPoint(p.is(), float64(len(p.frame)))
	point.NS, point.Ratio, point.Spread = &ns, report.Round(harness.Median(p.ratio), 3), harness.Spread(p.over, 1)
	point.Reference, point.Instructions, point.Aim = report.Round(harness.Median(p.reference), 1), instructions, p.aim
	if p.aim != 0 {
		point.Limit = costLimit(p.costCase)
	}
	if p.what.Length != len(p.frame) {
		point.Restore = report.Round(harness.Median(p.restoring), 1)
	}
	return point, nil
}
