// SPDX-License-Identifier: Apache-2.0

// Package experiments defines what is measured: the packets, the nodes that they
// cross, the expected results, and the aims. Package harness measures them, and
// package report draws the results; docs/benchmarks.md is generated from them.
package experiments

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
)

// All lists the benchmarks.
func All() []harness.Benchmark { return slices.Clone(all()) }

// all makes every experiment once, to know how long each takes.
var all = sync.OnceValue(func() []harness.Benchmark {
	return []harness.Benchmark{
		{
			Name:    "cost",
			Title:   "nanoseconds per packet and verified instructions, by outcome and hook",
			Short:   harness.Options{Duration: 18 * time.Second, Rounds: 7},
			Full:    harness.Options{Duration: 3 * time.Minute, Rounds: 25},
			Measure: runCost, InTurns: true,
		},
		{
			Name:    "parts",
			Title:   "nanoseconds of each part of a packet's way, and what sets its limit",
			Short:   harness.Options{Duration: 10 * time.Second, Rounds: 5},
			Full:    harness.Options{Duration: 2 * time.Minute, Rounds: 25},
			Measure: runParts,
		},
		raisedAnew(table("forwarding", "one node: every treatment, the kernel's own IOAM, and empty hooks", forwardingExperiment)),
		table("latency", "every treatment by one node, in nanoseconds that a single packet takes longer", latencyExperiment),
		table("baseline", "IOAM off, registered and on (IOAM papers, figures 10 and 8)", baselineExperiment),
		table("frequency", "a trace in 0.01% to 100% of the packets (figures 11 and 9)", frequencyExperiment),
		table("options", "1 to 11 fields in a trace (figures 13 and 10)", optionsExperiment),
		table("namespaces", "traces in 1 to 9 namespaces (figures 14 and 11)", namespacesExperiment),
		table("all-in-one", "800 bytes, 5% of the packets, 5 namespaces of 3 fields", allInOneExperiment),
		table("delay", "added delay of each node, 1 to 7 namespaces (figure 12)", delayExperiment),
		raisedAnew(table("fast", "forwarding without the stack, with and without IOAM", fastExperiment)),
		table("dex-encap", "Direct Export at the node that inserts it (DEX paper, figures 3 to 5)", dexEncapsulationExperiment),
		table("dex-transit", "Direct Export on its way (DEX paper, figures 6 and 7)", dexTransitExperiment),
		table("dex-decap", "Direct Export at the node that removes it (DEX paper, figures 8 and 9)", dexDecapsulationExperiment),
		table("srv6-hashed", "1 to 65536 flows of SRv6 nodes measured (paper on loss in SRv6 networks, figures 6 and 7)", hashedExperiment),
		raisedAnew(table("srv6-fast", "SRv6 behaviours without the stack, with 0 to 65536 flows measured", segmentForwardingExperiment)),
		table("srv6-linear", "the same by a linear search through the segment lists, for comparison", linearExperiment),
		{
			Name:    "srv6-parts",
			Title:   "nanoseconds that measuring SRv6 flows costs a packet, by hook",
			Short:   harness.Options{Duration: 6 * time.Second, Rounds: 3},
			Full:    harness.Options{Duration: 2 * time.Minute, Rounds: 25},
			Measure: runSegmentParts,
		},
		{
			Name:    "exporter",
			Title:   "the IPFIX exporter alone: processor time for a record, and memory",
			Short:   harness.Options{Duration: 8 * time.Second, Rounds: 2},
			Full:    harness.Options{Duration: 2 * time.Minute, Rounds: 7},
			Measure: runExporterBenchmark,
		},
		{
			Name:    "stamp",
			Title:   "the STAMP reflector: processor time for a packet, by mode and TLVs",
			Short:   harness.Options{Duration: 4 * time.Second, Rounds: 2},
			Full:    harness.Options{Duration: time.Minute, Rounds: 11},
			Measure: runStamp,
		},
		{
			Name:    "postcards",
			Title:   "postcards from a program to a collector's socket, at fixed rates",
			Short:   harness.Options{Duration: 5 * time.Second, Rounds: 1},
			Full:    harness.Options{Duration: time.Minute, Rounds: 3},
			Measure: runPostcards,
		},
		{
			Name:    "collector",
			Title:   "postcards kept by waymark-collector while it is asked, beside goflow2 writing JSON",
			Short:   harness.Options{Duration: 6 * time.Second, Rounds: 1},
			Full:    harness.Options{Duration: 8 * time.Minute, Rounds: 1},
			Measure: runCollector,
		},
		table("kernel", "IOAM transit: the kernel's own, and ours", kernelExperiment),
		table("cores", "1 and 2 CPUs, one flow and several", coresExperiment),
		table("scale", "1 to 1000 namespaces and encapsulations, 1 to 65536 destinations", scaleExperiment),
		{
			Name:    "footprint",
			Title:   "memory map by map and of the agent; time to load, attach, start, reload and be idle",
			Short:   harness.Options{Duration: 30 * time.Second, Rounds: 1},
			Full:    harness.Options{Duration: 2 * time.Minute, Rounds: 5},
			Measure: runFootprint,
		},
		{
			Name:    "change",
			Title:   "time until a configuration is in force, for 1 to 1000 interfaces and encapsulations",
			Short:   harness.Options{Duration: 30 * time.Second, Rounds: 1},
			Full:    harness.Options{Duration: time.Minute, Rounds: 5},
			Measure: runChange,
		},
	}
})

