// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// sizes of plain frames, in bytes: the least that pktgen sends, and the
// greatest to which 9 namespaces can be added within an MTU of 1500.
var sizes = []int{78, 1236}

// untreatedPackets are packets that the kernel forwards through so many nodes.
func untreatedPackets(d report.Dimensions, x float64, frame []byte, nodes int) *variant {
	line := make([]treatment, nodes)
	for i := range line {
		line[i] = untreated
	}
	d.By = report.ByKernel
	return &variant{is: d, x: x, line: line, send: stream{frame: frame}, arrives: unchanged}
}

// transits are what happens to a traced packet at a transit node.
func transits() []want {
	return []want{
		has(0, datapath.HookIngressXDP, model.OutcomeTraceFilled),
		has(0, datapath.HookEgressTC, model.OutcomeTraceFilled),
	}
}

// What of the rate has to be left at least, and of that of plain packets with
// fast forwarding.
const (
	idleAim          = 0.99
	transitAim       = 0.96 // and of decapsulation
	encapsulationAim = 0.92
	namespacesAim    = 0.85 // of 9, 264 bytes
	fastAim          = 3
	askingAim        = 1.75
)

// Treatments and formats of packets, in words.
const (
	hooksAlone       = "hooks alone: programs that do nothing"
	kernelForwarding = "kernel forwarding"
	ourTransit       = "our transit"
	withIDs          = "ids"
	withTimes        = "with timestamps"
	plainPackets     = "plain packets"
	tunnelledTrace   = "tunnelled with a trace"
)

// atDeparture is the hook where packets leave.
const atDeparture = "tcx egress"

// emptyAt are programs that do nothing.
func emptyAt(hook, format string) report.Dimensions {
	return report.Dimensions{Treatment: hooksAlone, By: report.ByEmptyProgram, Hook: hook, Format: format}
}

// aims gives a variant an aim, and what keeps it from there.
func (v *variant) aims(aim float64, l *report.Limit) { v.aim, v.limit = aim, l }

// forwardingExperiment is every treatment of a packet by one node.
func forwardingExperiment() experiment { return forwardingOf(sizes) }

func forwardingOf(sizes []int) experiment {
	e := experiment{
		x: "bytes", axis: "bytes of a frame without IOAM; packets with a trace have as many where it fits",
		baseline: "the same packets forwarded by the kernel: no program, ioam6_enabled off",
		apart:    true,
	}
	for _, size := range sizes {
		e.variants = append(e.variants, forwardingVariants(size)...)
	}
	return e
}

// latencyExperiment is the same, in time that a single packet takes longer. The
// shorter packets have room for the time of sending behind any trace.
func latencyExperiment() experiment {
	e := forwardingOf([]int{128, 1236})
	e.baseline = "the same packets through a node without programs, ioam6_enabled off"
	e.notes = []string{"The least delay of packets that are sent one by one, less that of the same packets untreated."}
	for _, v := range e.variants {
		v.timed, v.aim = true, 0
	}
	return e
}

