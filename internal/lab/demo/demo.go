// SPDX-License-Identifier: Apache-2.0

// Package demo shows an IOAM domain at work: it raises the built-in line, sends real
// traffic through it and prints the path of each traced packet (RFC 9197 §4.4) as the
// decapsulating node reports it; then the path of packets with a Direct Export (RFC
// 9326), joined from the exports of all nodes. It proves that no IOAM leaves the
// domain. Then it raises the built-in SRv6 network, loses packets on its links, and
// compares what the agents measure by alternate marking (RFC 9341), link by link.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

// Options say how the demo is shown.
type Options struct {
	Program  string // path of the waymark program
	Name     string // of the lab; DefaultName when empty
	Out      io.Writer
	Terminal bool // print blocks instead of lines
	Colour   bool
	JSON     bool // print only records and the result
	Every    bool // print the path of every packet
	Screen   columns.Screen
	Log      *slog.Logger
}

// DefaultName is the name of the demo's lab, different from the default name of other
// labs.
const DefaultName = "waymark-demo"

// The roles in the line.
const (
	collector = "aramis"
	receiver  = "beta"
	middle    = "porthos"
)

var (
	demoTimeout = patience.Of(60 * time.Second)       // for everything except the removal
	quiet       = patience.Of(200 * time.Millisecond) // after this time without a new trace, all have come
	recordLimit = patience.Of(3 * time.Second)        // for the traces of one kind of traffic
)

// Run raises the line, shows the traffic and takes the line down; then it does the same
// with the SRv6 network. It returns nil only when packets were traced, all of them arrived,
// none carried IOAM on arrival, and each measured loss is the injected one. It returns the
// context's error when that is cancelled, and joins a *lab.LeftError when something could
// not be removed.
func Run(ctx context.Context, o Options) error {
	if o.Name == "" {
		o.Name = DefaultName
	}
	t, err := lab.Builtin("line")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	show := &printer{out: o.Out, terminal: o.Terminal, colour: o.Colour, json: o.JSON, every: o.Every, screen: o.Screen, names: namesOf(t)}
	s := &session{show: show, arrived: newArrivals(t), inside: newArrivals(t), joined: joined{show: show}}
	err = s.raise(ctx, t, o)
	if err == nil {
		s.losses, err = measureLosses(ctx, o, show)
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return only(ctx.Err(), err) // other errors follow from it
	case err != nil:
		return err
	}
	return s.conclude()
}

// only is an error, and that of what could not be removed.
func only(err, all error) error {
	var left *lab.LeftError
	if errors.As(all, &left) {
		return errors.Join(err, left)
	}
	return err
}

// raise runs the demo on the line, and takes it down.
func (s *session) raise(ctx context.Context, t *lab.Topology, o Options) (err error) {
	s.show.heading("Raising alpha - athos - porthos - aramis - beta in network namespaces")
	start := time.Now()
	s.lab, err = lab.Up(ctx, t, lab.Options{Name: o.Name, Program: o.Program, Owned: true, Log: o.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.lab.Down(ctx)) }()
	s.show.line(
		"Five nodes and three agents are up after %.1f s: athos encapsulates, porthos transits, aramis decapsulates and reports.",
		time.Since(start).Seconds(),
	)
	return s.run(ctx)
}

// session is one run of the demo.
type session struct {
	lab     *lab.Lab
	show    *printer
	records *observer
	arrived *arrivals // what beta received
	inside  *arrivals // what porthos forwarded, to show that the scan does see IOAM
	joined  joined    // of Direct Export
	losses  *losses   // of SRv6 flows
	faults  []error
}

