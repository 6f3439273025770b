// SPDX-License-Identifier: Apache-2.0

package active

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/reflector"
	"github.com/waymark-net/waymark/stamp"
)

// reflectorFlags are the flags of waymark stamp reflector.
type reflectorFlags struct {
	stampFlags
	listen, metrics, dscps string
	source                 string
	allow                  []string
	ssids                  []uint
	rate, sessions         int
	sessionTimeout, stats  time.Duration
	stateful, segments     bool
	microSession           uint16
}

func newStampReflectorCommand(opts *commandline.Options) *cobra.Command {
	f := reflectorFlags{listen: fmt.Sprintf("[::]:%d", stamp.Port), rate: 100_000, sessions: 4096, sessionTimeout: time.Minute}
	cmd := &cobra.Command{
		Use:   "reflector",
		Short: "Answer STAMP test packets",
		Long: `Answer the test packets of STAMP senders (RFC 8762 §4.3), until it is
interrupted.

A reply has as many octets as its packet and goes to where the packet came from.
Packets shorter than a base packet (44 octets, authenticated 112) get none, so
the reflector cannot be used to amplify. --allow names the prefixes that get
answers, --rate the most packets a second, of all senders together.

With --stateful, the reflector numbers the replies of each session, and the
sender can see in which direction packets were lost. Without it, replies have
the numbers of the packets. A session is one sender's address, port and SSID; it
ends when no packet came for --session-timeout.

With --key-file, only packets with the right HMAC are answered: the
authenticated mode. With --protect tlvs, packets are answered in the
unauthenticated mode, and the key is for the HMAC of their TLVs.

The TLVs of RFC 8972, RFC 9503 and RFC 9534 are answered. Replies have the DSCP
of the packet; a sender gets another one only if --dscp has it. A return path
through SRv6 segments is used only with --return-segments, which needs --allow
or --key-file: such a reply passes the nodes that the sender names, and a
routing header makes it longer. If the reflector does not do what a TLV asks
for, that TLV has the U flag in the reply.

The counters are printed at the end, and at each interval of --stats.`,
		Example: `  waymark stamp reflector
  waymark stamp reflector --stateful --allow 2001:db8::/32 --key-file key
  waymark stamp reflector --listen [2001:db8::1]:8620 --stats 10s --json`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.config(cmd)
			if err != nil {
				return err
			}
			return f.run(cmd, c, opts.JSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", f.listen, "receive at `ADDRESS:PORT`, an IPv6 address of this machine, or [::] for all")
	f.add(cmd)
	flags.StringArrayVar(&f.allow, "allow", nil, "answer only sources in `PREFIX`; may be repeated (default: all)")
	flags.UintSliceVar(&f.ssids, "ssid", nil, "answer only sessions with this `SSID`; may be repeated (default: all)")
	flags.IntVar(&f.rate, "rate", f.rate, "answer at most this `NUMBER` of packets a second; 0 means no limit")
	flags.BoolVar(&f.stateful, "stateful", false, "number the replies of each session")
	flags.IntVar(&f.sessions, "sessions", f.sessions, "maximum `NUMBER` of sessions with --stateful; packets of others are not answered")
	flags.DurationVar(&f.sessionTimeout, "session-timeout", f.sessionTimeout, "`TIME` without packets after which a session ends")
	flags.StringVar(&f.dscps, "dscp", "", "`LIST` of DSCPs that senders may ask for in replies, such as 10,46, or all")
	flags.BoolVar(&f.segments, "return-segments", false, "send replies through the SRv6 segments that senders ask for")
	flags.StringVar(
		&f.source,
		"sync-source",
		"unknown",
		"`WHAT` synchronizes this clock, for senders that ask: ntp, ptp, bits, satellite or unknown",
	)
	flags.Uint16Var(&f.microSession, "micro-session", 0, "`ID` of this end's member link of an aggregated link")
	flags.DurationVar(&f.stats, "stats", 0, "also print the counters every `TIME`")
	flags.StringVar(&f.metrics, "metrics", "", "serve the counters to Prometheus at `ADDRESS:PORT`")
	commandline.CompleteWords(cmd, "sync-source", "bits", "ntp", "ptp", "satellite", "unknown")
	return cmd
}

// config checks the flags.
func (f *reflectorFlags) config(cmd *cobra.Command) (c reflector.Config, err error) {
	c = reflector.Config{
		Rate: f.rate, Stateful: f.stateful, MaxSessions: f.sessions, SessionTimeout: f.sessionTimeout,
		ReturnSegments: f.segments, MicroSession: f.microSession,
	}
	if c.Local, err = parseListen(f.listen); err != nil {
		return c, err
	}
	if c.Source, err = word("sync-source", f.source, syncSources); err != nil {
		return c, err
	}
	for _, text := range f.allow {
		p, err := netip.ParsePrefix(text)
		if err != nil || !p.Addr().Is6() {
			return c, commandline.Usagef("--allow %q: want an IPv6 prefix, such as 2001:db8::/32", text)
		}
		c.Allowed = append(c.Allowed, p.Masked())
	}
	for _, n := range f.ssids {
		if n > math.MaxUint16 {
			return c, commandline.Usagef("--ssid %d: want a number from 0 to %d", n, math.MaxUint16)
		}
		c.SSIDs = append(c.SSIDs, stamp.SSID(n))
	}
	if c.DSCPs, err = parseDSCPs(f.dscps); err != nil {
		return c, err
	}
	switch {
	case f.rate < 0 || f.rate > math.MaxInt32:
		return c, commandline.Usagef("--rate %d: want a number from 0 to %d; 0 means no limit", f.rate, math.MaxInt32)
	case f.sessions < 1 || f.sessions > 1<<20:
		return c, commandline.Usagef("--sessions %d: want a number from 1 to %d", f.sessions, 1<<20)
	case f.sessionTimeout < time.Second || f.sessionTimeout > 24*time.Hour:
		return c, commandline.Usagef("--session-timeout %v: want a time from 1s to 24h", f.sessionTimeout)
	case f.stats < 0 || f.stats > 0 && f.stats < time.Millisecond:
		return c, commandline.Usagef("--stats %v: want a time from 1ms, or 0", f.stats)
	}
	if c.Format, c.Key, c.KeyForTLVs, err = f.read(cmd); err == nil && f.segments && len(c.Allowed) == 0 && len(c.Key) == 0 {
		err = commandline.Usagef("--return-segments lets senders choose where replies go: give the senders that may with --allow or --key-file")
	}
	return c, err
}

// syncSources are the values of --sync-source.
var syncSources = map[string]stamp.SyncSource{
	"ntp": stamp.SyncNTP, "ptp": stamp.SyncPTP, "bits": stamp.SyncBITS, "satellite": stamp.SyncSatellite, "unknown": stamp.SyncUnknown,
}

// parseListen reads the address to receive at. The kernel binds a link-local one only
// with its interface.
func parseListen(text string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(text)
	a := at.Addr()
	switch {
	case err != nil || !a.Is6() || a.Is4In6() || a.IsMulticast() || a.Zone() != "" && !a.IsLinkLocalUnicast():
		return at, commandline.Usagef("--listen %q: want an IPv6 address and a port, such as [::]:%d", text, stamp.Port)
	case !a.IsLinkLocalUnicast():
		return at, nil
	case a.Zone() == "":
		return at, commandline.Usage(problem.New(
			fmt.Sprintf("--listen %s: the address is valid on one link only", text),
			fmt.Sprintf("name its interface: [%s%%eth0]:%d", a, at.Port()),
		))
	}
	scope, err := scopeOf(a)
	if err != nil {
		return at, fmt.Errorf("--listen %w", err)
	}
	return netip.AddrPortFrom(a.WithZone(strconv.FormatUint(uint64(scope), 10)), at.Port()), nil
}

// parseDSCPs reads a list of DSCPs as a set of bits.
func parseDSCPs(text string) (set uint64, err error) {
	switch text {
	case "":
		return 0, nil
	case "all":
		return math.MaxUint64, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil || n > 63 {
			return 0, commandline.Usagef("--dscp %q: want numbers from 0 to 63, separated by commas, or all", text)
		}
		set |= 1 << n
	}
	return set, nil
}

// run reflects until it is interrupted.
func (f *reflectorFlags) run(cmd *cobra.Command, c reflector.Config, asJSON bool) error {
	r := reflector.New(c)
	if err := r.Open(); errors.Is(err, unix.EADDRINUSE) {
		return problem.Append(
			err,
			"if it is the agent (stamp in its file, 'waymark status'), its reflector answers there already",
		)
	} else if err != nil {
		return err
	}
	notes := cmd.ErrOrStderr()
	writeNote := func(text string) { fmt.Fprintf(notes, "waymark: %s\n", text) }
	if f.metrics != "" {
		server, err := r.ServeMetrics(f.metrics, writeNote)
		if err != nil {
			return errors.Join(err, r.Close())
		}
		defer server.Close()
		writeNote("serves metrics at " + server.Address())
	}
	writeNote(fmt.Sprintf("reflects at %v", r.Local()))
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return printEach(cmd.OutOrStdout(), f.stats, ended, func(w io.Writer) error {
		if asJSON {
			return commandline.PrintJSON(w, r.Counts().Report())
		}
		_, err := io.WriteString(commandline.Letters(w), r.Counts().Text())
		return err
	})
}

// printEach prints at each interval, and at the end of what runs; 0 is no interval.
func printEach(w io.Writer, interval time.Duration, ended <-chan error, print func(io.Writer) error) error {
	var tick <-chan time.Time
	if interval > 0 {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-tick:
			if err := print(w); err != nil {
				return err
			}
		case err := <-ended:
			return errors.Join(err, print(w))
		}
	}
}
