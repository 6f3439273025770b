// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"runtime"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
)

func desc(name, help string, labels ...string) *metrics.Desc {
	return &metrics.Desc{Name: "waymark_" + name, Help: help, Labels: labels}
}

// The metrics; docs/reference/metrics.md has the same list, and a test compares.
var (
	descPackets         = desc("packets_total", "Packets by what the hook did with them.", "interface", "hook", "outcome")
	descToStack         = desc("forwarding_to_stack_total", "Packets that fast forwarding left to the stack, by reason.", "interface", "reason")
	descRecordsWritten  = desc("records_written_total", "Records that the data plane wrote.", "interface")
	descRecordsLost     = desc("records_lost_total", "Records that found no room, because nobody read or too slowly.", "interface")
	descPostcards       = desc("postcards_total", "Postcards that the data plane wrote.", "interface")
	descSuppressed      = desc("exports_suppressed_total", "Postcards, and flows that did not make room for another, that the limits of exports suppressed.", "interface")
	descFlowsSuppressed = desc("flows_suppressed_total", "Flows that export-rate suppressed when their interval ended.")
	descFlowsUnsure     = desc("flows_gaps_unknown_total", "Flow records that do not say how many packets are missing, because it cannot be known.")
	descFlowsEvicted    = desc("flows_evicted_total", "Flows that gave way to others, and were exported early.", "interface")
	descSequences       = desc("sequences_evicted_total", "Flows whose Sequence Numbers begin anew, because others needed the place.", "interface")
	descRecordsRead     = desc("records_read_total", "Records that the agent read.")
	descRecordsBad      = desc("records_malformed_total", "Traces in records that could not be read whole.")
	descKernelEvents    = desc("kernel_events_total", "Events of the kernel's own IOAM that the agent read.")
	descKernelBad       = desc("kernel_events_malformed_total", "Of these, those that could not be understood.")
	descKernelLost      = desc("kernel_events_lost_total", "Events of the kernel's own IOAM that overran the agent's socket.")
	descObservers       = desc("observers", "Those who watch records as they happen.")
	descObserverDropped = desc("observer_dropped_total", "Records that did not fit an observer's queue.")
	descExportWritten   = desc("export_written_total", "Records that an exporter wrote.", "exporter")
	descExportDropped   = desc("export_dropped_total", "Records that an exporter lost, by cause.", "exporter", "cause")
	descExportQueued    = desc("export_queued_records", "Records on their way through an exporter.", "exporter")
	descExportMessages  = desc("export_messages_total", "IPFIX messages that an exporter sent.", "exporter")
	descExportOctets    = desc("export_octets_total", "Octets of these messages.", "exporter")
	descExportUnsure    = desc("export_unsure_total", "Of the records written, how many at most collectors may not have read that broke their connections.", "exporter")
	descExportConnected = desc("export_connected", "Whether an exporter reaches its collector, as far as can be told: 1 or 0.", "exporter")
	descPathMTU         = desc("path_mtu_bytes", "The path MTU of a tunnel, where one is known that is smaller than its interface's.", "destination")
	descTooBig          = desc("packet_too_big_total", "Packet Too Big messages that arrived, by what followed.", "result")
	descTunnelErrors    = desc("tunnel_errors_total", "ICMPv6 errors that arrived and may be about a tunnelled packet, by what followed.", "result")
	descReloads         = desc("reloads_total", "Reloads of the configuration file.", "result")
	descInterface       = desc("interface_info", "How an interface is served; the value is 1.", "interface", "ingress_hook", "egress_hook")
	descWarnings        = desc("health_warnings", "Health warnings in force.", "code", "severity")
	descBuild           = desc("build_info", "What runs; the value is 1.", "version", "go")
	descScrapeFailed    = desc("counters_readable", "Whether the data plane's counters could be read: 1 or 0.")
)

// collector reads the agent's counters when somebody asks.
type collector struct{ agent *Agent }

