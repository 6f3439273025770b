// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/ioam"
)

// stepSpec says what a step runs.
type stepSpec struct {
	name     string
	config   ioam.NodeConfig
	frame    []byte
	grows    int
	fast     bool
	noDevice bool // no interface can send
	key      datapath.RouteKey
	counted  func(datapath.Counters) uint64
}

// The steps.
const (
	stepNothing  = "a program that does nothing"
	stepPlain    = "a plain packet, for the stack"
	stepParsed   = "a trace of an unknown namespace"
	stepIDs      = "a trace with ids"
	stepTimes    = "a trace with ids and timestamps"
	stepDecided  = "a packet at its last hop"
	stepFound    = "no device to send by"
	stepSent     = "a packet forwarded fast"
	stepAsked    = "the kernel asked for it"
	stepMatched  = "an encapsulation that does not select it"
	stepInserted = "a header inserted"
	stepLonger   = "a longer header inserted"
)

const (
	shortHeader = 24 // bytes of the inserted header
	moreHeader  = 48 // and of the longer one beyond that
)

func stepsOfParts() []stepSpec {
	arrived := func(o ioam.Outcome) func(datapath.Counters) uint64 {
		return func(c datapath.Counters) uint64 { return c.Ingress[o] }
	}
	forwarded := func(o ioam.Outcome) func(datapath.Counters) uint64 {
		return func(c datapath.Counters) uint64 { return c.Forwarded[o] }
	}
	left := func(r datapath.StackReason) func(datapath.Counters) uint64 {
		return func(c datapath.Counters) uint64 { return c.ToStack[r] }
	}
	const atHopLimit = ethernetHeader + 7
	packet := plain(destination, sizeOfParts)
	ids := oneNode(typeIDs)
	longer := ids
	longer.Size += moreHeader
	sampled := encapsulation(ioam.ModeInline, ids)
	sampled.Encapsulations[0].Frequency = ioam.Frequency{K: 1, N: ioam.MaxFrequency}
	return []stepSpec{
		{name: stepPlain, config: nodeConfig(), frame: packet, counted: arrived(ioam.OutcomeNoIOAM)},
		{name: stepParsed, config: nodeConfig(), frame: padded(sizeOfParts, trace(namespaceUnknown, typeIDs)), counted: arrived(ioam.OutcomeNamespaceUnknown)},
		{name: stepIDs, config: nodeConfig(), frame: padded(sizeOfParts, trace(namespace, typeIDs)), counted: arrived(ioam.OutcomeTraceFilled)},
		{name: stepTimes, config: nodeConfig(), frame: padded(sizeOfParts, trace(namespace, typeTimes)), counted: arrived(ioam.OutcomeTraceFilled)},
		{name: stepDecided, config: nodeConfig(), frame: with(packet, atHopLimit, 1), fast: true, counted: left(datapath.StackHopLimit)},
		{name: stepFound, config: nodeConfig(), frame: packet, fast: true, noDevice: true, counted: left(datapath.StackDevice)},
		{name: stepSent, config: nodeConfig(), frame: packet, fast: true, counted: forwarded(ioam.OutcomeNoIOAM)},
		{name: stepAsked, config: nodeConfig(), frame: packet, fast: true, key: datapath.RouteByPorts, counted: forwarded(ioam.OutcomeNoIOAM)},
		{name: stepMatched, config: sampled, frame: packet, fast: true, counted: forwarded(ioam.OutcomeEncapNotSelected)},
		{name: stepInserted, config: encapsulation(ioam.ModeInline, ids), frame: packet, fast: true, grows: shortHeader, counted: forwarded(ioam.OutcomeEncapInserted)},
		{name: stepLonger, config: encapsulation(ioam.ModeInline, longer), frame: packet, fast: true, grows: shortHeader + moreHeader, counted: forwarded(ioam.OutcomeEncapInserted)},
	}
}

// part is a part of the way of a packet.
type part struct {
	name string
	// of is what it took in a round, and what all before it took, in ns.
	of    func(p *partsRun, round int) (took, before float64)
	limit string // what sets the limit
}

// between is the difference of two steps.
func between(with, without string) func(*partsRun, int) (float64, float64) {
	return func(p *partsRun, round int) (float64, float64) {
		took, before := p.steps[with].took[round], p.steps[without].took[round]
		return took - before, before
	}
}

func parts() []part {
	return []part{
		{"parse: link and IPv6 header", between(stepPlain, stepNothing),
			"some loads, and a counter of this CPU, whose address is computed inline. Behind a network card, the first access to the packet misses the cache, and that is the limit; here it is warm."},
		{"parse: Hop-by-Hop header with one option", between(stepParsed, stepPlain),
			"the verifier. It wants each access held to the frame's end, and each option in a function of its own, whose results pass through memory, lest it follow every combination."},
		{"fill: namespace found, ids written", between(stepIDs, stepParsed),
			"two array lookups, which are inline, and the verifier again: the trace type is read anew before each field."},
		{"clock: one reading, two fields more", between(stepTimes, stepIDs),
			"the helper `bpf_ktime_get_tai_ns`, and in it the processor's counter, which a virtual machine reads no faster than its host lets it. One reading serves a packet; none is made where no field asks for it."},
		{"decide: whether the packet is any router's", between(stepDecided, stepPlain),
			"comparisons with what has been read already, and the second counter."},
		{"lookup: next hop found in the cache", between(stepFound, stepDecided),
			"three helpers, for the frame's length, the coarse clock and the device (which is not there), and one cache line of the next hop: with more destinations than the processor's caches hold, memory."},
		{"send: device found, link header written", between(stepSent, stepFound),
			"the helper `bpf_redirect_map`: a hash lookup of the device, done by the helper before the kernel does it."},
		{"lookup: next hop asked from the kernel, beyond the cache", between(stepAsked, stepSent),
			"the helper `bpf_fib_lookup`: rules, route and neighbour, as the stack would look. This is what the cache saves."},
		{"match: one encapsulation, not selected", between(stepMatched, stepSent),
			"the rule's comparisons, and one atomic addition: *k of n* is exact over all CPUs."},
		{"grow: bpf_xdp_adjust_head", func(p *partsRun, round int) (float64, float64) {
			return p.grow[round], p.steps[stepMatched].took[round]
		}, "the helper's call; it moves a pointer, and no bytes."},
		{"insert: all else of 24 bytes inline", func(p *partsRun, round int) (float64, float64) {
			before := p.steps[stepMatched].took[round] + p.grow[round]
			return p.steps[stepInserted].took[round] - p.shrink[round] - before, before
		}, "a second look at the packet, which the verifier demands behind each change of its length: the IPv6 header is moved, the prebuilt one copied in words of 8 bytes, and the node's values are patched. What sampling takes is not in it."},
		{"copy: 48 bytes more of the prebuilt header", between(stepLonger, stepInserted),
			"a check against the frame's end for each 8 bytes, by the verifier's demand; beyond 80 bytes one call of `bpf_xdp_store_bytes` is cheaper."},
		{"redirect: the kernel, both links and both ends", func(p *partsRun, round int) (float64, float64) {
			program := p.steps[stepSent].took[round] - p.steps[stepNothing].took[round]
			return p.live[round] - program, program
		}, "the driver, here veth: source, two links and a sink in XDP, measured with live frames, less the program's time. No program can do better than this."},
	}
}
