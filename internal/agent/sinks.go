// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

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

// sinks are the sinks of the running configuration.
type sinks struct {
	idle
	*core
	environment sink.Environment
	missed      recently

	mu      sync.RWMutex
	running []*running
	offers  []func(...record.Record) // to running, each record once
}

func newSinks(c *core, peers sink.Peers) *sinks {
	return &sinks{core: c, environment: sink.Environment{Stdout: c.options.Stdout, Log: c.log, Changes: &sink.Changes{}, Shared: &sync.Map{}, Peers: peers}}
}

func (x *sinks) open() error {
	x.missed.add(time.Now(), 0)
	return nil
}

// replacement is a change of sinks that is not in force yet.
type replacement struct {
	set  *sinks
	next []*running
	made []*running
}

// prepare opens the configured sinks that do not run yet.
func (x *sinks) prepare(p *plan) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r, node := &replacement{set: x}, p.next.resolved.Node.ID
	for i := range p.next.config.Sinks {
		s, err := r.find(&p.next.config.Sinks[i], node)
		if err != nil {
			r.abandon()
			return err
		}
		r.next = append(r.next, s)
	}
	p.abandon(r.abandon)
	p.commit(func() {
		r.commit()
		x.environment.Changes.Announce()
	})
	return nil
}

// run notes how many records sinks miss, to warn when they grow.
func (x *sinks) run(ctx context.Context) error {
	x.tasks.every(ctx, notePeriod, func() { x.missed.add(time.Now(), x.totalMissed()) })
	return nil
}

func (x *sinks) totalMissed() uint64 {
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

// abandon closes what prepare opened.
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

// close ends all sinks, after they have written the records they hold.
func (x *sinks) close(bool) { (&replacement{set: x}).commit() }

// any reports whether there are sinks.
func (x *sinks) any() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.running) > 0
}

// offer passes records to all sinks.
func (x *sinks) offer(records ...record.Record) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, offer := range x.offers {
		offer(records...)
	}
}

// sinkStats counts the records that one sink was offered, by result.
type sinkStats struct {
	name string
	sink.Stats
}

func (x *sinks) stats() []sinkStats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]sinkStats, len(x.running))
	for i, s := range x.running {
		out[i] = sinkStats{s.Name(), s.Stats()}
	}
	return out
}

var (
	descSinkWritten   = desc("export_written_total", "Records that an exporter wrote.", "exporter")
	descSinkDropped   = desc("export_dropped_total", "Records that an exporter lost, by cause.", "exporter", "cause")
	descSinkQueued    = desc("export_queued_records", "Records that wait in an exporter.", "exporter")
	descSinkMessages  = desc("export_messages_total", "IPFIX messages that an exporter sent.", "exporter")
	descSinkOctets    = desc("export_octets_total", "Octets of these messages.", "exporter")
	descSinkUnsure    = desc("export_unsure_total", "Upper bound of the written records that collectors whose connections broke may not have read.", "exporter")
	descSinkConnected = desc("export_connected", "Whether an exporter reaches its collector, as far as is known: 1 or 0.", "exporter")
)

func (x *sinks) collect(g *metrics.Gatherer) {
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
		connected := 0.0
		if s.Connected {
			connected = 1
		}
		g.Add(descSinkConnected, connected, s.name)
	}
}

func (x *sinks) warnings(*state) (ws []health.Warning) {
	stats := x.stats()
	for _, s := range stats {
		if s.Network && s.Error != "" {
			ws = append(ws, health.New(health.CollectorAway, "",
				fmt.Sprintf("%s cannot be reached, and %d records wait for it: %s", s.name, s.Waiting(), s.Error),
				s.Cure+"; the agent keeps trying"))
		}
	}
	if n := x.missed.growth(x.totalMissed()); n > 0 {
		text := fmt.Sprintf("exporters lost %d records in the last minute", n)
		for _, s := range stats {
			if s.Error != "" {
				text += fmt.Sprintf("; %s: %s", s.name, s.Error)
			}
		}
		ws = append(ws, health.New(health.ExporterFailing, "", text, "check the disk's space and speed, or the collector, or lower the frequency of the encapsulations"))
	}
	return ws
}

func (x *sinks) report(_ *state, status *api.Status) {
	status.Records.Sinks = []api.Sink{}
	for _, s := range x.stats() {
		shown := api.Sink{Name: s.name, Written: s.Written, Dropped: s.Dropped, Failed: s.Lost + s.Unencodable, Queued: s.Waiting(), Error: s.Error}
		if s.Network {
			shown.Connected, shown.Messages, shown.Octets, shown.Unsure = &s.Connected, s.Messages, s.Octets, s.Unsure
		}
		status.Records.Sinks = append(status.Records.Sinks, shown)
	}
}
