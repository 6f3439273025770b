// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// running is a running sink.
type running struct {
	sink.Sink
	config config.Sink
	node   ioam.NodeID // for which it was made
	stop   context.CancelFunc
	done   chan struct{}
}

// Sinks are the sinks of the running configuration.
type Sinks struct {
	service.Idle
	d           Dependencies
	environment sink.Environment
	missed      service.Samples
	losing      map[string]losing // sinks that lose records, by name; only for the goroutine that samples

	mu      sync.RWMutex
	running []*running
	offers  []func(...record.Record) // to running, each record once
}

// NewSinks makes an empty set of sinks; stdout is the file "-", and peers keep their packets out of
// encapsulations.
func NewSinks(d Dependencies, stdout io.Writer, peers sink.Peers) *Sinks {
	return &Sinks{
		d: d,
		environment: sink.Environment{
			Stdout:     stdout,
			Log:        d.Log,
			Changes:    &sink.Changes{},
			QueueSpace: &sink.QueueSpace{},
			Shared:     &sync.Map{},
			Peers:      peers,
		},
	}
}

// Send makes sinks send metrics, as the program of a version.
func (x *Sinks) Send(version string, all func(*metrics.Gatherer)) {
	x.environment.Version = version
	x.environment.Metrics = func() *metrics.Gatherer {
		g := new(metrics.Gatherer)
		all(g)
		return g
	}
}

func (x *Sinks) Open() error {
	x.missed.Add(time.Now(), 0)
	return nil
}

// replacement is a change of sinks that is not in force yet.
type replacement struct {
	set  *Sinks
	next []*running
	made []*running
}

// Prepare opens the configured sinks that do not run yet.
func (x *Sinks) Prepare(p *service.Plan) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r, node := &replacement{set: x}, p.Next.Resolved.Node.ID
	for i := range p.Next.Config.Sinks {
		s, err := r.find(&p.Next.Config.Sinks[i], node)
		if err != nil {
			r.abandon()
			return err
		}
		r.next = append(r.next, s)
	}
	p.OnAbandon(r.abandon)
	p.OnCommit(func() {
		x.environment.QueueSpace.SetBurst(burstOf(p.Next.Resolved.Node.Measurement.Flows))
		r.commit()
		x.environment.Changes.Announce()
	})
	return nil
}

// Run notes how many records sinks miss, to warn when they grow.
func (x *Sinks) Run(ctx context.Context) error {
	x.d.Tasks.Every(ctx, service.SamplePeriod, func() {
		x.missed.Add(time.Now(), x.totalMissed())
		x.logLosses(x.stats())
	})
	return nil
}

func (x *Sinks) totalMissed() uint64 {
	var total uint64
	for _, s := range x.stats() {
		total += s.Missed()
	}
	return total
}

// find returns the running sink, or makes one.
func (r *replacement) find(c *config.Sink, node ioam.NodeID) (*running, error) {
	i := slices.IndexFunc(r.set.running, func(s *running) bool { return s.config.Same(c, s.node, node) })
	if i >= 0 && !slices.Contains(r.next, r.set.running[i]) {
		return r.set.running[i], nil
	}
	opened, err := c.Open(node, r.set.environment)
	if err != nil {
		return nil, err
	}
	s := &running{Sink: opened, config: *c, node: node, done: make(chan struct{})}
	r.made = append(r.made, s)
	return s, nil
}

// abandon closes what Prepare opened.
func (r *replacement) abandon() {
	for _, s := range r.made {
		s.Close()
	}
}

// commit starts new sinks and ends those no longer wanted, after they have written the
// records they hold.
func (r *replacement) commit() {
	for _, s := range r.made {
		ctx, cancel := context.WithCancel(context.Background())
		s.stop = cancel
		go func() {
			defer close(s.done)
			s.Run(ctx)
		}()
	}
	all := make([]sink.Sink, len(r.next))
	for i, s := range r.next {
		all[i] = s.Sink
	}
	r.set.mu.Lock()
	old := r.set.running
	r.set.running, r.set.offers = r.next, sink.Offers(all)
	r.set.mu.Unlock()
	for _, s := range old {
		if !slices.Contains(r.next, s) {
			s.stop()
		}
	}
	for _, s := range old {
		if !slices.Contains(r.next, s) {
			<-s.done
		}
	}
}

// Close ends all sinks, after they have written the records they hold.
func (x *Sinks) Close(bool) { (&replacement{set: x}).commit() }

// Any reports whether there are sinks.
func (x *Sinks) Any() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.running) > 0
}

// offer passes records to all sinks.
func (x *Sinks) offer(records ...record.Record) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, offer := range x.offers {
		offer(records...)
	}
}

