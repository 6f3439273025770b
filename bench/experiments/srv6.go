// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// The experiments of the paper on packet loss monitoring in SRv6 networks, with its
// parameters and ours: its packets have one segment and are of 78 bytes altogether;
// here, lists have three, and 78 and 1236 bytes are those of the packet in the tunnel.

// flowCounts are the numbers of measured flows; linearCounts those that are searched one
// by one, too. The paper has 1, 16 and 100.
var (
	flowCounts   = []int{1, 16, 100, 1000, model.DefaultMeasuredFlows}
	linearCounts = []int{1, 16, 100, 1000}
)

// measuringAim is the share of the kernel's rate that must remain at least when flows
// are measured.
const measuringAim = 0.95

// Names of treatments.
const (
	kernelSegments   = "kernel's SRv6"
	unmeasured       = "our programs, no flow"
	counting         = "our counting"
	colouring        = "our counting and colouring"
	linearCounting   = "linear search, counting"
	linearColouring  = "linear search, counting and colouring"
	segmentsBaseline = "the same packets through the same node without programs"
)

// measuredName is what our programs do to packets of flows.
func (s segmentNode) measuredName() string {
	if s.direction == model.DirectionOut {
		return colouring
	}
	return counting
}

// segmentRows collects the variants of one node with so many flows, on links with one
// queue.
type segmentRows struct {
	segmentNode
	size, number int
	list         []*harness.Variant
	bare         *harness.Variant // the kernel's own
}

func (r *segmentRows) is(treatment string, by report.Worker, hook string) report.Dimensions {
	return report.Dimensions{Treatment: treatment, By: by, Hook: hook, Format: r.name, Size: r.size, Queues: 1}
}

func (r *segmentRows) add(d report.Dimensions, t harness.Treatment, colours ...byte) *harness.Variant {
	v := &harness.Variant{
		Line: []harness.Treatment{t}, Send: r.packets(r.size, r.number), Arrives: r.arrives(colours...), Queues: 1,
	}
	r.list = append(r.list, v.At(d, float64(r.number), r.bare))
	return v
}

// rows has the node without programs.
func (s segmentNode) rows(size, number int) *segmentRows {
	r := &segmentRows{segmentNode: s, size: size, number: number}
	r.bare = r.add(r.is(kernelSegments, report.ByKernel, ""), s.kernel(number), 0)
	return r
}

// passes are the expected outcomes of packets without IOAM.
func (r *segmentRows) passes(mode datapath.AttachMode) []harness.Want {
	_, _, at := r.hook(mode)
	return []harness.Want{harness.Has(0, at, model.OutcomeNoIOAM)}
}

// measure adds the node with all flows measured.
func (r *segmentRows) measure(mode datapath.AttachMode) *harness.Variant {
	name, _, _ := r.hook(mode)
	v := r.add(r.is(r.measuredName(), "", name), r.measuring(mode, r.number, r.number), r.colours()...)
	v.Wants, v.Counted = r.passes(mode), true
	return v
}

// beside adds the node with a program that does nothing, and with ours when no flow is
// measured.
func (r *segmentRows) beside(mode datapath.AttachMode) (hooks report.Dimensions) {
	name, _, _ := r.hook(mode)
	hooks = r.is(hooksAlone, report.ByEmptyProgram, name)
	r.add(hooks, r.empty(mode, r.number), 0)
	r.add(r.is(unmeasured, "", name), r.measuring(mode, r.number, 0), 0).Wants = r.passes(mode)
	return hooks
}

// hashedExperiment measures forwarding by SRv6 nodes that measure flows.
func hashedExperiment() harness.Experiment {
	e := harness.Experiment{
		X: "flows", Axis: "measured flows; packets are of each in turn", Baseline: segmentsBaseline, Together: 6,
		Notes: []string{
			"Packets of 78 and 1236 bytes in a tunnel of three segments, on links with one queue. A head end adds the tunnel by the kernel's seg6, \"End\" is its second segment, and End.DT6 its third, which removes it.",
			"Only the interface is served where packets are measured: where they leave the head end, and where they arrive at the others.",
			"A head end that adds a tunnel to plain packets cannot count without colouring. One that adds it to packets of another tunnel can count the flows of that, where they arrive.",
		},
	}
	for _, size := range sizes {
		for _, s := range []segmentNode{headEnd, headEndInTunnel, endpoint, decapsulator} {
			modes := []datapath.AttachMode{datapath.AttachXDP}
			switch s.name {
			case atHeadEnd, atHeadEndInTunnel:
				modes = []datapath.AttachMode{datapath.AttachTCX}
			case atDecap:
				modes = append(modes, datapath.AttachTCX)
			}
			for _, n := range flowCounts {
				r := s.rows(size, n)
				for _, mode := range modes {
					r.aimed(mode)
				}
				e.Variants = append(e.Variants, r.list...)
			}
		}
	}
	return briefly(e)
}

// briefly makes short runs measure the ends of each curve, with short packets.
func briefly(e harness.Experiment) harness.Experiment {
	e.EndsInPassing()
	for _, v := range e.Variants {
		v.Thorough = v.Thorough || v.Is.Size != sizes[0]
	}
	return e
}

// aimed adds the node with all flows measured, its aim, and what may keep it from that.
func (r *segmentRows) aimed(mode datapath.AttachMode) {
	hooks, at := r.beside(mode), datapath.HookIngressTC
	switch {
	case r.direction == model.DirectionOut:
		at = datapath.HookEgressTC
	case mode == datapath.AttachXDP:
		at = datapath.HookIngressXDP
	}
	r.measure(mode).Aims(measuringAim, &report.Limit{
		Why: measuringHook, Floor: report.Reference{Variant: hooks}, Ours: figuresOf("srv6-parts", ofSegmentPart(packetsMeasured, at)),
	})
}

// measuringHook is what may keep a node that measures from its aim.
const measuringHook = "what the kernel takes for its hook, with a program that does nothing in it"

// linearExperiment compares with a search through the segment lists of all flows, one by
// one.
func linearExperiment() harness.Experiment {
	e := harness.Experiment{
		X: "flows", Axis: "measured flows; packets are of each in turn", Baseline: segmentsBaseline, Together: 6,
		Notes: []string{
			"As in srv6-hashed, but the head end has a route for each segment list. Both programs are in tcx.",
			"The linear search is a BPF program that compares segment lists one by one until one is equal: half of them, on average. It is not part of Waymark. The paper's is a chain of ip6tables rules, each of which costs more.",
		},
	}
	for _, size := range sizes {
		for _, s := range []segmentNode{policies, decapsulator} {
			for _, n := range linearCounts {
				r := s.rows(size, n)
				name, _, _ := r.hook(datapath.AttachTCX)
				r.add(r.is(linearCounting, "", name), s.linear(n, 0), 0)
				if s.direction == model.DirectionOut {
					r.add(r.is(linearColouring, "", name), s.linear(n, outerClass), outerClass)
				}
				r.measure(datapath.AttachTCX)
				e.Variants = append(e.Variants, r.list...)
			}
		}
	}
	return briefly(e)
}