func forwardingVariants(size int) []*variant {
	x := float64(size)
	plainBase := untreatedPackets(kernelForwards("no IOAM"), x, plain(destination, size), 1)
	ids := untreatedPackets(kernelForwards("trace with ids in the packet, untreated"), x, filling(size, trace(namespace, typeIDs)), 1)
	times := untreatedPackets(kernelForwards("trace with timestamps in the packet, untreated"), x, filling(size, trace(namespace, typeTimes)), 1)
	tunnel := untreatedPackets(kernelForwards("tunnelled with a trace, untreated"), x,
		tunnelled(plain(destination, size)[ethernetHeader:], trace(namespace, typeIDs)), 1)
	ids.plain, times.plain, tunnel.plain = plainBase, plainBase, plainBase
	list := []*variant{plainBase, ids, times, tunnel}
	add := func(d report.Dimensions, base *variant, t treatment, arrives arrival, wants ...want) *variant {
		v := &variant{is: d, x: x, line: []treatment{t}, send: base.send, against: base, arrives: arrives, wants: wants}
		if base != plainBase {
			v.plain = plainBase
		}
		list = append(list, v)
		return v
	}
	own := report.Dimensions{Treatment: "kernel's own IOAM transit", By: report.ByKernelIOAM, Format: withIDs}
	add(own, ids, kernelOwn, filled)
	own.Format = withTimes
	add(own, times, kernelOwn, filled)
	for _, mode := range []datapath.AttachMode{datapath.AttachXDP, datapath.AttachTCX} {
		at := string(mode)
		ours := report.Dimensions{Treatment: ourTransit, Hook: at}
		passes := []want{has(0, datapath.HookIngressXDP, model.OutcomeNoIOAM), has(0, datapath.HookEgressTC, model.OutcomeNoIOAM)}
		add(emptyAt(at, plainPackets), plainBase, emptyHooks(mode), unchanged)
		add(emptyAt(at, withIDs), ids, emptyHooks(mode), unchanged)
		add(report.Dimensions{Treatment: "our programs", Hook: at, Format: plainPackets}, plainBase, transit(mode), unchanged, passes...).aims(idleAim, idleLimit(mode))
		ours.Format = withIDs
		add(ours, ids, transit(mode), filled, transits()...).aims(transitAim, transitLimit(mode, false))
		ours.Format = withTimes
		add(ours, times, transit(mode), filled, transits()...).aims(transitAim, transitLimit(mode, true))
	}
	add(emptyAt(atDeparture, plainPackets), plainBase, emptyDeparture, unchanged)
	add(emptyAt("xdp", tunnelledTrace), tunnel, emptyHooks(datapath.AttachXDP), unchanged)
	inserted, wrapped := has(0, datapath.HookEgressTC, model.OutcomeEncapInserted), has(0, datapath.HookEgressTC, model.OutcomeEncapTunneled)
	add(report.Dimensions{Treatment: "our encapsulation inline", Format: withIDs}, plainBase, encapsulate(model.ModeInline, always, oneNode(typeIDs)), longer(24), inserted).
		aims(encapsulationAim, encapsulationLimit(model.OutcomeEncapInserted, "one option, type 0xc00000"))
	add(report.Dimensions{Treatment: "our encapsulation in a tunnel", Format: withIDs}, plainBase, encapsulate(model.ModeEncap, always, oneNode(typeIDs)), longer(64), wrapped).
		aims(encapsulationAim, encapsulationLimit(model.OutcomeEncapTunneled, "one option, type 0xc00000"))
	add(report.Dimensions{Treatment: "our encapsulation in a tunnel", Format: withTimes}, plainBase, encapsulate(model.ModeEncap, always, oneNode(typeTimes)), longer(72), wrapped).
		aims(encapsulationAim, encapsulationLimit(model.OutcomeEncapTunneled, "one option with timestamps, type 0xf00000"))
	removed := has(0, datapath.HookIngressXDP, model.OutcomeTunnelDecapsulated)
	add(report.Dimensions{Treatment: "our decapsulation", Hook: "xdp", Format: "nobody wants records"}, tunnel, decapsulate(model.ModeEncap, false), longer(-64), removed).
		aims(transitAim, decapsulationLimit(false))
	add(report.Dimensions{Treatment: "our decapsulation", Hook: "xdp", Format: "records read"}, tunnel, decapsulate(model.ModeEncap, true), longer(-64), removed).
		aims(transitAim, decapsulationLimit(true))
	return list
}

// kernelForwards is the kernel's forwarding of packets.
func kernelForwards(format string) report.Dimensions {
	return report.Dimensions{Treatment: kernelForwarding, By: report.ByKernel, Format: format}
}

// filling is a traced frame of the length, without a payload when that is short.
func filling(length int, options ...[]byte) []byte {
	if short := traced(options...); length < len(short)+8 {
		return short
	}
	return padded(length, options...)
}

// fastExperiment is forwarding without the stack, beside the kernel's own.
func fastExperiment() experiment {
	e := experiment{
		x: "bytes", axis: "bytes of a frame without IOAM; packets with a trace have as many where it fits",
		baseline: "the same packets forwarded by the kernel to the same sink: no program, ioam6_enabled off",
		notes: []string{"A sink in tc makes the kernel build an skb for each redirected frame, which is not the node's work; " +
			"a sink in XDP takes it as it is: the aims are for that, and for the comparison with plain packets.",
			"\"No cache\": as with rules by ports, the kernel is asked for the way of every packet."},
	}
	for _, size := range sizes {
		for _, inXDP := range []bool{false, true} {
			e.variants = append(e.variants, fastVariants(size, inXDP)...)
		}
	}
	return e
}

