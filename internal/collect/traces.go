// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"container/list"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
)

// hopsLimit is how many records of unfinished traces are kept.
const hopsLimit = 1 << 14

// traceWait is how long a trace waits for its hops, which an exporter sends in
// sequence.
const traceWait = time.Second

// traceKey identifies a trace of an exporter.
type traceKey struct {
	join.Exporter
	report uint32
}

// partial is a trace with some of its hops.
type partial struct {
	key   traceKey
	since time.Time
	trace *record.Trace
	has   []bool // by hop
	count int
	place *list.Element
}

// traces joins the records of a trace, one for each hop.
type traces struct {
	open  map[traceKey]*partial
	queue *list.List // of *partial, by since
	hops  int        // in open
}

func newTraces() traces { return traces{open: map[traceKey]*partial{}, queue: list.New()} }

// hop takes the record of one hop.
func (c *joining) hop(from origin, h *record.Hop, now time.Time) {
	if !h.Count.Valid || !h.Report.Valid || h.Count.Value == 0 {
		t := h.Trace
		t.Nodes = []record.NodeData{h.Data} // nothing to join it by
		if h.Count.Valid && h.Count.Value == 0 {
			t.Nodes = t.Nodes[:0] // no node wrote into it
		}
		c.stats.Traces++
		t.Name(c.names.known)
		c.emit(t)
		return
	}
	key, count, index := traceKey{from.exporter, h.Report.Value}, int(h.Count.Value), h.Index.Value
	p := c.traces.open[key]
	if p != nil && (len(p.has) != count || p.has[index]) {
		c.finish(p) // another trace with its number
		p = nil
	}
	if p == nil {
		p = &partial{key: key, since: now, trace: h.Trace, has: make([]bool, count)}
		p.trace.Nodes = make([]record.NodeData, count)
		p.place = c.traces.queue.PushBack(p)
		c.traces.open[key] = p
		c.traces.hops += count
	}
	p.trace.Nodes[index], p.has[index] = h.Data, true
	if h.PathDelay.Present { // one hop has it
		p.trace.PathDelay = h.PathDelay
	}
	if p.count++; p.count == count {
		c.finish(p)
	}
	for c.traces.hops > hopsLimit {
		c.finish(c.traces.queue.Front().Value.(*partial))
	}
}

// finish emits a trace with the hops that have come.
func (c *joining) finish(p *partial) {
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
	p.trace.Name(c.names.known)
	c.emit(p.trace)
}

// expireTraces emits the traces that have waited that long.
func (c *joining) expireTraces(now time.Time, wait time.Duration) {
	for e := c.traces.queue.Front(); e != nil; e = c.traces.queue.Front() {
		p := e.Value.(*partial)
		if now.Sub(p.since) < wait {
			return
		}
		c.finish(p)
	}
}
