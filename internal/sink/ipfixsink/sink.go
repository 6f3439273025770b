// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

// Transport is how messages reach a collector.
type Transport string

// Transports of IPFIX (RFC 7011 §10).
const (
	UDP Transport = "udp"
	TCP Transport = "tcp"
	TLS Transport = "tls" // over TCP
)

// Config names a collector and how to send to it.
type Config struct {
	Transport   Transport
	Address     string        // HOST:PORT
	Source      netip.Addr    // of our socket; invalid: the kernel chooses
	Domain      uint32        // Observation Domain ID
	MessageSize int           // maximum octets of a message; 0: as the path MTU allows
	Refresh     time.Duration // interval at which templates (UDP), names and statistics are sent again
	Files       TLSFiles
}

// Name is the collector's name in status and metrics.
func (c Config) Name() string { return fmt.Sprintf("ipfix:%s://%s", c.Transport, c.Address) }

// Sink sends to one collector: a queue, a socket and a session (RFC 7011 §2). Any
// number of goroutines may offer records; a slow collector never makes them wait.
type Sink struct {
	config    Config
	shared    *Encoder
	templates *record.Templates
	options   *record.Options
	facts     func() sink.Facts
	log       *slog.Logger
	queue     *queue
	changes   *sink.Changes // of the facts
	announce  <-chan struct{}
	dial      func(context.Context, control) (link, error)
	peers     sink.Peers
	now       func() time.Time // wall clock, which may be set back

	exported, lost, unsure, unacknowledged, unencodable, rejected, messages, octets atomic.Uint64

	began     time.Time // what was offered since then went to no earlier session; only Run uses it
	connected atomic.Bool
	fault     atomic.Pointer[awayFault]

	process uint32 // its exportingProcessId
	unsent  unsentCounter
}

// awayFault is why the collector cannot be reached.
type awayFault struct{ text, cure string }

// processes counts the exporting processes so far: each has its own session and losses.
var processes atomic.Uint32

// New makes a sink after the checks that need no collector. Nothing is sent before Run.
func New(config Config, x *Encoder, env sink.Environment) (*Sink, error) {
	c := &Sink{
		config: config, shared: x, templates: x.templates, options: x.options, facts: env.Facts, changes: env.Changes, peers: env.Peers,
		queue: newQueue(),
		dial:  config.dial, now: time.Now, log: env.Log.With("collector", config.Name()),
	}
	if _, _, err := net.SplitHostPort(config.Address); err != nil {
		return nil, problem.Wrap(fmt.Errorf("export ipfix: %w", err), "write HOST:PORT")
	}
	if config.Transport == TLS {
		if _, err := config.Files.load(config.Address); err != nil {
			return nil, err
		}
	}
	c.process, c.began = processes.Add(1), c.now()
	c.queue.discard, c.queue.room = c.discardBlock, env.QueueSpace
	return c, nil
}

// Name is the sink's name in status and metrics.
func (c *Sink) Name() string { return c.config.Name() }

// refused counts a record that could not be encoded.
func (c *Sink) refused(err error, w record.Weight) {
	c.unsent.add(w)
	if c.rejected.Add(1) == 1 {
		c.log.Warn("a record cannot be encoded; more are only counted", "error", err)
	}
}

// Waits between attempts to reach a collector: doubled each time, and randomly
// shortened by up to half, so that nodes do not all connect at once.
const (
	firstWait = 250 * time.Millisecond
	maxWait   = 30 * time.Second
)

// steadyTime is how long a session must last to reset the wait.
const steadyTime = 2 * time.Second

// closingTime is how long the end of an exporter may take.
const closingTime = 2 * time.Second

var errEnded = errors.New("the collector closed the connection")

// Run exports until the context ends, then exports the queued records that the
// collector takes within closingTime. The others are lost and counted.
func (c *Sink) Run(ctx context.Context) {
	defer func() { c.lost.Add(c.queue.close()) }()
	announce, end := c.changes.Subscribe()
	defer end()
	c.announce = announce
	for wait := firstWait; ; {
		began := time.Now()
		err := c.connect(ctx, ctx)
		c.connected.Store(false)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			c.exportRest(ctx)
			return
		}
		if errors.Is(err, errClock) || errors.Is(err, errMoved) {
			continue
		}
		if time.Since(began) > steadyTime {
			wait = firstWait
		}
		c.noteUnreachable(err)
		select {
		case <-time.After(wait - rand.N(wait/2)):
		case <-ctx.Done():
			c.exportRest(ctx)
			return
		}
		wait = min(2*wait, maxWait)
	}
}

// exportRest exports what is queued although the context has ended without a session: it ended while one
// was being set up, or between two attempts.
func (c *Sink) exportRest(ctx context.Context) {
	if c.queue.stats().waiting == 0 {
		return
	}
	dialing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime/2)
	defer cancel()
	_ = c.connect(dialing, ctx) // what the collector did not take is counted as lost
	c.connected.Store(false)
}

// connect is one session, from its connection, which is set up before dialing ends, to its end.
func (c *Sink) connect(dialing, ctx context.Context) error {
	spare := c.newSparing()
	defer spare.end() // after the link is closed
	l, err := c.dial(dialing, spare.control)
	if err != nil {
		return err
	}
	defer l.close()
	s, err := newSession(c, l)
	if err != nil {
		return err
	}
	s.addressChanged = spare.connected(l.peer())
	defer func() { c.began = c.now() }()
	return s.run(ctx)
}

// noteUnreachable notes that the collector cannot be reached, and logs that once, and again if
// something else is to be done: "closed the connection" and then "refused" are one event.
func (c *Sink) noteUnreachable(err error) {
	text := problem.OneLine(err.Error())
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		text = errno.Error() // without the ports, which change
	}
	cure := awayCure(err)
	if before := c.fault.Swap(&awayFault{text, cure}); before == nil || before.cure != cure {
		c.log.Warn("the collector cannot be reached; records wait in a bounded queue", "error", text, "cure", cure)
	}
}

// awayCure is the cure for a collector that cannot be reached.
func awayCure(err error) string {
	var name *net.DNSError
	switch cure := credentialCure(err); {
	case cure != "":
		return cure
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "check this node's route and the link to it, or remove it from export"
	case errors.As(err, &name):
		return "correct its name in export, or use its address"
	}
	return "start it, let its packets through, or remove it from export"
}

// reached notes that the collector accepts messages, as far as is known.
func (c *Sink) reached() {
	c.connected.Store(true)
	if c.fault.Swap(nil) != nil {
		c.log.Info("the collector can be reached again")
	}
}

// Stats is what happened so far.
func (c *Sink) Stats() sink.Stats {
	q := c.queue.stats()
	s := sink.Stats{Network: true,
		Offered: q.offered + c.rejected.Load(), Written: c.exported.Load(), Dropped: q.dropped,
		Lost: c.lost.Load(), Unencodable: c.rejected.Load() + c.unencodable.Load(),
		Messages: c.messages.Load(), Octets: c.octets.Load(), Unsure: c.unsure.Load(),
		Unacknowledged: c.unacknowledged.Load(), Connected: c.connected.Load(),
	}
	if fault := c.fault.Load(); fault != nil {
		s.Error, s.Cure = fault.text, fault.cure
	}
	return s
}
