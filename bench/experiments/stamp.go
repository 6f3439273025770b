// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/reflector"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// reflectorAim is the most time of a CPU for a packet, in ns: 200,000 packets in each second
// of it.
const reflectorAim = 5000

// stampBatch is how many packets one system call sends, and stampLongest the longest one that
// is received.
const stampBatch, stampLongest = 64, 9000

var (
	stampAt  = netip.MustParseAddrPort("[::1]:0")
	stampKey = []byte("a key of sixteen")
)

// stampCase is a reflector and the TLVs of the packets that it answers.
type stampCase struct {
	name     string
	stateful bool
	tlvs     []stampTLV
	rest     string // what is ours of its time
}

type stampTLV struct {
	kind  stamp.Type
	value []byte
}

func stampCases() []stampCase {
	question := blocks.Message{Length: model.DefaultBlock, Block: 1}
	for i := range blocks.MostFlows {
		question.Entries = append(question.Entries, blocks.Entry{Flow: flowAsked(i)})
	}
	const base = "the packet read, its reply written, and its counters"
	return []stampCase{
		{"stateless, no TLV", false, nil, base},
		{"stateful, no TLV", true, nil, base + ", and its session found"},
		{"stateful, Class of Service and Direct Measurement TLVs", true, []stampTLV{
			{stamp.TypeClassOfService, make([]byte, 4)}, {stamp.TypeDirectMeasurement, make([]byte, 12)},
		}, base + ", its session found, and its TLVs answered"},
		{fmt.Sprintf("stateful, private TLV with the counters of %d flows", blocks.MostFlows), true, []stampTLV{{blocks.Type, question.Append(nil)}},
			"the question decoded, each flow looked up in a table of all, and the answer encoded"},
	}
}

// flowAsked is a flow that packets ask for, one of the reflector's many.
func flowAsked(i int) blocks.FlowKey {
	return blocks.KeyOf(fmt.Sprint(i * scatter % model.DefaultMeasuredFlows))
}

// countersOfBlock has the counters of as many flows as a node has by default.
func countersOfBlock() map[blocks.FlowKey]blocks.Counters {
	list := make(map[blocks.FlowKey]blocks.Counters, model.DefaultMeasuredFlows)
	for i := range model.DefaultMeasuredFlows {
		list[blocks.KeyOf(fmt.Sprint(i))] = blocks.Counters{Packets: uint64(i) + 1, Octets: uint64(i) * 1000, Complete: true}
	}
	return list
}

// answering is what an agent does with the private TLV: the answer takes the question's place.
func answering(counters map[blocks.FlowKey]blocks.Counters) func(stamp.TLV) bool {
	return func(t stamp.TLV) bool {
		q, err := blocks.Decode(t.Value())
		if t.Type() != blocks.Type || err != nil {
			return false
		}
		for i := range q.Entries {
			c, ok := counters[q.Entries[i].Flow]
			if !ok {
				return false
			}
			q.Entries[i].State, q.Entries[i].Counters = blocks.Answered, c
		}
		q.Append(t.Value()[:0])
		return true
	}
}

// stampSeries holds the measurements of a case in one mode: ns of a CPU for a packet, by round.
type stampSeries struct {
	stampCase
	mode    stamp.Mode
	packets [][]byte
	answers func(stamp.TLV) bool

	reflected, echoed, hashed []float64
}

// protected reports whether packets have HMACs.
func (s *stampSeries) protected() bool { return s.mode == stamp.Authenticated }

// build makes the packets of a batch, with sequence numbers of their own.
func (s *stampSeries) build() error {
	tlvs := s.tlvs
	if s.protected() && len(tlvs) > 0 {
		tlvs = append(slices.Clone(tlvs), stampTLV{stamp.TypeHMAC, make([]byte, stamp.HMACLen)})
	}
	auth := stamp.NewAuthenticator(stampKey)
	for i := range stampBatch {
		packet := make([]byte, s.mode.BaseLen())
		base := stamp.SenderPacket{Sequence: uint32(i), Error: stamp.ErrorEstimate(1)}
		base.Put(packet, s.mode)
		for _, t := range tlvs {
			var err error
			if packet, err = stamp.AppendTLV(packet, stamp.FlagUnrecognized, t.kind, t.value); err != nil {
				return err
			}
		}
		if s.protected() {
			auth.SignTLVs(base.Sequence, packet[s.mode.BaseLen():])
			auth.Sign(packet)
		}
		s.packets = append(s.packets, packet)
	}
	return nil
}

