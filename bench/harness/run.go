// SPDX-License-Identifier: Apache-2.0

// Package harness measures what the data plane costs: per packet and outcome
// through the kernel's program-run facility, and in packets per second through a
// forwarding node. Package experiments says what to measure.
//
// A figure is always a comparison within one run: a variant and its baseline take
// turns, in an order that alternates, and the figures are medians.
package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/problem"
)

// Options say how thoroughly to measure.
type Options struct {
	// Duration is about how long all measuring takes, without setup.
	Duration time.Duration
	// Rounds is how often each variant and its baseline take turns.
	Rounds int
	// Setups is how often lines, programs and maps are made anew in between; 0 is
	// once.
	Setups int
	// Brief leaves out what only full runs measure.
	Brief bool
	// Version and Commit describe the tree that this program was built from.
	Version, Commit string
	// Program is this program's file; empty: the running one.
	Program string
	// Agent is the file of waymark; empty: the one in Program's directory.
	Agent string
	// Alternates says with which program this one takes turns; nil: it measures alone.
	Alternates *Alternation
	// Progress is called now and then with what is being done; may be nil.
	Progress func(string)
}

// Announce reports what is being done.
func (o Options) Announce(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// ProgramFile is this program's file.
func (o Options) ProgramFile() (string, error) {
	if o.Program != "" {
		return o.Program, nil
	}
	file, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's file: %w", err)
	}
	return file, nil
}

// AgentFile is the file of waymark.
func (o Options) AgentFile() (string, error) {
	if o.Agent != "" {
		return o.Agent, nil
	}
	own, err := o.ProgramFile()
	if err != nil {
		return "", err
	}
	file := filepath.Join(filepath.Dir(own), "waymark")
	if _, err := os.Stat(file); err != nil {
		return "", problem.Wrap(
			fmt.Errorf("agents are of the program waymark: %w", err),
			"run: make build, or name it with --program",
		)
	}
	return file, nil
}

// Benchmark is one thing to measure.
type Benchmark struct {
	Name  string
	Title string
	// Short and Full are the options of short and full runs.
	Short, Full Options
	// Table is what the benchmark measures; nil if it is not a table of variants.
	Table func() Experiment
	// InTurns says that Measure itself takes turns with another program.
	InTurns bool
	Measure func(context.Context, Options) (report.Result, error)
}

// MinRound is the least time for a round: with less, turns are shorter than the
// disturbance that they cause.
const MinRound = 100 * time.Millisecond

// Run runs the benchmark.
func (b Benchmark) Run(ctx context.Context, o Options) (report.Result, error) {
	if o.Duration <= 0 || o.Rounds < 1 {
		return report.Result{}, problem.New(
			fmt.Sprintf("benchmark %s: nothing to measure in %v and %d rounds", b.Name, o.Duration, o.Rounds),
			"give a positive duration",
		)
	}
	started := time.Now()
	measure := b.Measure
	if o.Alternates != nil && !b.InTurns {
		measure = b.inRounds
	}
	r, err := measure(ctx, o)
	if err != nil {
		return report.Result{}, fmt.Errorf("benchmark %s: %w", b.Name, err)
	}
	r.Name, r.Title, r.Rounds, r.Time = b.Name, b.Title, o.Rounds, instant.Of(started)
	here := Here(o)
	r.Machine, r.Kernel, r.Versions = here.Machine, here.Kernel, here.Versions
	return r, nil
}

// Here is a result of this machine and these programs, without figures.
func Here(o Options) (r report.Result) {
	r.Machine, r.Kernel = machine()
	r.Versions = versions(o.Version, o.Commit)
	return r
}

// inRounds measures a benchmark whose parts do not take turns: a whole round, with its setup,
// is a turn then.
func (b Benchmark) inRounds(ctx context.Context, o Options) (r report.Result, err error) {
	if err := o.Alternates.Begin([]string{b.Name}); err != nil {
		return r, err
	}
	once := o
	once.Rounds, once.Duration, once.Alternates = 1, o.Duration/time.Duration(o.Rounds), nil
	for range o.Rounds {
		err := o.Alternates.Turn(b.Name, func() ([]report.Point, error) {
			r, err = b.Measure(ctx, once)
			return r.Points, err
		})
		if err != nil {
			return r, err
		}
	}
	return r, nil
}
