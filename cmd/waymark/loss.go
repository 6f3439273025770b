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
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/internal/recordfilter/filterflags"
)

// lossHelp is the help of waymark loss.
const lossHelp = `Show the loss and delay of the SRv6 flows whose ingress is the node of the
running agent, in the last block: from ingress to egress, and between
neighbouring nodes that count, the worst first. trend is the loss of the last
ten minutes. With --verbose, --follow and --last, each result of a block has a
line of its own, and with --wide all columns.

The ingress has its own name, the others have those of the flow's points, or
their addresses; --json and --csv also number them along the path, from 0. A
value that is not known is "-". A loss is known if the verdict is measured or
idle (no packet was sent). uncertain gives its reasons. Below the table is how
the packets differ that a node selects (other_selection). selection_assumed is
no reason: the result rests on the setting selection: assumed. duplicated means
that more packets came than were sent: some came twice, and may hide lost ones,
so there is only a least number of each (>=5). A one-way delay is the difference
of two clocks, and may be wrong by as much as they differ, which is at most
clocks. Where packets were lost, there may be a lower bound of the mean delay
(>=20ms). A block that is beyond a threshold of its flow (max-loss, max-delay,
no-data-after) has the code of the warning.

A flow is compared with other nodes if it has points in the configuration.

--kind, --node, --min-delay, --incomplete and --where select results. Each has a
line of its own then. The agent evaluates them; --where has a condition on the
fields, whose names are the keys with --json.

With --last, the blocks of the last time are shown, up to an hour: as far as the
agent has run for so long, and their results have fitted into its memory (64
MB). The first line on standard error says if that is not so. --flow may then
name a flow that is no longer measured. A name that neither is measured nor has
results is an error, as it is without --last.

--since and --until show the blocks that began in another time of this hour.
Times are UTC: 12:03, or in RFC 3339.

With --follow, each block is shown as soon as it is known: those of one flow are
in order, those of different flows are not, because one whose nodes are slow to
answer would delay all others. The names of columns come again when a value
needs a wider one. When the agent ends, the command waits for the next one. It
says on standard error when it does, and how many results came faster than it
could write them. With --json, each record is one line. With --csv, too, with a
first line of names: times are in RFC 3339, delays in nanoseconds; an unknown
value is empty.`

func newLossCommand(opts *options) *cobra.Command {
	var flow, last, since, until string
	var follow, asCSV, verbose bool
	var filters *filterflags.Flags
	cmd := &cobra.Command{
		Use:        "loss",
		SuggestFor: []string{"drops", "lost", "losses"},
		Short:      "Show the loss and delay of measured SRv6 flows",
		Long:       lossHelp,
		Example: "  waymark loss\n  waymark loss --last 30m --flow red\n  waymark loss --since 12:03 --until 12:05\n  waymark " +
			"loss --follow --flow red\n  waymark loss --last 1h --where 'lost > 0'\n  waymark loss --csv --follow > loss.csv",
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.JSON && asCSV {
				return commandline.Usagef("choose --json or --csv")
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			past, err := newLossTime(last, since, until, time.Now())
			if err != nil {
				return err
			}
			if !past.isSet() { // the history also has flows that are no longer measured
				if err := checkFlow(cmd.Context(), c, flow); err != nil {
					return err
				}
			}
			l := newLossList(cmd.OutOrStdout(), cmd.ErrOrStderr(), opts.JSON, asCSV, flow)
			l.screen = opts.View(cmd.OutOrStdout())
			if _, l.filter, err = filters.Program(cmd); err != nil {
				return err
			}
			if !past.isSet() {
				noteNoLoss(cmd, c, l.selected())
			}
			if !opts.JSON && !asCSV && !verbose && !follow && !past.isSet() && l.filter == (api.RecordFilter{}) {
				return summarise(cmd, c, flow, l.screen)
			}
			return l.run(cmd.Context(), c, past, follow)
		},
	}
	cmd.Flags().StringVar(&flow, "flow", "", "only the flow of this `NAME`")
	cmd.Flags().StringVar(&last, "last", "", "show the blocks of the last `TIME`, such as 30m; at most 1h")
	cmd.Flags().StringVar(&since, "since", "", "show the blocks since this `TIME` of the last hour: 12:03, or in RFC 3339")
	cmd.Flags().StringVar(&until, "until", "", "show the blocks until this `TIME`")
	cmd.Flags().BoolVar(&follow, "follow", false, "show each block when it is known, until interrupted")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show each result of the last block in a line of its own")
	opts.AddWide(cmd)
	filters = filterflags.Add(cmd, "kind", "node", "min-delay", "incomplete", "where") // loss is of flows: these records have no packet
	filters.Complete(cmd, []string{record.KindLoss, record.KindDelay})
	cmd.Flags().BoolVar(&asCSV, "csv", false, "write comma-separated values")
	return cmd
}

