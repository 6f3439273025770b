// SPDX-License-Identifier: Apache-2.0

package active

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/internal/pathtrace/prober"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/keyfile"
	"github.com/waymark-net/waymark/ioam"
)

// traceFlags are the flags of waymark trace.
type traceFlags struct {
	icmp, csv, dot, live, loopback            bool
	flows, count, hops, maxHops, port, domain int
	kind, format, source, keyFile             string
	interval, timeout                         time.Duration

	ask Agent
}

// mostTraceData is the most node data that an option holds: 255 octets, less the header of
// the trace and two octets before it.
const mostTraceData = 244

// Agent gives the client of this host's agent, which has names and defaults for trace.
type Agent func() (*api.Client, error)

// NewTraceCommand is the command trace.
func NewTraceCommand(opts *commandline.Options, ask Agent) *cobra.Command {
	f := traceFlags{
		ask:   ask,
		flows: 16, count: 10, maxHops: 30, port: message.Port, domain: -1, kind: "0xf80000",
		interval: 10 * time.Millisecond, timeout: time.Second,
	}
	cmd := &cobra.Command{
		Use:        "trace ADDRESS|NAME",
		SuggestFor: []string{"traceroute", "mtr"},
		Short:      "Show the paths to a node with probes",
		Long: `Send probes with an IOAM trace and the Active flag (RFC 9322) to a node, given
by an IPv6 address or the name of a host, in many flows, so that they take all
equal-cost paths. Print the paths as a tree: a line for each hop, with the ids
that it wrote into the trace, how many flows passed it, the time since the hop
before, and how long it held the probes; at the end of each path, the probes
without an answer, and the round trip. "-" is a value that a node could not
know. The times between nodes contain the difference between their clocks.

The agent of the destination returns the traces, if its configuration has
"path-trace". Without it, ICMPv6 errors of the destination return them: its
kernel limits their rate, so more probes stay without an answer. With --icmp,
echo replies have no trace: ids and times are of the few probes whose hop limits
end on the way; there are none of the destination, nor of how long the node
before it held the probes.

"no data" is a hop that passed the probes and wrote nothing of the namespace.

At the end, hop limits show the addresses of the nodes on each path, also of
those without IOAM, and where the probes of a flow were seen last if none was
answered. The errors of those nodes quote the trace up to there. With
--loopback, nodes whose namespace has "loopback" say so themselves, within a
round trip: they return copies. Flows that are not answered within two of the
longest round trips, or 50ms, are named at once, on the standard error, with the
hop that they did not reach. Other probes of these flows follow nevertheless.

Names of nodes, and the defaults of --namespace and --timestamp-format, come
from the agent of this host; if none runs, --namespace is needed. The command
needs root or CAP_NET_RAW.

Exit codes: 0 a probe was answered, or the screen of --live was left before;
1 none was, or none could be sent.`,
		Example: `  waymark trace 2001:db8:ff::3
  waymark trace r3.example.net
  waymark trace 2001:db8:ff::3 --paths 64 --count 100 --json
  waymark trace 2001:db8:ff::3 --loopback --live
  waymark trace 2001:db8:ff::3 --dot | dot -Tsvg > paths.svg`,
		Args: commandline.OneArgument("ADDRESS or NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.config(cmd, opts, args[0])
			if err != nil {
				return err
			}
			return f.run(cmd, c, opts)
		},
	}
	cmd.ValidArgsFunction = commandline.CompleteFirst()
	flags := cmd.Flags()
	flags.IntVar(&f.flows, "paths", f.flows, "`NUMBER` of flows, each with its source port and flow label")
	flags.IntVar(&f.count, "count", f.count, "`NUMBER` of probes of each flow")
	flags.DurationVar(&f.interval, "interval", f.interval, "`TIME` between two probes")
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "`TIME` after which a probe counts as unanswered")
	flags.BoolVar(&f.icmp, "icmp", false, "send ICMPv6 echo requests instead of UDP")
	flags.BoolVar(&f.loopback, "loopback", false, "first ask all nodes for copies (RFC 9322): they show how far probes come")
	flags.IntVar(&f.port, "port", f.port, "UDP `PORT` of the destination's agent")
	flags.StringVar(&f.source, "source", "", "send from this `ADDRESS` (default: the kernel's choice)")
	flags.IntVar(&f.domain, "namespace", f.domain, "`NUMBER` of the IOAM namespace; -1 is the first one of this host's agent")
	flags.StringVar(&f.kind, "type", f.kind, "IOAM trace `TYPE`, what each node writes: a number, or names such as ids,timestamps,delay")
	flags.IntVar(&f.hops, "hops", 0, "`NUMBER` of nodes for which the trace has room; 0 is as many as fit")
	flags.IntVar(&f.maxHops, "max-hops", f.maxHops, "`NUMBER` of hops that are tried with hop limits; 0 is none")
	flags.StringVar(&f.format, "timestamp-format", "", "`FORMAT` of the nodes' timestamps: posix, ptp or ntp")
	flags.StringVar(&f.keyFile, "key-file", "", "`FILE` with the key of both ends, in hexadecimal digits (mode 0600)")
	flags.BoolVar(&f.csv, "csv", false, "print a line of CSV for each hop of each path")
	flags.BoolVar(&f.dot, "dot", false, "print a graph for Graphviz")
	flags.BoolVar(&f.live, "live", false, "show the tree on the whole terminal while probes are sent; elsewhere, only at the end")
	opts.AddWide(cmd)
	commandline.CompleteWords(cmd, "timestamp-format", "posix", "ptp", "ntp")
	return cmd
}

