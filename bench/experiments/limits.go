// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// figuresOf are references to figures of one benchmark.
func figuresOf(benchmark string, variants ...report.Dimensions) (list []report.Reference) {
	for _, variant := range variants {
		list = append(list, report.Reference{Benchmark: benchmark, Variant: variant})
	}
	return list
}

// With programs that do nothing in place of ours, a packet costs what the kernel
// needs for its hooks.
const (
	whyHooks     = "what the kernel takes for its hooks, with programs that do nothing in them"
	whyDeparture = "what the kernel takes for its hook at egress, with a program that does nothing in it"
)

func alone(mode datapath.AttachMode, packets string) report.Reference {
	return report.Reference{Benchmark: "forwarding", Variant: emptyAt(string(mode), packets)}
}

// idleLimit is for programs that pass plain packets.
func idleLimit(mode datapath.AttachMode) *report.Limit {
	l := &report.Limit{Why: whyHooks, Floor: alone(mode, "plain packets")}
	if mode == datapath.AttachXDP {
		l.Ours = figuresOf("parts", ofPart(partParse), ofPart(partEgressParse))
	}
	return l
}

// aloneAtDeparture is a program that does nothing at the hook where packets
// leave.
var aloneAtDeparture = report.Reference{Benchmark: "forwarding", Variant: emptyAt(atDeparture, plainPackets)}

// registeredLimit is for nodes that would encapsulate other packets.
func registeredLimit(nodes int) *report.Limit {
	l := &report.Limit{Why: whyDeparture, Floor: aloneAtDeparture, Ours: figuresOf("parts", ofPart(partEgressParse))}
	if nodes > 1 {
		l.Why += fmt.Sprintf(" (as with one node and %d bytes)", sizes[1])
		l.Floor.X, l.Ours = float64(sizes[1]), nil
	}
	return l
}

// costOf are the dimensions of a case of the benchmark "cost".
func costOf(hook datapath.Hook, outcome model.Outcome, detail string) report.Dimensions {
	return costCase{hook: hook, outcome: outcome, detail: detail}.is()
}

// filledByTC are the times for a trace that the tc hooks fill.
func filledByTC(detail string) []report.Reference {
	filled := model.OutcomeTraceFilled
	return figuresOf("cost", costOf(datapath.HookIngressTC, filled, detail), costOf(datapath.HookEgressTC, filled, detail))
}

// fastPlain is fast forwarding of plain packets in the lines of another variant.
func fastPlain(is report.Dimensions) report.Dimensions {
	return report.Dimensions{Way: report.WayFast, Treatment: plainPackets, NoCache: is.NoCache, Sink: is.Sink, Queues: is.Queues}
}

// namespacesLimit is for 9 traces added to plain frames of a size.
func namespacesLimit(outcome model.Outcome, size int) *report.Limit {
	const nine = "9 options of type 0xc00000"
	var l *report.Limit
	switch outcome {
	case model.OutcomeTraceFilled:
		l = &report.Limit{Why: whyHooks, Floor: alone(datapath.AttachXDP, "ids")}
		l.Ours = figuresOf("cost", costOf(datapath.HookIngressXDP, outcome, nine), costOf(datapath.HookEgressTC, outcome, nine))
	case model.OutcomeEncapTunneled:
		l = encapsulationLimit(outcome, nine)
	default:
		l = decapsulationLimit(true)
		l.Ours = figuresOf("cost", costOf(datapath.HookIngressXDP, outcome, nine+", with a record"))
	}
	l.Floor.X = float64(size)
	return l
}

// transitLimit is for traces with ids, or with ids and timestamps.
func transitLimit(mode datapath.AttachMode, timed bool) *report.Limit {
	l := &report.Limit{Why: whyHooks, Floor: alone(mode, "ids")}
	switch {
	case mode == datapath.AttachXDP:
		l.Ours = figuresOf("parts", ofPart(partParse), ofPart(partTrace), ofPart(partEgressParse), ofPart(partComplete))
	case timed:
		l.Ours = filledByTC("with timestamps, type 0xf00000")
		return l
	default:
		l.Ours = filledByTC("node and interface ids, type 0xc00000")
	}
	if timed {
		readClock(l)
	}
	return l
}

// nineLimit is for a trace in each of 9 namespaces, in packets that the kernel
// forwards with them.
func nineLimit(mode datapath.AttachMode) *report.Limit {
	const nine = "9 options of type 0xc00000"
	return &report.Limit{
		Why: whyHooks + ", and for the header", Floor: alone(mode, nineNamespaces),
		Ours: figuresOf("cost", costOf(datapath.HookIngressXDP, model.OutcomeTraceFilled, nine), costOf(datapath.HookEgressTC, model.OutcomeTraceFilled, nine)),
	}
}

// readClock adds a reading of the clock to the limit.
func readClock(l *report.Limit) {
	l.Why += ", and a reading of the clock (`bpf_ktime_get_tai_ns`)"
	l.Plus = figuresOf("parts", ofPart(partClock))
}

// encapsulationLimit is for an outcome at egress.
func encapsulationLimit(outcome model.Outcome, format string) *report.Limit {
	return &report.Limit{
		Why:   whyDeparture + ", and the helper `bpf_skb_adjust_room`",
		Floor: aloneAtDeparture,
		Plus:  figuresOf("parts", ofPart(partEgressGrow)), Ours: figuresOf("cost", costOf(datapath.HookEgressTC, outcome, format)),
	}
}

// decapsulationLimit is for decapsulation with or without a reader of its
// records.
func decapsulationLimit(read bool) *report.Limit {
	l := &report.Limit{Why: whyHooks, Floor: alone(datapath.AttachXDP, "tunnelled with a trace"), Ours: figuresOf("parts", ofPart(partDecapsulate))}
	if read {
		l.Why += ", and the record, without its reader"
		l.Plus = figuresOf("parts", ofPart(partRecord))
	}
	return l
}

// fastLimit is for packets whose next hop is in the cache.
func fastLimit(is report.Dimensions, outcome model.Outcome, timed bool) *report.Limit {
	l := &report.Limit{Why: "forwarding alone, of a packet without IOAM", Floor: report.Reference{Variant: fastPlain(is)}}
	switch outcome {
	case model.OutcomeTraceFilled:
		l.Ours = figuresOf("parts", ofPart(partTrace))
	case model.OutcomeEncapInserted, model.OutcomeEncapTunneled:
		l.Ours = figuresOf("parts", ofPart(partGrow), ofPart(partInsert))
	default:
		l.Ours = figuresOf("parts", ofPart(partDecapsulate))
	}
	if timed {
		readClock(l)
	}
	return l
}

// askingLimit is for packets whose next hop the kernel looks up.
func askingLimit(is report.Dimensions) *report.Limit {
	return &report.Limit{
		Why:   "forwarding alone, of a packet without IOAM and with the helper `bpf_fib_lookup`",
		Floor: report.Reference{Variant: fastPlain(is)},
	}
}

// fastPlainLimit is for packets of which no part is measured alone.
func fastPlainLimit(is report.Dimensions) *report.Limit {
	return &report.Limit{Why: "forwarding alone, of a packet without IOAM", Floor: report.Reference{Variant: fastPlain(is)}}
}

// fastPostcardLimit is for packets of which each makes a postcard.
func fastPostcardLimit(is report.Dimensions) *report.Limit {
	l := fastPlainLimit(is)
	l.Why += ", and a record, without its reader"
	l.Plus = figuresOf("parts", ofPart(partRecord))
	return l
}
