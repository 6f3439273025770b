// SPDX-License-Identifier: Apache-2.0

// Package bench measures what the data plane costs: per packet and outcome
// through the kernel's program-run facility, and in packets per second through
// a forwarding node.
//
// A figure is always a comparison within one run: a variant and its baseline
// take turns, the order is turned round every time, and medians are quoted.
// docs/benchmarks.md is generated from the results.
package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/instant"
)

// Options say how thoroughly to measure.
type Options struct {
	// Duration is about how long all measuring takes; what is needed to set
	// it up comes on top.
	Duration time.Duration
	// Rounds is how often each variant and its baseline take turns.
	Rounds int
	// Brief leaves out what is measured in earnest only.
	Brief bool
	// Version and Commit are of the tree that this program was built from.
	Version, Commit string
	// Program is this program's file; empty: the running one.
	Program string
	// Agent is the file of waymark; empty: the one in Program's directory.
	Agent string
	// Progress is told now and then what is being done; may be nil.
	Progress func(string)
}

func (o Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// program is this program's file.
func (o Options) program() (string, error) {
	if o.Program != "" {
		return o.Program, nil
	}
	file, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's file: %w", err)
	}
	return file, nil
}

// agent is the file of waymark.
func (o Options) agent() (string, error) {
	if o.Agent != "" {
		return o.Agent, nil
	}
	own, err := o.program()
	if err != nil {
		return "", err
	}
	file := filepath.Join(filepath.Dir(own), "waymark")
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("agents are of the program waymark: %w; run: make build, or name it with --program", err)
	}
	return file, nil
}

// Benchmark is one thing to measure.
type Benchmark struct {
	Name  string
	Title string
	// Short and Full are how long to measure in passing and in earnest.
	Short, Full Options
	make        func() experiment // nil when it is not a table of variants
	run         func(context.Context, Options) (report.Result, error)
}

// All lists the benchmarks.
func All() []Benchmark { return slices.Clone(all()) }

// all makes every experiment once, to know how long it takes.
var all = sync.OnceValue(func() []Benchmark {
	return []Benchmark{
		{
			Name:  "cost",
			Title: "nanoseconds per packet and verified instructions, by outcome and hook",
			Short: Options{Duration: 20 * time.Second, Rounds: 7},
			Full:  Options{Duration: 3 * time.Minute, Rounds: 25},
			run:   runCost,
		},
		{
			Name:  "parts",
			Title: "nanoseconds of each part of a packet's way, and what sets its limit",
			Short: Options{Duration: 10 * time.Second, Rounds: 5},
			Full:  Options{Duration: 2 * time.Minute, Rounds: 25},
			run:   runParts,
		},
		table("forwarding", "every treatment by one node, the kernel's own IOAM and empty hooks beside it", forwardingExperiment),
		table("latency", "every treatment by one node, in nanoseconds that a single packet takes longer", latencyExperiment),
		table("baseline", "IOAM off, registered and on (IOAM papers, figures 10 and 8)", baselineExperiment),
		table("frequency", "a trace in 0.01% to 100% of the packets (figures 11 and 9)", frequencyExperiment),
		table("options", "1 to 11 fields in a trace (figures 13 and 10)", optionsExperiment),
		table("namespaces", "traces in 1 to 9 namespaces (figures 14 and 11)", namespacesExperiment),
		table("all-in-one", "800 bytes, 5% of the packets, 5 namespaces of 3 fields", allInOneExperiment),
		table("delay", "added delay of each node, 1 to 7 namespaces (figure 12)", delayExperiment),
		table("fast", "forwarding without the stack, with and without IOAM", fastExperiment),
		table("dex-encap", "Direct Export at the node that inserts it (DEX paper, figures 3 to 5)", dexEncapsulationExperiment),
		table("dex-transit", "Direct Export on its way (DEX paper, figures 6 and 7)", dexTransitExperiment),
		table("dex-decap", "Direct Export at the node that removes it (DEX paper, figures 8 and 9)", dexDecapsulationExperiment),
		{
			Name:  "exporter",
			Title: "the IPFIX exporter alone: processor time for a record, and memory",
			Short: Options{Duration: 8 * time.Second, Rounds: 2},
			Full:  Options{Duration: 2 * time.Minute, Rounds: 7},
			run:   runExporterBenchmark,
		},
		table("kernel", "the kernel's own IOAM transit beside ours", kernelExperiment),
		table("cores", "1 and 2 CPUs, one flow and several", coresExperiment),
		table("scale", "1 to 1000 namespaces and encapsulations, 1 to 65536 destinations", scaleExperiment),
		{
			Name:  "footprint",
			Title: "memory map by map and of the agent; time to load, attach, start, reload and be idle",
			Short: Options{Duration: 30 * time.Second, Rounds: 1},
			Full:  Options{Duration: 2 * time.Minute, Rounds: 5},
			run:   runFootprint,
		},
	}
})

