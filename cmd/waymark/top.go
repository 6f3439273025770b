// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter/filterflags"
	"github.com/waymark-net/waymark/internal/shellword"
)

// topFlags are the flags of waymark top.
type topFlags struct {
	since, until, sort, filter string
	last, interval             time.Duration
	prefixes                   []string
	count                      int
	selects                    []string // the flags of its filter, as they were given
}

// sorts are the orders of --sort.
var sorts = []string{"packets", "delay", "loss", "name"}

// topFilters select a part of the traffic.
var topFilters = []string{
	"source",
	"destination",
	"port",
	"protocol",
	"node",
	"interface",
	"namespace",
	"flow",
	"min-delay",
	"incomplete",
	"where",
}

// longestFiltered is the longest time between two tables of which the agent counts what is between.
const longestFiltered = time.Minute

func newTopCommand(opts *options) *cobra.Command {
	var filters *filterflags.Flags
	f := topFlags{last: time.Minute, sort: sorts[0]}
	cmd := &cobra.Command{
		Use:        "top",
		SuggestFor: []string{"hops", "latency", "delays", "live", "dashboard"},
		Short:      "Show live which way packets take, and where the time goes",
		Long: `Show the paths between each two prefixes with their shares, and of each hop how
long it held packets, how long they took to the next, and what was lost after
it, in the last minute: from the traces that end at this node, the flows that
are measured from here, and the Direct Exports that this node makes. On a
terminal, the table changes every second; elsewhere, there is one every ten
seconds, with the hops of the busiest path of each pair that has delays, and of
paths with a verdict: --json has those of all.

HELD is from the arrival to the egress hook, which is before the queue. NEXT is
from there to the arrival at the next node, with the wait in the queue; with a
"+", also the time for which the node held the packet, because it does not say
that. QUEUED is the wait in the queue of the hop's interface, if the hop is this
node; its queues are measured while this command shows what is now, and are
listed at the end. "~" is what two clocks cannot tell, because they may differ
by more; "-" is not known. LOST is after the hop; of a path, it is known only if
that of each hop is. SLOW is a hop whose 95th percentile was at least twice what
is usual there in one of the intervals of ten seconds, LOSES one after which
0.1% or more were lost, and UNCERTAIN one of which that is not known for a part
of the time, as when the next node does not answer: "waymark loss" says why.

The agent keeps an hour: --since and --until show any time of it, once. Times
are UTC. Without a sink or an observer, it makes at most history.rate records
in a second, but up to 100,000 while this command runs. What share of the time
that was is in the first line, if it is less than all. The last lines are the
latest events of that time; "waymark events" has all.

--node, --interface and --flow show only the paths that pass one, at any time of
the hour. --source, --destination, --port and the flags below them, of which
--where has a condition on the fields of a record, select packets: the agent
counts those that pass from the beginning of this command on, because the kept
hour has sums and no packets.

Keys: q ends; space freezes; up and down choose a path, enter shows its hops or
hides them; s changes the order; / filters by names; c copies a command that
shows the same again; ? lists all.`,
		Example: `  waymark top
  waymark top --prefix cust7=2001:db8:7::/48
  waymark top --since 12:03 --until 12:05 --node r2
  waymark top --protocol tcp --port 443
  waymark top --json --count 1 | jq '.pairs[].paths[].hops[]'`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			q, err := f.query(cmd, now)
			if err != nil {
				return err
			}
			if _, q.Filter, err = filters.Program(cmd); err != nil {
				return err
			}
			if err := f.checkFilter(cmd, &q); err != nil {
				return err
			}
			c, err := opts.client()
			if err != nil {
				return err
			}
			noteNoTraffic(cmd, c, q.Filter)
			return f.run(cmd, c, q, opts)
		},
	}
	f.add(cmd.Flags())
	commandline.CompleteWords(cmd, "sort", sorts...)
	filters = filterflags.Add(cmd, topFilters...)
	return cmd
}

// add adds the flags that are no filters.
func (f *topFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.since, "since", "", "show what was since this `TIME`, once: 12:03, or in RFC 3339")
	flags.StringVar(&f.until, "until", "", "show what was until this `TIME`, once")
	flags.DurationVar(&f.last, "last", f.last, "show the last `TIME`")
	flags.StringArrayVar(&f.prefixes, "prefix", nil, "only what goes from or to this `[NAME=]PREFIX`, by this name; may be repeated")
	flags.DurationVar(&f.interval, "interval", 0, "`TIME` between two tables (default 1s on a terminal, 10s elsewhere)")
	flags.IntVar(&f.count, "count", 0, "end after this `NUMBER` of tables; 0 is when interrupted")
	flags.StringVar(&f.sort, "sort", f.sort, "`ORDER` of pairs and paths: packets, delay (99th percentile), loss or name")
	flags.StringVar(&f.filter, "filter", "", "only pairs in which a name of a prefix, node or flow has this `TEXT`")
}

