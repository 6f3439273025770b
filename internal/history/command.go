// SPDX-License-Identifier: Apache-2.0

// Package history asks a collector what it has kept, and shows the answers to people.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/collectorapi"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/recordfilter"
)

// Subject is what commands ask for.
type Subject struct {
	Noun        string // the command is NOUN history
	Short, Long string
	Examples    string

	path       string // of the API
	flows      bool   // packets can be selected
	nodes      bool   // it can show a line for each node
	limit      int
	parameters []parameter
	ask        func(context.Context, *collectorapi.Client, string, url.Values, *page) (*answer, error)
}

// parameter is a flag whose value is one of a question.
type parameter struct {
	flag, name string // of the API
	usage      string
	isSwitch   bool
	read       func(string) (string, error) // what the API gets; nil: the text itself
}

// ofFlows select packets.
var ofFlows = []parameter{
	{flag: "source", name: "source", usage: "only packets from this `PREFIX` or address"},
	{flag: "destination", name: "destination", usage: "only packets to this `PREFIX` or address"},
	{flag: "port", name: "port", usage: "only packets from or to this `PORT`"},
	{flag: "source-port", name: "source_port", usage: "only packets from this `PORT`"},
	{flag: "destination-port", name: "destination_port", usage: "only packets to this `PORT`"},
	{flag: "protocol", name: "next_header", usage: recordfilter.ProtocolUsage, read: protocolNumber},
	{flag: "namespace", name: "namespace", usage: "only packets of the IOAM namespace with this `ID`"},
}

// protocolNumber is the number of a protocol with a word, which the API does not know.
func protocolNumber(text string) (string, error) {
	p, err := recordfilter.ParseProtocol(text)
	return strconv.Itoa(int(p)), err
}

// ofEdgeFlows select what edges measured.
var ofEdgeFlows = []parameter{
	{flag: "source", name: "source", usage: "only what edges measured of flows from this `PREFIX` or address"},
	{flag: "destination", name: "destination", usage: "only what edges measured of flows to this `PREFIX` or address"},
	{flag: "namespace", name: "namespace", usage: "only what edges measured in the IOAM namespace with this `ID`"},
}

// where is a condition on what an answer is made of. The collector checks it.
func where(on string) parameter {
	return parameter{
		flag:  "where",
		name:  "where",
		usage: "only " + on + " for which this `CONDITION` on their fields is true, as of 'waymark collect --where'",
	}
}

// ofWays select packets by where they passed.
var ofWays = []parameter{
	{flag: "segment", name: "segment", usage: "only packets that passed the segment with this `ID`, of 'waymark segment history --json'"},
	{flag: "from-node-id", name: "from_node_id", usage: "only packets whose first node has this `ID`"},
	{flag: "to-node-id", name: "to_node_id", usage: "only packets whose last node has this `ID`"},
}

// compare is another time of the same length.
var compare = parameter{
	flag: "compare", name: "compare", usage: "compare with the same time so much earlier: `TIME`, such as 7d",
}

// answering asks a question and shows the answer.
func answering[A any](
	of func(*A) *answer,
	show func(*page, *A) error,
) func(context.Context, *collectorapi.Client, string, url.Values, *page) (*answer, error) {
	return func(ctx context.Context, c *collectorapi.Client, path string, ask url.Values, p *page) (*answer, error) {
		var a A
		if err := c.Ask(ctx, path, ask, &a); err != nil {
			return nil, err
		}
		return of(&a), show(p, &a)
	}
}

// times is about what all commands have in common.
const times = `

The time is the last hour, unless --since and --until say otherwise: 3h, 7d,
12:03 (UTC; today, or yesterday if that is still to come), or in RFC 3339. Times
of nodes are as they reported them, without a correction: where clocks differ,
delays are wrong by as much, and a negative one is counted as such and in no
percentile. If the answer was cut, or something is missing of a part of the time
because it was not written, was lost or cannot be read, a line on standard error
says so.
--json prints the answer of the collector's API.`

