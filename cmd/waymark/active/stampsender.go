// SPDX-License-Identifier: Apache-2.0

package active

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/measure"
	"github.com/waymark-net/waymark/internal/stamp/sender"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/stamp"
)

// senderFlags are the flags of waymark stamp sender.
type senderFlags struct {
	stampFlags
	source, reflector, padding          string
	count                               uint64
	interval, timeout, stats            time.Duration
	size, dscp, replyDSCP, ssid         int
	needSSID, location, clocks          bool
	direct, followUp                    bool
	access, node, returnPath, microLink string
	segments, mode                      string
}

// Values of --padding.
const (
	paddingZero   = "zero"
	paddingRandom = "random"
)

// reflectorKinds are the values of --reflector.
var reflectorKinds = map[string]measure.Knowledge{"auto": measure.Guess, "stateful": measure.Stateful, "stateless": measure.Stateless}

func newStampSenderCommand(opts *commandline.Options) *cobra.Command {
	f := senderFlags{
		count:     10,
		interval:  100 * time.Millisecond,
		timeout:   time.Second,
		padding:   paddingRandom,
		mode:      srv6.ModeInline.String(),
		reflector: "auto",
		replyDSCP: -1,
		ssid:      -1,
	}
	cmd := &cobra.Command{
		Use:   "sender ADDRESS",
		Short: "Send STAMP test packets and measure",
		Long: `Send test packets to a STAMP reflector (RFC 8762 §4.2) and measure with its
replies. ADDRESS is an IPv6 address, 2001:db8::1 or fe80::1%eth0, or an address
with a port, [2001:db8::1]:8620; the default port is 862.

The result has the packets that were lost, late, duplicated and reordered, and
the minimum, mean, median, 95th and 99th percentile, maximum and jitter of five
times: the round trip; the two-way delay, which is the round trip without the
time at the reflector; that time; and the delay forward and backward. The delays
of one way contain the difference between the two clocks; the result says how
good these are. Jitter is the mean difference between the delays of consecutive
packets.

Only a stateful reflector shows in which direction packets were lost.
"--reflector auto" recognizes one by its numbers once it missed a packet.

TLVs ask the reflector for more: --location, --timestamp-information,
--direct-measurement, --follow-up, --reply-dscp, --access-report,
--destination-node, --return-path and --micro-session. Its last answers are in
the result, and the TLVs that it did not process. --size adds padding.

--segments sends the packets through SRv6 segments (RFC 8754), which needs root
or CAP_NET_RAW. With --mode inline, the reflector is where they go after the
last SID; it receives them with the header, so its net.ipv6.conf.*.seg6_enabled
must be 1. With encap and encap.red, the last SID is that of a node that takes
the outer headers off, such as End.DT6, and passes the packet on to the
reflector. Replies travel as they are routed, unless --return-path asks for
segments.

Exit codes: 0 a reply came; 1 none came, or the session failed; 130 interrupted
before --count packets were sent and answered.`,
		Example: `  waymark stamp sender 2001:db8::1
  waymark stamp sender 2001:db8::1 --count 1000 --interval 10ms --json
  waymark stamp sender [2001:db8::1]:8620 --key-file key
  waymark stamp sender 2001:db8::1 --segments fc00:1::e,fc00:2::e
  waymark stamp sender 2001:db8::1 --dscp 46 --reply-dscp 46 --location`,
		Args: commandline.OneArgument("ADDRESS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.config(cmd, args[0])
			if err != nil {
				return err
			}
			return f.run(cmd, c, opts.JSON)
		},
	}
	cmd.ValidArgsFunction = commandline.CompleteFirst()
	f.addFlags(cmd)
	return cmd
}