// Rounds, and how long one measurement takes in each, in passing and in earnest;
// less of both where hundreds are measured.
const (
	shortRounds, fullRounds, manyRounds = 3, 11, 9
	shortBurst, fullBurst, manyBurst    = 40 * time.Millisecond, 150 * time.Millisecond, 120 * time.Millisecond

	many = 200 // measurements in a round
)

// table is a benchmark whose variants take turns.
func table(name, title string, make func() experiment) Benchmark {
	e := make()
	rounds, burst := fullRounds, fullBurst
	if e.bursts() > many {
		rounds, burst = manyRounds, manyBurst
	}
	return Benchmark{
		Name: name, Title: title, make: make,
		Short: Options{Duration: time.Duration(e.brief().bursts()*shortRounds) * shortBurst, Rounds: shortRounds, Brief: true},
		Full:  Options{Duration: time.Duration(e.bursts()*rounds) * burst, Rounds: rounds},
		run:   func(ctx context.Context, o Options) (report.Result, error) { return runExperiment(ctx, o, make()) },
	}
}

// Ordered has results as All has benchmarks.
func Ordered(results []report.Result) []report.Result {
	at := make(map[string]int)
	for i, b := range All() {
		at[b.Name] = i
	}
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b report.Result) int { return at[a.Name] - at[b.Name] })
	return results
}

// Find looks a benchmark up by its name.
func Find(name string) (Benchmark, error) {
	var names []string
	for _, b := range All() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return Benchmark{}, fmt.Errorf("no benchmark is called %q; there are %s", name, strings.Join(names, ", "))
}

// MinRound is the least time for a round: with less, turns are shorter than
// what they disturb.
const MinRound = 100 * time.Millisecond

// Run measures.
func (b Benchmark) Run(ctx context.Context, o Options) (report.Result, error) {
	if o.Duration <= 0 || o.Rounds < 1 {
		return report.Result{}, fmt.Errorf("benchmark %s: nothing to measure in %v and %d rounds; give a positive duration", b.Name, o.Duration, o.Rounds)
	}
	started := time.Now()
	r, err := b.run(ctx, o)
	if err != nil {
		return report.Result{}, fmt.Errorf("benchmark %s: %w", b.Name, err)
	}
	r.Name, r.Title, r.Rounds, r.Time = b.Name, b.Title, o.Rounds, instant.Of(started)
	r.Machine, r.Kernel = machine()
	r.Versions = versions(o.Version, o.Commit)
	return r, nil
}

// usableCPUs are those that this process may use, by number, as it began.
var usableCPUs = sync.OnceValues(func() ([]int, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	var cpus []int
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
})

// pinThread keeps this goroutine on a CPU: the last one that this process may
// use, or one so many before it. The first one usually serves the machine's
// interrupts.
func pinThread(before int) (release func(), err error) {
	cpus, err := usableCPUs()
	if err != nil {
		return nil, err
	}
	if before >= len(cpus) {
		return nil, fmt.Errorf("%d CPUs are needed, %d may be used", before+1, len(cpus))
	}
	runtime.LockOSThread()
	var was, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	one.Set(cpus[len(cpus)-1-before])
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("stay on CPU %d: %w", cpus[len(cpus)-1-before], err)
	}
	return func() {
		// A thread that cannot go back ends with its goroutine.
		if unix.SchedSetaffinity(0, &was) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}
