// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/bench/experiments"
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/commandline"
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
		Long: `Compare an older waymark-bench with this one. Both run one benchmark in turns: old,
new, new, old, and so on, each time with every variant once. Rates are divided by
that of the kernel's plain packets in the same run, and figures are medians. A run
that fails is repeated once. With --json, print one object: machine, kernel, the versions of both programs, and points
with before, after and change. scripts/compare.sh builds the old program of a commit.`,
		Example: "  waymark-bench compare --old /tmp/waymark-bench-old fast\n  waymark-bench compare --old /tmp/waymark-bench-old --rounds 7 fast --json",
		Args:    commandline.OneArgument("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, opts, args[0])
		},
	}
	cmd.Flags().StringVar(&f.before, "old", "", "`FILE` of the older waymark-bench")
	cmd.Flags().StringVar(&f.after, "new", "", "`FILE` of the newer one (default: this program)")
	cmd.Flags().IntVar(&f.rounds, "rounds", 0, "`NUMBER` of times that each program runs (default: the benchmark's own)")
	cmd.Flags().DurationVar(&f.duration, "duration", 0, "`TIME` to measure in one run, without the setup (default: a round of the benchmark)")
	return cmd
}

func (f *compareFlags) run(cmd *cobra.Command, opts *commandline.Options, name string) error {
	b, err := experiments.Find(name)
	if err != nil {
		return commandline.Usagef("%w", err)
	}
	switch {
	case f.before == "":
		return commandline.Usagef("--old is missing; name the file of an older waymark-bench, which scripts/compare.sh builds")
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
			return fmt.Errorf("find this program's file: %w; name one with --new", err)
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

// takeTurns runs the programs, and reverses their order each time.
func (f *compareFlags) takeTurns(cmd *cobra.Command, name string) (before, after []report.Result, err error) {
	turns := []struct {
		file    string
		results *[]report.Result
	}{{f.before, &before}, {f.after, &after}}
	for round := range f.rounds {
		for _, turn := range turns {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: round %d of %d: %s\n", name, round+1, f.rounds, turn.file)
			r, err := f.runOnce(cmd.Context(), turn.file, name)
			if err != nil && cmd.Context().Err() == nil { // what else the machine does can spoil a run
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: once more, as the run failed: %v\n", name, err)
				r, err = f.runOnce(cmd.Context(), turn.file, name)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s run %s: %w", turn.file, name, err)
			}
			*turn.results = append(*turn.results, r)
		}
		slices.Reverse(turns)
	}
	return before, after, nil
}

// runOnce runs a program with each variant once.
func (f *compareFlags) runOnce(ctx context.Context, file, name string) (r report.Result, err error) {
	program := exec.CommandContext(ctx, file, "run", name, "--json", "--rounds", "1", "--duration", f.duration.String())
	program.Cancel = func() error { return program.Process.Signal(os.Interrupt) }
	var out, errs bytes.Buffer
	program.Stdout, program.Stderr = &out, &errs
	if err := program.Run(); err != nil {
		return r, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()+out.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("read its result: %w; it has to be a waymark-bench that has --json", err)
	}
	return r, nil
}