// summarise shows how each flow fares.
func summarise(cmd *cobra.Command, c *api.Client, flow string, screen columns.Screen) error {
	s := lossSummary{flow: flow, now: time.Now()}
	if err := s.latest(cmd.Context(), c); err != nil {
		return err
	}
	if len(s.list) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), noLoss(cmd.Context(), c, flow))
		return nil
	}
	return s.write(cmd.OutOrStdout(), screen)
}

// run writes what is asked for: new results, those of a time, or the latest.
func (l *lossList) run(ctx context.Context, c *api.Client, past lossTime, follow bool) (err error) {
	switch {
	case follow && past.isSet():
		return commandline.Usagef("choose --follow, or --last, --since and --until")
	case follow:
		l.table = newLossTable(true)
		return l.follow(ctx, c)
	case past.isSet():
		err = l.printPast(ctx, c, past)
	default:
		err = l.latest(ctx, c)
	}
	if err != nil {
		return err
	}
	if !l.begun {
		fmt.Fprintln(l.notes, noLoss(ctx, c, l.flow))
	}
	if l.idle > 0 {
		fmt.Fprintf(l.notes, "waymark: %d results of blocks without packets are left out; --json and --csv have them\n", l.idle)
	}
	return l.flush()
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
	return problem.New(fmt.Sprintf("no flow %q is measured here", name), "list the flows with: waymark flow show")
}

// noteNoLoss says on standard error, at once, why a filter may never select a result. What is measured may change
// while the command runs, so it goes on.
func noteNoLoss(cmd *cobra.Command, c *api.Client, filter api.RecordFilter) {
	if filter.Node == "" && filter.Kinds == "" && filter.MinDelay == 0 {
		return
	}
	flows, err := c.MeasuredFlows(cmd.Context())
	if err != nil {
		return // it occurs again
	}
	known := recordfilter.Known{Where: "for the flows here", Kinds: []string{record.KindLoss, record.KindDelay}, Nodes: []string{}}
	if s, err := c.Status(cmd.Context()); err == nil {
		known.Nodes = append(known.Nodes, s.Node.Name)
	}
	for _, f := range flows {
		if filter.Flow != "" && f.Flow.Name != filter.Flow {
			continue
		}
		for _, p := range f.Flow.Points {
			if name := cmp.Or(p.Name, p.Address.Addr().String()); !slices.Contains(known.Nodes, name) {
				known.Nodes = append(known.Nodes, name)
			}
		}
	}
	notes := known.Unmet(filter)
	if filter.MinDelay > 0 && filter.Kinds == record.KindLoss {
		notes = append(notes, "no record of the kind loss has a delay, so --min-delay selects none; use --kind delay")
	}
	for _, hint := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "waymark: "+hint)
	}
}

// noLoss says why there may be no result, of one flow or of all, and what to do for one.
func noLoss(ctx context.Context, c *api.Client, flow string) string {
	what := "no result"
	if flow != "" {
		what = fmt.Sprintf("no result of flow %q", flow)
	}
	why := "a node has results of flows with direction: out and points, half a block after their first block; " +
		"'waymark flow show' lists the flows here"
	all, err := c.MeasuredFlows(ctx)
	asked := slices.DeleteFunc(slices.Clone(all), func(f api.MeasuredFlow) bool { return flow != "" && f.Flow.Name != flow })
	begin := slices.DeleteFunc(slices.Clone(asked), func(f api.MeasuredFlow) bool { return f.Flow.Direction != model.DirectionOut })
	switch {
	case err != nil: // then this reason holds for any node
	case len(all) == 0:
		why = "no flow is measured here; run 'waymark loss' at a flow's ingress, or measure one that begins here, with 'waymark flow " +
			"add' or under flows in the configuration (docs/how-to/measure-srv6.md)"
	case len(asked) > 0 && len(begin) == 0:
		why = "results are at a flow's ingress, which is another node; run 'waymark loss' there"
	case len(begin) > 0 && !slices.ContainsFunc(begin, func(f api.MeasuredFlow) bool { return len(f.Flow.Points) > 0 }):
		why = "loss needs a flow's points, the nodes after this one that count it; list them under flows in the configuration " +
			"(docs/how-to/measure-srv6.md); with exchange: ipfix, the collector has the results"
	}
	return "waymark: " + what + ": " + why
}

// lossList writes records of loss and delay.
type lossList struct {
	filter api.RecordFilter // without the flow
	out    io.Writer
	notes  io.Writer // for what is missing
	json   bool
	flow   string
	table  columns.Table
	screen columns.Screen
	csv    *csv.Writer
	begun  bool
	below  lossNotes

	foldsIdle bool // blocks without packets are counted, and not shown
	idle      int
}