func (s *stampSeries) turn(ctx context.Context, share time.Duration) error {
	ns, err := s.reflect(ctx, share)
	if err != nil {
		return err
	}
	s.reflected = append(s.reflected, ns)
	if ns, err = s.echo(ctx, share); err != nil {
		return err
	}
	s.echoed = append(s.echoed, ns)
	if !s.protected() {
		return nil
	}
	ns, err = s.hash(share / 4)
	s.hashed = append(s.hashed, ns)
	return err
}

// reflect measures the reflector. Each packet must be answered without a complaint.
func (s *stampSeries) reflect(ctx context.Context, share time.Duration) (ns float64, err error) {
	c := reflector.Config{Local: stampAt, Stateful: s.stateful, MaxSessions: stampBatch, SessionTimeout: time.Minute, Extension: s.answers}
	if s.protected() {
		c.Key = stampKey
	}
	r := reflector.New(c)
	if err := r.Open(); err != nil {
		return 0, err
	}
	ns, err = s.against(ctx, share, r.Local(), r.Run, func() uint64 { return r.Counts().Outcomes[reflector.Reflected] })
	if err != nil {
		return 0, err
	}
	counts := r.Counts()
	for o, n := range counts.Outcomes {
		if o := reflector.Outcome(o); o != reflector.Reflected && n > 0 {
			return 0, fmt.Errorf("%d packets ended as %s", n, o)
		}
	}
	for _, kind := range []reflector.Note{reflector.TLVMalformed, reflector.TLVUnknown, reflector.TLVIntegrity} {
		if n := counts.Notes[kind]; n > 0 {
			return 0, fmt.Errorf("%d packets were noted as %s", n, kind)
		}
	}
	return ns, nil
}

// echo measures a socket like the reflector's that sends back what it receives.
func (s *stampSeries) echo(ctx context.Context, share time.Duration) (float64, error) {
	var server udp.Server
	if err := server.Open(udp.Config{Local: stampAt, Batch: stampBatch, Size: stampLongest}); err != nil {
		return 0, err
	}
	var n atomic.Uint64
	serve := func(ctx context.Context) error {
		return server.Serve(ctx, func(list []udp.Datagram) error {
			n.Add(uint64(len(list)))
			return server.Socket().Send(list)
		})
	}
	return s.against(ctx, share, server.Local(), serve, n.Load)
}

// against sends the packets to what runs on a CPU of its own, as many as it can, and divides
// the time of that CPU by the answers.
func (s *stampSeries) against(
	ctx context.Context,
	share time.Duration,
	to netip.AddrPort,
	serve func(context.Context) error,
	answered func() uint64,
) (ns float64, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var spent time.Duration
	done := make(chan error, 1)
	go func() {
		release, err := harness.PinThread(0)
		if err != nil {
			stop()
			done <- errors.Join(err, serve(running)) // which closes the socket
			return
		}
		defer release()
		before, err := threadTime()
		err = errors.Join(err, serve(running))
		after, err2 := threadTime()
		spent = after - before
		done <- errors.Join(err, err2)
	}()
	err = s.send(ctx, share, to)
	stop()
	if err = errors.Join(err, <-done, ctx.Err()); err != nil {
		return 0, err
	}
	n := answered()
	if n == 0 || spent <= 0 {
		return 0, fmt.Errorf("%d packets were answered in %v", n, spent)
	}
	return float64(spent.Nanoseconds()) / float64(n), nil
}

// send sends the packets for a time. The answers are not read.
func (s *stampSeries) send(ctx context.Context, share time.Duration, to netip.AddrPort) error {
	socket, err := udp.Listen(udp.Config{Local: stampAt, Batch: stampBatch, Size: stampLongest})
	if err != nil {
		return err
	}
	defer socket.Close()
	list := make([]udp.Datagram, stampBatch)
	for deadline := time.Now().Add(share); time.Now().Before(deadline) && ctx.Err() == nil; {
		for i := range list {
			list[i] = udp.Datagram{Data: s.packets[i], Peer: to}
		}
		if err := socket.Send(list); err != nil {
			return err
		}
	}
	return nil
}

