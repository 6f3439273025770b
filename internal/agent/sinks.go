// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"sync"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// running is a sink that runs.
type running struct {
	sink.Sink
	config config.Export
	node   ioam.NodeID // for which it was made
	stop   context.CancelFunc
	done   chan struct{}
}

// sinks are those of the running configuration.
type sinks struct {
	environment sink.Environment

	mu      sync.RWMutex
	running []*running
	offers  []func(record.Record) // to running, each once
}

// replacement is a change of sinks that has not happened yet.
type replacement struct {
	set  *sinks
	next []*running
	made []*running
}

// prepare opens what a configuration needs and does not run yet.
func (x *sinks) prepare(wanted []config.Export, node ioam.NodeID) (*replacement, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := &replacement{set: x}
	for i := range wanted {
		s, err := r.find(&wanted[i], node)
		if err != nil {
			r.abandon()
			return nil, err
		}
		r.next = append(r.next, s)
	}
	return r, nil
}

// find gives the sink that runs, or makes it.
func (r *replacement) find(c *config.Export, node ioam.NodeID) (*running, error) {
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

// commit starts what is new and ends what is no longer wanted, after it has
// written what it holds.
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

// close ends all of them.
func (x *sinks) close() { (&replacement{set: x}).commit() }

// any reports whether there are sinks.
func (x *sinks) any() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.running) > 0
}

// offer hands a record to all.
func (x *sinks) offer(r record.Record) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, offer := range x.offers {
		offer(r)
	}
}

// sinkStats is what became of the records that one sink was offered.
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
