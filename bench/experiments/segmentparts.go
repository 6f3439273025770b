// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// sizeOfSegments is the length of every frame: one of 78 bytes in a tunnel of three
// segments.
const sizeOfSegments = 78 + outerHeaders

// blockOfParts is longer than most runs: packets have the colour of one block.
const blockOfParts = model.MaxBlock

// measuredCostAim is the most that a packet of a flow may take longer, in ns.
const measuredCostAim = 60

// Packets whose cost is measured.
const (
	packetsPlain    = "packet without SRv6"
	packetsOther    = "SRv6 packet of no flow"
	packetsMeasured = "SRv6 packet of a flow"
)

// costFlows are the numbers of flows that a packet's cost is measured with.
var costFlows = []int{1, model.DefaultMeasuredFlows}

// segmentStep identifies a step: packets at a hook, with so many flows; 0 is the same
// program without measurement, and none is a program that does nothing.
type segmentStep struct {
	hook    datapath.Hook
	packets string
	values  int // how many flows packets would be of
	flows   int
}

const noProgram = -1

// segmentParts measures what measuring costs a packet.
type segmentParts struct {
	partsRun
	of    map[segmentStep]*step
	nodes []*datapath.Runner
}

func runSegmentParts(ctx context.Context, o harness.Options) (r report.Result, err error) {
	p := &segmentParts{of: make(map[segmentStep]*step)}
	defer p.close()
	o.Announce("loading the programs")
	if err := p.load(); err != nil {
		return report.Result{}, err
	}
	for round := range o.Rounds {
		o.Announce("round %d of %d", round+1, o.Rounds)
		if err := ctx.Err(); err != nil {
			return report.Result{}, err
		}
		if _, err := p.takeTurns(o.Duration/time.Duration(o.Rounds), round%2 == 1); err != nil {
			return report.Result{}, err
		}
	}
	return p.result(), nil
}

func (p *segmentParts) close() {
	p.order = nil // steps share nodes
	for _, n := range p.nodes {
		n.Close()
	}
	p.partsRun.close()
}

var segmentHooks = []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC, datapath.HookEgressTC}

