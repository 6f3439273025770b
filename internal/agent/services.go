// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/waymark-net/waymark/internal/agent/measure"
	"github.com/waymark-net/waymark/internal/agent/probe"
	"github.com/waymark-net/waymark/internal/agent/queues"
	"github.com/waymark-net/waymark/internal/agent/report"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/agent/tunnel"
)

// assemble makes the agent's services; none runs yet. They are prepared and started in
// the order of the list, and closed in reverse: services that make records come after
// those that take them, so that no record is lost.
func (a *Agent) assemble() {
	c := &a.core
	names := newNames(c)
	c.host = host{c.system, names}

	reports := c.forReports()
	clock, sinks := report.NewClock(reports), report.NewSinks(reports, c.options.Stdout, names.peers)
	records := report.NewRecords(reports, clock, sinks, c.closing)

	sinks.Send(c.options.Version, a.collect)

	measuring := c.forMeasurements(records)
	hooks, unserved := newHooks(c, a.refresh), measure.NewUnservedInterfaces(measuring)
	hooks.notExecuting(newHookCoverage(c).recordGap)
	known := &knownUntil{core: c, hooks: hooks, unserved: unserved}
	blocks, delays := measure.NewBlocks(measuring, known, a.editConfig), measure.NewDelayMeter(measuring)

	waits := queues.New(c.forQueues(records), c.closing)
	history := report.NewHistory(reports, records, waits)
	events := report.NewEvents(reports, records, history)
	copies, shared := report.NewLoopbacks(reports), report.NewSharedIDs(reports, records)
	reader := report.NewReader(reports, records, copies, shared)
	flows := report.NewFlows(reports, reader, known)
	kernel := report.NewKernelEvents(reports, records)
	losses := report.NewRecordLosses(reports, sinks, flows, kernel)

	probes := probe.NewProbes(c.forProbes(records))
	tunnels := c.forTunnels()
	paths := tunnel.NewPathMTUs(tunnels)

	a.reloads, a.learned = &reloads{core: c}, newLearned(c)
	a.health = &nodeHealth{core: c, paths: paths, names: names}
	a.onsets = &onsets{core: c, diagnose: a.diagnosis}

	a.services = []service.Service{
		newMetricsServer(c, a.public), // answers until the others have ended
		clock,
		names,
		&links{core: c, refresh: a.refresh, changed: unserved.Changed},
		hooks,
		&kernelIDs{core: c},
		tunnel.NewSources(tunnels),
		paths,
		tunnel.NewErrors(tunnels, paths),
		sinks,
		records,
		history,
		events,
		flows,
		report.NewEdges(reports, records, known),
		report.NewDelays(reports),
		copies,
		reader,
		shared,
		a.learned,
		kernel,
		newForwarding(c),
		losses,
		report.NewCompleteness(reports, sinks, losses, known),
		&refusals{core: c},
		newDrops(c), newRates(c),
		newShortfalls(c, a.collectServices),
		waits,
		measure.NewCoverage(measuring),
		unserved,
		blocks,
		measure.NewReflector(measuring, blocks),
		measure.NewResponders(measuring, blocks),
		measure.NewTraceEndpoint(measuring),
		probes,
		measure.NewLossMeter(measuring, blocks, delays),
		delays,
		newReaders(c, a.serveAPI),
		a.health,
		a.reloads,
		a.onsets,
		&supervision{core: c, condition: a.condition},
	}
}
