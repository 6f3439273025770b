// SPDX-License-Identifier: Apache-2.0

// Package collect is a small collecting process of IPFIX (RFC 7011): it listens
// for exporters over UDP, TCP and TLS, joins postcards of Direct Export
// (RFC 9326) into paths, computes loss and delay from the counters of alternate marking
// (RFC 9341), and gives paths, flows, traces and measurements to sinks.
//
// It has three stages, joined by bounded queues: sockets are read and messages decoded (receiving),
// one goroutine joins what arrived, with the help of shards (joining), and each sink writes what it was offered (output). No
// lock spans two of them, and a sink that fails or has stopped stops neither of the others.
//
// Senders can only make it keep a bounded number of sessions, templates, connections,
// postcards, measured flows and names. Errors are counted by cause and stop nothing.
package collect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// Config configures a Collector. Zero fields mean defaults.
type Config struct {
	Listen     []Endpoint
	ListenName string      // how errors name what says where to listen: --listen
	TLS        *tls.Config // for endpoints with TLS
	Enterprise ipfix.Enterprise
	Limits     ipfix.Limits
	Join       join.Config
	Raw        bool            // write records as they come, unjoined
	Thresholds loss.Thresholds // of all flows whose points are compared, for loss and delay
	// AssumeSelection: points that do not say which packets they select, as exporters of before,
	// are taken to select the same as the others.
	AssumeSelection bool
	// ClockInterval: in each, the sinks also get the record of a block in which a node reported the greatest error of its
	// clock; 0: they get none.
	ClockInterval time.Duration
	Stats         time.Duration                       // how often statistics go to the sinks; 0: never
	Metrics       string                              // address and port at which counters are served to Prometheus; "": nowhere
	Sinks         []sink.Sink                         // get all records, and run while the collector does
	Notify        func(level slog.Level, text string) // receives messages for the operator

	Keeper    Keeper // keeps sockets while no collector runs; nil: nobody does
	Templates string // file with the templates of sessions over UDP, for the next collector; "": none

	Shards          int           // goroutines that join postcards: as many as CPUs, at most 4
	Readers         int           // sockets and goroutines of each UDP endpoint: as many as CPUs, at most 4
	Connections     int           // at one time: 256
	AddressLimit    int           // connections from one address: 32
	MessageTimeout  time.Duration // for a message, once begun, a TLS handshake, and until the first message: 30 s
	SilenceTimeout  time.Duration // between the messages of a connection: an hour
	flushInterval   time.Duration // 100 ms
	expiryInterval  time.Duration // of templates: 10 s
	datagramsBuffer int           // octets of a UDP socket's buffer: 32 MiB
}

func (c Config) withDefaults() Config {
	c.Shards = cmp.Or(c.Shards, min(runtime.GOMAXPROCS(0), 4))
	c.Readers = cmp.Or(c.Readers, min(runtime.GOMAXPROCS(0), 4))
	c.ListenName = cmp.Or(c.ListenName, "--listen")
	c.Connections = cmp.Or(c.Connections, 256)
	c.AddressLimit = cmp.Or(c.AddressLimit, 32)
	c.MessageTimeout = cmp.Or(c.MessageTimeout, 30*time.Second)
	c.SilenceTimeout = cmp.Or(c.SilenceTimeout, time.Hour)
	c.flushInterval = cmp.Or(c.flushInterval, 100*time.Millisecond)
	c.expiryInterval = cmp.Or(c.expiryInterval, 10*time.Second)
	c.datagramsBuffer = cmp.Or(c.datagramsBuffer, ReceiveBuffer)
	if c.Keeper == nil {
		c.Keeper = noKeeper{}
	}
	if c.Notify == nil {
		c.Notify = func(slog.Level, string) {}
	}
	return c
}

// Collector receives and joins records, and gives them to its sinks.
type Collector struct {
	*receiving
	*joining
	config  Config
	output  *output
	metrics *metrics.Server // nil: none
	memory  *sessionMemory  // nil: none
}

// New makes a collector, which does nothing before Open.
func New(config Config) (*Collector, error) {
	c := &Collector{config: config.withDefaults()}
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(config.Enterprise))
	if err != nil {
		return nil, err
	}
	decoder := ipfix.NewDecoder(ipfix.DecoderConfig{Registry: registry, Limits: config.Limits})
	c.receiving = &receiving{config: &c.config, decoder: decoder, arrivals: make(chan arrival, mostArrivals)}
	c.output = &output{sinks: config.Sinks, reportToOperator: c.config.Notify, stopped: make([]bool, len(config.Sinks))}
	if c.joining, err = newJoining(&c.config, decoder, c.output); err != nil {
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
	c.config.Keeper.RemoveRest()
	if c.config.Templates != "" {
		c.memory = &sessionMemory{path: c.config.Templates, decoder: c.receiving.decoder, notify: c.config.Notify}
		c.memory.recall(c.Endpoints(), time.Now())
	}
	return nil
}

// Close closes the sockets of a collector that does not run.
func (c *Collector) Close() error {
	c.endMetrics()
	return c.closeSockets()
}

func (c *Collector) endMetrics() {
	if c.metrics != nil {
		c.metrics.Close()
	}
}

// Run receives until the context ends or a socket fails; then it writes what still waits. The error
// is that of the socket, and that of a sink that could not write everything.
func (c *Collector) Run(ctx context.Context) error {
	defer c.endMetrics()
	c.output.start()
	remembered, finish := context.WithCancel(context.Background())
	defer finish()
	var joined, remembering sync.WaitGroup
	joined.Go(func() { c.run(c.arrivals, c.Stats) })
	if c.memory != nil {
		remembering.Go(func() { c.memory.run(remembered) })
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range c.sockets {
		group.Go(func() error { return l.serve(ctx) })
		defer context.AfterFunc(ctx, l.end)()
	}
	group.Go(func() error { <-ctx.Done(); return nil })
	err := group.Wait()
	finish() // nothing is read any more
	remembering.Wait()
	close(c.arrivals)
	joined.Wait()
	return errors.Join(err, c.output.end())
}

// Stats is what happened so far.
func (c *Collector) Stats() Stats {
	received := c.receiving.counted()
	s := c.joining.counted()
	s.Received = received
	return s
}
