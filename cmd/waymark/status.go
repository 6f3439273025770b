// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/iproute2"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

func newStatusCommand(opts *options) *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:        "status",
		SuggestFor: []string{"stats", "info", "show"},
		Short:      "Show the running agent: warnings, interfaces, outcomes, records",
		Long: `Show the running agent: its warnings first, then the interfaces, what happened
to packets there, and where records go. IN/S and OUT/S are packets a second by
the hooks; those that are forwarded fast pass no hook when they leave. LAST 10
MIN draws both. --verbose adds what is configured, the hooks that others share,
and the counters of exports and of messages about flows; --wide all columns.`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := opts.client()
			if err != nil {
				return err
			}
			s, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if opts.JSON {
				return commandline.PrintJSON(cmd.OutOrStdout(), s)
			}
			var ends []config.Decapsulation
			if len(s.Decapsulations) > 0 {
				ends, _ = c.Decapsulations(cmd.Context()) // without them, the status still has the addresses
			}
			return printStatus(cmd.OutOrStdout(), s, ends, time.Now(), opts.View(cmd.OutOrStdout()), verbose)
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "also show what is configured, hooks, exports, and messages about flows")
	opts.AddWide(cmd)
	return cmd
}

// printStatus writes the status; ends are the rules of the tunnels that end here, if
// known.
func printStatus(w io.Writer, s api.Status, ends []config.Decapsulation, now time.Time, screen columns.Screen, verbose bool) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "agent %s, process %d, version %s, up %v\n", s.Agent, s.PID, s.Version, now.Sub(s.Started.Time).Truncate(time.Second))
	fmt.Fprintf(&b, "configuration %s, loaded %s", s.ConfigFile, s.Loaded.Local().Format(time.DateTime))
	if s.Modified {
		b.WriteString(", changed at runtime since")
	}
	fmt.Fprintf(&b, "\nnode %s, id %s, wide %s, timestamps %s, compatibility %s\n", cmp.Or(s.Node.Name, "-"),
		available(s.Node.ID, uint32(ioam.NodeIDUnavailable)), available(s.Node.IDWide, uint64(ioam.NodeIDWideUnavailable)),
		s.Node.TimestampFormat, s.Node.Compatibility)
	if s.Node.Mode == string(config.ModeObserve) {
		b.WriteString("mode observe: packets are counted, and none is changed")
		if len(s.Node.StillActive) > 0 {
			fmt.Fprintf(&b, "; at work as in mode full: %s", strings.Join(s.Node.StillActive, ", "))
		}
		fmt.Fprintf(&b, "\nwhat the configuration would do:\n"+copied+"waymark agent run --config %s --dry-run\n", s.ConfigFile)
	}
	if s.Metrics != "" {
		fmt.Fprintf(&b, "metrics %s\n", s.Metrics)
	}
	if len(s.Warnings) > 0 {
		b.WriteByte('\n')
		if err := printProblems(&b, s.Warnings, "waymark doctor --verbose"); err != nil {
			return err
		}
	}
	b.WriteByte('\n')
	tables := columns.Screen{Width: screen.Width}
	if len(s.Interfaces) > 0 {
		printInterfaces(&b, s.Interfaces, tables)
		if verbose {
			printHooks(&b, s.Interfaces, tables)
		}
		printOutcomes(&b, s.Interfaces, tables)
		if verbose {
			printExports(&b, s.Interfaces, tables)
		}
	} else {
		b.WriteString("no interface is configured: packets are not touched\n")
	}
	if verbose {
		printDomain(&b, s, ends)
	}
	printRecords(&b, s.Records)
	text := foldBetween(b.String(), screen.Width)
	if screen.Colour {
		text = paintProblems(text, screen)
	}
	_, err := io.WriteString(w, screen.Text(text))
	return err
}

// copied begins a line that a person copies as it is: a command, or words of one. It does not stay.
const copied = "\x01"

