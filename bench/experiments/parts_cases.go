// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"slices"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// stepSpec says what a step runs.
type stepSpec struct {
	name     string
	config   model.NodeConfig
	frame    []byte
	grows    int
	keep     bool // it grows after the IPv6 header
	restores int  // bytes restored in each run; 0: restoredBytes
	fast     bool
	key      datapath.RouteKey
	egress   bool // at the tc hook where the packet leaves
	arrives  bool // through our ingress program first
	unread   bool // no reader of records
	records  bool // each packet writes one
	counted  func(datapath.Counters) uint64
}

// Names of steps.
const (
	stepNothing  = "a program that does nothing"
	stepPlain    = "a plain packet, for the stack"
	stepParsed   = "a trace of an unknown namespace"
	stepIDs      = "a trace with ids"
	stepTimes    = "a trace with ids and timestamps"
	stepSent     = "a packet forwarded fast"
	stepAsked    = "the kernel asked for it"
	stepMatched  = "an encapsulation that does not select it"
	stepInserted = "a header inserted"
	stepLonger   = "a longer header inserted"

	stepSentLong   = "a packet as long as nine traces forwarded fast"
	stepNine       = "a trace in each of 9 namespaces, forwarded fast"
	stepUnexported = "a Direct Export forwarded fast, not exported"
	stepAggregated = "a Direct Export forwarded fast, added to its flow"
	stepPostcard   = "a Direct Export forwarded fast, with a postcard"
	stepUnwrapped  = "a tunnel removed, the packet forwarded fast"

	stepRemoved  = "a tunnel removed"
	stepRecorded = "a tunnel removed, with a record"

	stepEgressNothing  = "at egress, a program that does nothing"
	stepEgressPlain    = "at egress, a plain packet"
	stepCompleted      = "at egress, a trace with ids"
	stepEgressMatched  = "at egress, an encapsulation that does not select it"
	stepEgressInserted = "at egress, a header inserted"
)

// Names of parts.
const (
	partParse         = "parse: link and IPv6 header"
	partHeader        = "walk: Hop-by-Hop header with one option, of an unknown namespace"
	partTrace         = "trace: common header, namespace found, ids written"
	partClock         = "clock: one reading, two fields more"
	partAsked         = "lookup: next hop asked from the kernel, beyond the cache"
	partGrow          = "grow: bpf_xdp_adjust_head"
	partInsert        = "insert: all else of 24 bytes inline"
	partRedirect      = "redirect: the kernel, both links and both ends"
	partNine          = "traces: one in each of 9 namespaces"
	partDirectExport  = "header: one Direct Export, not exported"
	partAggregate     = "export: a Direct Export in transit, added to its flow"
	partPostcard      = "export: a Direct Export in transit, a postcard in its ring"
	partUnwrap        = "remove: tunnel with a trace, without the stack, no record made"
	partDecapsulate   = "decapsulate: tunnel with a trace removed, no record made"
	partRecord        = "record: written for a reader"
	partHookArrival   = "hook: the kernel's XDP at ingress, a program that does nothing"
	partHookDeparture = "hook: the kernel's tcx at egress, a program that does nothing"
	partStack         = "stack: the kernel's forwarding, both links and both ends"
	partEgressParse   = "at egress, parse: link and IPv6 header"
	partComplete      = "at egress, complete: the id of the interface of departure"
	partEgressMatch   = "at egress, match: one encapsulation, not selected"
	partEgressGrow    = "at egress, grow: bpf_skb_adjust_room"
	partEgressInsert  = "at egress, insert: all else of 24 bytes inline"
)

const (
	shortHeader = 24 // bytes of the inserted header
	moreHeader  = 48 // and of the longer one beyond that
	// tunnelHeaders is the length of an outer IPv6 header and a trace with ids
	tunnelHeaders = harness.IPv6Header + shortHeader
	// sizeOfNine is the length of a frame with nine traces, and restoredOfNine are
	// restored in it.
	sizeOfNine, restoredOfNine = 256, 240
)