// config checks the flags.
func (f *traceFlags) config(cmd *cobra.Command, opts *commandline.Options, address string) (c prober.Config, err error) {
	c = prober.Config{
		Port: uint16(f.port), Echo: f.icmp, Nodes: f.hops, Flows: f.flows,
		Count: f.count, Interval: f.interval, Timeout: f.timeout, MaxHops: f.maxHops,
		Loopback: f.loopback,
	}
	named := false
	if c.Destination, c.Scope, named, err = traced(cmd.Context(), address, lookupHost); err != nil {
		return c, err
	}
	if named {
		fmt.Fprintf(cmd.ErrOrStderr(), "waymark: %s is %s\n", address, c.Destination)
	}
	if c.Source, err = parseSource(f.source, c.Scope); err != nil {
		return c, err
	}
	switch outputs := count(opts.JSON, f.csv, f.dot); {
	case outputs > 1:
		return c, commandline.Usage(problem.New("--json, --csv and --dot are different outputs", "give one"))
	case f.live && outputs > 0:
		return c, commandline.Usage(problem.New("--live shows the text for people", "remove it, or --json, --csv or --dot"))
	}
	for _, n := range []struct {
		flag             string
		value, low, high int
	}{
		{"paths", f.flows, 1, prober.MaxFlows}, {"count", f.count, 1, prober.MaxCount}, {"port", f.port, 1, 65535},
		{"max-hops", f.maxHops, 0, 254}, {"namespace", f.domain, -1, 65535},
	} {
		if n.value < n.low || n.value > n.high {
			return c, commandline.Usagef("--%s %d: want a number from %d to %d", n.flag, n.value, n.low, n.high)
		}
	}
	switch {
	case f.icmp && c.Scope != 0:
		return c, commandline.Usage(problem.New(fmt.Sprintf("--icmp: %s is valid on one link only", address), "want another address, or UDP"))
	case f.loopback && c.Scope != 0:
		return c, commandline.Usage(problem.New(fmt.Sprintf("--loopback: %s is valid on one link only", address), "want another address"))
	case f.interval < prober.MinInterval || f.interval > time.Minute:
		return c, commandline.Usagef("--interval %v: want a time from %v to 1m", f.interval, prober.MinInterval)
	case f.timeout < time.Millisecond || f.timeout > prober.MaxTimeout:
		return c, commandline.Usagef("--timeout %v: want a time from 1ms to %v", f.timeout, prober.MaxTimeout)
	case f.timeout/f.interval > prober.MaxWaiting:
		return c, commandline.Usage(problem.New(
			fmt.Sprintf("--timeout %v with --interval %v: too many probes would wait for replies", f.timeout, f.interval),
			fmt.Sprintf("want at most %v", f.interval*prober.MaxWaiting),
		))
	}
	if err := f.trace(&c); err != nil {
		return c, err
	}
	if f.keyFile != "" {
		if c.Key, err = keyfile.Read(f.keyFile); err != nil {
			return c, err
		}
	}
	return c, f.domainOf(cmd.Context(), &c)
}

// trace checks what nodes are to write.
func (f *traceFlags) trace(c *prober.Config) (err error) {
	if c.Type, err = ioam.ParseTraceType(f.kind); err != nil {
		return commandline.Usagef("--type: %w", err)
	}
	if err := c.Type.Validate(); err != nil {
		return commandline.Usage(problem.Append(fmt.Errorf("--type: %w", err), "want one such as 0xf80000"))
	}
	if c.Type.HasSnapshot() {
		return commandline.Usage(problem.New(
			fmt.Sprintf("--type %v asks for snapshots (bit 22), whose length is not known", c.Type),
			"want one without",
		))
	}
	most := mostTraceData / (4 * c.Type.NodeLen())
	switch {
	case f.hops < 0 || f.hops > most:
		return commandline.Usagef("--hops %d: want a number from 0 to %d, which is what fits with --type %v", f.hops, most, c.Type)
	case f.hops == 0:
		c.Nodes = most
	}
	return nil
}