// checkFilter refuses what no answer can have: packets of a time in which only sums were kept.
func (f *topFlags) checkFilter(cmd *cobra.Command, q *api.HistoryTime) error {
	for _, name := range topFilters {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			word := "--" + name
			if flag.Value.Type() != "bool" {
				word += " " + shellword.Quote(flag.Value.String())
			}
			f.selects = append(f.selects, word)
		}
	}
	switch {
	case !f.selectsPackets(q):
		return nil
	case !q.Live:
		return commandline.Usage(problem.New(
			"of the past, only --node, --interface, --flow by name and --prefix can select, because sums are kept and no packets",
			"leave out --since and --until",
		))
	case f.interval > longestFiltered:
		return commandline.Usagef("--interval %v: with a filter of packets, want at most %v", f.interval, longestFiltered)
	}
	return nil
}

// selectsPackets reports whether the filter needs packets, and not only paths.
func (f *topFlags) selectsPackets(q *api.HistoryTime) bool {
	rest := q.Filter
	rest.Node, rest.Interface, rest.Flow = "", "", ""
	_, err := strconv.ParseUint(q.Filter.Flow, 0, 64) // the kept hour has no numbers of flows
	return rest != (api.RecordFilter{}) || err == nil
}

// noteNoTraffic says on standard error, at once, why a filter may never show anything.
func noteNoTraffic(cmd *cobra.Command, c *api.Client, filter api.RecordFilter) {
	if filter == (api.RecordFilter{}) {
		return
	}
	s, err := c.Status(cmd.Context())
	if err != nil {
		return // it occurs again
	}
	for _, hint := range knownHere(cmd.Context(), c, s, filter, nil).Unmet(filter) {
		fmt.Fprintln(cmd.ErrOrStderr(), "waymark: "+hint)
	}
}

// query checks the flags.
func (f *topFlags) query(cmd *cobra.Command, now time.Time) (q api.HistoryTime, err error) {
	changed := cmd.Flags().Changed
	switch {
	case !slices.Contains(sorts, f.sort):
		return q, commandline.Usagef("--sort %q: want one of %s", f.sort, strings.Join(sorts, ", "))
	case f.last < time.Second || f.last > 24*time.Hour:
		return q, commandline.Usagef("--last %v: want a time from 1s to 24h, such as 10m", f.last)
	case changed("interval") && (f.interval < 100*time.Millisecond || f.interval > time.Hour):
		return q, commandline.Usagef("--interval %v: want a time from 100ms to 1h", f.interval)
	case f.count < 0:
		return q, commandline.Usagef("--count %d: want a number from 0 on", f.count)
	case changed("last") && f.since != "":
		return q, commandline.Usagef("choose --last or --since")
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
	q.Prefixes = f.prefixes
	q.Live = q.Since.IsZero() && q.Until.IsZero()
	return q, nil
}

// parseMoment reads a time: RFC 3339, or the last time at which a clock of UTC showed hours and minutes.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"15:04", "15:04:05", "15:04Z", "15:04:05Z"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.UTC().Date()
			at := time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
			return at, nil
		}
	}
	return time.Time{}, commandline.Usagef("--%s %q: want a time of UTC such as 12:03, 12:03:30 or 2026-11-21T12:03:00Z", flag, text)
}