// Tell passes a report to the sinks that tell collectors.
func (x *Sinks) Tell(r sink.Report) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, s := range x.running {
		if to, ok := s.Sink.(sink.Reporter); ok {
			to.Report(r)
		}
	}
}

// sinkStats counts the records that one sink was offered, by result.
type sinkStats struct {
	name string
	sink.Stats
}

func (x *Sinks) stats() []sinkStats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]sinkStats, len(x.running))
	for i, s := range x.running {
		out[i] = sinkStats{s.Name(), s.Stats()}
	}
	return out
}

var (
	descSinkWritten  = service.Metric("export_written_total", "Records that an exporter wrote.", "exporter")
	descSinkDropped  = service.Metric("export_dropped_total", "Records that an exporter lost, by cause.", "exporter", "cause")
	descSinkQueued   = service.Metric("export_queued_records", "Records that wait in an exporter.", "exporter")
	descSinkMessages = service.Metric("export_messages_total", "Messages of IPFIX, or requests of OTLP, that an exporter sent.", "exporter")
	descSinkOctets   = service.Metric("export_octets_total", "Octets of these messages.", "exporter")
	descSinkUnsure   = service.Metric(
		"export_unsure_total",
		"Upper bound of the written records that collectors whose connections broke may not have read.",
		"exporter",
	)
	descSinkUnacknowledged = service.Metric(
		"export_unacknowledged_total",
		"Upper bound of the records that a collector may have received twice: its connection ended before it acknowledged them.",
		"exporter",
	)
	descSinkConnected = service.Metric(
		"export_connected",
		"Whether an exporter reaches its collector, as far as is known: 1 or 0.",
		"exporter",
	)
)

func (x *Sinks) Collect(g *metrics.Gatherer) {
	done := map[string]bool{}
	for _, s := range x.stats() {
		if done[s.name] {
			continue // two sinks to one file: a series may appear only once
		}
		done[s.name] = true
		g.Add(descSinkWritten, float64(s.Written), s.name)
		for cause, n := range s.ByCause() {
			g.Add(descSinkDropped, float64(n), s.name, cause)
		}
		g.Add(descSinkQueued, float64(s.Waiting()), s.name)
		if !s.Network {
			continue
		}
		g.Add(descSinkMessages, float64(s.Messages), s.name)
		g.Add(descSinkOctets, float64(s.Octets), s.name)
		g.Add(descSinkUnsure, float64(s.Unsure), s.name)
		g.Add(descSinkUnacknowledged, float64(s.Unacknowledged), s.name)
		connected := 0.0
		if s.Connected {
			connected = 1
		}
		g.Add(descSinkConnected, connected, s.name)
	}
}

// waiting says how many records wait.
func waiting(n uint64) string {
	if n == 1 {
		return "1 record waits"
	}
	return fmt.Sprintf("%d records wait", n)
}

func (x *Sinks) Warnings(*service.State) (ws []health.Warning) {
	stats := x.stats()
	for _, s := range stats {
		if s.Network && s.Error != "" {
			ws = append(ws, health.New(health.CollectorAway, "",
				fmt.Sprintf("%s cannot be reached, and %s for it: %s", s.name, waiting(s.Waiting()), s.Error),
				s.Cure+"; the agent keeps trying"))
		}
	}
	if n := x.missed.Growth(x.totalMissed()); n > 0 {
		text := fmt.Sprintf("exporters lost %d records in the last minute", n)
		var cures []string
		for _, s := range stats {
			if s.Error != "" {
				text += fmt.Sprintf("; %s: %s", s.name, s.Error)
			}
			if s.Cure != "" && !slices.Contains(cures, s.Cure) {
				cures = append(cures, s.Cure)
			}
		}
		ws = append(ws, health.New(health.ExporterFailing, "", text, cmp.Or(strings.Join(cures, "; "), losingCure)))
	}
	return ws
}

func (x *Sinks) Report(_ *service.State, status *api.Status) {
	status.Records.Sinks = []api.Sink{}
	for _, s := range x.stats() {
		shown := api.Sink{
			Name:    s.name,
			Written: s.Written,
			Dropped: s.Dropped,
			Failed:  s.Lost + s.Unencodable,
			Queued:  s.Waiting(),
			Error:   s.Error,
			Cure:    s.Cure,
		}
		if s.Network {
			shown.Connected, shown.Messages, shown.Octets, shown.Unsure = &s.Connected, s.Messages, s.Octets, s.Unsure
			shown.Unacknowledged = s.Unacknowledged
		}
		status.Records.Sinks = append(status.Records.Sinks, shown)
	}
}
