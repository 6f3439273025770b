// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/bench/experiments"
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
)

func newRunCommand(opts *commandline.Options) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run one benchmark in full, or all of them briefly",
		Long: `Run one benchmark in full, or briefly with --short. With --short and no NAME,
run all of them, in less than ten minutes. With --json, print one object for
each: name, machine, kernel, baseline and points; each point has a variant, its
dimensions, x, ns, pps or bytes, and the ratio to the baseline measured in the
same run. With --plot, also draw a figure, with the values of the IOAM papers
where they have any. --duration does not limit footprint, which waits for agents
to start.`,
		Example: "  waymark-bench run --short\n  waymark-bench run cost\n  waymark-bench run frequency --json --plot frequency.svg\n" +
			"  waymark-bench run forwarding --duration 1m",
		Args: commandline.AtMostOne("NAME"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			for _, b := range experiments.All() {
				if len(args) == 0 {
					names = append(names, cobra.CompletionWithDesc(b.Name, b.Title))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return f.runAll(cmd, opts)
			}
			return f.runOne(cmd, opts, args[0])
		},
	}
	cmd.Flags().BoolVar(&f.short, "short", false, "measure briefly")
	cmd.Flags().StringVar(&f.figure, "plot", "", "`FILE` for the figure, as SVG")
	cmd.Flags().DurationVar(&f.duration, "duration", 0, "`TIME` to measure, without the setup (default: the benchmark's own)")
	cmd.Flags().IntVar(&f.rounds, "rounds", 0, "`NUMBER` of turns that each variant and its baseline take (default: the benchmark's own)")
	cmd.Flags().IntVar(&f.setups, "setups", 0, "`NUMBER` of times that links, programs and maps are made anew (default: the benchmark's own)")
	cmd.Flags().
		StringVar(&f.program, "program", "",
			"`FILE` of the program waymark, whose agents are measured (default: the one in the directory of this program)")
	return cmd
}

// runFlags are the flags of run.
type runFlags struct {
	short    bool
	figure   string
	duration time.Duration
	rounds   int
	setups   int
	program  string
}

func (f *runFlags) runAll(cmd *cobra.Command, opts *commandline.Options) error {
	for _, flag := range []string{"plot", "duration", "rounds", "setups"} {
		if cmd.Flags().Changed(flag) {
			return commandline.Usage(problem.New(fmt.Sprintf("--%s is for one benchmark", flag), fmt.Sprintf("name one, or remove --%s", flag)))
		}
	}
	if !f.short {
		return commandline.Usage(problem.New("NAME is missing", "name a benchmark, or run all of them with --short"))
	}
	for _, b := range experiments.All() {
		if err := f.run(cmd, opts, b, b.Short); err != nil {
			return err
		}
	}
	return nil
}

func (f *runFlags) runOne(cmd *cobra.Command, opts *commandline.Options, name string) error {
	b, err := experiments.Find(name)
	if err != nil {
		return commandline.Usage(err)
	}
	o := b.Full
	if f.short {
		o = b.Short
	}
	own := o.Rounds
	if cmd.Flags().Changed("duration") {
		o.Duration = f.duration
	}
	if cmd.Flags().Changed("rounds") {
		o.Rounds = f.rounds
	}
	if o.Rounds < 1 {
		return commandline.Usagef("--rounds %d: use at least 1, or remove it for %d", o.Rounds, own)
	}
	if cmd.Flags().Changed("setups") {
		if b.Table == nil {
			return commandline.Usage(problem.New(fmt.Sprintf("--setups: %s has one set-up", b.Name), "remove it"))
		}
		if f.setups < 1 || f.setups > o.Rounds {
			return commandline.Usagef("--setups %d: use 1 to %d, the number of rounds", f.setups, o.Rounds)
		}
		o.Setups = f.setups
	}
	if o.Duration/time.Duration(o.Rounds) < harness.MinRound {
		return commandline.Usage(problem.New(
			fmt.Sprintf("--duration %v: too short for %d rounds", o.Duration, o.Rounds),
			fmt.Sprintf("use at least %v for each, or fewer --rounds", harness.MinRound),
		))
	}
	return f.run(cmd, opts, b, o)
}

func (f *runFlags) run(cmd *cobra.Command, opts *commandline.Options, b harness.Benchmark, o harness.Options) error {
	o.Version, o.Commit, o.Agent = commandline.Version(), commandline.BuiltFrom(), f.program
	o.Alternates = harness.AlternationOfEnvironment()
	o.Progress = func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", b.Name, text) }
	r, err := b.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if f.figure != "" {
		if err := draw(r, f.figure); err != nil {
			return err
		}
	}
	if !opts.JSON {
		return r.WriteText(cmd.OutOrStdout())
	}
	return r.WriteJSON(cmd.OutOrStdout())
}