// run sends the traffic while both captures and the agent's records are read.
func (s *session) run(ctx context.Context) error {
	instance, err := s.lab.Node(collector).Instance()
	if err != nil {
		return err
	}
	client := api.NewClient(instance.Socket())
	stream, stop := context.WithCancel(ctx)
	defer stop()
	s.records, err = newObserver(stream, s.show, func(ctx context.Context, ready func(), line func([]byte) error) error {
		return client.Observe(ctx, api.RecordFilter{}, ready, line)
	})
	if err != nil {
		return fmt.Errorf("observe the records of %s: %w", collector, err)
	}
	stopCaptures, err := s.capture()
	if err != nil {
		return err
	}
	s.show.line(
		"A trace shows for each node: its interfaces in and out, hop limit, delay since the node before, and how long the node held "+
			"the packet until its outgoing queue.%s",
		map[bool]string{true: "", false: " Here is the first of each kind; all are in the table at the end."}[s.show.every],
	)
	for _, t := range s.lab.Topology().Traffic {
		if err := s.send(ctx, t); err != nil {
			_ = stopCaptures()
			return err
		}
	}
	err = s.directExport(ctx)
	return errors.Join(err, stopCaptures())
}

// capture starts to scan what beta receives and porthos forwards. (At its receiving
// interface, a capture would make porthos lose the transit delays that it exports.)
func (s *session) capture() (stop func() error, err error) {
	outer, err := s.lab.Capture(receiver, "eth0", lab.CaptureOptions{Each: s.arrived.see})
	if err != nil {
		return nil, err
	}
	inner, err := s.lab.Capture(middle, "eth1", lab.CaptureOptions{Each: func(p lab.Packet) {
		p.Outgoing = !p.Outgoing
		s.inside.see(p)
	}})
	if err != nil {
		_, serr := outer.Stop()
		return nil, errors.Join(err, serr)
	}
	return func() error {
		_, ierr := inner.Stop()
		stats, err := outer.Stop()
		if stats.Dropped > 0 {
			err = errors.Join(
				err,
				problem.New(
					fmt.Sprintf("the capture at %s missed %d packets, so it proves nothing", receiver, stats.Dropped),
					"run the demo again on a quieter machine",
				),
			)
		}
		return errors.Join(err, ierr)
	}, nil
}

// send runs one kind of traffic and waits for its traces.
func (s *session) send(ctx context.Context, t lab.Traffic) error {
	var next ioam.NextHeader
	switch t.Kind {
	case lab.KindPing:
		next = nextICMPv6
		s.show.heading("ping: %d echo requests from %s to %s, every one traced", t.Count, t.From, t.To)
	case lab.KindUDP:
		next = nextUDP
		s.show.heading("udp: %d datagrams from %s to %s, every one traced", t.Count, t.From, t.To)
	default:
		next = nextTCP
		s.show.heading("tcp: %d bytes from %s to %s, one of every ten packets traced", t.Bytes, t.From, t.To)
	}
	before := s.records.count(next)
	r, err := s.lab.Send(ctx, t)
	if err != nil {
		return err
	}
	want := r.Sent
	if t.Kind == lab.KindTCP {
		want = 1
	}
	if err := s.records.awaitTraces(ctx, next, before+want, quiet, recordLimit); err != nil {
		return err
	}
	switch got := s.records.count(next) - before; {
	case t.Kind == lab.KindTCP:
		s.show.line("tcp: %d bytes arrived, their SHA-256 is the same at both ends; %d packets were traced", r.Bytes, got)
		if got == 0 {
			s.fault("no TCP packet was traced")
		}
	default:
		s.show.line(
			"%s: %d sent, %d %s, %d traced",
			t.Kind,
			r.Sent,
			r.Received,
			map[bool]string{true: "answered", false: "arrived"}[t.Kind == lab.KindPing],
			got,
		)
		if r.Lost() > 0 {
			s.fault("%d of %d %s packets were lost", r.Lost(), r.Sent, t.Kind)
		}
		if got != r.Sent {
			s.fault("%d of %d %s packets were traced", got, r.Sent, t.Kind)
		}
	}
	return nil
}

func (s *session) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}
