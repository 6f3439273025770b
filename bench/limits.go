// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// figuresOf are figures of one benchmark.
func figuresOf(benchmark string, variants ...report.Dimensions) (list []report.Reference) {
	for _, variant := range variants {
		list = append(list, report.Reference{Benchmark: benchmark, Variant: variant})
	}
	return list
}

// With programs that do nothing where ours would be, a packet takes what the
// kernel takes for its hooks.
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

// aloneAtDeparture is a program that does nothing where packets leave.
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

// costOf is a case of the benchmark "cost".
func costOf(hook datapath.Hook, outcome model.Outcome, detail string) report.Dimensions {
	return costCase{hook: hook, outcome: outcome, detail: detail}.is()
}

// filledByTC are the times of a trace that the tc hooks fill.
func filledByTC(detail string) []report.Reference {
	filled := model.OutcomeTraceFilled
	return figuresOf("cost", costOf(datapath.HookIngressTC, filled, detail), costOf(datapath.HookEgressTC, filled, detail))
}

// fastPlain is fast forwarding of plain packets.
func fastPlain(sink string, asking bool) report.Dimensions {
	return report.Dimensions{Way: report.WayFast, Treatment: plainPackets, NoCache: asking, Sink: sink}
}

// namespacesLimit is for 9 traces, added to plain frames of a size.
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

// transitLimit is for traces with ids, or with timestamps, too.
func transitLimit(mode datapath.AttachMode, timed bool) *report.Limit {
	l := &report.Limit{Why: whyHooks, Floor: alone(mode, "ids")}
	switch {
	case mode == datapath.AttachXDP:
		l.Ours = figuresOf("parts", ofPart(partParse), ofPart(partHeader), ofPart(partFill), ofPart(partEgressParse), ofPart(partComplete))
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

// readClock is for packets that take the time.
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

// decapsulationLimit is with a record for a reader, or without.
func decapsulationLimit(read bool) *report.Limit {
	l := &report.Limit{Why: whyHooks, Floor: alone(datapath.AttachXDP, "tunnelled with a trace"), Ours: figuresOf("parts", ofPart(partDecapsulate))}
	if read {
		l.Why += ", and the record, without its reader"
		l.Plus = figuresOf("parts", ofPart(partRecord))
	}
	return l
}

// fastLimit is for packets whose next hop is in the cache.
func fastLimit(sink string, outcome model.Outcome, timed bool) *report.Limit {
	l := &report.Limit{Why: "forwarding alone, of a packet without IOAM", Floor: report.Reference{Variant: fastPlain(sink, false)}}
	switch outcome {
	case model.OutcomeTraceFilled:
		l.Ours = figuresOf("parts", ofPart(partHeader), ofPart(partFill))
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

// askingLimit is for packets whose next hop the kernel is asked for.
func askingLimit(sink string) *report.Limit {
	return &report.Limit{
		Why:   "forwarding alone, of a packet without IOAM and with the helper `bpf_fib_lookup`",
		Floor: report.Reference{Variant: fastPlain(sink, true)},
	}
}