func (f *senderFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Uint64Var(&f.count, "count", f.count, "`NUMBER` of packets; 0 means until interrupted")
	flags.DurationVar(&f.interval, "interval", f.interval, "`TIME` between two packets")
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "`TIME` after which a packet is lost")
	flags.StringVar(&f.source, "source", "", "send from this `ADDRESS` (default: the kernel's choice)")
	flags.StringVar(&f.segments, "segments", "", "SRv6 `SIDS` to send the packets through, separated by commas, the first to visit first")
	flags.StringVar(&f.mode, "mode", f.mode, "`MODE` of --segments as in 'ip -6 route': inline, encap or encap.red")
	flags.IntVar(&f.size, "size", 0, "`OCTETS` of a packet, without the headers of UDP and IPv6 (default: what it needs)")
	flags.StringVar(&f.padding, "padding", f.padding, "`CONTENT` of the padding: random or zero")
	flags.IntVar(&f.dscp, "dscp", 0, "`DSCP` of the packets")
	f.add(cmd)
	flags.IntVar(&f.ssid, "ssid", f.ssid, "`SSID` of the session; 0 means none, -1 a random one")
	flags.BoolVar(&f.needSSID, "need-ssid", false, "end if the reflector returns no SSID, so does not know RFC 8972")
	flags.StringVar(&f.reflector, "reflector", f.reflector, "`KIND` of the reflector: stateful, stateless or auto")
	flags.BoolVar(&f.location, "location", false, "ask for the addresses and ports with which packets arrive")
	flags.BoolVar(&f.clocks, "timestamp-information", false, "ask what synchronizes the reflector's clock")
	flags.BoolVar(&f.direct, "direct-measurement", false, "exchange counters of packets")
	flags.BoolVar(&f.followUp, "follow-up", false, "ask when the previous reply was sent")
	flags.IntVar(
		&f.replyDSCP,
		"reply-dscp",
		f.replyDSCP,
		"ask for replies with this `DSCP`, and for the class with which packets arrive; -1 does not ask",
	)
	flags.StringVar(
		&f.access,
		"access-report",
		"",
		"report the state of an access network as `ID:CODE`; 1 is 3GPP, 2 another; code 1 is available, 2 is not",
	)
	flags.StringVar(&f.node, "destination-node", "", "`ADDRESS` that the reflector must have")
	flags.StringVar(
		&f.returnPath,
		"return-path",
		"",
		"`PATH` of replies: same-link, or SRv6 SIDs separated by commas, the first to visit first",
	)
	flags.StringVar(
		&f.microLink,
		"micro-session",
		"",
		"`ID` of this end's member link of an aggregated link, or ID:ID with that of the reflector",
	)
	flags.DurationVar(&f.stats, "stats", 0, "also print the result every `TIME`")
	commandline.CompleteWords(cmd, "padding", paddingRandom, paddingZero)
	commandline.CompleteWords(cmd, "mode", srv6.ModeInline.String(), srv6.ModeEncap.String(), srv6.ModeReduced.String())
	commandline.CompleteWords(cmd, "reflector", "auto", "stateful", "stateless")
	commandline.CompleteWords(cmd, "return-path", "same-link")
}

// config checks the flags.
func (f *senderFlags) config(cmd *cobra.Command, address string) (c sender.Config, err error) {
	c = sender.Config{Interval: f.interval, Count: f.count, Timeout: f.timeout, NeedSSID: f.needSSID, DSCP: uint8(f.dscp)}
	if c.Remote, c.Scope, err = parseReflector(address); err != nil {
		return c, err
	}
	if c.Knowledge, err = word("reflector", f.reflector, reflectorKinds); err != nil {
		return c, err
	}
	if c.Local, err = parseSource(f.source, c.Scope); err != nil {
		return c, err
	}
	if err = f.path(&c, cmd.Flags().Changed("mode")); err != nil {
		return c, err
	}
	switch {
	case f.interval < time.Microsecond || f.interval > time.Hour:
		return c, commandline.Usagef("--interval %v: want a time from 1µs to 1h", f.interval)
	case f.timeout < time.Millisecond || f.timeout > time.Hour:
		return c, commandline.Usagef("--timeout %v: want a time from 1ms to 1h", f.timeout)
	case f.timeout/f.interval > measure.MaxWindow/2:
		return c, commandline.Usage(problem.New(
			fmt.Sprintf("--timeout %v with --interval %v: too many packets would wait for replies", f.timeout, f.interval),
			fmt.Sprintf("want at most %v", f.interval*measure.MaxWindow/2),
		))
	case f.dscp < 0 || f.dscp > 63:
		return c, commandline.Usagef("--dscp %d: want a number from 0 to 63", f.dscp)
	case f.stats < 0 || f.stats > 0 && f.stats < time.Millisecond:
		return c, commandline.Usagef("--stats %v: want a time from 1ms, or 0", f.stats)
	}
	if c.SSID, err = f.session(); err != nil {
		return c, err
	}
	c.First = firstNumber()
	if f.needSSID && c.SSID == 0 {
		return c, commandline.Usage(problem.New("--need-ssid needs an SSID", "remove --ssid 0"))
	}
	if c.TLVs, err = f.tlvs(c.SSID); err != nil {
		return c, err
	}
	if c.Format, c.Key, c.KeyForTLVs, err = f.read(cmd); err != nil {
		return c, err
	}
	if err := c.Validate(); err != nil {
		return c, commandline.Usagef("--size: %w", err)
	}
	return c, nil
}

