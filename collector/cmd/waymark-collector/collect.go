// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/internal/recordfilter/filterflags"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/jsonl"
	"github.com/waymark-net/waymark/ipfix"
)

// errEnough ends the collector when the wanted number of records has come.
var errEnough = errors.New("enough")

// collectFlags are the flags of waymark collect.
type collectFlags struct {
	listen                     []string
	certificate, key, clientCA string
	output, metrics            string
	maxLoss, maxDelay          string
	records, assume            bool
	wait, stats                time.Duration
	keep, count                int
	enterprise                 uint32

	filters  *filterflags.Flags
	selected *recordfilter.Sieve // used by the goroutine that offers records
}

func newCollectCommand(opts *commandline.Options) *cobra.Command {
	f := collectFlags{
		listen: []string{"udp://[::1]:4739", "tcp://[::1]:4739"},
		wait:   join.DefaultWait, keep: join.DefaultKeep, enterprise: uint32(ipfix.EnterpriseExample),
	}
	cmd := &cobra.Command{
		Use:   "collect",
		Short: "Receive IPFIX, join postcards into paths, and compute loss",
		Long: `Receive IPFIX (RFC 7011) over UDP, TCP and TLS, join the postcards of each
packet with a Direct Export option (RFC 9326) into its path, and print it: a
line for the packet, then one for each node, with its role, interfaces, hop
limit, the time since the node before, and how long it held the packet. Times
are UTC. With --json, each path is one line. Flows, traces and all other records
are printed as they come.

What the nodes of an SRv6 flow counted in a block (measurement.exchange: ipfix)
is compared, and the loss and delay of the whole way and of each segment are
printed. A record that is missing when --wait is over makes them uncertain. With
--max-loss and --max-delay, a warning on standard error says when a flow begins
or ceases to be beyond the threshold, with --json as an object of the kind
"warning".

A path is printed when the encapsulating node, the decapsulating node and every
hop limit between them have been reported; otherwise when --wait is over, with
the reason. A packet is lost after its last node only if all nodes known to come
after that one have reported the time without a gap; else the exporters that
leave it unknown are named. Postcards without Flow-ID or Sequence Number are
printed unjoined.

Only this machine can send to the collector, unless --listen names another
address: [::] is every address, IPv4 included. Over UDP and TCP, senders are not
authenticated; with --tls-client-ca, exporters over TLS need a certificate of
that authority.

Flags select what is printed, after postcards are joined, and --where has a
condition on fields: the names are the keys of a record with --json.

Malformed messages are counted by cause. The counters are printed on standard
error at the end and at each interval of --stats, with --json as one object of
the kind "statistics". The command runs until it is interrupted (Ctrl-C,
SIGTERM).`,
		Example: `  waymark collect
  waymark collect --json --listen udp://[::]:4739 --output paths.jsonl
  waymark collect --listen tls://[::] --tls-cert my.pem --tls-key my.key`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.config()
			if err != nil {
				return err
			}
			if err := f.selection(cmd); err != nil {
				return err
			}
			return f.run(cmd, config, opts)
		},
	}
	f.add(cmd)
	opts.AddWide(cmd)
	return cmd
}

