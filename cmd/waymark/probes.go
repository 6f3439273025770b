// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

func newProbesCommand(opts *options) *cobra.Command {
	verbose := false
	cmd := &cobra.Command{
		Use:        "probes [DESTINATION]",
		SuggestFor: []string{"ping", "monitor", "sla"},
		Short:      "Show the probes that the agent sends, and where they vanish",
		Long: `Show the destinations of "probes" in the running agent's configuration: how many
flows are answered, the paths that these take, the share of probes that was lost
in the last minute, and round trips since the agent began. A destination of
which flows are lost comes first. Below it is the place where probes vanish: the
last node that they reach, and the next one that replied until then. A loss on
the way back looks the same.

A lost probe is one without an answer within the timeout. A flow that routing
moves to another path is not lost. unanswered is a destination that never
answered.

With DESTINATION, which is a name or an address, or with --verbose, its paths
are shown, too: the ids of their nodes, "?2" for a second node that is silent.`,
		Example: "  waymark probes\n  waymark probes r3\n  waymark probes --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := opts.client()
			if err != nil {
				return err
			}
			p, err := c.Probes(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) > 0 {
				other := func(d api.ProbedNode) bool { return d.Name != args[0] && d.Address.String() != args[0] }
				if p.Destinations = slices.DeleteFunc(p.Destinations, other); len(p.Destinations) == 0 {
					return problem.New(fmt.Sprintf("no probes are sent to %q", args[0]), "list the destinations with: waymark probes")
				}
			}
			if opts.JSON {
				return commandline.PrintJSON(cmd.OutOrStdout(), p)
			}
			if !p.Configured {
				return problem.New(
					"the agent sends no probes",
					"list destinations under probes in its configuration, as docs/how-to/probe-paths.md shows",
				)
			}
			return printProbes(cmd.OutOrStdout(), &p, verbose || len(args) > 0)
		},
	}
	cmd.ValidArgsFunction = commandline.Completing(func(cmd *cobra.Command, args []string) []cobra.Completion {
		if len(args) > 0 {
			return nil
		}
		return named(opts, cmd, probedNodes, func(d api.ProbedNode) string { return d.Name })
	})
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the paths of each destination")
	return cmd
}

func probedNodes(c *api.Client, ctx context.Context) ([]api.ProbedNode, error) {
	p, err := c.Probes(ctx)
	return p.Destinations, err
}