// session is the SSID: a random one unless one is given.
func (f *senderFlags) session() (stamp.SSID, error) {
	switch {
	case f.ssid > math.MaxUint16 || f.ssid < -1:
		return 0, commandline.Usagef("--ssid %d: want a number from 0 to %d; 0 means none", f.ssid, math.MaxUint16)
	case f.ssid >= 0:
		return stamp.SSID(f.ssid), nil
	}
	var b [2]byte
	rand.Read(b[:])
	return stamp.SSID(max(1, binary.BigEndian.Uint16(b[:]))), nil // "a two-octet, non-zero unsigned integer" (RFC 8972 §3)
}

// firstNumber is the number of the first packet. RFC 8762 §4.2.1 begins at zero; a random number
// keeps out replies that were forged, or recorded in an earlier session.
func firstNumber() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint32(b[:])
}

// parseReflector reads the address of a reflector.
func parseReflector(text string) (netip.AddrPort, uint32, error) {
	wrong := commandline.Usage(problem.New(
		fmt.Sprintf("%q is no IPv6 address", text),
		fmt.Sprintf("want one such as 2001:db8::1, fe80::1%%eth0 or [2001:db8::1]:%d", stamp.Port),
	))
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		var a netip.Addr
		if a, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err != nil {
			return at, 0, wrong
		}
		at = netip.AddrPortFrom(a, stamp.Port)
	}
	switch {
	case !at.Addr().Is6() || at.Addr().Is4In6() || at.Port() == 0 || at.Addr().IsUnspecified():
		return at, 0, wrong
	case at.Addr().IsMulticast():
		return at, 0, commandline.Usage(problem.New(
			fmt.Sprintf("%s is the address of a group", at.Addr()),
			"measure to one node at a time: give an address of its own",
		))
	case at.Addr().Zone() == "" && at.Addr().IsLinkLocalUnicast():
		return at, 0, commandline.Usage(problem.New(
			fmt.Sprintf("%s is valid on one link only", at.Addr()),
			fmt.Sprintf("name its interface: %s%%eth0", at.Addr()),
		))
	}
	scope, err := scopeOf(at.Addr())
	return netip.AddrPortFrom(at.Addr().WithZone(""), at.Port()), scope, err
}

// scopeOf is the number of the interface that an address names after a %, by its name or
// its number; 0 if it names none.
func scopeOf(a netip.Addr) (uint32, error) {
	zone := a.Zone()
	if zone == "" {
		return 0, nil
	}
	link, err := net.InterfaceByName(zone)
	if n, fault := strconv.ParseUint(zone, 10, 31); err != nil && fault == nil {
		link, err = net.InterfaceByIndex(int(n))
	}
	if err != nil {
		return 0, problem.New(fmt.Sprintf("%s: no interface %s", a, zone), "'ip link' lists them")
	}
	return uint32(link.Index), nil
}

// parseSource reads the address to send from. A link-local address belongs to the interface that it
// names, or else to the one that the reflector's address names.
func parseSource(text string, scope uint32) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is6() || a.Is4In6() || a.IsMulticast() || a.Zone() != "" && !a.IsLinkLocalUnicast() {
		return a, commandline.Usagef("--source %q: want an IPv6 address of this machine", text)
	}
	if !a.IsLinkLocalUnicast() {
		return a, nil
	}
	own, err := scopeOf(a)
	switch {
	case err != nil:
		return a, fmt.Errorf("--source %w", err)
	case own == 0 && scope == 0:
		return a, commandline.Usage(problem.New(
			fmt.Sprintf("--source %s is valid on one link only", text),
			fmt.Sprintf("name its interface: %s%%eth0", text),
		))
	case own != 0 && scope != 0 && own != scope:
		return a, commandline.Usagef("--source %s is on another link than the reflector's address: name the same interface", text)
	case own == 0:
		own = scope
	}
	return a.WithZone(strconv.FormatUint(uint64(own), 10)), nil
}

func parseIPv6(flag, text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
		return a, commandline.Usagef("--%s %q: want an IPv6 address", flag, text)
	}
	return a, nil
}