func newListCommand(opts *commandline.Options) *cobra.Command {
	var names strings.Builder
	for _, b := range experiments.All() {
		fmt.Fprintf(&names, "    %-12s %s\n", b.Name, b.Title)
	}
	return &cobra.Command{
		Use:   "list",
		Short: "List the benchmarks",
		Long:  "List the benchmarks:\n\n" + strings.TrimRight(names.String(), "\n"),
		Args:  commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listBenchmarks(cmd.OutOrStdout(), opts.JSON)
		},
	}
}

func listBenchmarks(w io.Writer, asJSON bool) error {
	type entry struct {
		Name  string `json:"name"`
		Title string `json:"title"`
	}
	var list []entry
	for _, b := range experiments.All() {
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
func draw(r report.Result, file string) error {
	figure, err := r.Plot()
	if err != nil {
		return err
	}
	return os.WriteFile(file, figure, 0o644)
}

func newReportCommand(opts *commandline.Options) *cobra.Command {
	var pages, figures string
	cmd := &cobra.Command{
		Use:   "report [FILE...]",
		Short: "Print results saved as JSON as a Markdown document",
		Long: `Print results saved as JSON as a Markdown document. With --pages, also write the
pages that it links to, with their figures: results.md with what each benchmark
measures, and missed-aims.md. With --all-figures, draw a figure of each result.

All results have to be of one machine and one commit, as figures of two cannot
be compared.`,
		Example: `  waymark-bench report bench/results/*.json > docs/benchmarks.md
  waymark-bench report --pages docs/benchmarks bench/results/*.json
  waymark-bench report --all-figures /tmp/figures bench/results/*.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.WithoutJSON("the document in Markdown"); err != nil {
				return err
			}
			results, err := report.Read(args)
			if err != nil {
				return err
			}
			if err := report.OneOrigin(results); err != nil {
				return err
			}
			results = experiments.Ordered(results)
			if figures != "" {
				for _, r := range results {
					if err := draw(r, filepath.Join(figures, r.Name+".svg")); err != nil {
						return err
					}
				}
			}
			if pages != "" {
				if err := writePages(pages, results); err != nil {
					return err
				}
			}
			_, err = cmd.OutOrStdout().Write(report.Markdown(results))
			return err
		},
	}
	cmd.Flags().StringVar(&pages, "pages", "", "`DIRECTORY` for the pages and figures that the document shows")
	cmd.Flags().StringVar(&figures, "all-figures", "", "`DIRECTORY` for a figure of each result")
	return cmd
}

// writePages writes what the document links to.
func writePages(directory string, results []report.Result) error {
	files, err := report.Figures(results)
	if err != nil {
		return err
	}
	maps.Copy(files, report.Pages(results))
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// newForeignCommand is for scripts/benchmarks.sh.
func newForeignCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "foreign [FILE...]",
		Short:  "Print the files with results of other machines, or of other programs than this one",
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			results, err := report.Read(args)
			if err != nil {
				return err
			}
			here := harness.Here(harness.Options{Version: commandline.Version(), Commit: commandline.BuiltFrom()})
			for i, r := range results {
				if !r.SameOrigin(here) {
					fmt.Fprintln(cmd.OutOrStdout(), args[i])
				}
			}
			return nil
		},
	}
}

// newInstructionsCommand is for the project's own build.
func newInstructionsCommand(opts *commandline.Options) *cobra.Command {
	return &cobra.Command{
		Use:    "instructions FILE",
		Short:  "Write how many instructions of each program the kernel's verifier processes",
		Hidden: true,
		Args:   commandline.OneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			counts, err := experiments.CountInstructions(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			var table bytes.Buffer
			if _, err := counts.WriteTo(&table); err != nil {
				return err
			}
			return opts.Done(cmd.OutOrStdout(), os.WriteFile(args[0], table.Bytes(), 0o644))
		},
	}
}

// newExporterCommand is the process that the benchmark "exporter" measures.
func newExporterCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "exporter KIND TIME [ADDRESS]",
		Short:  "Make records for a time, and export them to a UDP collector",
		Hidden: true,
		Args:   cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			duration, err := time.ParseDuration(args[1])
			if err != nil {
				return commandline.Usagef("TIME %s: %s", args[1], commandline.DurationWords)
			}
			address := ""
			if len(args) > 2 {
				address = args[2]
			}
			run, err := experiments.RunExporter(cmd.Context(), args[0], address, duration)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(run)
		},
	}
}