// run shows reports: live on a terminal, else one after another.
func (f *topFlags) run(cmd *cobra.Command, c *api.Client, q api.HistoryTime, opts *options) error {
	ask := func(ctx context.Context) (*insight.Report, []*record.Event, error) {
		var events []*record.Event
		if !opts.JSON {
			events = latestEvents(ctx, c, q)
		}
		r, err := c.History(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		filterAndSort(r, f.sort, f.filter, f.prefixes)
		return r, events, nil
	}
	terminal, live := commandline.Screen(cmd.OutOrStdout())
	if live && q.Live && !opts.JSON && f.count == 0 {
		return f.live(cmd.Context(), terminal, styleOf(opts.View(terminal)), q, c)
	}
	interval := cmp.Or(f.interval, 10*time.Second)
	if q.Live && f.selectsPackets(&q) { // counting begins with the first question
		if err := f.await(cmd.Context(), c, q, interval); err != nil {
			return err
		}
	}
	for n := 1; ; n++ {
		r, events, err := ask(cmd.Context())
		if err != nil {
			return err
		}
		if opts.JSON {
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		} else {
			style := styleOf(opts.View(cmd.OutOrStdout()))
			style.colour = false // a table after another goes to a file, or through a pipe
			err = writeTop(cmd.OutOrStdout(), style, r, events, n > 1)
		}
		if err != nil || !q.Live || n == f.count {
			return err
		}
		if f.selectsPackets(&q) {
			err = f.await(cmd.Context(), c, q, interval)
		} else {
			err = wait(cmd.Context(), interval)
		}
		if err != nil {
			return err
		}
	}
}

// wait waits for a time, or until the context ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// await lets the agent count for a time what a filter selects.
func (f *topFlags) await(ctx context.Context, c *api.Client, q api.HistoryTime, interval time.Duration) error {
	const lookEvery = 3 * time.Second // less than the time for which one who asked is taken to look
	for end := time.Now().Add(interval); ; {
		if _, err := c.History(ctx, q); err != nil {
			return err
		}
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if err := wait(ctx, min(left, lookEvery)); err != nil {
			return err
		}
	}
}

// topEvents is how many events the table has below it.
const topEvents = 3

// latestEvents are the last events of the time of a table, the oldest first. A table is shown without them where
// an agent of another version, or one that ends, does not give them.
func latestEvents(ctx context.Context, c *api.Client, q api.HistoryTime) (list []*record.Event) {
	about := api.RecordFilter{Node: q.Filter.Node, Interface: q.Filter.Interface, Flow: q.Filter.Flow}
	if q.Filter != about {
		return nil // no event is about packets
	}
	err := c.Events(ctx, api.EventQuery{Since: q.Since, Until: q.Until, Last: q.Last, Filter: about}, func(line []byte) error {
		e, err := parseEvent(line)
		if err == nil && e != nil {
			if list = append(list, e); len(list) > topEvents {
				list = list[1:]
			}
		}
		return err
	})
	if err != nil {
		return nil
	}
	return list
}

// events are lines of the last events.
func (s topStyle) events(list []*record.Event) (lines []string) {
	for _, e := range list {
		lines = append(
			lines,
			s.fit(fmt.Sprintf("%s %s: %s", e.Time.UTC().Format("15:04:05Z"), s.sentence(e.Name), s.sentence(s.units(e.Facts))), s.width),
		)
	}
	return lines
}

// writeTop writes a table, and the last events.
func writeTop(out io.Writer, s topStyle, r *insight.Report, events []*record.Event, further bool) error {
	var b strings.Builder
	if further {
		b.WriteByte('\n')
	}
	b.WriteString(s.head(r) + "\n")
	for _, line := range s.lines(r, nil) {
		b.WriteString(line.text + "\n")
	}
	for _, line := range s.events(events) {
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// styleOf is how tables look on a screen.
func styleOf(screen columns.Screen) topStyle {
	return topStyle{width: max(screen.Width, leastTopWidth), ascii: screen.ASCII, colour: screen.Colour}
}

// filterAndSort puts a report in an order, and leaves out what does not pass the filters.
func filterAndSort(r *insight.Report, order, filter string, prefixes []string) {
	r.Pairs = slices.DeleteFunc(r.Pairs, func(p insight.PairReport) bool {
		return !hasText(&p, filter) || len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(prefix string) bool {
			name, _, _ := strings.Cut(prefix, "=")
			return p.Source == name || p.Destination == name
		})
	})
	slices.SortStableFunc(r.Pairs, func(a, b insight.PairReport) int {
		switch order {
		case "delay":
			return cmp.Compare(slowestPath(&b), slowestPath(&a))
		case "loss":
			return cmp.Compare(worstLoss(&b), worstLoss(&a))
		case "name":
			return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Destination, b.Destination))
		}
		return 0 // as it came: by packets
	})
	for i := range r.Pairs {
		slices.SortStableFunc(r.Pairs[i].Paths, func(a, b insight.PathReport) int {
			switch order {
			case "delay":
				return cmp.Compare(delayOf(&b), delayOf(&a))
			case "loss":
				return cmp.Compare(lossRank(&b), lossRank(&a))
			case "name":
				return cmp.Or(cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.ID, b.ID))
			}
			return 0
		})
	}
}

func hasText(p *insight.PairReport, text string) bool {
	has := func(name string) bool { return strings.Contains(strings.ToLower(name), strings.ToLower(text)) }
	if text == "" || has(p.Source) || has(p.Destination) {
		return true
	}
	for i := range p.Paths {
		path := &p.Paths[i]
		if has(path.Flow) || slices.ContainsFunc(path.Hops, func(h insight.HopReport) bool { return has(topStyle{}.nodeName(h.Place)) }) {
			return true
		}
	}
	return false
}

// delayOf is the 99th percentile of a path's delay, or -1 if the path has none.
func delayOf(p *insight.PathReport) int64 {
	if p.Delay == nil || p.Delay.P99 == nil {
		return -1
	}
	return *p.Delay.P99
}

func ratioOf(l insight.Loss) float64 {
	ratio, known := l.Ratio()
	if !known {
		return -1
	}
	return ratio
}

// lossRank sorts by loss: paths with known losses have the greatest rank, then those whose loss is not known, then those
// without losses.
func lossRank(p *insight.PathReport) float64 {
	if p.Loss != nil {
		return ratioOf(*p.Loss)
	}
	const mayBe = 1e-12
	most := -1.0
	for i := range p.Hops {
		if most = max(most, ratioOf(p.Hops[i].Loss)); p.Hops[i].Uncertain > 0 {
			most = max(most, mayBe)
		}
	}
	return most
}

func slowestPath(p *insight.PairReport) int64 {
	most := int64(-1)
	for i := range p.Paths {
		most = max(most, delayOf(&p.Paths[i]))
	}
	return most
}

func worstLoss(p *insight.PairReport) float64 {
	most := ratioOf(p.Loss)
	for i := range p.Paths {
		most = max(most, lossRank(&p.Paths[i]))
	}
	return most
}