// tlvs reads the flags of TLVs.
func (f *senderFlags) tlvs(ssid stamp.SSID) (t sender.TLVs, err error) {
	t = sender.TLVs{
		Size: f.size, RandomPadding: f.padding == paddingRandom, Location: f.location, TimestampInformation: f.clocks,
		DirectMeasurement: f.direct, FollowUpTelemetry: f.followUp, ReturnSameLink: f.returnPath == "same-link",
	}
	switch {
	case f.padding != paddingZero && f.padding != paddingRandom:
		return t, commandline.Usagef("--padding %q: want %s or %s", f.padding, paddingRandom, paddingZero)
	case f.replyDSCP < -1 || f.replyDSCP > 63:
		return t, commandline.Usagef("--reply-dscp %d: want a number from 0 to 63", f.replyDSCP)
	case f.replyDSCP >= 0:
		dscp := uint8(f.replyDSCP)
		t.ClassOfService = &dscp
	}
	if f.access != "" {
		id, code, ok := twoNumbers(f.access, 8)
		if !ok || id != 1 && id != 2 {
			return t, commandline.Usagef("--access-report %q: want ID:CODE, with the id 1 or 2, such as 1:2", f.access)
		}
		t.AccessReport = &stamp.AccessReport{AccessID: uint8(id), ReturnCode: uint8(code)}
	}
	if f.microLink != "" {
		text := f.microLink
		if !strings.Contains(text, ":") {
			text += ":0"
		}
		own, other, ok := twoNumbers(text, 16)
		if !ok || own == 0 {
			return t, commandline.Usagef("--micro-session %q: want ID or ID:ID, from 1 to %d", f.microLink, math.MaxUint16)
		}
		t.MicroSession = &stamp.MicroSession{Sender: uint16(own), Reflector: uint16(other)}
	}
	if f.node != "" {
		if t.DestinationNode, err = parseIPv6("destination-node", f.node); err != nil {
			return t, err
		}
		if ssid == 0 { // RFC 9503 §3
			return t, commandline.Usage(problem.New("--destination-node needs an SSID", "remove --ssid 0"))
		}
	}
	if f.returnPath != "" && !t.ReturnSameLink {
		var ok bool
		if t.ReturnSegments, ok = parseSegments(f.returnPath); !ok {
			return t, commandline.Usagef("--return-path %q: want same-link, or 1 to %d SRv6 SIDs separated by commas", f.returnPath, udp.MaxSegments)
		}
	}
	return t, nil
}

// parseSegments reads SIDs; false: there are none, too many, or one cannot be one.
func parseSegments(text string) (list []netip.Addr, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		sid, err := netip.ParseAddr(part)
		if err != nil || !sid.Is6() || sid.Is4In6() || sid.Zone() != "" || !sid.IsGlobalUnicast() || len(list) == udp.MaxSegments {
			return nil, false
		}
		list = append(list, sid)
	}
	return list, true
}

// path reads how packets travel.
func (f *senderFlags) path(c *sender.Config, modeGiven bool) (err error) {
	if f.segments == "" {
		if modeGiven {
			return commandline.Usage(problem.New("--mode says how packets have segments", "add --segments SID,SID"))
		}
		return nil
	}
	var ok bool
	if c.Segments, ok = parseSegments(f.segments); !ok {
		return commandline.Usagef("--segments %q: want 1 to %d SRv6 SIDs separated by commas", f.segments, udp.MaxSegments)
	}
	if c.Mode, err = srv6.ParseMode(f.mode); err != nil {
		return commandline.Usagef("--mode: %w", err)
	}
	if c.Scope != 0 || c.Local.Zone() != "" {
		return commandline.Usagef("--segments lead beyond the link: give addresses that are valid there, of the reflector and with --source")
	}
	return nil
}

// twoNumbers reads two numbers with a colon between them.
func twoNumbers(text string, bits int) (first, second uint64, ok bool) {
	before, after, found := strings.Cut(text, ":")
	first, err1 := strconv.ParseUint(before, 10, bits)
	second, err2 := strconv.ParseUint(after, 10, bits)
	return first, second, found && err1 == nil && err2 == nil
}

// run sends until all replies came, or until it is interrupted.
func (f *senderFlags) run(cmd *cobra.Command, c sender.Config, asJSON bool) error {
	s, err := sender.New(c)
	if err != nil {
		return err
	}
	if err := s.Open(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	err = printEach(cmd.OutOrStdout(), f.stats, ended, func(w io.Writer) error {
		if asJSON {
			return commandline.PrintJSON(w, s.Report())
		}
		_, err := io.WriteString(commandline.Letters(w), s.Report().Text())
		return err
	})
	r := s.Report()
	switch failure := s.Failure(); {
	case err != nil:
		return err
	case cmd.Context().Err() != nil && c.Count > 0: // without a count, an interruption is the normal end
		return cmd.Context().Err()
	case r.Sent == 0 && failure != nil:
		return problem.Wrap(fmt.Errorf("no packet could be sent to %v: %w", c.Remote, failure), unsentCure(c))
	case r.Sent > 0 && r.Received == 0:
		return errors.New(noReply(c, r))
	}
	return nil
}