// Subjects are all of them.
var Subjects = []Subject{
	{
		Noun: "path", Short: "Show which paths packets took, from a collector", path: "/v1/paths", flows: true, nodes: true, limit: 20,
		Long: `Show which paths packets took in the past, the slowest first, with their shares
and percentiles of the delay. SLOWEST is the node or the link with the longest
median. LOST are packets of which it is known that they were lost; "-" where
that cannot be known: Direct Exports that are missing tell it, a trace is lost
with its packet. CUT are those that not every node reported. BEFORE is what the
share and the 99th percentile were in the time that --compare names. --nodes
adds a line for each node.`,
		Examples:   "  waymark path history --source 2001:db8:1::/48 --since 3h\n  waymark path history --port 443 --since 03:00 --until 03:30 --nodes\n  waymark path history --destination-port 443 --since 1h --compare 24h\n  waymark path history --where 'delay_ns > 5000000'",
		parameters: append([]parameter{compare, where("packets")}, ofWays...),
		ask:        answering((*paths).whole, (*page).paths),
	},
	{
		Noun: "change", Short: "Show what moved from one path to another, from a collector", path: "/v1/changes", flows: true, limit: 100,
		Long: `Show which pairs of addresses moved from which paths to which, when, and the
mean delay before and after, the latest first. Packets that are spread over
equal paths do not move as long as the shares stay.`,
		Examples: "  waymark change history --since 24h\n  waymark change history --destination 2001:db8:2::/48 --window 5m\n  waymark change history --where 'delay_ns > 5000000'",
		parameters: []parameter{{flag: "window", name: "window", usage: "take shares over this `TIME`, such as 5m (default 1m)"},
			{flag: "moved", name: "moved", usage: "only where at least this `SHARE` of the packets moved, from 0 to 1 (default 0.5)"}, where("packets")},
		ask: answering(func(a *changes) *answer { return &a.answer }, (*page).changes),
	},
	{
		Noun: "events", Short: "Show what happened in the past, from a collector", path: "/v1/events", limit: 100,
		Long: `Show what the collector found in what nodes sent it, such as losses and slow
segments, and its warnings, the latest first. The last word of a line is the
collector's host, or the node that found it.`,
		Examples:   "  waymark events history --since 24h\n  waymark events history --event loss_began --since 7d",
		parameters: []parameter{{flag: "event", name: "event", usage: "only events of this `NAME`, or warnings with this code"}, {flag: "node", name: "node", usage: "only what this `NODE` found"}},
		ask:        answering(func(a *events) *answer { return &a.answer }, (*page).events),
	},
	{
		Noun: "segment", Short: "Show the ways from one node to the next, from a collector", path: "/v1/segments", flows: true, limit: 50,
		Long: `Show the ways from one node to the next one that reported, the worst first: the
delay of the link by the clocks of both nodes, how long the first node held
packets, and what was lost after it, where no next node reported it. LOST is
"-" where that cannot be known, as of traces. BEFORE is the 99th percentile of
the other time that --baseline or --compare name.`,
		Examples: "  waymark segment history --since 1h --baseline 24h\n  waymark segment history --order loss --source 2001:db8:1::/48\n  waymark segment history --since 30m --compare 7d\n  waymark segment history --where 'packet.destination_port == 443'",
		parameters: []parameter{{flag: "order", name: "order", usage: "sort by this `WORD`: link, held, loss or packets (default link)"},
			{flag: "baseline", name: "baseline", usage: "compare with this `TIME` before, such as 24h"}, compare, where("packets")},
		ask: answering(func(a *segments) *answer { return &a.answer }, (*page).segments),
	},
	{
		Noun: "grid", Short: "Show delay and loss between the ends of paths, from a collector", path: "/v1/grid", flows: true, limit: 1000,
		Long: `Show the pairs of nodes between which packets went, those with loss first, then
the slowest. Of pairs that are not there, nothing is known. A pair without a
last node has the packets that no such node reported. LOST is "-" where it
cannot be known, as of traces: they are lost with their packets. BEFORE is what
the column to its left was in the time that --compare names.`,
		Examples:   "  waymark grid history --since 15m --destination 2001:db8:2::/48\n  waymark grid history --where 'packet.next_header == 6'\n  waymark grid history --json | jq '.pairs[] | select(.lost > 0)'",
		parameters: []parameter{compare, where("packets")},
		ask:        answering(func(a *grid) *answer { return &a.answer }, (*page).grid),
	},
	{
		Noun: "packet", Short: "Find packets with their paths, from a collector", path: "/v1/packets", flows: true, nodes: true, limit: 100,
		Long: `Find packets, the latest first. With --nodes, and when there is only one, each
has its nodes with their times as they reported them, the time since the node
before, and how long the node held it. CLOCK is how wrong the node's clock was
at most, by its own records; no time is corrected by it.`,
		Examples: "  waymark packet history --flow-id 7 --sequence 1234 --since 7d\n  waymark packet history --lost --source 2001:db8:1::/48\n  waymark packet history --min-delay 5ms --where 'len(nodes) > 4'",
		parameters: append([]parameter{
			{flag: "flow-id", name: "flow_id", usage: "only the packets with this `NUMBER` as Flow-ID"},
			{flag: "sequence", name: "sequence", usage: "only the packets with this Sequence `NUMBER`"},
			{flag: "min-delay", name: "min_delay", usage: "only packets that took at least this `TIME`, such as 5ms"},
			{flag: "incomplete", name: "incomplete", usage: "only packets that not every node reported", isSwitch: true}, {flag: "lost", name: "lost", usage: "only packets that are known to be lost", isSwitch: true}, where("packets")}, ofWays...),
		ask: answering(func(a *packets) *answer { return &a.answer }, (*page).packets),
	},
	{
		Noun: "loss", Short: "Show the loss of measured flows in the past, from a collector", path: "/v1/loss", limit: 100,
		Long: `Show the loss of measured flows, from ingress to egress and by segment, what
lost the greatest share first, and of flows that are measured from edge to edge.
UNCERTAIN are blocks of which the loss is not known: they are in no sum. Where
nothing is known, LOST is "-". BEFORE is what the ratio was in the time that
--compare names. --source, --destination and --namespace select
what edges measured: of measured flows, the collector knows names and no
addresses.`,
		Examples:   "  waymark loss history --since 24h\n  waymark loss history --flow gold --json\n  waymark loss history --where 'scope == \"segment\" and lost > 0'",
		parameters: append([]parameter{{flag: "flow", name: "flow", usage: "only the measured flow of this `NAME`"}, compare, where("blocks and flows")}, ofEdgeFlows...),
		ask:        answering(func(a *losses) *answer { return &a.answer }, (*page).losses),
	},
	delaySubject,
	flowSubject,
}

