// SPDX-License-Identifier: Apache-2.0

// Package collect is a small collecting process of IPFIX (RFC 7011): it listens
// for exporters over UDP, TCP and TLS, joins postcards of Direct Export
// (RFC 9326) into paths, computes loss and delay from the counters of alternate marking
// (RFC 9341), and gives paths, flows, traces and measurements to an output.
//
// Senders can only make it keep a bounded number of sessions, templates, connections,
// postcards, measured flows and names. Errors are counted by cause and stop nothing.
package collect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/collect/known"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// Output takes records, one at a time.
type Output interface {
	Write(record.Record) error
	Flush() error
}

// Config configures a Collector. Zero fields mean defaults.
type Config struct {
	Listen     []Endpoint
	TLS        *tls.Config // for endpoints with TLS
	Enterprise ipfix.Enterprise
	Limits     ipfix.Limits
	Join       join.Config
	Raw        bool            // write records as they come, unjoined
	Thresholds loss.Thresholds // of all flows whose points are compared, for loss and delay
	// AssumeSelection: points that do not say which packets they select, as exporters of before,
	// are taken to select the same as the others.
	AssumeSelection bool
	Stats           time.Duration // how often statistics go to the output; 0: never
	Metrics         string        // address and port at which counters are served to Prometheus; "": nowhere
	Output          Output
	Note            func(text string) // receives messages for the operator

	Connections     int           // at one time: 256
	AddressLimit    int           // connections from one address: 32
	MessageTimeout  time.Duration // for a message, once begun, a TLS handshake, and until the first message: 30 s
	SilenceTimeout  time.Duration // between the messages of a connection: an hour
	flushInterval   time.Duration // 100 ms
	expiryInterval  time.Duration // of templates: 10 s
	datagramsBuffer int           // octets of a UDP socket's buffer: 8 MiB
}

func (c Config) withDefaults() Config {
	c.Connections = cmp.Or(c.Connections, 256)
	c.AddressLimit = cmp.Or(c.AddressLimit, 32)
	c.MessageTimeout = cmp.Or(c.MessageTimeout, 30*time.Second)
	c.SilenceTimeout = cmp.Or(c.SilenceTimeout, time.Hour)
	c.flushInterval = cmp.Or(c.flushInterval, 100*time.Millisecond)
	c.expiryInterval = cmp.Or(c.expiryInterval, 10*time.Second)
	c.datagramsBuffer = cmp.Or(c.datagramsBuffer, 8<<20)
	if c.Note == nil {
		c.Note = func(string) {}
	}
	return c
}

// notes keeps senders from filling a log.
type notes struct {
	mu   sync.Mutex
	next time.Time
}

// noteSpan is the time between two notes about senders; the rest is only counted.
const noteSpan = time.Second

// note reports to the operator what a sender did, unless it wrote such a note within
// noteSpan.
func (c *Collector) note(format string, args ...any) {
	c.notes.mu.Lock()
	defer c.notes.mu.Unlock()
	if now := time.Now(); !now.Before(c.notes.next) {
		c.notes.next = now.Add(noteSpan)
		c.config.Note(fmt.Sprintf(format, args...))
	}
}

// Collector receives and joins records, and writes them to its output.
type Collector struct {
	config  Config
	decoder *ipfix.Decoder
	tcp     connections
	sockets []listener
	metrics *metrics.Server // nil: none

	mu       sync.Mutex // guards what follows, and the output
	joiner   *join.Joiner
	traces   traces
	blocks   *blocks
	names    names
	verdicts verdicts
	readings map[*ipfix.Template]*record.Reading // of the templates that are in use
	stats    Stats
	sender   sender // of the record that is being taken
	failed   error  // of the output
	enough   func(error)

	notes notes
}

// listener is an open socket.
type listener interface {
	Endpoint() Endpoint
	serve(ctx context.Context) error
	end() // makes serve read pending input, and return
	Close() error
}

// New makes a collector, which does nothing before Open.
func New(config Config) (*Collector, error) {
	c := &Collector{config: config.withDefaults(), traces: newTraces(), names: newNames(), verdicts: newVerdicts(config.Join.Wait), readings: map[*ipfix.Template]*record.Reading{}, enough: func(error) {}}
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(config.Enterprise))
	if err != nil {
		return nil, err
	}
	c.decoder = ipfix.NewDecoder(ipfix.DecoderConfig{Registry: registry, Limits: config.Limits})
	c.joiner = join.New(config.Join, c.path)
	if c.blocks, err = newBlocks(c.config.Join.Wait, c.config.Thresholds, c.config.AssumeSelection, c.emit); err != nil {
		return nil, err
	}
	for _, e := range config.Listen {
		if e.TLS && config.TLS == nil {
			return nil, errNoCertificate
		}
	}
	return c, nil
}

