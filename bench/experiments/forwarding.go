// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"slices"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// sizes of plain frames, in bytes: the smallest that pktgen sends, and the
// largest that has room for 9 namespaces within an MTU of 1500.
var sizes = []int{78, 1236}

// untreatedPackets are packets that the kernel forwards through this many nodes.
func untreatedPackets(d report.Dimensions, x float64, frame []byte, nodes int) *harness.Variant {
	line := make([]harness.Treatment, nodes)
	for i := range line {
		line[i] = untreated
	}
	d.By = report.ByKernel
	return &harness.Variant{Is: d, X: x, Line: line, Send: harness.Stream{Frame: frame}, Arrives: unchanged}
}

// transits are the expected outcomes of a traced packet at a transit node.
func transits() []harness.Want {
	return []harness.Want{
		harness.Has(0, datapath.HookIngressXDP, model.OutcomeTraceFilled),
		harness.Has(0, datapath.HookEgressTC, model.OutcomeTraceFilled),
	}
}

// Aims: the share of the rate that must remain at least, of that of the same
// packets untreated, or of that of plain packets.
const (
	registeredAim    = 0.99 // with programs at egress alone
	idleAim          = 0.94
	transitAim       = 0.96 // of the same packets; also for decapsulation
	plainTransitAim  = 0.87 // of plain packets
	encapsulationAim = 0.88
	plainNineAim     = 0.72 // of plain packets, for a trace in each of 9 namespaces
	namespacesAim    = 0.85 // for 9 namespaces, 264 bytes
)

// Names of treatments and packet formats.
const (
	hooksAlone       = "hooks alone: programs that do nothing"
	kernelForwarding = "kernel forwarding"
	ourTransit       = "our transit"
	withIDs          = "ids"
	withTimes        = "with timestamps"
	plainPackets     = "plain packets"
	tunnelledTrace   = "tunnelled with a trace"
)

// atDeparture is the hook where packets leave the node.
const atDeparture = "tcx egress"

// emptyAt are the dimensions of programs that do nothing.
func emptyAt(hook, format string) report.Dimensions {
	return report.Dimensions{Treatment: hooksAlone, By: report.ByEmptyProgram, Hook: hook, Format: format}
}

// forwardingExperiment has every treatment of a packet by one node, on links with
// one queue and on links with one for each CPU.
func forwardingExperiment() harness.Experiment {
	e := harness.Experiment{
		X: "bytes", Axis: "bytes of a frame without IOAM; packets with a trace have as many where it fits",
		Baseline: "the same packets forwarded by the kernel over links with as many queues: no program, ioam6_enabled off",
		Apart:    true, Together: 8,
		Notes: []string{"Where the kernel has several queues, it hashes each packet to choose one: " +
			"its own forwarding takes longer, and the same programs cost a smaller share of it."},
	}
	for _, size := range sizes {
		for _, queues := range []int{1, 0} {
			e.Variants = append(e.Variants, forwardingVariants(size, queues)...)
		}
	}
	return e
}

// latencyExperiment measures the same treatments as the extra time of a single
// packet. The shorter packets have room for the time of sending after a trace, but
// not after nine.
func latencyExperiment() harness.Experiment {
	e := harness.Experiment{
		X: "bytes", Axis: "bytes of a frame without IOAM; packets with a trace have as many where it fits",
		Baseline: "the same packets through a node without programs, ioam6_enabled off",
		Apart:    true,
		Notes:    []string{"The least delay of packets that are sent one by one, less that of the same packets untreated."},
	}
	for _, size := range []int{128, 1236} {
		e.Variants = append(e.Variants, forwardingVariants(size, 0)...)
	}
	e.Variants = slices.DeleteFunc(e.Variants, func(v *harness.Variant) bool {
		return v.Is.Format == nineNamespaces || v.Is.By == report.ByBareProgram
	})
	for _, v := range e.Variants {
		v.Timed, v.Aim, v.PlainAim = true, 0, 0
	}
	return e
}

// stackRows collects the variants of one frame size, through the stack, on links
// with a number of queues.
type stackRows struct {
	size, queues int
	list         []*harness.Variant
	bare         *harness.Variant // plain packets, forwarded by the kernel
}

func (r *stackRows) add(d report.Dimensions, v, against *harness.Variant) *harness.Variant {
	v.Queues, d.Queues = r.queues, r.queues
	if against != r.bare {
		v.Plain = r.bare
	}
	r.list = append(r.list, v.At(d, float64(r.size), against))
	return v
}

// kernel adds packets that the kernel forwards.
func (r *stackRows) kernel(format string, frame []byte) *harness.Variant {
	return r.add(kernelForwards(format), untreatedPackets(report.Dimensions{}, 0, frame, 1), nil)
}

// node adds a node with the packets of the variant that it is compared with.
func (r *stackRows) node(
	d report.Dimensions,
	against *harness.Variant,
	t harness.Treatment,
	arrives harness.Arrival,
	wants ...harness.Want,
) *harness.Variant {
	return r.add(d, &harness.Variant{Line: []harness.Treatment{t}, Send: against.Send, Arrives: arrives, Wants: wants}, against)
}