func stepsOfParts() []stepSpec {
	arrived := func(o model.Outcome) func(datapath.Counters) uint64 {
		return func(c datapath.Counters) uint64 { return c.Ingress[o] }
	}
	forwarded := func(o model.Outcome) func(datapath.Counters) uint64 {
		return func(c datapath.Counters) uint64 { return c.Forwarded[o] }
	}
	departed := func(o model.Outcome) func(datapath.Counters) uint64 {
		return func(c datapath.Counters) uint64 { return c.Egress[o] }
	}
	packet := harness.Plain(harness.Destination, sizeOfParts)
	ids := oneNode(typeIDs)
	longer := ids
	longer.Size += moreHeader
	sampled := encapsulation(model.ModeInline, ids)
	sampled.Encapsulations[0].Frequency = model.Frequency{K: 1, N: model.MaxFrequency}
	inner := make([]byte, sizeOfParts-harness.EthernetHeader-harness.IPv6Header-tunnelHeaders)
	wrapped := tunnelled(harness.IPv6(harness.Source, harness.Destination, harness.NextNone, inner), trace(namespace, typeIDs))
	return append([]stepSpec{
		{name: stepPlain, config: nodeConfig(), frame: packet, counted: arrived(model.OutcomeNoIOAM)},
		{name: stepParsed, config: nodeConfig(), frame: padded(sizeOfParts, trace(namespaceUnknown, typeIDs)), counted: arrived(model.OutcomeNamespaceUnknown)},
		{name: stepIDs, config: nodeConfig(), frame: padded(sizeOfParts, trace(namespace, typeIDs)), counted: arrived(model.OutcomeTraceFilled)},
		{name: stepTimes, config: nodeConfig(), frame: padded(sizeOfParts, trace(namespace, typeTimes)), counted: arrived(model.OutcomeTraceFilled)},
		{name: stepSent, config: nodeConfig(), frame: packet, fast: true, counted: forwarded(model.OutcomeNoIOAM)},
		{name: stepAsked, config: nodeConfig(), frame: packet, fast: true, key: datapath.RouteByPorts, counted: forwarded(model.OutcomeNoIOAM)},
		{name: stepMatched, config: sampled, frame: packet, fast: true, counted: forwarded(model.OutcomeEncapNotSelected)},
		{name: stepInserted, config: encapsulation(model.ModeInline, ids), frame: packet, fast: true, grows: shortHeader, counted: forwarded(model.OutcomeEncapInserted)},
		{name: stepLonger, config: encapsulation(model.ModeInline, longer), frame: packet, fast: true, grows: shortHeader + moreHeader, counted: forwarded(model.OutcomeEncapInserted)},

		{name: stepRemoved, config: removing(), frame: wrapped, grows: -tunnelHeaders, unread: true, counted: arrived(model.OutcomeTunnelDecapsulated)},
		{name: stepRecorded, config: removing(), frame: wrapped, grows: -tunnelHeaders, records: true, counted: arrived(model.OutcomeTunnelDecapsulated)},
		{name: stepEgressPlain, config: nodeConfig(), frame: packet, egress: true, counted: departed(model.OutcomeNoIOAM)},
		{name: stepCompleted, config: nodeConfig(), frame: padded(sizeOfParts, trace(namespace, typeIDs)), egress: true, arrives: true,
			counted: departed(model.OutcomeTraceFilled)},
		{name: stepEgressMatched, config: sampled, frame: packet, egress: true, counted: departed(model.OutcomeEncapNotSelected)},
		{name: stepEgressInserted, config: encapsulation(model.ModeInline, ids), frame: packet, egress: true, grows: shortHeader, keep: true,
			counted: departed(model.OutcomeEncapInserted)},
	}, stepsWithOptions()...)
}

// removing is a node that removes tunnels.
func removing() model.NodeConfig {
	c := nodeConfig()
	c.Decapsulations = []model.Decapsulation{{TunnelDestination: harness.TunnelEnd}}
	return c
}

