// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"runtime"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
)

// Metrics of the data plane and of the agent itself; services define their own.
// docs/reference/metrics.md lists all, and a test of cmd/waymark compares them.
var (
	descPackets = service.Metric("packets_total", "Packets by what the hook did with them.", "interface", "hook", "outcome")
	descOptions = service.Metric(
		"options_total",
		"IOAM options by what the hook did with them; those of a removed header where it was reported.",
		"interface",
		"hook",
		"outcome",
	)
	descToStack = service.Metric(
		"forwarding_to_stack_total",
		"Packets that fast forwarding left to the stack, by reason.",
		"interface",
		"reason",
	)
	descRecordsWritten = service.Metric("records_written_total", "Records that the data plane wrote.", "interface")
	descRecordsLost    = service.Metric(
		"records_lost_total",
		"Records that were lost for lack of room, because no reader kept up.",
		"interface",
	)
	descPostcards  = service.Metric("postcards_total", "Postcards that the data plane wrote.", "interface")
	descSuppressed = service.Metric(
		"exports_suppressed_total",
		"Postcards, and flows before the end of their interval, that the export limits suppressed.",
		"interface",
	)
	descFlowsEvicted = service.Metric("flows_evicted_total", "Flows that were replaced by others and exported early.", "interface")
	descSRHMalformed = service.Metric(
		"srh_malformed_total",
		"Packets with a malformed Segment Routing Header, while flows are measured, by fault.",
		"interface",
		"fault",
	)
	descUnmarked = service.Metric(
		"unmarked_total",
		"Packets of measured flows that left without the option that would mark them, by cause.",
		"interface",
		"cause",
	)
	descLoopback = service.Metric(
		"loopback_total",
		"Packets by what was done about the Loopback flag: asked (the flag was set), returned (a copy of one that had it), "+
			"suppressed (either, beyond a limit).",
		"interface",
		"what",
	)
	descSequences = service.Metric(
		"sequences_evicted_total",
		"Flows whose Sequence Numbers restart, because others replaced them.",
		"interface",
	)
	descEdgeNumbers = service.Metric(
		"e2e_numbers_evicted_total",
		"Flows whose Edge-to-Edge Sequence Numbers restart, because others replaced them.",
		"interface",
	)
	descEdgeEvicted = service.Metric(
		"e2e_flows_evicted_total",
		"Flows measured from edge to edge that were replaced by others. What the interval had counted of them is in the sums.",
		"interface",
	)
	descInterface = service.Metric(
		"interface_info",
		"How an interface is served; the value is 1.",
		"interface",
		"ingress_hook",
		"egress_hook",
	)
	descWarnings     = service.Metric("health_warnings", "Health warnings in force.", "code", "severity")
	descBuild        = service.Metric("build_info", "Version of the agent; the value is 1.", "version", "go")
	descScrapeFailed = service.Metric("counters_readable", "Whether the data plane's counters could be read: 1 or 0.")
)

// collect adds what the data plane, the agent and its services have counted.
func (a *Agent) collect(g *metrics.Gatherer) {
	g.Add(descScrapeFailed, a.collectPackets(g))
	for _, i := range a.datapath.Interfaces() {
		g.Add(descInterface, 1, i.Name, string(i.Ingress), string(i.Egress))
	}
	a.collectServices(g)
	inForce := map[health.Code]int{}
	for _, w := range a.warnings() {
		inForce[w.Code]++
	}
	for _, k := range health.Kinds() {
		if k.Severity == health.Hint {
			continue
		}
		g.Add(descWarnings, float64(inForce[k.Code]), string(k.Code), string(k.Severity))
	}
	g.Add(descBuild, 1, a.options.Version, runtime.Version())
}

func (a *Agent) collectServices(g *metrics.Gatherer) {
	for _, s := range a.services {
		s.Collect(g)
	}
}

// collectPackets adds every outcome, also those that have not happened, so that rates
// are right from the first packet on.
func (a *Agent) collectPackets(g *metrics.Gatherer) float64 {
	counter := func(d *metrics.Desc, v uint64, labels ...string) { g.Add(d, float64(v), labels...) }
	counters, err := a.datapath.Counters()
	if err != nil {
		a.log.Warn("read the counters", "error", err)
		return 0
	}
	fast := a.state.Load().Resolved.Fast
	for _, i := range counters {
		for _, o := range model.Outcomes() {
			counter(descPackets, i.Ingress[o], i.Name, "ingress", o.String())
			counter(descPackets, i.Egress[o], i.Name, "egress", o.String())
		}
		for o := model.FirstOptionOutcome; o < model.NumOptionOutcomes; o++ {
			counter(descOptions, i.IngressOptions[o], i.Name, "ingress", o.String())
			counter(descOptions, i.EgressOptions[o], i.Name, "egress", o.String())
		}
		if fast[i.Index] {
			collectForwarding(i, counter)
		}
		counter(descRecordsWritten, i.RecordsWritten, i.Name)
		counter(descRecordsLost, i.RecordsLost, i.Name)
		counter(descPostcards, i.Postcards, i.Name)
		counter(descSuppressed, i.ExportsSuppressed, i.Name)
		counter(descFlowsEvicted, i.FlowsEvicted, i.Name)
		counter(descSequences, i.SequencesEvicted, i.Name)
		counter(descEdgeNumbers, i.EdgeNumbersEvicted, i.Name)
		counter(descEdgeEvicted, i.EdgeFlowsEvicted, i.Name)
		counter(descLoopback, i.Loopback.Asked, i.Name, "asked")
		counter(descLoopback, i.Loopback.Returned, i.Name, "returned")
		counter(descLoopback, i.Loopback.Suppressed, i.Name, "suppressed")
		for f := range datapath.NumSRHFaults {
			counter(descSRHMalformed, i.SRHMalformed[f], i.Name, f.String())
		}
		for c := range datapath.NumUnmarked {
			counter(descUnmarked, i.Unmarked[c], i.Name, c.String())
		}
	}
	return 1
}

// collectForwarding adds what an interface forwarded without the stack.
func collectForwarding(c datapath.Counters, counter func(*metrics.Desc, uint64, ...string)) {
	for _, o := range model.Outcomes() {
		counter(descPackets, c.Forwarded[o], c.Name, "forwarding", o.String())
	}
	for r := datapath.StackNone + 1; r < datapath.NumStackReasons; r++ {
		counter(descToStack, c.ToStack[r], c.Name, r.String())
	}
}
