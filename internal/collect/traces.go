// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"container/list"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// hopsLimit is how many records of unfinished traces are kept.
const hopsLimit = 1 << 14

// traceWait is how long a trace waits for its hops, which one exporter sends in
// a row.
const traceWait = time.Second

// traceKey tells the traces of an exporter apart.
type traceKey struct {
	join.Exporter
	report uint32
}

// partial is a trace of which some hops have come.
type partial struct {
	key   traceKey
	since time.Time
	trace *export.TraceRecord
	has   []bool // by hop
	count int
	place *list.Element
}

// traces puts the records of a trace, one for each hop, together.
type traces struct {
	open  map[traceKey]*partial
	queue *list.List // of *partial, by since
	hops  int        // in open
}

func newTraces() traces { return traces{open: map[traceKey]*partial{}, queue: list.New()} }

// hop takes the record of one hop.
func (c *Collector) hop(from origin, r *reading, now time.Time) {
	if !r.hopCount.Valid || !r.report.Valid || r.hopCount.Value == 0 {
		t := c.trace(from, r)
		t.Nodes = []export.TraceNode{r.data} // nothing to put it together by
		if r.hopCount.Valid && r.hopCount.Value == 0 {
			t.Nodes = t.Nodes[:0] // no node wrote into it
		}
		c.stats.Traces++
		c.emit(t)
		return
	}
	key, count, index := traceKey{from.exporter, r.report.Value}, int(r.hopCount.Value), r.hopIndex.Value
	p := c.traces.open[key]
	if p != nil && (len(p.has) != count || p.has[index]) {
		c.finish(p) // another trace with its number
		p = nil
	}
	if p == nil {
		p = &partial{key: key, since: now, trace: c.trace(from, r), has: make([]bool, count)}
		p.trace.Nodes = make([]export.TraceNode, count)
		p.place = c.traces.queue.PushBack(p)
		c.traces.open[key] = p
		c.traces.hops += count
	}
	p.trace.Nodes[index], p.has[index] = r.data, true
	if r.pathDelay.Present { // one hop tells it
		p.trace.PathDelay = r.pathDelay
	}
	if p.count++; p.count == count {
		c.finish(p)
	}
	for c.traces.hops > hopsLimit {
		c.finish(c.traces.queue.Front().Value.(*partial))
	}
}

// finish shows a trace with the hops that have come.
func (c *Collector) finish(p *partial) {
	delete(c.traces.open, p.key)
	c.traces.queue.Remove(p.place)
	c.traces.hops -= len(p.has)
	if c.stats.Traces++; p.count < len(p.has) {
		c.stats.TracesCut++
		nodes := p.trace.Nodes[:0]
		for i, has := range p.has {
			if has {
				nodes = append(nodes, p.trace.Nodes[i])
			}
		}
		p.trace.Nodes = nodes
	}
	c.emit(p.trace)
}

// expireTraces shows the traces that have waited so long.
func (c *Collector) expireTraces(now time.Time, wait time.Duration) {
	for e := c.traces.queue.Front(); e != nil; e = c.traces.queue.Front() {
		p := e.Value.(*partial)
		if now.Sub(p.since) < wait {
			return
		}
		c.finish(p)
	}
}

// trace is what all records of a trace say alike.
func (c *Collector) trace(from origin, r *reading) *export.TraceRecord {
	at := r.at
	if at.IsZero() {
		at = from.at
	}
	flags, remaining := r.traceFlags, r.remaining
	return &export.TraceRecord{
		Kind: export.KindTrace, Source: r.source, Time: instant.Of(at), Node: c.names.node(from.exporter),
		Interface: c.names.iface(from.exporter, r.ingress), IfIndex: r.ingress,
		Option: r.optionType(ioam.IOAMPreallocatedTrace).String(), Namespace: r.namespace.Value, TraceType: r.traceType.Value,
		Overflow:  export.Field[bool]{Value: flags.Value&ioam.FlagOverflow != 0, Present: flags.Present, Valid: flags.Valid},
		Remaining: export.Field[int]{Value: int(remaining.Value), Present: remaining.Present, Valid: remaining.Valid},
		PathDelay: r.pathDelay, Packet: r.packet,
	}
}
