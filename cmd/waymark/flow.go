// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/iproute2"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

func newFlowCommand(opts *options) *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:   "flow [show [NAME] | add NAME DIRECTION src ADDR segs SID,SID... | del NAME]",
		Short: "Show, add and remove the SRv6 flows that are measured",
		Long: `Show, add and remove the SRv6 flows that the running agent's node marks and
counts (alternate marking, RFC 9341). Changes are in force at once and last
until the next reload; to keep them, write them into the file.

DIRECTION is out at the ingress of the path, where packets are counted and
marked, in at its egress, and transit at endpoints between them. src and segs
are needed. At the ingress, points are the nodes after it that count the flow,
too, the egress last. After each block, it asks them what they counted, and
waymark loss shows what was lost; without points, the flow is only counted.

` + iproute2.FlowHelp() + `

show lists the flows with the counters of the last closed block; show NAME, and
--verbose, have the words that add a flow, and below them all counters.`,
		Example: `  waymark flow add red out src 2001:db8::1 segs fc00:2::e,fc00:3::d6 \
      points 2001:db8:ff::2,egress=2001:db8:ff::3 max-loss 0.1%
  waymark flow add red in src 2001:db8::1 segs fc00:2::e,fc00:3::d6
  waymark flow show
  waymark flow del red`,
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show: the words that add each flow, and all counters")
	opts.AddWide(cmd)
	cmd.ValidArgsFunction = completeFlowWords(opts)
	return inWords(opts, cmd, "flow", iproute2.ParseFlow, func(cmd *cobra.Command, c *api.Client, words iproute2.FlowCommand) error {
		switch ctx := cmd.Context(); words.Verb {
		case iproute2.Add:
			return opts.Done(cmd.OutOrStdout(), c.AddFlow(ctx, words.Flow))
		case iproute2.Del:
			return opts.Done(cmd.OutOrStdout(), c.RemoveFlow(ctx, words.Flow.Name))
		}
		list, err := c.MeasuredFlows(cmd.Context())
		if err != nil {
			return err
		}
		if name := words.Flow.Name; name != "" {
			list = slices.DeleteFunc(list, func(f api.MeasuredFlow) bool { return f.Flow.Name != name })
			if len(list) == 0 {
				return problem.New(fmt.Sprintf("there is no flow %q", name), "list them with: waymark flow show")
			}
		}
		screen := opts.View(cmd.OutOrStdout())
		if opts.JSON || verbose || words.Flow.Name != "" {
			return commandline.PrintList(&opts.Options, cmd.OutOrStdout(), list, func(f api.MeasuredFlow) string {
				return screen.Text(foldFlow(formatMeasuredFlow(f), screen.Width))
			})
		}
		return printFlows(cmd.OutOrStdout(), list, screen)
	})
}

// printFlows writes a line for each flow.
func printFlows(w io.Writer, list []api.MeasuredFlow, screen columns.Screen) error {
	t := columns.Table{Columns: []columns.Column{
		{Name: "FLOW"}, {Name: "DIRECTION"}, {Name: "PACKETS/S", AlignRight: true}, {Name: "PACKETS", Rank: 2, AlignRight: true},
		{Name: "OCTETS", Rank: 3, AlignRight: true},
		{Name: "BLOCK", Rank: 1}, {Name: "NOTE", CutTo: 24},
	}}
	for _, f := range list {
		b := f.Last
		if b == nil {
			t.Add(record.Printable(f.Flow.Name), fmt.Sprint(f.Flow.Direction), "", "", "", "", "no block has been counted yet")
			continue
		}
		rate := ""
		if length, err := time.ParseDuration(b.Length); err == nil && length > 0 {
			rate = columns.Count(uint64(float64(b.Packets) * float64(time.Second) / float64(length)))
		}
		notes := blockProblems(b)
		if !b.Complete {
			notes = append([]string{"partial block"}, notes...)
		}
		t.Add(record.Printable(f.Flow.Name), fmt.Sprint(f.Flow.Direction), rate, columns.Count(b.Packets), columns.Count(b.Octets),
			b.Start.UTC().Format(time.TimeOnly)+" "+b.Length, strings.Join(notes, ", "))
	}
	return t.Flush(w, screen)
}

// foldFlow folds the text of a flow. The first line has words that a shell reads.
func foldFlow(text string, width int) string {
	words, rest, _ := strings.Cut(text, "\n")
	if columns.Width(words) > width && width > 0 {
		words = strings.ReplaceAll(columns.Fold(words, width-2, "      "), "\n", " \\\n")
	}
	return words + "\n" + columns.Fold(rest, width, "  ")
}

// blockProblems says which packets of a block are counted otherwise.
func blockProblems(b *api.Block) (list []string) {
	for _, more := range []struct {
		n    uint64
		what string
	}{
		{b.Late, "late"}, {b.Early, "early"}, {b.Unmarked, "without a mark"}, {b.Unsized, "of unknown length"},
	} {
		if more.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", more.n, more.what))
		}
	}
	return list
}

// formatMeasuredFlow is a flow, and below it what was counted.
func formatMeasuredFlow(f api.MeasuredFlow) string {
	text := iproute2.FormatFlow(f.Flow) + "\n    "
	b := f.Last
	if b == nil {
		return text + "no block has been counted yet"
	}
	text += fmt.Sprintf(
		"block %d, %s of %s: %d packets, %d octets",
		b.Number,
		b.Start.UTC().Format("15:04:05.000Z"),
		b.Length,
		b.Packets,
		b.Octets,
	)
	for _, more := range blockProblems(b) {
		text += ", " + more
	}
	if !b.Complete {
		text += " (counting began within it)"
	}
	return text
}

// completeFlowWords offers the command's words, and the flows that it can show and
// remove.
func completeFlowWords(opts *options) cobra.CompletionFunc {
	return commandline.Completing(func(cmd *cobra.Command, args []string) []cobra.Completion {
		if len(args) == 1 && (args[0] == "del" || args[0] == "show") {
			return named(opts, cmd, (*api.Client).MeasuredFlows, func(f api.MeasuredFlow) string { return f.Flow.Name })
		}
		return iproute2.CompleteFlow(args)
	})
}
