// SPDX-License-Identifier: Apache-2.0

// Package otlpsink sends what a node finds to OpenTelemetry, by OTLP/HTTP in protobuf: paths of
// packets as traces, events as logs, and metrics. mapping.go says what is called how. The messages
// are written by the lowest layer of Go's protobuf: OpenTelemetry's SDK would add 9 MB to the router's
// program (docs/decisions/0039-otlp-without-the-sdk.md).
package otlpsink

import (
	"context"
	"encoding/binary"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

// Config configures a sink.
type Config struct {
	Endpoint *url.URL
	Slower   time.Duration // paths that took as long are traces; 0: none for this reason
	OneIn    uint64        // one in OneIn paths is a trace; 0: none for this reason
	Metrics  time.Duration // how often metrics are sent; 0: never
	Headers  string        // file of headers that requests have; "": none
	Gzip     bool          // compresses requests
}

// Sink sends records. Those that are neither chosen paths nor events count nowhere.
type Sink struct {
	*sink.Queued
	config Config
	env    sink.Environment
	to     *poster
	// examples are taken by the metrics, and stay empty without them.
	examples exemplars

	messages, octets atomic.Uint64
	connected        atomic.Bool
	fault            sink.Fault // of the last request of metrics
}

// New makes a sink; nothing is sent before Run.
func New(c Config, env sink.Environment) *Sink {
	s := &Sink{config: c, env: env}
	s.to = newPoster(c, env.Peers, func(octets int, reached bool, err error) {
		s.connected.Store(reached)
		if err == nil {
			s.messages.Add(1)
			s.octets.Add(uint64(octets))
		}
	})
	w := &writer{to: s.to, version: env.Version}
	if c.Metrics > 0 {
		w.examples = &s.examples
	}
	s.Queued = sink.NewQueued(w, sink.Settings{Name: c.Endpoint.String(), QueueSpace: env.QueueSpace})
	return s
}

// Offer queues the paths that are chosen, and events.
func (s *Sink) Offer(records ...record.Record) {
	for _, r := range records {
		if s.wants(r) {
			s.Queued.Offer(r)
		}
	}
}

// wants reports whether a record is an event, or a path that is to be a trace: it is incomplete,
// slow, or one in OneIn. A packet has the same answer each time.
func (s *Sink) wants(r record.Record) bool {
	switch r := r.(type) {
	case *record.Event:
		return true
	case *record.Path:
		if !r.Complete || r.Delay != nil && s.slow(time.Duration(*r.Delay)) {
			return true
		}
	case *record.Trace:
		if r.Copy || r.OnItsWay {
			return false
		}
		if r.Overflow.Valid && r.Overflow.Value || r.PathDelay.Valid && s.slow(time.Duration(r.PathDelay.Value)) {
			return true
		}
	default:
		return false
	}
	if s.config.OneIn == 0 {
		return false
	}
	w := wayOf(r)
	return w != nil && binary.BigEndian.Uint64(w.id[8:])%s.config.OneIn == 0
}

func (s *Sink) slow(d time.Duration) bool { return s.config.Slower > 0 && d >= s.config.Slower }

// Run sends until the context ends, then what is queued.
func (s *Sink) Run(ctx context.Context) {
	var running sync.WaitGroup
	if s.config.Metrics > 0 && s.env.Metrics != nil {
		running.Go(func() { s.sendMetrics(ctx) })
	}
	s.Queued.Run(ctx)
	running.Wait()
}

// sendMetrics sends all metrics now and then. A request that fails is not repeated: the next one has
// all that it had.
func (s *Sink) sendMetrics(ctx context.Context) {
	ticker := time.NewTicker(s.config.Metrics)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		request := metricsRequest(s.node(), s.env.Version, s.env.Metrics().Families(), s.examples.drain(), time.Now())
		_, err := s.to.post(ctx, "metrics", request)
		if ctx.Err() != nil {
			err = nil // the request was to end
		}
		s.fault.Set(err)
	}
}

// node is the name of this node.
func (s *Sink) node() string {
	if s.env.Facts == nil {
		return ""
	}
	return s.env.Facts().Node
}

// Stats counts records; messages and octets are those of requests that were accepted.
func (s *Sink) Stats() sink.Stats {
	out := s.Queued.Stats()
	out.Network, out.Messages, out.Octets, out.Connected = true, s.messages.Load(), s.octets.Load(), s.connected.Load()
	if out.Error == "" {
		out.Error, out.Cure = s.fault.Parts()
	}
	if out.Error != "" && out.Cure == "" {
		out.Cure = "check the endpoint, and whether it receives OTLP over HTTP in protobuf"
	}
	return out
}

// writer sends batches of records. It is used by one goroutine.
type writer struct {
	to       *poster
	version  string
	examples *exemplars // nil: none are wanted
}

// mostBatch is how many records a request has at most.
const mostBatch = 512

// Write sends the first records: paths as traces, events as logs.
func (w *writer) Write(batch []record.Record) (tried, written int, err error) {
	batch = batch[:min(len(batch), mostBatch)]
	var ways []*way
	var events []*record.Event
	for _, r := range batch {
		if e, ok := r.(*record.Event); ok {
			events = append(events, e)
		} else if one := wayOf(r); one != nil {
			ways = append(ways, one)
		}
	}
	written = len(batch) - len(ways) - len(events) // paths without any time: there is nothing to send
	for _, part := range []struct {
		signal  string
		count   int
		request func() message
	}{
		{"traces", len(ways), func() message { return tracesRequest(ways, w.version) }},
		{"logs", len(events), func() message { return logsRequest(events, w.version) }},
	} {
		if part.count == 0 {
			continue
		}
		rejected, fault := w.to.postWithRetries(part.signal, part.request())
		if fault != nil {
			err = fault
			if rejected == 0 {
				continue
			}
		}
		if part.signal == "traces" && rejected == 0 && w.examples != nil {
			for _, one := range ways {
				w.examples.keep(one)
			}
		}
		written += part.count - min(part.count, rejected) // the endpoint counts spans
	}
	return len(batch), written, err
}

// End lets requests wait no longer than a moment.
func (w *writer) End() { w.to.end() }

// Close closes connections.
func (w *writer) Close() error {
	w.to.close()
	return nil
}