// load makes every step. Each hook's programs see the same packets.
func (p *segmentParts) load() (err error) {
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
	for _, hook := range segmentHooks {
		for _, flows := range append([]int{noProgram, 0}, costFlows...) {
			if err := p.loadHook(hook, flows); err != nil {
				return fmt.Errorf("%s, %d flows: %w", hook, flows, err)
			}
		}
	}
	for key, s := range p.of {
		if err := p.verify(key, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// verify checks that flows count the packets of flows, and no others.
func (p *segmentParts) verify(key segmentStep, s *step) error {
	if key.flows <= 0 {
		return nil
	}
	counted := harness.CountedSince(s.node.Blocks, blockOfParts)
	if _, err := p.batch(s); err != nil {
		return err
	}
	n, ofFlow := counted(), key.packets == packetsMeasured
	if ofFlow && n < batchRuns || !ofFlow && n > 0 { // a run may be interrupted, and start again
		return fmt.Errorf("flows counted %d of %d packets", n, batchRuns)
	}
	return nil
}

// measuredAt is a node with flows that differ by the second of three segments.
func measuredAt(hook datapath.Hook) segmentNode {
	s := decapsulator
	if hook == datapath.HookEgressTC {
		s.direction = model.DirectionOut
	}
	return s
}

func (p *segmentParts) loadHook(hook datapath.Hook, flows int) error {
	restore, program := p.xdp, p.empty[0]
	if hook != datapath.HookIngressXDP {
		restore, program = p.tc, p.empty[1]
	}
	var node *datapath.Runner
	if flows != noProgram {
		cfg := datapath.Config{Node: measuringConfig()}
		if flows > 0 {
			cfg.Node.Measurement = model.Measurement{Block: blockOfParts, Flows: measuredAt(hook).flows(flows)}
		}
		if err := cfg.Node.Validate(); err != nil {
			return err
		}
		var err error
		if node, err = datapath.NewRunner(cfg, ours, hook); err != nil {
			return err
		}
		p.nodes, program = append(p.nodes, node), node.Program(hook)
	}
	values := []int{flows}
	if flows <= 0 {
		values = costFlows
	}
	for _, n := range values {
		for _, packets := range []string{packetsPlain, packetsOther, packetsMeasured} {
			s := &step{
				bytes: restoredBytes,
				name:  fmt.Sprintf("%s, %s, %d flows", hook, packets, flows), node: node, program: program,
				restore: restore, values: n, varied: atMiddleSID, frame: segmentFrame(hook, packets),
				counted: func(c datapath.Counters) uint64 {
					if hook == datapath.HookEgressTC {
						return c.Egress[model.OutcomeNoIOAM]
					}
					return c.Ingress[model.OutcomeNoIOAM]
				},
			}
			if hook != datapath.HookIngressXDP {
				s.in = harness.ArrivedAt(other)
			}
			p.order = append(p.order, s)
			p.of[segmentStep{hook, packets, n, flows}] = s
		}
	}
	return nil
}

// segmentFrame is one of the packets, which arrives with the colour of its block; where
// they leave, they have no colour yet.
func segmentFrame(hook datapath.Hook, packets string) []byte {
	frame := routedFrame(sizeOfSegments-outerHeaders, 0)
	switch packets {
	case packetsPlain:
		frame = harness.Plain(harness.Destination, sizeOfSegments)
	case packetsOther:
		frame = harness.With(frame, harness.EthernetHeader+8, harness.Elsewhere.AsSlice()...)
	}
	class := model.DefaultMarking().Colours[harness.CurrentBlock(blockOfParts)&1]
	if hook == datapath.HookEgressTC {
		class = 0
	}
	if packets != packetsPlain {
		frame = harness.With(frame, atOuterClass, 0x60|class>>4, class<<4)
	}
	return harness.With(frame, 0, 0, 0, 0, 0, 0, 0) // the link-layer address of a Runner's interfaces
}

// ofSegmentPart are the dimensions of packets at a hook.
func ofSegmentPart(packets string, hook datapath.Hook) report.Dimensions {
	return report.Dimensions{Treatment: packets, Hook: string(hook)}
}

// result compares each step with the same packet in the same program without flows.
func (p *segmentParts) result() report.Result {
	r := report.Result{
		Baseline: "the same programs without flows, on the same packet; for these, a program that does nothing",
		Axis:     "measured flows, of which packets take turns in no order", X: "flows",
		Notes: []string{
			fmt.Sprintf(
				"Frames of %d bytes, with three segments. Programs and packets take turns in batches of one run. With %d flows, a packet's flow is in no near cache.",
				sizeOfSegments,
				costFlows[1],
			),
			"Packets that arrive are counted, and those that leave are also coloured.",
		},
	}
	for _, hook := range segmentHooks {
		for _, packets := range []string{packetsPlain, packetsOther, packetsMeasured} {
			for _, flows := range costFlows {
				without := p.of[segmentStep{hook, packets, flows, 0}]
				v := difference(p.of[segmentStep{hook, packets, flows, flows}], without, ofSegmentPart(packets, hook), flows)
				if packets == packetsMeasured {
					v.Aim, v.Limit = measuredCostAim, segmentLimit(hook, flows)
				}
				r.Points = append(r.Points, v)
			}
		}
		none := segmentStep{hook, packetsMeasured, 1, 0}
		nothing := none
		nothing.flows = noProgram
		r.Points = append(r.Points, difference(p.of[none], p.of[nothing], ofSegmentPart(unmeasured, hook), 0))
	}
	return r
}

// segmentLimit is for packets of this number of flows. With few, what they pay in any case is what a
// packet of no flow pays; with many, what they pay with few.
func segmentLimit(hook datapath.Hook, flows int) *report.Limit {
	l := &report.Limit{
		Why: "the walk to the segments and through a list of three, their hash, and a look into the table of flows, " +
			"which a packet of no flow takes, too",
		Floor: report.Reference{Variant: ofSegmentPart(packetsOther, hook), X: float64(costFlows[0])},
		Rest:  "the key compared, the block found by the clock, and its counters",
	}
	if flows != costFlows[0] {
		l.Why = fmt.Sprintf("what it takes with %d flow", costFlows[0])
		l.Floor.Variant = ofSegmentPart(packetsMeasured, hook)
		l.Rest = "misses of the caches and of the TLB in two tables, that of the keys and that of the counters (decision 0020)"
	}
	if hook == datapath.HookEgressTC {
		l.Rest = strings.Replace(l.Rest, "and its counters", "its counters, and the colour written", 1)
	}
	return l
}

// difference is how much longer one step takes than another.
func difference(with, without *step, is report.Dimensions, x int) report.Point {
	over, ratio := slices.Clone(with.took), slices.Clone(with.took)
	for i, before := range without.took {
		over[i], ratio[i] = with.took[i]-before, with.took[i]/before
	}
	p := report.NewPoint(is, float64(x))
	p.NS, p.Spread = harness.Figure(harness.Median(over), 1), harness.Spread(over, 1)
	p.Reference, p.Ratio = report.Round(harness.Median(without.took), 1), report.Round(harness.Median(ratio), 3)
	return p
}
