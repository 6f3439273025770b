// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/bench"
)

func newBenchCommand(opts *options) *cobra.Command {
	cmd := newGroup("bench", "Measure what the data plane costs on this machine",
		newBenchRunCommand(opts), newBenchListCommand(opts), newBenchReportCommand(opts), newBenchInstructionsCommand(opts), newBenchExporterCommand())
	cmd.Long = `Measure what the data plane costs on this machine: nanoseconds per packet and
outcome, packets per second through forwarding nodes in the experiments of the
IOAM papers, memory, and the time to get ready. Without a subcommand, every
benchmark runs in short, in less than ten minutes.

It needs root, works in network namespaces of its own, and leaves nothing behind.
Figures of a machine that does something else meanwhile are worth little.`
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return groupRun(cmd, args)
		}
		for _, b := range bench.All() {
			if err := runBench(cmd, b, b.Short, opts.json, ""); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func newBenchRunCommand(opts *options) *cobra.Command {
	var duration time.Duration
	var rounds int
	var figure string
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run one benchmark in earnest",
		Long: `Run one benchmark. With --json, one object is printed: name, machine, kernel,
baseline and points; each point has a variant, x, ns, pps or bytes, and the ratio
to the baseline measured in the same run. With --plot, it is drawn as well, with
the values of the IOAM papers beside it where they have any. --duration does not
bind footprint, which waits for agents to start.`,
		Example: "  waymark bench run cost\n  waymark bench run frequency --json --plot frequency.svg\n  waymark bench run forwarding --duration 1m",
		Args:    oneArgument("NAME"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			for _, b := range bench.All() {
				if len(args) == 0 {
					names = append(names, cobra.CompletionWithDesc(b.Name, b.Title))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := bench.Find(args[0])
			if err != nil {
				return usagef("%w", err)
			}
			o := b.Full
			if cmd.Flags().Changed("duration") {
				o.Duration = duration
			}
			if cmd.Flags().Changed("rounds") {
				o.Rounds = rounds
			}
			if o.Rounds < 1 {
				return usagef("--rounds %d: give at least 1, or leave it out for %d", o.Rounds, b.Full.Rounds)
			}
			if o.Duration/time.Duration(o.Rounds) < bench.MinRound {
				return usagef("--duration %v: too short for %d rounds; give at least %v for each, or fewer --rounds", o.Duration, o.Rounds, bench.MinRound)
			}
			return runBench(cmd, b, o, opts.json, figure)
		},
	}
	cmd.Flags().StringVar(&figure, "plot", "", "`FILE` for the figure, as SVG")
	cmd.Flags().DurationVar(&duration, "duration", 0, "`TIME` to measure, without setting up (default: the benchmark's own)")
	cmd.Flags().IntVar(&rounds, "rounds", 0, "`NUMBER` of turns that each variant and its baseline take (default: the benchmark's own)")
	return cmd
}

func runBench(cmd *cobra.Command, b bench.Benchmark, o bench.Options, asJSON bool, figure string) error {
	o.Version, o.Commit = version, builtFrom()
	o.Progress = func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", b.Name, text) }
	r, err := b.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if figure != "" {
		if err := draw(r, figure); err != nil {
			return err
		}
	}
	if !asJSON {
		return r.WriteText(cmd.OutOrStdout())
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", " ")
	return encoder.Encode(r)
}

func newBenchListCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the benchmarks",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listBenchmarks(cmd.OutOrStdout(), opts.json)
		},
	}
}

func listBenchmarks(w io.Writer, asJSON bool) error {
	type entry struct {
		Name  string `json:"name"`
		Title string `json:"title"`
	}
	var list []entry
	for _, b := range bench.All() {
		list = append(list, entry{b.Name, b.Title})
	}
	if asJSON {
		return json.NewEncoder(w).Encode(list)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range list {
		fmt.Fprintln(table, strings.Join([]string{e.Name, e.Title}, "\t"))
	}
	return table.Flush()
}

// draw writes a result's figure.
func draw(r bench.Result, file string) error {
	figure, err := r.Plot()
	if err != nil {
		return err
	}
	return os.WriteFile(file, figure, 0o644)
}

func newBenchReportCommand(opts *options) *cobra.Command {
	var figures string
	cmd := &cobra.Command{
		Use:     "report [FILE...]",
		Short:   "Print results saved as JSON as a Markdown document",
		Example: "  waymark bench report bench/results/*.json > docs/benchmarks.md\n  waymark bench report --figures docs/benchmarks bench/results/*.json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.withoutJSON("the document in Markdown"); err != nil {
				return err
			}
			var results []bench.Result
			for _, name := range args {
				content, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				var r bench.Result
				if err := json.Unmarshal(content, &r); err != nil {
					return fmt.Errorf("%s holds no result: %w; make one with: waymark bench run NAME --json", name, err)
				}
				results = append(results, r)
				if figures == "" {
					continue
				}
				if err := draw(r, filepath.Join(figures, r.Name+".svg")); err != nil {
					return err
				}
			}
			document, err := bench.Markdown(results)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(document)
			return err
		},
	}
	cmd.Flags().StringVar(&figures, "figures", "", "`DIRECTORY` to write the figures to that the document shows")
	return cmd
}

// newBenchInstructionsCommand is for the project's own build.
func newBenchInstructionsCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:    "instructions FILE",
		Short:  "Write how many instructions of each program the kernel's verifier looks at",
		Hidden: true,
		Args:   oneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			counts, err := bench.CountInstructions()
			if err != nil {
				return err
			}
			var table bytes.Buffer
			if _, err := counts.WriteTo(&table); err != nil {
				return err
			}
			return opts.done(cmd.OutOrStdout(), os.WriteFile(args[0], table.Bytes(), 0o644))
		},
	}
}

// newBenchExporterCommand is the process that the benchmark "exporter" measures.
func newBenchExporterCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "exporter KIND TIME [ADDRESS]",
		Short:  "Make records for a time, and export them to a UDP collector",
		Hidden: true,
		Args:   cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			duration, err := time.ParseDuration(args[1])
			if err != nil {
				return usagef("TIME %s: %s", args[1], durationWords)
			}
			address := ""
			if len(args) > 2 {
				address = args[2]
			}
			run, err := bench.RunExporter(cmd.Context(), args[0], address, duration)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(run)
		},
	}
}
