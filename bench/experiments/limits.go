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

// namespacesLimit is for 9 traces added to plain frames.
func namespacesLimit(is report.Dimensions, outcome model.Outcome) *report.Limit {
	floor := bareOf(is.Treatment, "")
	floor.Size = is.Size
	l := bareLimit(floor)
	if outcome == model.OutcomeTunnelDecapsulated {
		makeRecord(l)
	}
	return l
}

// bareLimit is for treatments with a bare prototype in the same benchmark.
func bareLimit(floor report.Dimensions) *report.Limit {
	return &report.Limit{Why: whyBare, Floor: report.Reference{Variant: floor}}
}

// makeRecord adds a record for each packet to the limit.
func makeRecord(l *report.Limit) {
	l.Why += ", and the record, without its reader"
	l.Plus = figuresOf("parts", ofPart(partRecord))
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
	l := &report.Limit{Why: whyHooks + ", and for the header", Floor: alone(mode, nineNamespaces), Ours: filledByTC(nine)}
	if mode == datapath.AttachXDP {
		l.Ours[0].Variant = costOf(datapath.HookIngressXDP, model.OutcomeTraceFilled, nine)
	}
	return l
}

// readClock adds a reading of the clock to the limit.
func readClock(l *report.Limit) {
	l.Why += ", and a reading of the clock (`bpf_ktime_get_tai_ns`)"
	l.Plus = figuresOf("parts", ofPart(partClock))
}

// decapsulationLimit is for decapsulation with or without a reader of its
// records.
func decapsulationLimit(read bool) *report.Limit {
	l := bareLimit(bareOf(decapsulating, ""))
	if read {
		makeRecord(l)
	}
	return l
}

// fastLimit is for nodes that forward without the stack. Their prototypes are on links
// with one queue.
func fastLimit(is report.Dimensions) *report.Limit {
	format := is.Format
	if is.Treatment == decapsulating {
		format = ""
	}
	return fastBare(bareOf(is.Treatment, format), is.NoCache)
}

func fastBare(floor report.Dimensions, noCache bool) *report.Limit {
	floor.NoCache, floor.Sink, floor.Queues = noCache, sinkXDP, 1
	l := bareLimit(floor)
	if l.Why += ", on links with one queue"; noCache {
		l.Why += " and with the helper `bpf_fib_lookup` for each packet"
	}
	return l
}

// exportPart is the part that makes an export of each packet; a postcard is written
// into a ring of ours, a flow's totals into a table. None for samples, of which most
// packets make nothing.
func exportPart(way model.ExportMode) (list []string) {
	switch way {
	case model.ExportEvery:
		return []string{partPostcard}
	case model.ExportAggregate:
		return []string{partAggregate}
	}
	return nil
}

// fastExportLimit is for packets with a Direct Export, each of which is exported. The
// prototypes add or remove headers of the same length with a trace in them; on its way,
// nothing is written into a Direct Export.
func fastExportLimit(way model.ExportMode) func(report.Dimensions) *report.Limit {
	return func(is report.Dimensions) *report.Limit {
		floor := bareOf(plainPackets, "")
		switch is.Treatment {
		case exportAt(insertion):
			floor = bareOf(inlineTreatment, withIDs)
		case exportAt(decapsulating):
			floor = bareOf(decapsulating, "")
		}
		l := fastBare(floor, false)
		l.Why += ", which exports nothing"
		if is.Treatment == exportAt(transitTreatment) {
			l.Ours = figuresOf("parts", ofPart(partDirectExport))
		}
		for _, name := range exportPart(way) {
			l.Ours = append(l.Ours, figuresOf("parts", ofPart(name))...)
		}
		return l
	}
}

// exportLimit is for a node that exports, of which the same packets are measured
// without a reader of exports.
func exportLimit(unread report.Dimensions, way model.ExportMode) *report.Limit {
	l := &report.Limit{Why: "the option itself, where no reader takes exports", Floor: report.Reference{Variant: unread}}
	for _, name := range exportPart(way) {
		l.Ours = append(l.Ours, figuresOf("parts", ofPart(name))...)
	}
	return l
}