// printProbes writes a line for each destination, those with losses first, and below it where
// probes vanish.
func printProbes(w io.Writer, p *api.Probes, paths bool) error {
	list := slices.Clone(p.Destinations)
	slices.SortStableFunc(list, func(a, b api.ProbedNode) int { return b.FlowsLost*a.Flows - a.FlowsLost*b.Flows })
	width := len("DESTINATION")
	for i := range list {
		width = max(width, len(shortName(list[i].Name)))
	}
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"%s, %d flows each, a probe every %v; %d packets sent\n\n",
		destinations(len(list)),
		p.Flows,
		time.Duration(p.Interval),
		p.Sent+p.HopLimited,
	)
	line := fmt.Sprintf("%%-%ds  %%-10s  %%7s  %%5s  %%7s  %%8s  %%8s", width)
	fmt.Fprintf(&b, line+"\n", "DESTINATION", "STATE", "FLOWS", "PATHS", "LOST 1m", "p50", "p99")
	for i := range list {
		d := &list[i]
		p50, p99 := roundTrip(d.RoundTrip)
		flows := fmt.Sprintf("%d/%d", d.Flows-d.FlowsLost, d.Flows)
		fmt.Fprintf(&b, line+"\n", shortName(d.Name), d.State, flows, fmt.Sprint(pathsNow(d)), lostShare(d.LastMinute), p50, p99)
		for _, one := range d.Losses {
			b.WriteString(wrapped(lossText(d, &one), "  ! "))
		}
		if paths {
			printProbedPaths(&b, d)
		}
	}
	for _, name := range p.Unresolved {
		why := "no address is known; the name is looked up every few seconds"
		if strings.Contains(name, "/") {
			why = "no encapsulation here has a tunnel for this prefix, so the node behind it is not known"
		}
		b.WriteString(wrapped(record.Printable(name)+": "+why, "! "))
	}
	if len(p.Own) > 0 {
		b.WriteString("\nnot probed, because they are this node: " + record.Printable(strings.Join(p.Own, ", ")) + "\n")
	}
	if p.Suppressed > 0 {
		b.WriteString(wrapped(unsentText(p), ""))
	}
	if p.SendFailed > 0 {
		b.WriteString(wrapped(fmt.Sprintf("%d probes were refused by this node's kernel", p.SendFailed), ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// unsentText says of the probes that were not sent why.
func unsentText(p *api.Probes) string {
	var why []string
	if n := p.Suppressed - min(p.Skipped, p.Suppressed); n > 0 {
		why = append(why, fmt.Sprintf("%d were beyond the budget of %d packets a second", n, p.Budget))
	}
	if p.Skipped > 0 {
		why = append(why, fmt.Sprintf("the agent was late for %d", p.Skipped))
	}
	return fmt.Sprintf("%d probes were not sent: %s", p.Suppressed, strings.Join(why, ", "))
}

func destinations(n int) string {
	if n == 1 {
		return "1 destination"
	}
	return fmt.Sprintf("%d destinations", n)
}

// shortName is a name that leaves room for the columns after it.
func shortName(name string) string {
	const most = 22
	if name = record.Printable(name); len(name) > most {
		return name[:most-3] + "..."
	}
	return name
}

func pathsNow(d *api.ProbedNode) (n int) {
	for i := range d.Paths {
		if d.Paths[i].Flows > 0 {
			n++
		}
	}
	return n
}

// lostShare is the share of probes that was lost, "-" if none is known.
func lostShare(c api.ProbeCount) string {
	if c.Probes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(c.Lost)/float64(c.Probes))
}

func roundTrip(t *api.ProbeTimes) (p50, p99 string) {
	if t == nil {
		return "-", "-"
	}
	return shortTime(t.P50), shortTime(t.P99)
}

// shortTime is a time with three digits.
func shortTime(ns int64) string {
	d, unit := time.Duration(ns), time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// lossText says where probes vanish.
func lossText(d *api.ProbedNode, one *api.ProbeLosses) string {
	text := fmt.Sprintf("%d of %d flows ", one.Flows, d.Flows)
	since := ", since " + one.Since.Local().Format("15:04:05.000")
	switch {
	case one.AgentAway:
		text += "reach the node, but its agent does not answer"
	case one.NeverAnswered && one.Error != "":
		text += fmt.Sprintf("were never answered; %s says: %s", one.After, one.Error)
	case one.NeverAnswered && one.AfterHop > 0:
		text += "were never answered; seen last at " + one.After
	case one.NeverAnswered:
		text += "were never answered"
	case one.Error != "":
		text += fmt.Sprintf("vanish at %s: %s", one.After, one.Error)
	case one.After != "":
		text += fmt.Sprintf("vanish after %s, before %s", one.After, one.Before)
	default:
		text += "are not answered; no node shows where they vanish"
	}
	return text + since
}

// printProbedPaths writes the paths of a destination that flows take, or that lost probes.
func printProbedPaths(b *strings.Builder, d *api.ProbedNode) {
	t := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "  PATH\tFLOWS\tANSWERED\tLOST\tp50\tp99\t")
	for i := range d.Paths {
		one := &d.Paths[i]
		p50, p99 := roundTrip(one.RoundTrip)
		fmt.Fprintf(t, "  %s\t%d\t%d\t%d\t%s\t%s\t\n", pathText(one), one.Flows, one.Answered, one.Lost, p50, p99)
	}
	t.Flush() // cannot fail: to memory
}

// pathText are the nodes of a path: with names, if that leaves room for the columns after it.
func pathText(p *api.ProbedPath) string {
	const most = 38
	if text := record.Printable(p.Nodes); text != "" && columns.Width(text) <= most {
		return text
	}
	return record.Printable(p.Path)
}

// wrapped breaks a text into lines of at most 80 columns. The first one begins with a mark.
func wrapped(text, mark string) string {
	const columns = 80
	var b strings.Builder
	line := mark
	for word := range strings.FieldsSeq(text) {
		if len(line) > len(mark) && len(line)+1+len(word) > columns {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(mark))
		}
		if len(line) > len(mark) {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