func newLossList(out, notes io.Writer, json, asCSV bool, flow string) *lossList {
	l := &lossList{out: out, notes: notes, json: json, flow: flow, table: newLossTable(false)}
	if asCSV {
		l.csv = csv.NewWriter(out)
	}
	return l
}

// selected are the records that are wanted.
func (l *lossList) selected() api.RecordFilter {
	f := l.filter
	f.Flow = l.flow
	return f
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
	var cells []string
	switch r := r.(type) {
	case *record.Loss:
		if l.flow != "" && r.Flow != l.flow {
			return nil
		}
		if l.foldsIdle && r.Verdict == loss.Idle {
			l.begun, l.idle = true, l.idle+1
			return nil
		}
		cells = lossRow(r)
		l.below.add(r)
	case *record.Delay:
		if l.flow != "" && r.Flow != l.flow {
			return nil
		}
		cells = delayRow(r)
	case *record.Lost:
		return l.lost(line, r)
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
		l.table.Add(cells...)
	}
	l.begun = true
	return err
}

func (l *lossList) flush() error {
	if l.csv != nil {
		l.csv.Flush()
		return l.csv.Error()
	}
	if l.json {
		return nil
	}
	var below strings.Builder
	err := errors.Join(l.table.Flush(l.out, l.screen), l.below.flush(&below))
	_, fault := io.WriteString(l.screen.Writer(l.out), columns.Fold(below.String(), l.screen.Width, "  "))
	return errors.Join(err, fault)
}

func about(m *record.Measurement) []string {
	return []string{
		record.Printable(m.Flow), blocksText(m), startText(m),
		cmp.Or(record.Printable(m.FromNode), strconv.Itoa(int(m.From))), cmp.Or(record.Printable(m.ToNode), strconv.Itoa(int(m.To))),
	}
}

// startText is when the block began; without parts of a second where blocks are of whole seconds.
func startText(m *record.Measurement) string {
	if m.Start.Nanosecond() == 0 && time.Duration(m.Length)%time.Second == 0 {
		return m.Start.UTC().Format("15:04:05Z")
	}
	return m.Start.UTC().Format("15:04:05.000Z")
}

// blocksText is the number of the block, or of the first and the last one.
func blocksText(m *record.Measurement) string {
	if !m.Block.Valid || m.Block.Value == 0 || m.Length == 0 {
		return numberText(m.Block)
	}
	length := uint64(max(m.Start.UnixNano(), 0)) / m.Block.Value
	if blocks := m.Length / max(length, 1); blocks > 1 {
		return fmt.Sprintf("%d-%d", m.Block.Value, m.Block.Value+blocks-1)
	}
	return numberText(m.Block)
}

func lossRow(r *record.Loss) []string {
	reasons := (r.FromReasons | r.ToReasons).Names()
	for _, name := range r.Assumed.Names() {
		reasons = append(reasons, name+"_assumed")
	}
	lost, duplicated := numberText(r.Lost), numberText(r.Duplicated)
	if r.LostMin.Valid {
		lost, duplicated = atLeast+numberText(r.LostMin), atLeast+duplicated
	}
	return append(
		about(&r.Measurement),
		r.Verdict.String(),
		numberText(r.Sent),
		numberText(r.Received),
		lost,
		ratioText(r, 4),
		duplicated,
		"",
		"",
		strings.Join(reasons, ","),
		r.Warning,
	)
}

// atLeast is before a lower bound.
const atLeast = ">="

// ratioText is the ratio with that number of digits, -1 for all.
func ratioText(r *record.Loss, digits int) string {
	if !r.Ratio.Valid {
		return ""
	}
	return strconv.FormatFloat(r.Ratio.Value, 'g', digits, 64)
}

func delayRow(r *record.Delay) []string {
	mean := record.Duration(time.Duration(r.Mean))
	if r.Method == loss.MeanAtLeast {
		mean = atLeast + mean
	}
	return append(about(&r.Measurement), "delay", "", "", "", "", "", mean, clocksText(r), r.Method.String(), r.Warning)
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
	return record.Duration(clocksOf(r))
}

// clocksOf is how far the two clocks may be apart, 0 if that is not known or does not matter.
func clocksOf(r *record.Delay) time.Duration {
	if r.Method == loss.TwoWay || r.Method == loss.RoundTrip || !r.FromClockError.Valid || !r.ToClockError.Valid {
		return 0
	}
	return time.Duration(r.FromClockError.Value + r.ToClockError.Value)
}

func numberText(f record.Field[uint64]) string {
	if !f.Valid {
		return ""
	}
	return unsignedText(f.Value)
}
