// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/bench/experiments"
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
)

// compareFlags are the flags of compare.
type compareFlags struct {
	before, after string
	rounds        int
	duration      time.Duration
}

func newCompareCommand(opts *commandline.Options) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare --old FILE NAME",
		Short: "Compare an older waymark-bench with this one, in turns",
		Long: `Compare an older waymark-bench with this one. Both run one benchmark at the same
time, but measure in turns: every variant (or group of variants that share a
baseline) in one program right after the same in the other, in an order that
changes. So a machine whose speed changes for seconds changes both alike.
Figures are medians over the rounds, of times in nanoseconds and of rates
divided by the baseline's. With --json, print one object: machine, kernel, the
versions of both programs, and points with before, after and change.
scripts/compare.sh builds the older program.`,
		Example: "  waymark-bench compare --old /tmp/waymark-bench-old fast\n" +
			"  waymark-bench compare --old /tmp/waymark-bench-old --rounds 7 fast --json",
		Args: commandline.OneArgument("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, opts, args[0])
		},
	}
	cmd.Flags().StringVar(&f.before, "old", "", "`FILE` of the older waymark-bench")
	cmd.Flags().StringVar(&f.after, "new", "", "`FILE` of the newer one (default: this program)")
	cmd.Flags().IntVar(&f.rounds, "rounds", 0, "`NUMBER` of rounds (default: the benchmark's own)")
	cmd.Flags().DurationVar(&f.duration, "duration", 0, "`TIME` of a round of each program (default: a round of the benchmark)")
	return cmd
}

func (f *compareFlags) run(cmd *cobra.Command, opts *commandline.Options, name string) error {
	b, err := experiments.Find(name)
	if err != nil {
		return commandline.Usage(err)
	}
	switch {
	case f.before == "":
		return commandline.Usage(problem.New("--old is missing", "name the file of an older waymark-bench, which scripts/compare.sh builds"))
	case cmd.Flags().Changed("rounds") && f.rounds < 1:
		return commandline.Usagef("--rounds %d: use at least 1, or remove it for %d", f.rounds, b.Full.Rounds)
	case cmd.Flags().Changed("duration") && f.duration < harness.MinRound:
		return commandline.Usagef("--duration %v: use at least %v", f.duration, harness.MinRound)
	}
	if f.rounds == 0 {
		f.rounds = b.Full.Rounds
	}
	if f.duration == 0 {
		f.duration = max(b.Full.Duration/time.Duration(b.Full.Rounds), harness.MinRound)
	}
	if f.after == "" {
		if f.after, err = os.Executable(); err != nil {
			return problem.Wrap(fmt.Errorf("find this program's file: %w", err), "name one with --new")
		}
	}
	before, after, err := f.takeTurns(cmd, name)
	if err != nil {
		return err
	}
	c, err := report.Compare(before, after, harness.Median, harness.Spread)
	if err != nil {
		return err
	}
	if !opts.JSON {
		return c.WriteText(cmd.OutOrStdout())
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", " ")
	return encoder.Encode(c)
}

// takeTurns runs both programs, which take turns within each round.
func (f *compareFlags) takeTurns(cmd *cobra.Command, name string) (before, after []report.Result, err error) {
	var outputs [2]bytes.Buffer
	var programs [2]*harness.Alternating
	for i, file := range []string{f.before, f.after} {
		program := exec.CommandContext(cmd.Context(), file, "run", name, "--json",
			"--rounds", fmt.Sprint(f.rounds), "--duration", (f.duration * time.Duration(f.rounds)).String())
		program.Env = os.Environ()
		program.Cancel = func() error { return program.Process.Signal(os.Interrupt) }
		program.Stdout, program.Stderr = &outputs[i], cmd.ErrOrStderr()
		if programs[i], err = harness.StartAlternating(program); err != nil {
			return nil, nil, fmt.Errorf("start %s: %w", file, err)
		}
		defer func() { // after an error, each program ends when its pipe is closed
			if err != nil {
				_ = programs[i].Close() // its end is the error, or follows from it
			}
		}()
	}
	rounds, err := harness.Alternate(programs[0], programs[1])
	if err != nil {
		return nil, nil, err
	}
	results := [2]*[]report.Result{&before, &after}
	for i, program := range programs {
		file := []string{f.before, f.after}[i]
		if err := program.Close(); err != nil {
			return nil, nil, err
		}
		var whole report.Result
		if err := json.Unmarshal(outputs[i].Bytes(), &whole); err != nil {
			return nil, nil, fmt.Errorf("read the result of %s: %w", file, err)
		}
		if len(rounds[i]) == 0 {
			return nil, nil, fmt.Errorf("%s takes no turns: it is too old for this program, or %s has no rounds", file, name)
		}
		for _, points := range rounds[i] {
			whole.Points = points
			*results[i] = append(*results[i], whole)
		}
	}
	return before, after, nil
}
