// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/health"
)

// diagnosis is the JSON of doctor.
type diagnosis struct {
	OK       bool             `json:"ok"` // the exit code is 0
	Checks   []health.Check   `json:"checks"`
	Agent    string           `json:"agent"`    // running, absent, or why it does not answer
	Left     []string         `json:"left"`     // interfaces that an ended agent's programs serve
	Warnings []health.Warning `json:"warnings"` // from the checks and the agent
}

func newDoctorCommand(opts *options) *cobra.Command {
	strict, verbose := false, false
	cmd := &cobra.Command{
		Use:        "doctor",
		SuggestFor: []string{"check", "health", "diagnose"},
		Short:      "Check this machine and the running agent, and say how to fix problems",
		Long: `Check whether this machine has what Waymark needs, and ask the running agent, if
there is one, for its warnings. Each has a code and a cure. A problem with
several places is shown once, with their number, the worst problem first. With
--verbose, and always with --json, each place has its warning.

A missing agent is an error while the programs of the last one handle packets.

Exit codes: 0 no errors; 1 errors, or with --strict warnings.`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := opts.client()
			if err != nil {
				return err
			}
			d := diagnose(cmd.Context(), health.ReadKernel(), health.ReadClock, c, opts)
			d.OK = !isTooSevere(d.Warnings, strict)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if opts.JSON {
				err = commandline.PrintJSON(cmd.OutOrStdout(), d)
			} else {
				err = printDiagnosis(cmd.OutOrStdout(), d, verbose, opts.View(cmd.OutOrStdout()))
			}
			if err == nil && !d.OK {
				return commandline.ErrReported
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show each warning of a problem that has several places, not only the first")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 on warnings, too")
	opts.AddWide(cmd)
	return cmd
}

// isTooSevere reports whether a warning is too severe to pass.
func isTooSevere(ws []health.Warning, strict bool) bool {
	worst := health.Worst(ws)
	return worst == health.Error || strict && worst == health.Degraded
}

func diagnose(ctx context.Context, k health.Kernel, readClock func() (health.Clock, error), c *api.Client, opts *options) diagnosis {
	d := diagnosis{Checks: health.CheckKernel(k), Agent: "running", Left: []string{}, Warnings: []health.Warning{}}
	ws, err := c.Warnings(ctx)
	// The agent knows whether its domain needs a synchronised clock.
	oneClock := err == nil && !slices.ContainsFunc(ws, unsynced)
	if clock, err := readClock(); err == nil {
		d.Checks = append(d.Checks, health.CheckTime(clock, oneClock))
	}
	for _, check := range d.Checks {
		if check.Warning != nil {
			d.Warnings = append(d.Warnings, *check.Warning)
		}
	}
	switch {
	case errors.Is(err, api.ErrNoAgent) && opts.socket == "":
		d.Agent = "absent"
		if names := opts.interfacesLeft(); len(names) > 0 {
			d.Left = names
			d.Warnings = append(d.Warnings, health.EndedAgent(names))
		}
	case err != nil:
		err = opts.withoutAgent(err)
		d.Agent = err.Error()
		d.Warnings = append(d.Warnings, health.UnaskedAgent(err))
	}
	for _, w := range ws {
		if i := slices.IndexFunc(d.Warnings, unsynced); unsynced(w) { // the machine's is already in the list
			if i >= 0 {
				d.Warnings[i].Since = w.Since
			}
			continue
		}
		d.Warnings = append(d.Warnings, w)
	}
	health.Sort(d.Warnings)
	return d
}

// toStart is the command that starts an agent here: as a service only in the machine's own network namespace.
func toStart() string {
	const command = "waymark agent run --config FILE"
	own, err := os.Readlink("/proc/self/ns/net")
	if machine, fault := os.Readlink("/proc/1/ns/net"); err != nil || fault != nil || own != machine {
		return command
	}
	return commandline.ToStart("waymark", command)
}

func unsynced(w health.Warning) bool { return w.Code == health.ClockUnsynced }

func printDiagnosis(w io.Writer, d diagnosis, verbose bool, screen columns.Screen) error {
	var b strings.Builder
	if err := writeDiagnosis(&b, d, verbose); err != nil {
		return err
	}
	_, err := io.WriteString(w, screen.Text(columns.Fold(b.String(), screen.Width, "  ")))
	return err
}

func writeDiagnosis(w io.Writer, d diagnosis, verbose bool) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tRESULT\tDETAIL")
	for _, c := range d.Checks {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Name, c.State, c.Detail)
	}
	switch {
	case len(d.Left) > 0:
		fmt.Fprintf(t, "agent\t%s\tits programs still serve %s\n", d.Agent, strings.Join(d.Left, ", "))
	case d.Agent == "running":
		fmt.Fprintln(t, "agent\trunning\tit serves this network namespace")
	case d.Agent == "absent":
		fmt.Fprintf(t, "agent\tabsent\tstart one with '%s'\n", toStart())
	default:
		fmt.Fprintf(t, "agent\tunknown\t%s\n", d.Agent)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(d.Warnings) == 0 {
		_, err := fmt.Fprintln(w, "\nNo problems found.")
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if verbose {
		return printWarnings(w, d.Warnings)
	}
	return printProblems(w, d.Warnings, "waymark doctor --verbose")
}

// mostPlaces is how many places a line names.
const mostPlaces = 4

// printProblems writes one entry for each problem, with the number of its places; all is the command
// that shows the warning of each place.
func printProblems(w io.Writer, ws []health.Warning, all string) error {
	problems := health.Problems(ws)
	for _, p := range problems {
		first := p.Warnings[0]
		if len(p.Warnings) == 1 {
			if err := printWarnings(w, p.Warnings); err != nil {
				return err
			}
			continue
		}
		places := fmt.Sprintf("%d times", len(p.Warnings))
		if names := p.Interfaces(); len(names) > 0 {
			places += ", on " + strings.Join(names[:min(len(names), mostPlaces)], ", ")
			if more := len(names) - mostPlaces; more > 0 {
				places += fmt.Sprintf(" and %d more", more)
			}
		}
		first.Text, first.Since = "such as: "+first.Text, p.Since()
		if err := printWarning(w, first, places); err != nil {
			return err
		}
	}
	if len(problems) == len(ws) {
		return nil
	}
	_, err := fmt.Fprintf(w, "%s, %s; each with its text and cure: %s\n", columns.Counted(len(problems), "problem"),
		columns.Counted(len(ws), "warning"), all)
	return err
}

// printWarnings writes each warning with its cure below it.
func printWarnings(w io.Writer, ws []health.Warning) error {
	for _, v := range ws {
		if err := printWarning(w, v, v.Interface); err != nil {
			return err
		}
	}
	return nil
}

// sinceText is a time in the past: with its day if that was not the last one.
func sinceText(t, now time.Time) string {
	if now.Sub(t) < 24*time.Hour {
		return t.Format("15:04:05Z")
	}
	return t.Format("2006-01-02T15:04Z")
}

// printWarning writes a warning; places is where, "" without a place.
func printWarning(w io.Writer, v health.Warning, places string) error {
	about := string(v.Code)
	if places != "" {
		about += " (" + places + ")"
	}
	if !v.Since.IsZero() {
		about += ", since " + sinceText(v.Since.UTC(), time.Now())
	}
	_, err := fmt.Fprintf(w, "%s: %s: %s\n  %s\n  cure: %s\n", v.Severity, about, v.Title, strings.ReplaceAll(v.Text, "\n", "\n  "), v.Cure)
	return err
}