// request are the flags of one command.
type request struct {
	subject      *Subject
	of           collectorapi.Flags
	since, until string
	limit        int
	asCSV, nodes bool
	values       map[string]*string
	switches     map[string]*bool
}

// Command makes the command history of a subject.
func (s *Subject) Command(opts *commandline.Options) *cobra.Command {
	r := &request{subject: s, limit: s.limit, values: map[string]*string{}, switches: map[string]*bool{}}
	cmd := &cobra.Command{
		Use: "history", Short: s.Short, Long: s.Long + times, Example: s.Examples, Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd, opts) },
	}
	flags := cmd.Flags()
	r.of.Add(cmd)
	flags.StringVar(&r.since, "since", "1h", "show what was from this `TIME` on: so long ago, or a time")
	flags.StringVar(&r.until, "until", "", "show what was until this `TIME`: so long ago, or a time (default: now)")
	flags.IntVar(&r.limit, "limit", r.limit, "show at most `NUMBER` items, up to 10000")
	flags.BoolVar(&r.asCSV, "csv", false, "write comma-separated values")
	if s.nodes {
		flags.BoolVar(&r.nodes, "nodes", false, "also show each node")
	}
	for _, p := range s.all() {
		if p.isSwitch {
			r.switches[p.name] = flags.Bool(p.flag, false, p.usage)
		} else {
			r.values[p.name] = flags.String(p.flag, "", p.usage)
		}
	}
	opts.AddWide(cmd)
	return cmd
}

// all are the parameters of a subject.
func (s *Subject) all() []parameter {
	if !s.flows {
		return s.parameters
	}
	return append(append([]parameter(nil), ofFlows...), s.parameters...)
}

// run asks and shows.
func (r *request) run(cmd *cobra.Command, opts *commandline.Options) error {
	if opts.JSON && r.asCSV {
		return commandline.Usagef("choose --json or --csv")
	}
	c, err := r.of.Client()
	if err != nil {
		return err
	}
	ask, err := r.question(time.Now())
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	lacks := &answer{}
	switch {
	case opts.JSON:
		_, err = c.Copy(cmd.Context(), r.subject.path, "json", ask, out) // it says itself what it lacks
	case r.asCSV:
		var copied collectorapi.Copied
		copied, err = c.Copy(cmd.Context(), r.subject.path, "csv", ask, out)
		lacks.missing = copied.Gaps
		if copied.Cut.Text != "" {
			lacks.Cut = &copied.Cut
		}
	default:
		p := &page{out: out, screen: opts.View(out), nodes: r.nodes}
		lacks, err = r.subject.ask(cmd.Context(), c, r.subject.path, ask, p)
	}
	if err != nil {
		return r.subject.inFlags(err)
	}
	lacks.writeNote(cmd.ErrOrStderr(), opts.NoteView(cmd.ErrOrStderr()), cmd.Flags().Changed("limit"), r.subject.fewer())
	return nil
}