// add adds the flags of the command.
func (f *collectFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.listen, "listen", f.listen,
		"receive at `ENDPOINT`: udp://ADDRESS:PORT, tcp://ADDRESS:PORT or tls://ADDRESS:PORT; may be repeated")
	flags.StringVar(&f.certificate, "tls-cert", "", "`FILE` of the collector's certificate")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` of its key")
	flags.StringVar(&f.clientCA, "tls-client-ca", "", "`FILE` of the authorities of exporters' certificates (default: exporters need none)")
	flags.BoolVar(&f.records, "records", false, "print every record as it comes, also options, and join nothing")
	flags.StringVar(&f.output, "output", "", "append to `FILE` instead of standard output")
	flags.DurationVar(&f.wait, "wait", f.wait, "`TIME` to wait for the postcards of a packet, and, up to a minute, for what "+
		"other nodes counted in a block")
	flags.StringVar(&f.maxLoss, "max-loss", "", "warn on standard error when a flow loses more than this `SHARE` of a block's "+
		"packets, such as 0.1%")
	flags.StringVar(&f.maxDelay, "max-delay", "",
		"warn on standard error when the mean delay of a flow's block is more than this `TIME`, such as 20ms")
	flags.BoolVar(&f.assume, "assume-selection", false,
		"take nodes that do not say which packets they select in a flow, as agents of before, to select those of the others")
	flags.IntVar(&f.keep, "keep", f.keep,
		"maximum `NUMBER` of postcards that wait or are remembered, about 1 KB each; beyond it, the oldest packets are dropped")
	flags.IntVar(&f.count, "count", 0, "end after this `NUMBER` of paths and records")
	flags.DurationVar(&f.stats, "stats", 0, "also print the counters every `TIME`")
	flags.StringVar(&f.metrics, "metrics", "", "serve the counters to Prometheus at `ADDRESS:PORT`")
	f.filters = filterflags.Add(cmd)
	f.filters.Complete(cmd, record.MadeBy("collect"))
	flags.Uint32Var(&f.enterprise, "enterprise", f.enterprise, "private enterprise `NUMBER` under which exporters have Waymark's own elements")
}

// selection reads the flags that select records, and says at once what selects nothing.
func (f *collectFlags) selection(cmd *cobra.Command) error {
	program, filter, err := f.filters.Program(cmd)
	if err != nil {
		return err
	}
	known := recordfilter.Known{Where: "by a collector", Kinds: record.MadeBy("collect")}
	for _, hint := range known.Unmet(filter) {
		fmt.Fprintln(cmd.ErrOrStderr(), "waymark-collector: "+hint)
	}
	f.selected = recordfilter.NewSieve(program)
	return nil
}

// config checks the flags.
func (f *collectFlags) config() (collect.Config, error) {
	c := collect.Config{
		Enterprise: ipfix.Enterprise(f.enterprise), Raw: f.records, Stats: f.stats, Metrics: f.metrics, AssumeSelection: f.assume,
		Join: join.Config{Wait: f.wait, Keep: f.keep},
	}
	var err error
	if c.Thresholds, err = f.thresholds(); err != nil {
		return c, err
	}
	secured := false
	for _, text := range f.listen {
		e, err := collect.ParseEndpoint(text)
		if err != nil {
			return c, commandline.Usagef("--listen %w", err)
		}
		c.Listen, secured = append(c.Listen, e), secured || e.TLS
	}
	switch {
	case f.wait <= 0 || f.wait > time.Hour:
		return c, commandline.Usagef("--wait %v: want a time up to 1h", f.wait)
	case f.keep < 1 || f.keep > math.MaxInt32:
		return c, commandline.Usagef("--keep %d: want a number from 1 to %d", f.keep, math.MaxInt32)
	case f.count < 0:
		return c, commandline.Usagef("--count %d: want a number from 0; 0 means no end", f.count)
	case f.stats < 0 || f.stats > 0 && f.stats < time.Millisecond:
		return c, commandline.Usagef("--stats %v: want a time from 1ms, or 0", f.stats)
	case f.enterprise == uint32(ipfix.EnterpriseIANA) || f.enterprise == uint32(ipfix.EnterpriseIOAM):
		return c, commandline.Usage(problem.New(
			fmt.Sprintf("--enterprise %d: this number has other elements", f.enterprise),
			"want that of your exporters",
		))
	case secured && (f.certificate == "" || f.key == ""):
		return c, commandline.Usagef("--listen tls://…: TLS needs --tls-cert and --tls-key")
	case !secured && f.certificate+f.key+f.clientCA != "":
		return c, commandline.Usage(problem.New("certificates are for TLS", "add --listen tls://ADDRESS:PORT"))
	case !secured:
		return c, nil
	}
	c.TLS, err = collect.LoadTLS(f.certificate, f.key, f.clientCA)
	return c, err
}

// thresholds are the limits of loss and delay, the same for every flow that is compared.
func (f *collectFlags) thresholds() (t loss.Thresholds, err error) {
	if f.records && f.maxLoss+f.maxDelay != "" {
		return t, commandline.Usage(problem.New("--records compares nothing", "remove it, or --max-loss and --max-delay"))
	}
	if f.maxLoss != "" {
		share, err := config.ParseText[config.LossShare](f.maxLoss)
		if err != nil {
			return t, commandline.Usagef("--max-loss %w", err)
		}
		t.MaxLoss = (*loss.Share)(&share)
	}
	if f.maxDelay != "" {
		limit, err := config.ParseText[config.DelayLimit](f.maxDelay)
		if err != nil {
			return t, commandline.Usagef("--max-delay %w", err)
		}
		t.MaxDelay = (*time.Duration)(&limit)
	}
	return t, nil
}

// run collects until it is interrupted or has enough.
func (f *collectFlags) run(cmd *cobra.Command, config collect.Config, opts *commandline.Options) error {
	stderr := cmd.ErrOrStderr()
	config.Notify = notifier(stderr)
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	records, notes, err := f.sinks(cmd, opts, func() { cancel(errEnough) })
	if err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	config.Sinks = []sink.Sink{records, notes}
	c, err := collect.New(config)
	if err == nil {
		err = c.Open()
	}
	if err != nil {
		records.Close()
		return err
	}
	var at []string
	for _, e := range c.Endpoints() {
		at = append(at, e.String())
	}
	config.Notify(slog.LevelInfo, "receives at "+strings.Join(at, ", "))
	err = c.Run(ctx)
	if f.count > 0 && !errors.Is(context.Cause(ctx), errEnough) { // without a count, an interruption is the normal end
		err = errors.Join(err, cmd.Context().Err())
	}
	if hint := f.selected.LeftOut(); hint != "" {
		config.Notify(slog.LevelInfo, hint)
	}
	stats := c.Stats()
	_, fault := stderr.Write(noteEncoding(cmd, opts)(nil, stats.Record()))
	return errors.Join(err, fault)
}

// writeAt is how many bytes are written at once.
const writeAt = 1 << 16

// notedKinds are the kinds of the collector's own counters and warnings. They go to standard error, so that
// a reader of records need not handle them.
var notedKinds = []string{record.KindStatistics, record.KindWarning}

// sinks are those of records, which are at most f.count before enough is called, and of notes.
func (f *collectFlags) sinks(cmd *cobra.Command, opts *commandline.Options, enough func()) (records, notes sink.Sink, err error) {
	encode := jsonl.Brief(opts.View(cmd.OutOrStdout()))
	if opts.JSON {
		encode = record.AppendLine
	}
	settings := sink.Settings{Name: "standard output", QueueSpace: collect.NewQueueSpace(), Retry: true}
	writer := jsonl.NewWriter(cmd.OutOrStdout(), encode, writeAt)
	if f.output != "" {
		if !opts.JSON {
			encode = jsonl.Brief(columns.Screen{ASCII: opts.View(cmd.OutOrStdout()).ASCII}) // a file has everything
		}
		if writer, err = jsonl.OpenWriter(f.output, encode, writeAt); err != nil {
			return nil, nil, err
		}
		settings.Name, settings.Fault = f.output, writer.Fault()
	}
	records = sink.Except(sink.NewQueued(writer, settings), notedKinds...)
	if f.count > 0 {
		records = &counted{Sink: records, left: f.count, enough: enough}
	}
	records = &sifted{records, f.selected}
	stderr := jsonl.NewWriter(cmd.ErrOrStderr(), noteEncoding(cmd, opts), writeAt)
	return records, sink.Only(sink.NewQueued(stderr, sink.Settings{Name: "standard error"}), notedKinds...), nil
}

// noteEncoding is how counters and warnings look on standard error.
func noteEncoding(cmd *cobra.Command, opts *commandline.Options) jsonl.Encoding {
	if opts.JSON {
		return record.AppendLine
	}
	screen := opts.NoteView(cmd.ErrOrStderr())
	return func(b []byte, r record.Record) []byte {
		return append(b, screen.Text(columns.Fold("waymark-collector: "+r.Text(), screen.Width, "  "))...)
	}
}

// sifted is a sink that gets what is selected.
type sifted struct {
	sink.Sink
	by *recordfilter.Sieve
}

func (s *sifted) Offer(records ...record.Record) {
	for _, r := range records {
		if slices.Contains(notedKinds, r.Kind()) || s.by.Passes(r) {
			s.Sink.Offer(r)
		}
	}
}

// Await waits for the sink.
func (s *sifted) Await(records int, most time.Duration) bool {
	return sink.Await(s.Sink, records, most)
}

// counted is a sink that gets a number of records, and then calls enough. One goroutine offers.
type counted struct {
	sink.Sink
	left   int
	enough func()
}

func (c *counted) Offer(records ...record.Record) {
	for _, r := range records {
		if c.left == 0 {
			return
		}
		c.Sink.Offer(r)
		if !slices.Contains(notedKinds, r.Kind()) {
			c.left--
		}
		if c.left == 0 {
			c.enough()
		}
	}
}

// Await waits for the sink.
func (c *counted) Await(records int, most time.Duration) bool {
	return sink.Await(c.Sink, records, most)
}