// Sinks, by the hook at which they take packets.
const (
	sinkTC  = "tc"
	sinkXDP = "XDP"
)

func fastVariants(size int, sinkInXDP bool) []*variant {
	sink := map[bool]string{false: sinkTC, true: sinkXDP}[sinkInXDP]
	x := float64(size)
	var list []*variant
	add := func(d report.Dimensions, v, against, bare *variant) *variant {
		v.sinkInXDP, v.plain = sinkInXDP, bare
		d.Sink = sink
		list = append(list, v.at(d, x, against))
		return v
	}
	kernel := func(format string, frame []byte, bare *variant) *variant {
		return add(kernelForwards(format), untreatedPackets(report.Dimensions{}, x, frame, 1), nil, bare)
	}
	bare := kernel(plainPackets, plain(destination, size), nil)
	ids := kernel("trace with ids", filling(size, trace(namespace, typeIDs)), bare)
	times := kernel("trace with timestamps", filling(size, trace(namespace, typeTimes)), bare)
	tunnel := kernel(tunnelledTrace, tunnelled(plain(destination, size)[ethernetHeader:], trace(namespace, typeIDs)), bare)
	with := func(v, against *variant, d report.Dimensions) *variant {
		v.send = against.send
		if against == bare {
			return add(d, v, against, nil)
		}
		return add(d, v, against, bare)
	}
	own := report.Dimensions{Treatment: theKernelsTransit, By: report.ByKernelIOAM, Format: withIDs}
	with(&variant{line: []treatment{kernelOwn}, arrives: filled}, ids, own)
	own.Format = withTimes
	with(&variant{line: []treatment{kernelOwn}, arrives: filled}, times, own)
	fast := func(name, format string, t treatment, against *variant, arrives arrival, outcome model.Outcome, wants ...want) {
		v := &variant{line: []treatment{t}, arrives: arrives, wants: append(wants, has(0, hookForwarded, outcome))}
		with(v, against, report.Dimensions{Way: report.WayFast, Treatment: name, Format: format, NoCache: t.asks})
		if sinkInXDP && (against != bare || outcome != model.OutcomeNoIOAM) {
			v.plainAim, v.limit = fastAim, fastLimit(sink, outcome, against == times)
			if t.asks {
				v.plainAim, v.limit = askingAim, askingLimit(sink)
			}
		}
	}
	through := transit(datapath.AttachXDP).forwardingFast()
	inline := encapsulate(model.ModeInline, always, oneNode(typeIDs)).forwardingFast()
	wrap := encapsulate(model.ModeEncap, always, oneNode(typeIDs)).forwardingFast()
	unwrap := decapsulate(model.ModeEncap, false).forwardingFast()
	removed := has(0, datapath.HookIngressXDP, model.OutcomeTunnelDecapsulated)
	fast(plainPackets, "", through, bare, unchanged, model.OutcomeNoIOAM)
	fast("transit", withIDs, through, ids, filled, model.OutcomeTraceFilled)
	fast("transit", withTimes, through, times, filled, model.OutcomeTraceFilled)
	fast("encapsulation inline", withIDs, inline, bare, longer(24), model.OutcomeEncapInserted)
	fast("encapsulation in a tunnel", withIDs, wrap, bare, longer(64), model.OutcomeEncapTunneled)
	fast("decapsulation", "nobody wants records", unwrap, tunnel, longer(-64), model.OutcomeNoIOAM, removed)
	fast(plainPackets, "", through.asking(), bare, unchanged, model.OutcomeNoIOAM)
	fast("transit", withIDs, through.asking(), ids, filled, model.OutcomeTraceFilled)
	fast("encapsulation in a tunnel", withIDs, wrap.asking(), bare, longer(64), model.OutcomeEncapTunneled)
	fast("decapsulation", "nobody wants records", unwrap.asking(), tunnel, longer(-64), model.OutcomeNoIOAM, removed)
	return list
}