// inFlags says an error of the API by the flag of the parameter that it is about.
func (s *Subject) inFlags(err error) error {
	var refused *collectorapi.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	flags := map[string]string{"limit": "limit", "from": "since", "until": "until"}
	for _, p := range s.all() {
		flags[p.name] = p.flag
	}
	flag, ok := flags[refused.Parameter]
	if !ok {
		return err
	}
	between := ": "
	if strings.HasPrefix(refused.Reason, `"`) { // the value
		between = " "
	}
	return commandline.Usagef("--%s%s%s", flag, between, problem.Lines(refused.Reason))
}

// fewer is what the user can ask for less of, besides time.
func (s *Subject) fewer() string {
	has := func(flag string) bool {
		return slices.ContainsFunc(s.all(), func(p parameter) bool { return p.flag == flag })
	}
	switch {
	case has("source"):
		return "fewer addresses"
	case has("flow"):
		return "one --flow"
	}
	return "one --event or --node"
}

// writeNote says what an answer lacks. limited: the user gave the limit. fewer is what there can be less of, besides time.
func (a *answer) writeNote(w io.Writer, screen columns.Screen, limited bool, fewer string) {
	say := func(format string, values ...any) {
		_, _ = io.WriteString(screen.Writer(w), columns.Fold("waymark: "+fmt.Sprintf(format, values...)+"\n", screen.Width, "  "))
	}
	if c := a.Cut; c != nil {
		text := problem.OneLine(c.Problem)
		switch byLimit := c.Reason == "limit" && c.Problem != ""; {
		case byLimit && limited: // as was asked for
			say("%s; --limit says how many are shown", text)
		case byLimit:
			say("the answer is cut: %s; ask for less time or %s, or raise --limit", text, fewer)
		default:
			say("the answer is cut: %s", problem.OneLine(c.Text))
		}
	}
	if n, err := strconv.Atoi(a.missing); err == nil {
		say("something is missing of %s; --json has them under gaps", columns.Counted(n, "time"))
	}
	for i, g := range a.Gaps {
		if i == mostGaps {
			say("and of %d other times; --json has them under gaps", len(a.Gaps)-i)
			break
		}
		say(
			"from %s to %s UTC, something is missing here: %s",
			g.From.UTC().Format(time.DateTime),
			g.Until.UTC().Format(time.DateTime),
			cmp.Or(problem.OneLine(g.Reason), "the collector has lost, or cannot read, what it had"),
		)
	}
}

// mostGaps is how many gaps are named one by one.
const mostGaps = 5

// question are the parameters of the API.
func (r *request) question(now time.Time) (url.Values, error) {
	ask := url.Values{}
	if r.limit < 1 || r.limit > 10_000 {
		return nil, commandline.Usagef("--limit %d: want a number from 1 to 10000", r.limit)
	}
	ask.Set("limit", strconv.Itoa(r.limit))
	from, err := moment("since", r.since, now)
	if err != nil {
		return nil, err
	}
	ask.Set("from", from.UTC().Format(time.RFC3339Nano))
	until := now
	if r.until != "" {
		if until, err = moment("until", r.until, now); err != nil {
			return nil, err
		}
	}
	if !from.Before(until) {
		return nil, commandline.Usagef("--since %s is not before --until %s", r.since, r.until)
	}
	ask.Set("until", until.UTC().Format(time.RFC3339Nano))
	for _, p := range r.subject.all() {
		value := r.values[p.name]
		if value == nil || *value == "" {
			continue
		}
		text := *value
		if p.read != nil {
			if text, err = p.read(text); err != nil {
				return nil, commandline.Usagef("--%s %w", p.flag, err)
			}
		}
		ask.Set(p.name, text)
	}
	for name, is := range r.switches {
		if *is {
			ask.Set(name, "true")
		}
	}
	return ask, nil
}

// moment reads a time: so long ago, of today (or yesterday, if it is not yet), or in RFC 3339.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 12); err == nil {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		day := now.UTC().Truncate(24 * time.Hour)
		if t = day.Add(t.Sub(t.Truncate(24 * time.Hour))); t.After(now) {
			t = t.Add(-24 * time.Hour)
		}
		return t, nil
	}
	return time.Time{}, commandline.Usagef("--%s %q: want a time, such as 3h, 7d, 12:03 or 2026-11-28T12:03:00Z", flag, text)
}