// stepsWithOptions forward packets with options fast: several traces, a Direct
// Export, and a tunnel that ends here.
func stepsWithOptions() []stepSpec {
	forwarded := func(o model.Outcome) func(datapath.Counters) uint64 {
		return func(c datapath.Counters) uint64 { return c.Forwarded[o] }
	}
	// Only packets with something after their header are forwarded fast.
	wrapped := tunnelled(harness.IPv6(harness.Source, harness.Destination, harness.NextUDP, harness.UDP(8)), trace(namespace, typeIDs))
	carrying := padded(sizeOfParts, directExportOption(typeNodeID, bothExtensions))
	exported := forwarded(model.OutcomeDirectExport)
	// Counters of exports tell whether one was made of each packet.
	postcards := func(c datapath.Counters) uint64 { return min(exported(c), c.Postcards) }
	aggregate, every := exporting(nodeConfig(), model.ExportAggregate), exporting(nodeConfig(), model.ExportEvery)
	list := []stepSpec{
		{name: stepSentLong, config: nodeConfig(), frame: harness.Plain(harness.Destination, sizeOfNine), restores: restoredOfNine, counted: forwarded(model.OutcomeNoIOAM)},
		{name: stepNine, config: nodeConfig(), frame: padded(sizeOfNine, tracesInEach(mostOptions)...), restores: restoredOfNine, counted: forwarded(model.OutcomeTraceFilled)},
		{name: stepUnexported, config: aggregate, frame: carrying, unread: true, counted: exported},
		{name: stepAggregated, config: aggregate, frame: carrying, counted: exported},
		{name: stepPostcard, config: every, frame: carrying, records: true, counted: postcards},
		{name: stepUnwrapped, config: removing(), frame: wrapped, grows: -tunnelHeaders, unread: true, counted: forwarded(model.OutcomeNoIOAM)},
	}
	for i := range list {
		list[i].fast = true
	}
	return list
}

// part is a part of a packet's path.
type part struct {
	name string
	by   report.Worker // ours when empty
	// of returns the part's time in a round and the time of everything before it,
	// in ns.
	of    func(p *partsRun, round int) (took, before float64)
	limit string // what keeps the part from being faster
}

func (p part) is() report.Dimensions { return report.Dimensions{Treatment: p.name, By: p.by} }

// ofPart are the dimensions of one of our parts.
func ofPart(name string) report.Dimensions { return part{name: name}.is() }

// between is the difference of two steps.
func between(with, without string) func(*partsRun, int) (float64, float64) {
	return func(p *partsRun, round int) (float64, float64) {
		took, before := p.steps[with].took[round], p.steps[without].took[round]
		return took - before, before
	}
}

func parts() []part { return slices.Concat(partsOfForwarding(), partsWithOptions(), partsOfStack()) }

// partsOfForwarding are the parts for a packet that is forwarded without the
// stack.
func partsOfForwarding() []part {
	return []part{
		{partParse, "", between(stepPlain, stepNothing),
			"some loads, and a counter of this CPU, whose address is computed inline. Behind a network card, the first access to the packet misses the cache, and that is the limit; here it is warm."},
		{partHeader, "", between(stepParsed, stepPlain),
			"the verifier. It wants each access held to the frame's end, and each option in a function of its own, whose results pass through memory, lest it follow every combination. Common headers take the way of the next part instead."},
		{partTrace, "", between(stepIDs, stepPlain),
			"two array lookups, which are inline; comparisons, and a check against the frame's end for each access."},
		{partClock, "", between(stepTimes, stepIDs),
			"the helper `bpf_ktime_get_tai_ns`, and in it the processor's counter, which a virtual machine reads no faster than its host lets it. One reading serves a packet; none is made where no field asks for it."},
		{"forward: any router's packet, next hop in the cache, sent", "", between(stepSent, stepPlain),
			"comparisons with what has been read already, one cache line of the next hop (with more destinations than the processor's caches hold, memory), the helper `bpf_redirect_map`, which looks the device up by a hash before the kernel does, and the second counter."},
		{partAsked, report.ByKernel, between(stepAsked, stepSent),
			"the helper `bpf_fib_lookup`: rules, route and neighbour, as the stack would look. This is what the cache saves."},
		{"match: one encapsulation, not selected", "", between(stepMatched, stepSent),
			"the rule's comparisons, and one atomic addition: *k of n* is exact over all CPUs."},
		{partGrow, "", func(p *partsRun, round int) (float64, float64) {
			return p.grow[round], p.steps[stepMatched].took[round]
		}, "the helper's call; it moves a pointer, and no bytes."},
		{partInsert, "", func(p *partsRun, round int) (float64, float64) {
			before := p.steps[stepMatched].took[round] + p.grow[round]
			return p.steps[stepInserted].took[round] - p.shrink[round] - before, before
		}, "a second look at the packet, which the verifier demands behind each change of its length: the IPv6 header is moved, the prebuilt one copied in words of 8 bytes, and the node's values are patched. What sampling takes is not in it."},
		{"copy: 48 bytes more of the prebuilt header", "", between(stepLonger, stepInserted),
			"a check against the frame's end for each 8 bytes, by the verifier's demand; beyond 80 bytes one call of `bpf_xdp_store_bytes` is cheaper."},
		{partRedirect, report.ByKernel, func(p *partsRun, round int) (float64, float64) {
			program := p.steps[stepSent].took[round] - p.steps[stepNothing].took[round]
			return p.live[liveFast][round] - program, program
		}, "the driver, here veth: source, two links and a sink in XDP, measured with live frames, less the program's time. No program can do better than this."},
	}
}

