// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter/filterflags"
)

// eventsFlags are the flags of waymark events.
type eventsFlags struct {
	since, until string
	names        string // of events, with commas between them
	last         time.Duration

	begun, follow bool
	count         int
}

func newEventsCommand(opts *options) *cobra.Command {
	f := eventsFlags{last: time.Hour}
	var filters *filterflags.Flags
	cmd := &cobra.Command{
		Use:        "events",
		SuggestFor: []string{"alarms", "alerts", "history", "changes"},
		Short:      "Show what happened in the last hour: slow segments, losses, other paths",
		Long: `Show the events that the running agent found, the oldest first: segments, nodes
and queues that got slower than is usual there, or are as usual again; losses
that began and ended, with the segment; packets that moved to other paths; nodes
that fell silent; node ids that came twice; destinations of probes that are not
answered. "*" is before what has begun and not ended; it is shown however long
ago it began.

Events are found in the records that the node makes: all of them while a sink,
an observer, "waymark top" or "waymark events --follow" wants any, else about
history.rate in a second, which is 200 by default. Nothing is found in fewer
than 20 packets. Segments are not judged where it is not known by how much the
clocks differ. The reference of events says what decides each.

--node, --interface and --flow select what an event is about, --where has a
condition on the fields that an event has with --json. Times are UTC.`,
		Example: `  waymark events
  waymark events --follow --last 1m
  waymark events --begun --json
  waymark events --since 12:03 --event loss_began,loss_ended`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := f.query(cmd, time.Now())
			if err != nil {
				return err
			}
			if _, q.Filter, err = filters.Program(cmd); err != nil {
				return err
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			if q.Follow {
				noteNoTraffic(cmd, c, q.Filter)
			}
			return f.run(cmd, c, q, opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "show events since this `TIME`: 12:03, or in RFC 3339")
	flags.StringVar(&f.until, "until", "", "show events until this `TIME`")
	flags.DurationVar(&f.last, "last", f.last, "show the last `TIME`")
	flags.StringVar(&f.names, "event", "", "only events of these `NAMES`, such as segment_slow,loss_began")
	flags.BoolVar(&f.begun, "begun", false, "only what has begun and not ended")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with events as they are found, until interrupted")
	flags.IntVar(&f.count, "count", 0, "end after this `NUMBER` of events")
	filters = filterflags.Add(cmd, "node", "interface", "flow", "where")
	var names []string
	for _, k := range record.EventKinds() {
		names = append(names, k.Name)
	}
	commandline.CompleteWords(cmd, "event", names...)
	opts.AddWide(cmd)
	return cmd
}

// query checks the flags.
func (f *eventsFlags) query(cmd *cobra.Command, now time.Time) (q api.EventQuery, err error) {
	changed := cmd.Flags().Changed
	switch {
	case f.last < time.Second || f.last > 24*time.Hour:
		return q, commandline.Usagef("--last %v: want a time from 1s to 24h, such as 10m", f.last)
	case changed("last") && f.since != "":
		return q, commandline.Usagef("choose --last or --since")
	case f.follow && f.until != "":
		return q, commandline.Usagef("choose --follow or --until")
	case f.count < 0:
		return q, commandline.Usagef("--count %d: want a number from 0; 0 means no end", f.count)
	}
	if f.names != "" {
		q.Names = strings.Split(f.names, ",")
	}
	for _, name := range q.Names {
		if record.EventKindOf(name) == nil {
			return q, commandline.Usagef("--event %q: no event is called so; they are in docs/reference/events.md, and completed by the shell", name)
		}
	}
	if q.Since, err = parseMoment("since", f.since, now); err != nil {
		return q, err
	}
	if q.Until, err = parseMoment("until", f.until, now); err != nil {
		return q, err
	}
	if q.Since.IsZero() {
		q.Last = f.last
	}
	q.Begun, q.Follow = f.begun, f.follow
	return q, nil
}

// run prints events. Those of a time are read at once, because a later one says whether an earlier one ended.
func (f *eventsFlags) run(cmd *cobra.Command, c *api.Client, q api.EventQuery, opts *options) error {
	out := cmd.OutOrStdout()
	printed, begun := 0, map[string]bool{}
	if !q.Follow && !opts.JSON {
		all := api.EventQuery{Since: q.Since, Until: q.Until, Last: q.Last, Begun: true}
		if err := c.Events(cmd.Context(), all, func(line []byte) error {
			e, err := parseEvent(line)
			if err == nil && e != nil {
				begun[e.ID] = true
			}
			return err
		}); err != nil {
			return err
		}
	}
	err := c.Events(cmd.Context(), q, func(line []byte) error {
		e, err := parseEvent(line)
		switch {
		case err != nil:
			return err
		case e == nil:
			return nil
		case opts.JSON:
			_, err = fmt.Fprintf(out, "%s\n", line)
		default:
			kind := record.EventKindOf(e.Name)
			_, err = io.WriteString(out, eventLine(e, begun[e.ID] && kind != nil && kind.Begins(), opts.View(out)))
		}
		if printed++; err == nil && printed == f.count {
			return errEnough
		}
		return err
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	case err == nil && q.Follow:
		return errors.New("the agent has ended")
	case err == nil && printed == 0 && !opts.JSON:
		noteNoTraffic(cmd, c, q.Filter) // a flow that is removed has events of the past
		fmt.Fprintln(
			cmd.ErrOrStderr(),
			"waymark: no events in that time. Segments, nodes and paths are judged by records, which are made while something wants "+
				"them, or as history.rate says",
		)
	}
	return err
}

// parseEvent reads a line of the agent; nil: it is a record of a kind that this version does not know.
func parseEvent(line []byte) (*record.Event, error) {
	r, err := record.Parse(line)
	if err != nil {
		return nil, fmt.Errorf("unknown record from the agent: %w", err)
	}
	e, _ := r.(*record.Event)
	return e, nil
}

// eventLine is an event for a screen: folded below its text.
func eventLine(e *record.Event, begun bool, s columns.Screen) string {
	mark, layout := "  ", "15:04:05Z"
	if begun {
		mark = "* "
	}
	if at := e.Time.UTC(); at.Format(time.DateOnly) != time.Now().UTC().Format(time.DateOnly) {
		layout = time.DateOnly + " " + layout
	}
	name := record.Printable(e.Name)
	if code := eventColour(e.Severity); code != "" {
		name = s.Paint(code, name)
	}
	line := mark + e.Time.UTC().Format(layout) + "  " + name + ": " + topStyle{}.sentence(e.Facts) + "\n"
	if s.Width == 0 {
		return s.Text(line)
	}
	return s.Text(columns.Fold(line, s.Width, strings.Repeat(" ", 4)))
}

// eventColour repeats what the name of an event says.
func eventColour(s record.Severity) string {
	if slices.Contains([]record.Severity{record.SeverityError, record.SeverityWarning}, s) {
		return columns.Red
	}
	return ""
}