// limited is what may keep a node from its aims, on links with as many queues.
func (r *stackRows) limited(l *report.Limit) *report.Limit {
	l.Floor.Variant.Queues = r.queues
	return l
}

func forwardingVariants(size, queues int) []*harness.Variant {
	r := &stackRows{size: size, queues: queues}
	inner := harness.Plain(harness.Destination, size)[harness.EthernetHeader:]
	r.bare = r.kernel("no IOAM", harness.Plain(harness.Destination, size))
	ids := r.kernel("trace with ids in the packet, untreated", filling(size, trace(namespace, typeIDs)))
	times := r.kernel("trace with timestamps in the packet, untreated", filling(size, trace(namespace, typeTimes)))
	tunnel := r.kernel("tunnelled with a trace, untreated", tunnelled(inner, trace(namespace, typeIDs)))
	nine := r.kernel(nineNamespaces, filling(size, tracesInEach(mostOptions)...))
	for _, each := range []struct {
		format string
		*harness.Variant
	}{{withIDs, ids}, {withTimes, times}, {nineNamespaces, nine}} {
		own := report.Dimensions{Treatment: "kernel's own IOAM transit", By: report.ByKernelIOAM, Format: each.format}
		r.node(own, each.Variant, kernelOwn, filled)
	}
	for _, mode := range []datapath.AttachMode{datapath.AttachXDP, datapath.AttachTCX} {
		r.transits(mode, ids, times, nine)
	}
	r.node(emptyAt(atDeparture, plainPackets), r.bare, emptyDeparture, unchanged)
	r.node(emptyAt("xdp", tunnelledTrace), tunnel, emptyHooks(datapath.AttachXDP), unchanged)
	for _, each := range []struct {
		treatment, bare, format string
		mode                    model.Mode
		kind                    ioam.TraceType
		by                      int
		outcome                 model.Outcome
	}{
		{"our encapsulation inline", inlineTreatment, withIDs, model.ModeInline, typeIDs, 24, model.OutcomeEncapInserted},
		{"our encapsulation in a tunnel", tunnelTreatment, withIDs, model.ModeEncap, typeIDs, 64, model.OutcomeEncapTunneled},
		{"our encapsulation in a tunnel", tunnelTreatment, withTimes, model.ModeEncap, typeTimes, 72, model.OutcomeEncapTunneled},
	} {
		d := report.Dimensions{Treatment: each.treatment, Format: each.format}
		r.node(d, r.bare, encapsulate(each.mode, always, oneNode(each.kind)), longer(each.by),
			harness.Has(0, datapath.HookEgressTC, each.outcome)).
			Aims(encapsulationAim, r.limited(bareLimit(bareOf(each.bare, each.format))))
	}
	removed := harness.Has(0, datapath.HookIngressXDP, model.OutcomeTunnelDecapsulated)
	for _, read := range []bool{false, true} {
		d := report.Dimensions{Treatment: "our decapsulation", Hook: "xdp", Format: noReader}
		if read {
			d.Format = "records read"
		}
		r.node(d, tunnel, decapsulate(model.ModeEncap, read), longer(-64), removed).Aims(transitAim, r.limited(decapsulationLimit(read)))
	}
	r.prototypes(tunnel)
	return r.list
}

// transits adds our programs, and programs that do nothing, in hooks of a kind.
func (r *stackRows) transits(mode datapath.AttachMode, ids, times, nine *harness.Variant) {
	at := string(mode)
	passes := []harness.Want{
		harness.Has(0, datapath.HookIngressXDP, model.OutcomeNoIOAM),
		harness.Has(0, datapath.HookEgressTC, model.OutcomeNoIOAM),
	}
	r.node(emptyAt(at, plainPackets), r.bare, emptyHooks(mode), unchanged)
	r.node(emptyAt(at, withIDs), ids, emptyHooks(mode), unchanged)
	r.node(report.Dimensions{Treatment: "our programs", Hook: at, Format: plainPackets}, r.bare, transit(mode), unchanged, passes...).
		Aims(idleAim, r.limited(idleLimit(mode)))
	ours := func(format string, against *harness.Variant) *harness.Variant {
		return r.node(report.Dimensions{Treatment: ourTransit, Hook: at, Format: format}, against, transit(mode), filled, transits()...)
	}
	ours(withIDs, ids).PlainAims(plainTransitAim, r.limited(transitLimit(mode, false)))
	ours(withTimes, times).Aims(transitAim, r.limited(transitLimit(mode, true)))
	r.node(emptyAt(at, nineNamespaces), nine, emptyHooks(mode), unchanged)
	ours(nineNamespaces, nine).PlainAims(plainNineAim, r.limited(nineLimit(mode)))
}

// kernelForwards are the dimensions of the kernel's forwarding.
func kernelForwards(format string) report.Dimensions {
	return report.Dimensions{Treatment: kernelForwarding, By: report.ByKernel, Format: format}
}

// filling is a traced frame of this length, without a payload if there is no room
// for one.
func filling(length int, options ...[]byte) []byte {
	if short := traced(options...); length < len(short)+8 {
		return short
	}
	return padded(length, options...)
}