// partsWithOptions are the parts for packets with several traces, a Direct Export
// or a tunnel, forwarded without the stack.
func partsWithOptions() []part {
	return []part{
		{partNine, "", between(stepNine, stepSentLong),
			"two calls, each with a loop over the traces: all are checked before the first is filled, with the interface of departure, too. Every access is held to the frame's end."},
		{partDirectExport, "", between(stepUnexported, stepSent),
			"the checks of the header and of the option, in registers, as with one trace."},
		{partAggregate, "", between(stepAggregated, stepUnexported),
			"the namespace, the flow's key of 64 bytes stored and compared with that of the packet before, and the flow's totals: some 300 instructions without a helper. Packets of many flows add a hash and a lookup."},
		{partPostcard, "", between(stepPostcard, stepUnexported),
			"the helper `bpf_ktime_get_tai_ns`, of which the part with the clock tells, and 96 bytes written into the ring. Here they are in the cache; where a reader takes them on another CPU, their two cache lines are there. Waking the reader, and what it does, are not in it."},
		{partUnwrap, "", func(p *partsRun, round int) (float64, float64) {
			before := p.steps[stepSent].took[round]
			return p.steps[stepUnwrapped].took[round] - p.grow[round] - before, before
		}, "the header's checks, the tunnel's end looked up, one call of `bpf_xdp_adjust_head`, and a second look at the packet, which the verifier demands after it; the link header is moved."},
	}
}

// partsOfStack are the parts for a packet that goes through the stack.
func partsOfStack() []part {
	return []part{
		{partDecapsulate, "", func(p *partsRun, round int) (float64, float64) {
			before := p.steps[stepPlain].took[round]
			return p.steps[stepRemoved].took[round] - p.grow[round] - before, before
		}, "that of a Hop-by-Hop header, and one call of `bpf_xdp_adjust_head`; the link header is moved."},
		{partRecord, "", between(stepRecorded, stepRemoved),
			"a place in the ring (`bpf_ringbuf_reserve`), into which the header is copied. Waking the reader, and what it does with the record, are not in it."},
		{partStack, report.ByKernel, func(p *partsRun, round int) (float64, float64) {
			nothing := p.steps[stepNothing].took[round]
			return p.live[liveStack][round] - nothing, nothing
		}, "the kernel: source, an skb made, route and neighbour found, two links and a sink in tc, measured with live frames. It is what losses are parts of."},
		{partHookArrival, report.ByKernel, liveBetween(liveArrival, liveStack),
			"the driver, here veth, which makes a frame fit for the program, and an skb of what it leaves; live frames."},
		{partHookDeparture, report.ByKernel, liveBetween(liveDeparture, liveStack),
			"the kernel's way into programs at egress, with the link header's place found and lost again; live frames."},
		{partEgressParse, "", between(stepEgressPlain, stepEgressNothing),
			"as at ingress."},
		{partComplete, "", between(stepCompleted, stepEgressPlain),
			"as at ingress: the packet is read a second time, because only here the interface that it leaves by is known."},
		{partEgressMatch, "", between(stepEgressMatched, stepEgressPlain),
			"as with fast forwarding."},
		{partEgressGrow, "", func(p *partsRun, round int) (float64, float64) {
			return p.egressGrow[round], p.steps[stepEgressMatched].took[round]
		}, "the helper's call: it makes the headers writable, moves those in front of the room, and keeps the skb's offsets right."},
		{partEgressInsert, "", func(p *partsRun, round int) (float64, float64) {
			before := p.steps[stepEgressMatched].took[round] + p.egressGrow[round]
			return p.steps[stepEgressInserted].took[round] - p.egressShrink[round] - before, before
		}, "as with fast forwarding. What sampling takes is not in it."},
	}
}

// liveBetween is the difference of two lines' times per packet.
func liveBetween(with, without string) func(*partsRun, int) (float64, float64) {
	return func(p *partsRun, round int) (float64, float64) {
		return p.live[with][round] - p.live[without][round], p.live[without][round]
	}
}