// foldBetween folds the lines of a text but those that are copied.
func foldBetween(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if whole, is := strings.CutPrefix(line, copied); is {
			b.WriteString(whole)
		} else {
			b.WriteString(columns.Fold(line, width, "  "))
		}
	}
	return b.String()
}

// paintProblems gives the severities at the begin of lines their colours.
func paintProblems(text string, screen columns.Screen) string {
	for word, colour := range map[string]string{"error: ": columns.Red, "warning: ": columns.Yellow} {
		text = strings.ReplaceAll(text, "\n"+word, "\n"+screen.Paint(colour, strings.TrimSuffix(word, ": "))+": ")
	}
	return text
}

// available writes a number, or "-" for the value that means "not available".
func available[T cmp.Ordered](v, none T) string {
	if v == none {
		return "-"
	}
	return fmt.Sprint(v)
}

// boundaryOf is the default policy, and how many namespaces have one of their own.
func boundaryOf(i api.Interface) string {
	if n := len(i.Namespaces); n > 0 {
		return fmt.Sprintf("%s+%d", i.Boundary, n)
	}
	return i.Boundary
}

// table is one whose first column stays, with the ranks of the others.
func table(names string, ranks ...int) *columns.Table {
	t := &columns.Table{}
	for i, name := range strings.Split(names, "|") {
		c := columns.Column{Name: name}
		if i < len(ranks) {
			c.Rank = ranks[i]
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}

func printInterfaces(b *bytes.Buffer, list []api.Interface, screen columns.Screen) {
	t := table("INTERFACE|INDEX|ID|ROLE|IN/S|OUT/S|LAST 10 MIN|BOUNDARY|INGRESS|EGRESS|FORWARDS|MTU|RECORDS|LOST",
		0, 4, 5, 0, 0, 0, 2, 3, 8, 8, 6, 7, 1, 0)
	for _, right := range []int{4, 5, 12, 13} {
		t.Columns[right].AlignRight = true
	}
	for _, i := range list {
		role := strings.Join(i.Roles, ",")
		if role == "" {
			role = "edge"
		}
		if i.Index == 0 {
			t.Add(i.Name, "", "", "missing", "", "", "", boundaryOf(i), "", "", i.Forwarding)
			continue
		}
		in, out, trend := ratesOf(i.Rates)
		t.Add(i.Name, fmt.Sprint(i.Index), available(i.ID, uint16(ioam.InterfaceIDUnavailable)), role, in, out, trend, boundaryOf(i),
			i.IngressHook, i.EgressHook, i.Forwarding, fmt.Sprint(i.MTU), fmt.Sprint(i.RecordsWritten), fmt.Sprint(i.RecordsLost))
	}
	b.WriteString(t.String(screen))
}

// ratesOf are how many packets a second came and left, and those of both in the last minutes.
func ratesOf(r *api.Rates) (in, out, trend string) {
	if r == nil {
		return "-", "-", ""
	}
	sum := func(some ...map[string]float64) string {
		all := 0.0
		for _, rates := range some {
			for _, rate := range rates {
				all += rate
			}
		}
		return perSecond(all)
	}
	both := slices.Clone(r.InLast)
	for k := range both {
		both[k] += r.OutLast[k]
	}
	return sum(r.Ingress, r.Forwarded), sum(r.Egress), columns.Sparkline(both)
}

// perSecond is a rate; one below 10 has a fraction.
func perSecond(rate float64) string {
	if rate > 0 && rate < 9.95 {
		return fmt.Sprintf("%.1f", rate)
	}
	return columns.Count(uint64(math.Round(rate)))
}

// printHooks shows the hooks that others share or that are not in order.
func printHooks(b *bytes.Buffer, list []api.Interface, screen columns.Screen) {
	t := table("INTERFACE|HOOK|PLACE|PROGRAM|STATE|PROGRAMS OF OTHERS THAT RUN EARLIER", 0, 0, 1, 2)
	for _, i := range list {
		for _, h := range i.Hooks {
			state := "executed"
			switch {
			case !h.Attached:
				state = "taken off"
			case !h.InPlace:
				state = "out of place"
			case !h.SeesPackets:
				state = "sees no packets"
			}
			if state == "executed" && len(h.Before) == 0 {
				continue
			}
			t.Add(i.Name, h.Direction, h.Place, fmt.Sprint(h.Program), state, strings.Join(h.Before, ", "))
		}
	}
	paragraph(b, t.String(screen))
}

// paragraph writes a text after an empty line, unless it is empty.
func paragraph(b *bytes.Buffer, text string) {
	if text != "" {
		b.WriteString("\n" + text)
	}
}

// printOutcomes shows what happened to packets, zeros left out, in the order
// of the interfaces and then of the outcomes' names.
func printOutcomes(b *bytes.Buffer, list []api.Interface, screen columns.Screen) {
	t := table("INTERFACE|HOOK|OUTCOME|COUNT|PER SECOND")
	t.Columns[3].AlignRight, t.Columns[4].AlignRight = true, true
	for _, i := range list {
		rates := i.Rates
		if rates == nil {
			rates = &api.Rates{}
		}
		for _, hook := range []struct {
			name   string
			counts map[string]uint64
			rates  map[string]float64
		}{
			{"ingress", i.Ingress, rates.Ingress}, {"ingress options", besides(i.IngressOptions, i.Ingress), nil},
			{"egress", i.Egress, rates.Egress}, {"egress options", besides(i.EgressOptions, i.Egress), nil},
			{"forwarding", i.Forwarded, rates.Forwarded}, {"to stack", i.ToStack, nil}, {"unmarked", i.Unmarked, nil},
			{"malformed SRH", i.SRHMalformed, nil}, {"loopback", i.Loopback, nil},
		} {
			for _, outcome := range slices.Sorted(maps.Keys(hook.counts)) {
				rate := ""
				if hook.rates != nil {
					rate = perSecond(hook.rates[outcome])
				}
				t.Add(i.Name, hook.name, outcome, fmt.Sprint(hook.counts[outcome]), rate)
			}
		}
	}
	paragraph(b, cmp.Or(t.String(screen), "no packets yet\n"))
}

// besides returns the counts of options that differ from the packets' outcomes.
func besides(options, packets map[string]uint64) map[string]uint64 {
	counts := make(map[string]uint64)
	for outcome, n := range options {
		if n != packets[outcome] {
			counts[outcome] = n
		}
	}
	return counts
}

// printExports shows the counters of Direct Export, where any is not 0.
func printExports(b *bytes.Buffer, list []api.Interface, screen columns.Screen) {
	t := table("INTERFACE|POSTCARDS|SUPPRESSED|FLOWS EVICTED|SEQUENCES EVICTED")
	for _, i := range list {
		if i.Postcards|i.ExportsSuppressed|i.FlowsEvicted|i.SequencesEvicted > 0 {
			t.Add(i.Name, fmt.Sprint(i.Postcards), fmt.Sprint(i.ExportsSuppressed), fmt.Sprint(i.FlowsEvicted), fmt.Sprint(i.SequencesEvicted))
		}
	}
	paragraph(b, t.String(screen))
}

// printDomain shows the configuration's lists that have entries.
func printDomain(w io.Writer, s api.Status, ends []config.Decapsulation) {
	if len(s.Namespaces) > 0 {
		fmt.Fprintln(w)
		_ = printNamespaces(w, s.Namespaces) // cannot fail: to memory
	}
	for n, e := range s.Encapsulations {
		if n == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, copied+"route", iproute2.FormatRoute(e))
	}
	for _, p := range s.PathMTUs {
		fmt.Fprintf(w, "path MTU to %s: %d bytes, known until %s\n", p.Destination, p.MTU, p.Until.Local().Format(time.TimeOnly))
	}
	if len(s.TunnelErrors) > 0 {
		fmt.Fprintln(w, "ICMPv6 errors that may be about tunnelled packets:", counts(s.TunnelErrors))
	}
	printMeasurement(w, &s.Measurement)
	if len(s.LoopbackCopies) > 0 {
		fmt.Fprintln(w, "copies of packets with the Loopback flag:", counts(s.LoopbackCopies))
	}
	for n, d := range s.Decapsulations {
		if n == 0 {
			fmt.Fprintln(w)
		}
		rule := config.Decapsulation{TunnelDestination: d}
		if k := slices.IndexFunc(ends, func(end config.Decapsulation) bool { return end.TunnelDestination == d }); k >= 0 {
			rule = ends[k]
		}
		fmt.Fprintln(w, "tunnel ends at", iproute2.FormatDecapsulation(rule))
	}
}

// printMeasurement shows the messages about measured flows, if there were any.
func printMeasurement(w io.Writer, m *api.Measurement) {
	for _, part := range []struct {
		what   string
		counts map[string]uint64
	}{
		{"STAMP packets that came to this node", m.StampPackets},
		{"what was wrong with them besides", m.StampNotes},
		{"questions about measured flows that could not be sent", m.QuestionsUnsent},
		{"replies to questions about measured flows", m.QuestionReplies},
		{"test packets that could not be sent", m.ProbesUnsent},
		{"replies to test packets", m.ProbeReplies},
		{"answers about blocks of flows", m.BlockAnswers},
		{"counters of blocks", m.Readings},
	} {
		if len(part.counts) > 0 {
			fmt.Fprintf(w, "%s: %s\n", part.what, counts(part.counts))
		}
	}
	for _, protocol := range slices.Sorted(maps.Keys(m.ResponderQueries)) {
		fmt.Fprintf(w, "queries to the responder of %s: %s\n", protocol, counts(m.ResponderQueries[protocol]))
	}
	if m.StampDropped > 0 {
		fmt.Fprintf(w, "STAMP packets for which the socket had no room: %d\n", m.StampDropped)
	}
}

func printRecords(w io.Writer, r api.Records) {
	if r.Observers == 0 && len(r.Sinks) == 0 {
		fmt.Fprintln(w, "\nrecords are not written: there is no sink and no observer")
		return
	}
	fmt.Fprintf(w, "\nrecords read %d, malformed %d; observers %d, dropped for them %d\n", r.Read, r.Malformed, r.Observers, r.Dropped)
	if k := r.KernelEvents; k != nil {
		fmt.Fprintf(w, "events of the kernel's own IOAM read %d, malformed %d, lost %d\n", k.Received, k.Malformed, k.Lost)
	}
	for _, e := range r.Sinks {
		connection := ""
		switch {
		case e.Connected == nil:
		case *e.Connected:
			connection = "connected, "
		default:
			connection = "not connected, "
		}
		fmt.Fprintf(w, "exporter %s: %swritten %d, dropped %d, failed %d", e.Name, connection, e.Written, e.Dropped, e.Failed)
		switch {
		case e.Connected != nil:
			fmt.Fprintf(w, ", queued %d, messages %d", e.Queued, e.Messages)
		case e.Queued > 0:
			fmt.Fprintf(w, ", queued %d", e.Queued)
		}
		if e.Unsure > 0 {
			fmt.Fprintf(w, ", at most %d unread when a connection broke", e.Unsure)
		}
		if e.Unacknowledged > 0 {
			fmt.Fprintf(w, ", perhaps read twice %d", e.Unacknowledged)
		}
		switch {
		case e.Error == "":
		case e.Connected == nil:
			fmt.Fprintf(w, " (%v)", problem.New(e.Error, e.Cure))
		default: // a warning has the cure
			fmt.Fprintf(w, " (%s)", e.Error)
		}
		fmt.Fprintln(w)
	}
}

// counts shows numbers by name.
func counts(m map[string]uint64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(list, ", ")
}
