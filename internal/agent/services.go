// SPDX-License-Identifier: Apache-2.0

package agent

// assemble makes the agent's services; none runs yet. They are prepared and started in
// the order of the list, and closed in reverse: services that make records come after
// those that take them, so that no record is lost.
func (a *Agent) assemble() {
	c := &a.core
	names, clock := newNames(c), &taiClock{core: c}
	c.host = host{c.system, names}
	sinks := newSinks(c, names.peers)
	records := newRecords(c, clock, sinks)
	copies := newLoopbacks(c)
	shared := newSharedIDs(c)
	reader := &reader{core: c, records: records, copies: copies, shared: shared}
	unserved, hooks := newUnserved(c), newHooks(c, a.refresh)
	hooks.notExecuting(newHookCoverage(c).note)
	known := &knownUntil{core: c, hooks: hooks, unserved: unserved}
	flows := &flows{core: c, reader: reader, known: known}
	kernel := newKernelEvents(c, records)
	paths := newPathMTUs(c)
	losses := &losses{core: c, flows: flows, kernel: kernel}
	sinks.environment.Facts = losses.facts
	closed := make(chan closedBlock, 2)
	measured, delays := newMeasured(c, a.editConfig, closed), newDelayMeter(c, records)
	meter := newLossMeter(c, records, closed, delays)
	measured.known = known
	a.reloads = &reloads{core: c}
	a.health = &nodeHealth{core: c, paths: paths, names: names}

	a.services = []service{
		newMetricsServer(c, a.public), // answers until the others have ended
		clock,
		names,
		&links{core: c, refresh: a.refresh, changed: unserved.note},
		hooks,
		&kernelIDs{core: c},
		&sources{core: c},
		paths,
		&tunnelErrors{core: c, paths: paths},
		sinks,
		records,
		flows,
		&edges{core: c, records: records, known: known},
		copies,
		reader,
		shared,
		kernel,
		newForwarding(c),
		losses,
		&reports{core: c, sinks: sinks, losses: losses, known: known},
		&refusals{core: c},
		newDrops(c),
		newShortfalls(c, a.collectServices),
		&covered{core: c},
		unserved,
		measured,
		newStampReflector(c, measured.answer, measured.running),
		newResponders(c, measured.flowOf),
		newTraceEndpoint(c),
		meter,
		delays,
		a.health,
		a.reloads,
		&supervision{core: c, condition: a.condition},
	}
}
