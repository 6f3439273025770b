// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/export"
)

// exporter is one that runs.
type exporter struct {
	config config.Export
	jsonl  *export.JSONL
	stop   context.CancelFunc
	done   chan struct{}
}

// exporters are those of the running configuration.
type exporters struct {
	stdout io.Writer

	mu      sync.RWMutex
	running []*exporter
}

// replacement is a change of exporters that has not happened yet.
type replacement struct {
	set  *exporters
	next []*exporter
	made []*exporter
}

// prepare opens what a configuration needs and does not run yet.
func (x *exporters) prepare(wanted []config.Export) (*replacement, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := &replacement{set: x}
	for _, c := range wanted {
		i := slices.IndexFunc(x.running, func(e *exporter) bool { return e.config == c })
		if i >= 0 && !slices.Contains(r.next, x.running[i]) {
			r.next = append(r.next, x.running[i])
			continue
		}
		jsonl, err := export.OpenJSONL(c.Path, x.stdout)
		if err != nil {
			r.abandon()
			return nil, err
		}
		e := &exporter{config: c, jsonl: jsonl, done: make(chan struct{})}
		r.next, r.made = append(r.next, e), append(r.made, e)
	}
	return r, nil
}

// abandon closes what prepare opened.
func (r *replacement) abandon() {
	for _, e := range r.made {
		e.jsonl.Close()
	}
}

// commit starts what is new and ends what is no longer wanted, after it has
// written what it holds.
func (r *replacement) commit() {
	for _, e := range r.made {
		ctx, cancel := context.WithCancel(context.Background())
		e.stop = cancel
		go func() {
			defer close(e.done)
			e.jsonl.Run(ctx)
		}()
	}
	r.set.mu.Lock()
	old := r.set.running
	r.set.running = r.next
	r.set.mu.Unlock()
	for _, e := range old {
		if !slices.Contains(r.next, e) {
			e.stop()
			<-e.done
		}
	}
}

// close ends all of them.
func (x *exporters) close() { (&replacement{set: x}).commit() }

// wantFields tells whether one of them reads the fields of records.
func (x *exporters) wantFields() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.running) > 0
}

// offer hands a record to all.
func (x *exporters) offer(r export.Record) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, e := range x.running {
		e.jsonl.Offer(r)
	}
}

// namedStats is what became of the records that one exporter was offered.
type namedStats struct {
	name string
	export.Stats
}

func (x *exporters) stats() []namedStats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]namedStats, 0, len(x.running))
	for _, e := range x.running {
		out = append(out, namedStats{e.jsonl.Name(), e.jsonl.Stats()})
	}
	return out
}
