// SPDX-License-Identifier: Apache-2.0

// Package sink defines sinks, which write records to a file or send them to a
// collector. Each kind of sink has its own package.
package sink

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Sink writes or sends records to one place.
type Sink interface {
	// Name is the sink's name in status and metrics.
	Name() string
	// Offer queues records, or counts that they have no room. It never waits, and keeps
	// postcards only as record.Retain does. Several goroutines call it at once.
	Offer(...record.Record)
	// Run writes until the context ends, then writes the queued records and closes the
	// sink.
	Run(context.Context)
	// Stats is what happened so far.
	Stats() Stats
	// Close closes a sink that does not run.
	Close()
}

// Grouped is a Sink that others of its kind can share work with.
type Grouped interface {
	Sink
	// Group finds its own kind among others, and returns a function that offers
	// records to all of these and itself, and the rest.
	Group(others []Sink) (offer func(...record.Record), rest []Sink)
}

// Paced is a Sink that one goroutine may wait for before it offers.
type Paced interface {
	Sink
	// Await waits until that number of records has room; false: they have none when the time is over.
	Await(records int, most time.Duration) bool
}

// Await waits until a sink has room for that number of records; false: it has none when the time is over. A
// sink that is not Paced makes room by itself.
func Await(to Sink, records int, most time.Duration) bool {
	if paced, ok := to.(Paced); ok {
		return paced.Await(records, most)
	}
	return true
}

// Reporter is a Sink that also tells collectors until when postcards were offered to it.
type Reporter interface {
	// Report says so of all that were offered before. It never waits.
	Report(Report)
}

// Report says that postcards about packets from Since until Until were offered, except
// as many as the counters have grown since the report before.
type Report struct {
	Since, Until     time.Time
	Served           time.Time // since when the node's configuration is as it is
	Suppressed, Lost uint64    // records; read after Until
	Namespaces       []Reported
}

// Reported is a namespace in which the node makes a postcard of one packet in Sampling.
type Reported struct {
	Namespace ioam.NamespaceID
	Sampling  uint32
}

// Offers returns functions that together offer records once to each sink.
func Offers(sinks []Sink) (offers []func(...record.Record)) {
	for len(sinks) > 0 {
		first, rest := sinks[0], sinks[1:]
		offer := first.Offer
		if g, ok := first.(Grouped); ok {
			offer, rest = g.Group(rest)
		}
		offers, sinks = append(offers, offer), rest
	}
	return offers
}

// Environment is what sinks get from the node.
type Environment struct {
	Stdout     io.Writer
	Log        *slog.Logger
	Facts      func() Facts
	Changes    *Changes                 // of the facts
	QueueSpace *QueueSpace              // of queues
	Shared     *sync.Map                // what sinks of a kind share, under keys that the kind chooses
	Peers      Peers                    // nil: no packet gets a header of this node
	Version    string                   // of the program
	Metrics    func() *metrics.Gatherer // all metrics now; nil: there are none
}

// Peers are the collectors that sinks send to now.
type Peers interface {
	// Spare returns when packets to a collector get no IOAM header of this node (RFC 9326
	// §3.1.2), and keeps that so until release is called. Sinks call it before they send
	// the first packet, whatever the address is; network is one of package net's. left is
	// closed when the host has had other addresses for a while.
	Spare(ctx context.Context, network, host string, to netip.AddrPort) (left <-chan struct{}, release func(), err error)
}

// Facts are what options records report about the node.
type Facts struct {
	Node       string // name of the observation domain
	NodeID     ioam.NodeID
	NodeIDWide ioam.NodeIDWide
	Interfaces []Interface
	Suppressed uint64 // records that a rate limit suppressed
	Lost       uint64 // records that found no room on their way to the sinks
	Ignored    uint64 // packets of both, as far as is known: at least one of each

	// When the first and the last of both were noticed; zero: none.
	FirstLoss, LastLoss time.Time
}

// Interface is a network interface.
type Interface struct {
	Index       model.IfIndex
	Name        string
	Description string
	ID          ioam.InterfaceID
	IDWide      ioam.InterfaceIDWide
}

// Changes notifies sinks of changed facts. The zero value is ready.
type Changes struct {
	mu       sync.Mutex
	watchers map[chan struct{}]struct{}
}

// Subscribe returns a channel that receives after a change, until end is called.
func (c *Changes) Subscribe() (changed <-chan struct{}, end func()) {
	ch := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers = map[chan struct{}]struct{}{}
	}
	c.watchers[ch] = struct{}{}
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, ch)
	}
}

// Announce notifies all subscribers.
func (c *Changes) Announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Stats counts the records that a sink was offered, by result. A trace that is exported
// as IPFIX is a record for each node. Records that are neither Written nor lost for one
// of the causes are on their way.
type Stats struct {
	Offered     uint64
	Written     uint64
	Dropped     uint64 // the queue was full
	Lost        uint64 // could not be written, or the connection to the collector was lost
	Unencodable uint64 // cannot be encoded
	Error       string // of the last attempt, "" when it succeeded

	Network bool // the sink has a connection; the fields below are set

	Messages uint64
	Octets   uint64
	Unsure   uint64 // upper bound; of Written, those that the collector may not have read because a connection broke
	// upper bound; not of Written, but the collector may have them: their acknowledgement
	// did not come before the connection ended, and they were sent again, or lost
	Unacknowledged uint64
	Connected      bool   // the collector was reached, though it may have refused
	Cure           string // of Error
}

// Waiting is how many records are on their way.
func (s Stats) Waiting() uint64 { return s.Offered - min(s.Offered, s.Written+s.Missed()) }

// Missed is how many records were not written.
func (s Stats) Missed() uint64 { return s.Dropped + s.Lost + s.Unencodable }

// ByCause counts the records that were not written, by cause.
func (s Stats) ByCause() map[string]uint64 {
	other := "write_failed"
	if s.Network {
		other = "connection_lost"
	}
	return map[string]uint64{"queue_full": s.Dropped, other: s.Lost, "encode": s.Unencodable}
}
