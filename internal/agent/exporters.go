// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"sync"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// exporter is one that runs: one of jsonl and collector is there.
type exporter struct {
	config    config.Export
	node      ioam.NodeID // the default of the observation domain
	jsonl     *export.JSONL
	collector *export.Collector
	stop      context.CancelFunc
	done      chan struct{}
}

func (e *exporter) run(ctx context.Context) {
	if e.collector != nil {
		e.collector.Run(ctx)
	} else {
		e.jsonl.Run(ctx)
	}
}

// exporters are those of the running configuration.
type exporters struct {
	stdout io.Writer
	log    *slog.Logger
	facts  func() export.Facts

	mu      sync.RWMutex
	running []*exporter
	groups  []group // of the collectors in running
	fields  bool    // one of running reads the fields of records
}

// group is collectors that get the same octets.
type group struct {
	enterprise ipfix.Enterprise
	encoder    *export.IPFIX
	collectors []*export.Collector
}

// replacement is a change of exporters that has not happened yet.
type replacement struct {
	set    *exporters
	next   []*exporter
	made   []*exporter
	groups []group
}

// prepare opens what a configuration needs and does not run yet.
func (x *exporters) prepare(wanted []config.Export, node ioam.NodeID) (*replacement, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := &replacement{set: x}
	for _, c := range wanted {
		e, err := r.exporter(c, node)
		if err != nil {
			r.abandon()
			return nil, err
		}
		r.next = append(r.next, e)
	}
	return r, nil
}

// exporter finds one that runs, or makes it.
func (r *replacement) exporter(c config.Export, node ioam.NodeID) (*exporter, error) {
	var encoder *export.IPFIX
	if c.Kind == config.ExportIPFIX {
		var err error
		if encoder, err = r.encoder(c.EnterpriseNumber()); err != nil {
			return nil, err
		}
	}
	i := slices.IndexFunc(r.set.running, func(e *exporter) bool {
		return reflect.DeepEqual(e.config, c) && (e.collector == nil || e.node == node)
	})
	if i >= 0 && !slices.Contains(r.next, r.set.running[i]) {
		r.keep(r.set.running[i])
		return r.set.running[i], nil
	}
	e := &exporter{config: c, node: node, done: make(chan struct{})}
	var err error
	if encoder != nil {
		e.collector, err = export.NewCollector(c.Collector(node), encoder, r.set.facts, r.set.log)
	} else {
		e.jsonl, err = export.OpenJSONL(c.File(), r.set.stdout)
	}
	if err != nil {
		return nil, err
	}
	r.made = append(r.made, e)
	r.keep(e)
	return e, nil
}

// encoder gives that of an enterprise number: the one that is in use, if any.
func (r *replacement) encoder(enterprise ipfix.Enterprise) (*export.IPFIX, error) {
	same := func(g group) bool { return g.enterprise == enterprise }
	if i := slices.IndexFunc(r.groups, same); i >= 0 {
		return r.groups[i].encoder, nil
	}
	g := group{enterprise: enterprise}
	if i := slices.IndexFunc(r.set.groups, same); i >= 0 {
		g.encoder = r.set.groups[i].encoder
	} else {
		var err error
		if g.encoder, err = export.NewIPFIX(enterprise); err != nil {
			return nil, err
		}
	}
	r.groups = append(r.groups, g)
	return g.encoder, nil
}

// keep puts an exporter's collector into its group.
func (r *replacement) keep(e *exporter) {
	for i := range r.groups {
		if g := &r.groups[i]; e.collector != nil && g.enterprise == e.config.EnterpriseNumber() {
			g.collectors = append(g.collectors, e.collector)
		}
	}
}

// abandon closes what prepare opened.
func (r *replacement) abandon() {
	for _, e := range r.made {
		if e.jsonl != nil {
			e.jsonl.Close()
		}
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
			e.run(ctx)
		}()
	}
	r.set.mu.Lock()
	old := r.set.running
	r.set.running, r.set.groups = r.next, r.groups
	r.set.fields = slices.ContainsFunc(r.next, func(e *exporter) bool { return e.jsonl != nil })
	r.set.mu.Unlock()
	for _, e := range old {
		if !slices.Contains(r.next, e) {
			e.stop()
		}
	}
	for _, e := range old {
		if !slices.Contains(r.next, e) {
			<-e.done
		}
	}
}

// close ends all of them.
func (x *exporters) close() { (&replacement{set: x}).commit() }

// announce tells collectors that the facts may have changed.
func (x *exporters) announce() {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, g := range x.groups {
		for _, c := range g.collectors {
			c.Announce()
		}
	}
}

// wantFields tells whether one of them reads the fields of records.
func (x *exporters) wantFields() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.fields
}

// any tells whether there are exporters.
func (x *exporters) any() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.running) > 0
}

// encode hands a record to the collectors alone.
func (x *exporters) encode(r export.Record) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.encodeLocked(r)
}

func (x *exporters) encodeLocked(r export.Record) {
	for _, g := range x.groups {
		if len(g.collectors) > 0 {
			g.encoder.Offer(r, g.collectors)
		}
	}
}

// offer hands a record to all.
func (x *exporters) offer(r export.Record) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.encodeLocked(r)
	if !x.fields {
		return
	}
	for _, e := range x.running {
		if e.jsonl != nil {
			e.jsonl.Offer(r)
		}
	}
}

// exporterStats is what became of the records that one exporter was offered.
type exporterStats struct {
	name    string
	network bool // it has a connection
	export.Stats
}

// lost are the records that were not written, by cause.
func (s exporterStats) lost() map[string]uint64 {
	other := "write_failed"
	if s.network {
		other = "connection_lost"
	}
	return map[string]uint64{"queue_full": s.Dropped, other: s.Lost, "encode": s.Unencodable}
}

func (x *exporters) stats() []exporterStats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]exporterStats, 0, len(x.running))
	for _, e := range x.running {
		if e.collector != nil {
			out = append(out, exporterStats{e.collector.Name(), true, e.collector.Stats()})
		} else {
			out = append(out, exporterStats{e.jsonl.Name(), false, e.jsonl.Stats()})
		}
	}
	return out
}