// hash measures the HMACs alone: those of a packet are verified, and those of its reply made.
func (s *stampSeries) hash(share time.Duration) (ns float64, err error) {
	release, err := harness.PinThread(0)
	if err != nil {
		return 0, err
	}
	defer release()
	auth, n := stamp.NewAuthenticator(stampKey), 0
	before, err := threadTime()
	if err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(share); time.Now().Before(deadline); n += len(s.packets) {
		for i, packet := range s.packets {
			sequence, tlvs := uint32(i), packet[s.mode.BaseLen():]
			if !auth.Verify(packet) || len(tlvs) > 0 && auth.VerifyTLVs(sequence, tlvs) != stamp.Verified {
				return 0, errors.New("the HMAC of a packet is wrong")
			}
			auth.Sign(packet)
			auth.SignTLVs(sequence, tlvs)
		}
	}
	after, err := threadTime()
	return float64((after - before).Nanoseconds()) / float64(n), err
}

// What is measured besides the reflector: parts of its time.
const (
	echoing = "datagrams sent back unread"
	hashing = "HMACs alone, of packet and reply"
)

func (s *stampSeries) is(treatment string, by report.Worker) report.Dimensions {
	mode := "unauthenticated"
	if s.protected() {
		mode = "authenticated"
	}
	return report.Dimensions{Treatment: treatment, By: by, Format: s.name + ", " + mode}
}

// points compares with the datagrams that are sent back unread.
func (s *stampSeries) points() []report.Point {
	point := func(is report.Dimensions, took []float64) report.Point {
		ratios := make([]float64, len(took))
		for i := range took {
			ratios[i] = took[i] / s.echoed[i]
		}
		p := report.NewPoint(is, float64(len(s.packets[0])))
		p.NS, p.Spread, p.Ratio = harness.Figure(harness.Median(took), 0), harness.Spread(took, 0), report.Round(harness.Median(ratios), 3)
		p.Reference = report.Round(harness.Median(s.echoed), 0)
		return p
	}
	whole, echo := point(s.is("reflector", ""), s.reflected), point(s.is(echoing, report.ByKernel), s.echoed)
	whole.Aim = reflectorAim
	whole.Limit = &report.Limit{
		Why:   "the kernel's UDP in both directions, for the same datagrams sent back unread",
		Floor: report.Reference{Variant: echo.Dimensions}, Rest: s.rest,
	}
	list := []report.Point{whole, echo}
	if s.protected() {
		hashes := point(s.is(hashing, ""), s.hashed)
		whole.Limit.Why += ", and the HMACs, by Go's `crypto/hmac`"
		whole.Limit.Plus = []report.Reference{{Variant: hashes.Dimensions}}
		list = append(list, hashes)
	}
	return list
}

// runStamp measures the STAMP reflector (RFC 8762 §4.3), in turns with its parts.
func runStamp(ctx context.Context, o harness.Options) (r report.Result, err error) {
	apart, release, err := harness.KeepApart()
	if err != nil {
		return report.Result{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	answers := answering(countersOfBlock())
	var list []*stampSeries
	for _, c := range stampCases() {
		for _, mode := range []stamp.Mode{stamp.Unauthenticated, stamp.Authenticated} {
			s := &stampSeries{stampCase: c, mode: mode, answers: answers}
			if err := s.build(); err != nil {
				return report.Result{}, err
			}
			list = append(list, s)
		}
	}
	share := o.Duration / time.Duration(o.Rounds*len(list)*2)
	order := slices.Clone(list)
	for round := range o.Rounds {
		o.Announce("round %d of %d", round+1, o.Rounds)
		for _, s := range order {
			if err := s.turn(ctx, share); err != nil {
				return report.Result{}, fmt.Errorf("%s: %w", s.is("reflector", ""), err)
			}
		}
		slices.Reverse(order)
	}
	r = report.Result{
		Baseline: "the same datagrams sent back unread, by the same sockets",
		Axis:     "octets of a datagram", X: "octets",
		Notes: []string{
			"A time is that of the reflector's thread for one packet, the kernel's UDP included: 5000 ns are 200,000 packets in each second of a CPU. The sender is on the other CPUs, sends as many as it can over the loopback interface, and reads no answer.",
			fmt.Sprintf(
				"The private TLV has the counters of %d of %d flows, as agents exchange them. Where packets are authenticated, their TLVs have an HMAC, too.",
				blocks.MostFlows,
				model.DefaultMeasuredFlows,
			),
		},
	}
	if !apart {
		r.Notes = append(r.Notes, "There is one CPU: sender and reflector take turns on it.")
	}
	for _, s := range list {
		r.Points = append(r.Points, s.points()...)
	}
	return r, nil
}
