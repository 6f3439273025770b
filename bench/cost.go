// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/ioam"
)

const (
	fewestRuns = 500 // also what a ring of records holds before it wakes a reader
	mostRuns   = 200_000
)

// costRun measures the cases of one run.
type costRun struct {
	nodes     map[string]*datapath.Runner // by configuration and hook
	restorers map[ebpf.ProgramType]*restorer
	points    []*costPoint
}

// costPoint collects what was measured of one case.
type costPoint struct {
	costCase
	node    *datapath.Runner
	program *ebpf.Program
	restore *restorer
	what    restoration

	over, reference, ratio []float64
	adjust                 []adjustments
}

func runCost(ctx context.Context, o Options) (Result, error) {
	run := &costRun{nodes: make(map[string]*datapath.Runner), restorers: make(map[ebpf.ProgramType]*restorer)}
	defer run.close()
	o.progress("loading the programs of %d configurations", len(costConfigs()))
	if err := run.prepare(costCases()); err != nil {
		return Result{}, err
	}
	share := o.Duration / time.Duration(o.Rounds*len(run.points)*2)
	for round := range o.Rounds {
		o.progress("round %d of %d", round+1, o.Rounds)
		for _, p := range run.points {
			if err := ctx.Err(); err != nil {
				return Result{}, err
			}
			if err := p.measure(share, round%2 == 1); err != nil {
				return Result{}, fmt.Errorf("%s: %w", p.name(), err)
			}
		}
	}
	r := Result{
		Baseline: "the same program on a plain IPv6 packet of the same length",
		Axis:     "bytes of the frame",
		Notes: []string{
			"Restoring the frame is in both figures and cancels; the change of its length is measured apart and taken off.",
			"Records are read between runs, so that none is lost; nobody waits for them while the packet is timed.",
		},
	}
	for _, p := range run.points {
		point, err := p.result()
		if err != nil {
			return Result{}, err
		}
		r.Points = append(r.Points, point)
	}
	return r, nil
}

func (r *costRun) close() {
	for _, n := range r.nodes {
		n.Close()
	}
	for _, n := range r.restorers {
		n.close()
	}
}

func (r *costRun) prepare(cases []costCase) error {
	configs := costConfigs()
	for _, c := range cases {
		cfg, ok := configs[c.config]
		if !ok {
			return fmt.Errorf("%s: no configuration is called %q", c.name(), c.config)
		}
		p, err := r.point(c, cfg)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		r.points = append(r.points, p)
	}
	return nil
}

// point loads what a case needs and does not share with an earlier one.
func (r *costRun) point(c costCase, cfg ioam.NodeConfig) (*costPoint, error) {
	key := fmt.Sprintf("%s at %s", c.config, c.hook)
	node := r.nodes[key]
	if node == nil {
		if err := cfg.Validate(); err != nil {
			return nil, err
		}
		var err error
		if node, err = datapath.NewRunner(cfg, ours, c.hook); err != nil {
			return nil, err
		}
		r.nodes[key] = node
	}
	p := &costPoint{costCase: c, node: node, program: node.Program(c.hook)}
	kind := p.program.Type()
	if r.restorers[kind] == nil {
		restore, err := newRestorer(kind)
		if err != nil {
			return nil, err
		}
		r.restorers[kind] = restore
	}
	p.restore = r.restorers[kind]
	if p.completes() {
		frame, err := p.arrive(cfg)
		if err != nil {
			return nil, err
		}
		p.frame = frame
	}
	var err error
	p.what, err = findRestoration(p.program, p.frame, p.in)
	if p.outcome == ioam.OutcomeEncapNotSelected {
		p.what.length = len(p.frame) // that was the one that is selected
	}
	return p, err
}

// completes tells whether the packet must have come through our own ingress hook.
func (c costCase) completes() bool {
	return c.hook == datapath.HookEgressTC && c.outcome == ioam.OutcomeTraceFilled
}

// arrive passes the frame through the ingress hook of the node's other interface.
func (c costCase) arrive(cfg ioam.NodeConfig) ([]byte, error) {
	ingress, err := datapath.NewRunner(cfg, other, datapath.HookIngressTC)
	if err != nil {
		return nil, err
	}
	defer ingress.Close()
	frame, err := runOnce(ingress.Program(datapath.HookIngressTC), c.frame, skb{})
	if err == nil {
		frame[ethernetHeader+7]-- // the stack's own work: the hop limit
	}
	return frame, err
}