// Open opens all sockets and serves metrics, or does nothing.
func (c *Collector) Open() error {
	for _, e := range c.config.Listen {
		open := c.listenStream
		if e.Transport == ipfix.UDP {
			open = c.listenDatagrams
		}
		l, err := open(e)
		if err != nil {
			return errors.Join(err, c.Close())
		}
		c.sockets = append(c.sockets, l)
	}
	if err := c.serveMetrics(); err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// Close closes the sockets of a collector that does not run.
func (c *Collector) Close() error {
	c.endMetrics()
	var errs []error
	for _, l := range c.sockets {
		errs = append(errs, l.Close())
	}
	c.sockets = nil
	return errors.Join(errs...)
}

func (c *Collector) endMetrics() {
	if c.metrics != nil {
		c.metrics.Close()
	}
}

// Endpoints are where the collector listens, with the actual ports.
func (c *Collector) Endpoints() []Endpoint {
	var list []Endpoint
	for _, l := range c.sockets {
		list = append(list, l.Endpoint())
	}
	return list
}

// Run receives until the context ends, or a socket or the output fails; then it writes
// what still waits. The error is that of the socket or output.
func (c *Collector) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.endMetrics()
	c.mu.Lock()
	c.enough = cancel
	c.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range c.sockets {
		group.Go(func() error { return l.serve(ctx) })
		defer context.AfterFunc(ctx, l.end)()
	}
	group.Go(func() error { c.tend(ctx); return nil })
	err := group.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.joiner.Flush()
	c.blocks.assembler.Flush()
	c.expireTraces(time.Now(), 0)
	c.stats.Problems[ipfix.CauseSequenceGap] += c.decoder.Settle(time.Now().Add(time.Hour)) // nothing comes any more
	if c.failed == nil {
		c.failed = c.config.Output.Flush()
	}
	return errors.Join(err, c.failed)
}

// tend does the periodic work.
func (c *Collector) tend(ctx context.Context) {
	flush, expire := time.NewTicker(c.config.flushInterval), time.NewTicker(c.config.expiryInterval)
	defer flush.Stop()
	defer expire.Stop()
	var report <-chan time.Time
	if c.config.Stats > 0 {
		t := time.NewTicker(c.config.Stats)
		defer t.Stop()
		report = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-flush.C:
			c.flush(time.Now())
		case <-expire.C:
			c.decoder.Expire(time.Now())
			c.mu.Lock()
			c.blocks.expire(time.Now())
			c.mu.Unlock()
		case <-report:
			stats := c.Stats()
			c.mu.Lock()
			c.emit(stats.Record())
			c.mu.Unlock()
		}
	}
}

func (c *Collector) flush(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.joiner.Expire(now)
	c.blocks.assembler.Advance(now.UnixNano())
	c.expireTraces(now, traceWait)
	if c.failed == nil {
		c.fail(c.config.Output.Flush())
	}
}

// emit writes a record to the output; an error ends the collector. The lock is held.
func (c *Collector) emit(r record.Record) {
	if c.failed == nil {
		c.fail(c.config.Output.Write(r))
	}
}

func (c *Collector) fail(err error) {
	if err != nil {
		c.failed = err
		c.enough(err)
	}
}

// message decodes a message of a session and takes its records. It reports whether the
// message was good, at least in parts.
func (c *Collector) message(s *ipfix.Session, from join.Exporter, octets []byte) bool {
	now := time.Now()
	m, err := s.Decode(octets, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Octets += uint64(len(octets))
	if err != nil {
		c.problem(err)
		c.verdicts.base.Trouble(s)
		return false
	}
	c.stats.Messages++
	for i := range m.Problems {
		c.stats.Problems[m.Problems[i].Cause] += uint64(m.Problems[i].Count)
	}
	from.Domain = m.Domain
	at := origin{from, m.ExportTime, known.Feed{Session: s, Domain: m.Domain}, s}
	c.verdicts.message(&at, m, now)
	for _, set := range m.Sets {
		for data := range set.Records() {
			c.record(at, data, now)
		}
	}
	return true
}

// problem counts why a message was not decoded. The lock is held.
func (c *Collector) problem(err error) {
	var p *ipfix.Problem
	switch {
	case errors.As(err, &p):
		c.stats.Problems[p.Cause] += uint64(p.Count)
	case errors.Is(err, ipfix.ErrSessionLimit), errors.Is(err, ipfix.ErrSessionClosed):
		c.stats.SessionsRefused++
	}
}

// count changes counters.
func (c *Collector) count(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.stats)
}

// Stats is what happened so far.
func (c *Collector) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Problems[ipfix.CauseSequenceGap] += c.decoder.Settle(time.Now())
	for _, l := range c.sockets {
		if d, ok := l.(*datagrams); ok {
			d.countDropped()
		}
	}
	s := c.stats
	s.Join, s.Waiting = c.joiner.Stats(), c.joiner.Waiting()
	s.PathsLost, s.PathsUnknown, s.Pairs = c.verdicts.lost, c.verdicts.unknown, c.pairs()
	s.Compared, s.Assembled, s.Beyond = c.blocks.counters, c.blocks.assembler.Counters(), c.blocks.beyond
	return s
}
