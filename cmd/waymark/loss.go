// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

func newLossCommand(opts *options) *cobra.Command {
	var flow string
	var follow, asCSV bool
	cmd := &cobra.Command{
		Use:   "loss",
		Short: "Show the loss and delay of measured SRv6 flows",
		Long: `Show the loss and delay of the SRv6 flows whose ingress is the node of the running
agent, in the last block: from ingress to egress, and between neighbouring nodes
that count. The ingress has its own name, the others have those of the flow's
points, or their addresses; --json and --csv also number them along the path, from
0. A value that is not known is "-". A loss is known if the verdict is measured
or idle (no packet was sent). uncertain gives its reasons. A one-way delay is the
difference of two clocks, and may be wrong by as much as they differ, which is at
most clocks. A block that is beyond a threshold of its flow (max-loss, max-delay,
no-data-after) has the code of the warning.

A flow is compared with other nodes if it has points in the configuration.

With --follow, each block is shown as soon as it is known: those of one flow are
in order, those of different flows are not, because one whose nodes are slow to
answer would delay all others. The names of columns come again when a value needs
a wider one. With --json, each record is one line.
With --csv, too, with a first line of names: times are in RFC 3339, delays in
nanoseconds, and what is not known is empty.`,
		Example: "  waymark loss\n  waymark loss --follow --flow red\n  waymark loss --csv --follow > loss.csv",
		Args:    commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.JSON && asCSV {
				return commandline.Usagef("choose --json or --csv")
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			if err := checkFlow(cmd.Context(), c, flow); err != nil {
				return err
			}
			l := newLossList(cmd.OutOrStdout(), opts.JSON, asCSV, flow)
			if follow {
				l.table.reserve()
				err := c.Observe(cmd.Context(), api.RecordFilter{}, nil, l.line)
				if cmd.Context().Err() != nil {
					return cmd.Context().Err()
				}
				return errors.Join(err, errors.New("the agent has ended"))
			}
			lines, err := c.Loss(cmd.Context())
			if err != nil {
				return err
			}
			for _, line := range lines {
				if err := l.add(line); err != nil {
					return err
				}
			}
			if !l.begun {
				fmt.Fprintln(cmd.ErrOrStderr(), noLoss(flow))
			}
			return l.flush()
		},
	}
	cmd.Flags().StringVar(&flow, "flow", "", "only the flow of this `NAME`")
	cmd.Flags().BoolVar(&follow, "follow", false, "show each block when it is known, until interrupted")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "write comma-separated values")
	return cmd
}

// checkFlow is the error that a flow is not configured, in which case there is never a result.
func checkFlow(ctx context.Context, c *api.Client, name string) error {
	if name == "" {
		return nil
	}
	flows, err := c.MeasuredFlows(ctx)
	if err != nil || slices.ContainsFunc(flows, func(f api.MeasuredFlow) bool { return f.Flow.Name == name }) {
		return err
	}
	return fmt.Errorf("no flow %q is measured here; list the flows with: waymark flow show", name)
}

// noLoss says why there may be no result.
func noLoss(flow string) string {
	what := "no result"
	if flow != "" {
		what = fmt.Sprintf("no result of flow %q", flow)
	}
	return "waymark: " + what + ": a node has results of flows with direction: out and points, half a block after their first block; 'waymark flow show' lists the flows here"
}

// lossList writes records of loss and delay.
type lossList struct {
	out   io.Writer
	json  bool
	flow  string
	table lossTable
	csv   *csv.Writer
	begun bool
}

func newLossList(out io.Writer, json, asCSV bool, flow string) *lossList {
	l := &lossList{out: out, json: json, flow: flow}
	if asCSV {
		l.csv = csv.NewWriter(out)
	}
	return l
}

// line is add and flush, for a stream.
func (l *lossList) line(line []byte) error {
	if err := l.add(line); err != nil {
		return err
	}
	return l.flush()
}

// add writes a record, unless it is about something else.
func (l *lossList) add(line []byte) error {
	r, err := record.Parse(line)
	if err != nil {
		return fmt.Errorf("unknown record from the agent: %w", err)
	}
	var columns []string
	switch r := r.(type) {
	case *record.Loss:
		if l.flow != "" && r.Flow != l.flow {
			return nil
		}
		columns = lossRow(r)
	case *record.Delay:
		if l.flow != "" && r.Flow != l.flow {
			return nil
		}
		columns = delayRow(r)
	default:
		return nil
	}
	switch {
	case l.json:
		_, err = fmt.Fprintf(l.out, "%s\n", strings.TrimSpace(string(line)))
	case l.csv != nil:
		if !l.begun {
			err = l.csv.Write(lossNames())
		}
		err = errors.Join(err, l.csv.Write(valuesOf(r)))
	default:
		l.table.add(columns)
	}
	l.begun = true
	return err
}

func (l *lossList) flush() error {
	if l.csv != nil {
		l.csv.Flush()
		return l.csv.Error()
	}
	return l.table.flush(l.out)
}

func about(m *record.Measurement) []string {
	return []string{m.Flow, numberText(m.Block), m.Start.UTC().Format("15:04:05.000Z"), cmp.Or(m.FromNode, strconv.Itoa(int(m.From))), cmp.Or(m.ToNode, strconv.Itoa(int(m.To)))}
}

func lossRow(r *record.Loss) []string {
	reasons := r.FromReasons | r.ToReasons
	return append(about(&r.Measurement), r.Verdict.String(), numberText(r.Sent), numberText(r.Received), numberText(r.Lost), ratioText(r, 4), "", "", reasons.String(), r.Warning)
}

// ratioText is the ratio with so many digits, -1 for all.
func ratioText(r *record.Loss, digits int) string {
	if !r.Ratio.Valid {
		return ""
	}
	return strconv.FormatFloat(r.Ratio.Value, 'g', digits, 64)
}

func delayRow(r *record.Delay) []string {
	return append(about(&r.Measurement), "delay", "", "", "", "", record.Duration(time.Duration(r.Mean)), clocksText(r), r.Method.String(), r.Warning)
}

// clocksText is how far the two clocks may be apart that a delay is the difference of; "" of a
// delay by one clock.
func clocksText(r *record.Delay) string {
	switch {
	case r.Method == loss.TwoWay || r.Method == loss.RoundTrip:
		return ""
	case !r.FromClockError.Valid || !r.ToClockError.Valid:
		return "unknown"
	}
	return record.Duration(time.Duration(r.FromClockError.Value + r.ToClockError.Value))
}

func numberText(f record.Field[uint64]) string {
	if !f.Valid {
		return ""
	}
	return unsignedText(f.Value)
}