// measure lets the plain packet and the case take turns for about twice `share`.
func (p *costPoint) measure(share time.Duration, caseFirst bool) error {
	var plainNS, caseNS float64
	turns := []func() error{
		func() (err error) {
			plainNS, err = p.time(p.plain(), ioam.OutcomeNoIOAM, share)
			return err
		},
		func() (err error) {
			caseNS, err = p.time(p.frame, p.outcome, share)
			return err
		},
	}
	if caseFirst {
		turns[0], turns[1] = turns[1], turns[0]
	}
	for _, turn := range turns {
		if err := turn(); err != nil {
			return err
		}
	}
	var a adjustments
	if p.what.length != len(p.frame) {
		var err error
		times := min(max(int(share.Nanoseconds()/1000), fewestRuns), mostRuns)
		if a, err = p.restore.measureAdjustments(p.what.keep, times); err != nil {
			return err
		}
	}
	off := a.cost(p.what, p.frame)
	p.adjust = append(p.adjust, a)
	p.over = append(p.over, caseNS-plainNS-off)
	p.reference = append(p.reference, plainNS)
	p.ratio = append(p.ratio, (caseNS-off)/plainNS)
	return nil
}

// time runs the program over a frame for about `share`: ns per run.
func (p *costPoint) time(frame []byte, outcome ioam.Outcome, share time.Duration) (float64, error) {
	took, err := p.batch(frame, outcome, fewestRuns) // warms up and tells the pace
	if err != nil {
		return 0, err
	}
	times := fewestRuns
	if !p.records() {
		each := max(took/fewestRuns, 1)
		times = min(max(int(share/each), fewestRuns), mostRuns)
	}
	var total time.Duration
	runs := 0
	for runs == 0 || total < share {
		if took, err = p.batch(frame, outcome, times); err != nil {
			return 0, err
		}
		total, runs = total+took, runs+times
	}
	return float64(total.Nanoseconds()) / float64(runs), nil
}

// batch runs the program `times` times and holds it to the outcome: every
// repetition must have had it.
func (p *costPoint) batch(frame []byte, outcome ioam.Outcome, times int) (time.Duration, error) {
	const attempts = 5
	for range attempts {
		before, err := p.node.Counters()
		if err != nil {
			return 0, err
		}
		took, err := p.restore.run(p.program, frame, p.what, p.in, times)
		if err != nil {
			return 0, err
		}
		after, err := p.node.Counters()
		if err != nil {
			return 0, err
		}
		if p.records() {
			if err := p.node.DiscardRecords(); err != nil {
				return 0, err
			}
		}
		runs, err := p.count(before, after, outcome)
		if err != nil {
			return 0, err
		}
		if runs == uint64(times) {
			return took, nil
		}
		if runs < uint64(times) {
			return 0, fmt.Errorf("the program ran %d times instead of %d", runs, times)
		}
		// a signal came in between, and the kernel began again
	}
	return 0, fmt.Errorf("interrupted %d times in a row; measure on a quieter machine", attempts)
}

// count is how often the program ran; any other outcome than the wanted one is
// an error, and so is a record that was lost.
func (p *costPoint) count(before, after datapath.Counters, want ioam.Outcome) (uint64, error) {
	was, is := before.Ingress, after.Ingress
	if p.hook == datapath.HookEgressTC {
		was, is = before.Egress, after.Egress
	}
	var all, wanted uint64
	for o := range is {
		all += is[o] - was[o]
		if ioam.Outcome(o) == want {
			wanted = is[o] - was[o]
		} else if is[o] != was[o] && !p.mayAlso(ioam.Outcome(o)) {
			return 0, fmt.Errorf("%d packets ended as %s instead of %s", is[o]-was[o], ioam.Outcome(o), want)
		}
	}
	if wanted < all-all/fewestRuns {
		return 0, fmt.Errorf("only %d of %d packets ended as %s", wanted, all, want)
	}
	if lost := after.RecordsLost - before.RecordsLost; lost > 0 {
		return 0, fmt.Errorf("%d records were lost", lost)
	}
	return all, nil
}

// mayAlso allows for the one packet in a million that a sampling node selects.
func (c costCase) mayAlso(o ioam.Outcome) bool {
	return c.outcome == ioam.OutcomeEncapNotSelected && o == ioam.OutcomeEncapInserted
}

// result sums a case up.
func (p *costPoint) result() (Point, error) {
	info, err := p.program.Info()
	if err != nil {
		return Point{}, fmt.Errorf("%s: read the program's data: %w", p.name(), err)
	}
	instructions, _ := info.VerifiedInstructions()
	ns := round(median(p.over), 1)
	point := Point{
		Variant: p.name(), X: float64(len(p.frame)), NS: &ns,
		Ratio: round(median(p.ratio), 3), Spread: round(spread(p.over), 1),
		Reference: round(median(p.reference), 1), Instructions: instructions, Aim: p.aim,
	}
	if p.what.length != len(p.frame) {
		var costs []float64
		for _, a := range p.adjust {
			costs = append(costs, a.cost(p.what, p.frame))
		}
		point.Restore = round(median(costs), 1)
	}
	return point, nil
}