// Collect adds what the agent and the data plane have counted.
func (c collector) Collect(g *metrics.Gatherer) {
	a := c.agent
	counter := func(d *metrics.Desc, v uint64, labels ...string) { g.Add(d, float64(v), labels...) }
	gauge := func(d *metrics.Desc, v float64, labels ...string) { g.Add(d, v, labels...) }
	readable := c.collectPackets(counter)
	gauge(descScrapeFailed, readable)
	counter(descRecordsRead, a.records.read.Load())
	counter(descRecordsBad, a.records.malformed.Load())
	counter(descKernelEvents, a.kernelEvents.count.Received())
	counter(descKernelBad, a.kernelEvents.count.Malformed())
	counter(descKernelLost, a.kernelEvents.count.Lost())
	gauge(descObservers, float64(a.stream.Observers()))
	counter(descObserverDropped, a.stream.Dropped())
	counter(descFlowsSuppressed, a.flows.suppressed.Load())
	counter(descFlowsUnsure, a.flows.unknown.Load())
	c.collectExporters(counter, gauge)
	for _, p := range a.paths.table.Paths() {
		gauge(descPathMTU, float64(p.MTU), p.Destination.String())
	}
	for _, c := range a.paths.table.Counts() {
		counter(descTooBig, c.Messages, c.Result.String())
	}
	counter(descTooBig, a.paths.lost.Lost(), resultLost)
	for _, c := range a.tunnelErrors.relay.Counts() {
		counter(descTunnelErrors, c.Errors, c.Result.String())
	}
	counter(descTunnelErrors, a.tunnelErrors.lost.Lost(), resultLost)
	counter(descReloads, a.reloads.Load(), "ok")
	counter(descReloads, a.reloadsFailed.Load(), "failed")
	for _, i := range a.datapath.Interfaces() {
		gauge(descInterface, 1, i.Name, string(i.Ingress), string(i.Egress))
	}
	inForce := map[health.Code]int{}
	for _, w := range a.warnings() {
		inForce[w.Code]++
	}
	for _, k := range health.Kinds() {
		if k.Severity == health.Hint {
			continue
		}
		gauge(descWarnings, float64(inForce[k.Code]), string(k.Code), string(k.Severity))
	}
	gauge(descBuild, 1, a.options.Version, runtime.Version())
}

// collectExporters gives what became of records.
func (c collector) collectExporters(counter func(*metrics.Desc, uint64, ...string), gauge func(*metrics.Desc, float64, ...string)) {
	done := map[string]bool{}
	for _, s := range c.agent.sinks.stats() {
		if done[s.name] {
			continue // two to one file: a series may stand only once
		}
		done[s.name] = true
		counter(descExportWritten, s.Written, s.name)
		for cause, n := range s.ByCause() {
			counter(descExportDropped, n, s.name, cause)
		}
		gauge(descExportQueued, float64(s.Waiting()), s.name)
		if !s.Network {
			continue
		}
		counter(descExportMessages, s.Messages, s.name)
		counter(descExportOctets, s.Octets, s.name)
		counter(descExportUnsure, s.Unsure, s.name)
		connected := 0.0
		if s.Connected {
			connected = 1
		}
		gauge(descExportConnected, connected, s.name)
	}
}

// collectPackets gives every outcome, also those that have not happened, so
// that a rate is right from the first packet on.
func (c collector) collectPackets(counter func(*metrics.Desc, uint64, ...string)) float64 {
	counters, err := c.agent.datapath.Counters()
	if err != nil {
		c.agent.log.Warn("read the counters", "error", err)
		return 0
	}
	fast := c.agent.state.Load().resolved.Fast
	for _, i := range counters {
		for _, o := range model.Outcomes() {
			counter(descPackets, i.Ingress[o], i.Name, "ingress", o.String())
			counter(descPackets, i.Egress[o], i.Name, "egress", o.String())
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
	}
	return 1
}

// collectForwarding gives what an interface forwarded without the stack.
func collectForwarding(c datapath.Counters, counter func(*metrics.Desc, uint64, ...string)) {
	for _, o := range model.Outcomes() {
		counter(descPackets, c.Forwarded[o], c.Name, "forwarding", o.String())
	}
	for r := datapath.StackNone + 1; r < datapath.NumStackReasons; r++ {
		counter(descToStack, c.ToStack[r], c.Name, r.String())
	}
}