// domainOf takes what the flags leave open from the configuration of this host's agent.
func (f *traceFlags) domainOf(ctx context.Context, c *prober.Config) error {
	c.Namespace = ioam.NamespaceID(max(0, f.domain))
	if clock, err := health.ReadClock(); err == nil {
		c.TAIOffset = clock.TAIOffset
	}
	if f.format != "" {
		if err := c.Format.UnmarshalText([]byte(f.format)); err != nil {
			return commandline.Usagef("--timestamp-format: %w", err)
		}
	}
	if f.domain >= 0 && f.format != "" {
		return nil
	}
	running, err := runningConfig(ctx, f.ask)
	switch {
	case err != nil && f.domain < 0:
		return problem.Append(err, "or give --namespace")
	case err != nil:
		return nil // without an agent, timestamps are those of most nodes
	case f.domain < 0 && len(running.Namespaces) == 0:
		return problem.New("the agent of this host has no namespace", "give --namespace")
	case f.domain < 0:
		c.Namespace = running.Namespaces[0].ID
	}
	if f.format == "" {
		c.Format = running.Node.TimestampFormat
	}
	return nil
}

func runningConfig(ctx context.Context, ask Agent) (*config.Config, error) {
	client, err := ask()
	if err != nil {
		return nil, err
	}
	text, err := client.Config(ctx)
	if err != nil {
		return nil, err
	}
	return config.Parse("the agent's configuration", text)
}

func count(list ...bool) (n int) {
	for _, b := range list {
		if b {
			n++
		}
	}
	return n
}

// run traces, and prints the result.
func (f *traceFlags) run(cmd *cobra.Command, c prober.Config, opts *commandline.Options) error {
	names := knownNames(cmd.Context(), f.ask)
	terminal, live := commandline.Screen(cmd.OutOrStdout())
	silent := new(atomic.Bool)
	c.Silent = func(*paths.Report) { silent.Store(true) } // the screen says so
	if live = live && f.live; !live {
		var mu sync.Mutex // of the standard error
		notes := opts.NoteView(cmd.ErrOrStderr())
		writeNote := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprint(cmd.ErrOrStderr(), notes.Text(columns.Fold(text, notes.Width, "  ")))
		}
		c.Unanswered = func(r *paths.Report) {
			r.Name(names)
			writeNote(r.Unanswered())
		}
		c.Silent = func(r *paths.Report) {
			silent.Store(true)
			writeNote(notYet(c, r) + "\n")
		}
	}
	p, err := prober.New(c)
	if err != nil {
		return err
	}
	if err := p.Open(); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	quit := false
	if live {
		view := opts.View(terminal)
		view.Colour = false // parts of its lines are shown
		quit, err = followScreen(cmd.Context(), os.Stdin, terminal, p.Run, func() string {
			r := p.Report()
			r.Name(names)
			return screenOf(c, r, silent.Load(), view)
		})
	} else {
		err = p.Run(cmd.Context())
	}
	if err != nil {
		return err
	}
	r := p.Report()
	r.Name(names)
	switch {
	case opts.JSON:
		err = commandline.PrintJSON(out, r)
	case f.csv:
		err = r.WriteCSV(out)
	case f.dot:
		_, err = io.WriteString(out, r.DOT())
	default:
		_, err = io.WriteString(out, r.Text(opts.View(out)))
	}
	switch {
	case err != nil:
		return err
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	case len(r.Paths) == 0 && !quit:
		advised := silent.Load() && !live && !opts.JSON // the screen is gone, and an error in JSON stands alone
		return errors.New(noPath(cmd.Context(), c, r, advised))
	}
	return nil
}

// knownNames are the names that this host's agent knows, nil without one.
func knownNames(ctx context.Context, ask Agent) *nodenames.Names {
	client, err := ask()
	if err != nil {
		return nil
	}
	names, err := client.Names(ctx)
	if err != nil {
		return nil
	}
	return names
}

// screenOf is what --live shows.
func screenOf(c prober.Config, r *paths.Report, silent bool, s columns.Screen) string {
	text := r.Text(s)
	if silent && len(r.Paths) == 0 && r.Live {
		text += "\n" + s.Text(columns.Fold(notYet(c, r), s.Width, "  ")) + "\n"
	}
	return text
}