// Rounds, and the time for one measurement in each, in short and full runs; fewer
// and shorter for experiments with hundreds of measurements.
const (
	shortRounds, fullRounds, manyRounds = 3, 11, 9
	shortBurst, fullBurst, manyBurst    = 30 * time.Millisecond, 150 * time.Millisecond, 120 * time.Millisecond

	many = 200 // measurements in a round
)

// table is a benchmark whose variants are measured in turns.
func table(name, title string, make func() harness.Experiment) harness.Benchmark {
	e := make()
	rounds, burst := fullRounds, fullBurst
	if e.Bursts() > many {
		rounds, burst = manyRounds, manyBurst
	}
	return harness.Benchmark{
		Name: name, Title: title, Table: make, InTurns: true,
		Short: harness.Options{Duration: time.Duration(e.Brief().Bursts()*shortRounds) * shortBurst, Rounds: shortRounds, Brief: true},
		Full:  harness.Options{Duration: time.Duration(e.Bursts()*rounds) * burst, Rounds: rounds},
		Measure: func(ctx context.Context, o harness.Options) (report.Result, error) {
			return harness.RunExperiment(ctx, o, make())
		},
	}
}

// Set-ups of a benchmark that compares rates closely, and its rounds in each: many
// short turns, because the rate of one and the same program differs by half from
// one second to another.
const (
	closeSetups = 5
	closeRounds = 5
	closeBurst  = 50 * time.Millisecond
)

// raisedAnew is the table measured in several set-ups.
func raisedAnew(b harness.Benchmark) harness.Benchmark {
	bursts := b.Full.Duration / time.Duration(b.Full.Rounds) / fullBurst
	if b.Full.Rounds == manyRounds {
		bursts = b.Full.Duration / time.Duration(b.Full.Rounds) / manyBurst
	}
	b.Full.Setups, b.Full.Rounds = closeSetups, closeSetups*closeRounds
	b.Full.Duration = bursts * time.Duration(b.Full.Rounds) * closeBurst
	return b
}

// Ordered sorts results in the order of All.
func Ordered(results []report.Result) []report.Result {
	at := make(map[string]int)
	for i, b := range All() {
		at[b.Name] = i
	}
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b report.Result) int { return at[a.Name] - at[b.Name] })
	return results
}

// Find finds a benchmark by its name.
func Find(name string) (harness.Benchmark, error) {
	var names []string
	for _, b := range All() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return harness.Benchmark{}, fmt.Errorf("no benchmark is called %q; there are %s", name, strings.Join(names, ", "))
}
