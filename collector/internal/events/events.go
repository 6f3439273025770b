// SPDX-License-Identifier: Apache-2.0

// Package events finds what happened in what a collector receives: nodes and segments that are slower than usual,
// losses, nodes that report nothing any more, paths that moved. Of packets with Direct Exports, only the collector
// knows whole paths.
package events

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/eventlog"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

const (
	// Rate is how many packets a second are looked at. A tenth of them may come in each tenth of a second, so that
	// they are of the whole of it.
	Rate  = 20_000
	parts = 10
	// look is how often it is looked what is new.
	look = time.Second
	// keptTime and keptOctets bound what the engine keeps of intervals that ended, which a collector does not show.
	keptTime, keptOctets = 10 * time.Minute, 1 << 20
)

// Options are what a Finder is made with.
type Options struct {
	Node       string        // that finds events
	ClockError time.Duration // by which a difference of two nodes' clocks may be wrong; below 0: unknown
	File       string        // keeps what has begun for the next collector
	Names      func() []nodenames.Node
	Log        func(level slog.Level, text string) // for the operator
}

// Finder is a sink that finds events in records, and offers them to others.
type Finder struct {
	options Options
	engine  *insight.Engine
	log     *eventlog.Log
	to      []sink.Sink
	queue   *sink.Queue
	file    *eventlog.File

	mu         sync.Mutex
	part       int64 // of the time, in which taken were taken
	taken      int
	examined   uint64
	unexamined uint64

	// Only for the goroutine that looks.
	lines eventlog.Lines
	heard *nodenames.Names // of nodes in joined packets, by their ids: an exporter may send its name and not its id
}

// New makes a Finder, with what an earlier one saw begin.
func New(o Options, now time.Time) *Finder {
	f := &Finder{
		options: o, log: eventlog.New(time.Hour), heard: nodenames.New(), queue: sink.NewQueue(collect.NewQueueSpace()),
		engine: insight.New(insight.Settings{Keep: keptTime, Octets: keptOctets}, now),
	}
	f.engine.Watch(now, true)
	f.engine.SetClockError(int64(max(o.ClockError, insight.UnknownClock)))
	f.file = eventlog.NewFile(o.File, f.log)
	if err := f.file.Restore(now); err != nil {
		o.Log(slog.LevelWarn,
			fmt.Sprintf("what was going on before the start could not be read completely, so that its end is no event: %v", err))
	}
	return f
}

// Tell says which sinks get events. It is called before Run.
func (f *Finder) Tell(to ...sink.Sink) { f.to = to }

// Name is its name among outputs.
func (f *Finder) Name() string { return "events" }

// Close does nothing.
func (f *Finder) Close() {}

// Stats are those of the records in which events are looked for.
func (f *Finder) Stats() sink.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sink.Stats{Offered: f.examined, Written: f.examined - uint64(f.queue.Len())}
}

// Offer queues those that are looked at: that takes longer than the stage that joins may wait.
func (f *Finder) Offer(records ...record.Record) {
	list := f.selected(time.Now(), records)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range list {
		if f.queue.Put(r) {
			f.examined++
		} else {
			f.unexamined++
		}
	}
}

// selected are those that are looked at: of packets, as many as the rate, and what is counted of flows. What a node
// reports of a packet that is not joined is its own to judge.
func (f *Finder) selected(now time.Time, records []record.Record) (list []record.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if part := now.UnixNano() / int64(time.Second/parts); part != f.part {
		f.part, f.taken = part, 0
	}
	for _, r := range records {
		switch r.(type) {
		case *record.Path, *record.Trace:
			if f.taken >= Rate/parts {
				f.unexamined++
				continue
			}
			f.taken++
		case *record.Loss, *record.Flow, *record.EdgeFlow:
		default:
			continue
		}
		list = append(list, r)
	}
	return list
}

// Run looks at records, and every second at what is new in them. When the context ends, it tells what the records say
// that wait.
func (f *Finder) Run(ctx context.Context) {
	each := time.NewTicker(look)
	defer each.Stop()
	var taken []record.Record
	for {
		select {
		case <-ctx.Done():
			f.add(time.Now(), f.queue.Drain(taken))
			f.look(time.Now())
			return
		case <-f.queue.Ready():
			taken = f.queue.Drain(taken)
			f.add(time.Now(), taken)
		case now := <-each.C:
			f.look(now)
		}
	}
}

func (f *Finder) add(now time.Time, records []record.Record) {
	for _, r := range records {
		if one, is := r.(*record.Path); is {
			f.hear(one.Nodes)
		}
	}
	f.engine.Add(now, records...)
}

// hear takes the names of nodes.
func (f *Finder) hear(nodes []record.PathNode) {
	for i := range nodes {
		n := &nodes[i]
		node := nodenames.Node{ID: ioam.NodeIDUnavailable, IDWide: ioam.NodeIDWideUnavailable, Name: n.Node}
		switch {
		case n.Node == "":
			continue
		case n.NodeID.Valid && f.heard.Node(n.NodeID.Value) != n.Node:
			node.ID = n.NodeID.Value
		case !n.NodeID.Valid && n.NodeIDWide.Valid && f.heard.NodeWide(n.NodeIDWide.Value) != n.Node:
			node.IDWide = n.NodeIDWide.Value
		default:
			continue
		}
		f.heard.Add(node)
	}
}

func (f *Finder) look(now time.Time) {
	f.engine.Advance(now)
	if found := f.engine.Judge(now); len(found) > 0 {
		list := f.options.Names() // they are bounded there
		names := nodenames.NewLimited(nodenames.Limits{Nodes: len(list) + nodenames.MaxNodes, Interfaces: math.MaxInt}, list...)
		names.AddUnknown(f.heard)
		for i := range found {
			found[i].Name(names)
			f.tell(found[i].Record(f.options.Node), now)
		}
	}
	for _, e := range f.log.Unseen(now, f.options.Node) {
		f.tell(e, now)
	}
	f.save()
}

// tell tells an event, unless it repeats too often or what it says has begun already.
func (f *Finder) tell(e *record.Event, now time.Time) {
	if !f.log.Add(e) {
		return
	}
	f.writeLine(e, now)
	for _, s := range f.to {
		s.Offer(e)
	}
}

// writeLine writes a line for the operator, or counts one that is too many.
func (f *Finder) writeLine(e *record.Event, now time.Time) {
	write, leftOut := f.lines.Next(now)
	if leftOut > 0 {
		f.options.Log(slog.LevelWarn, fmt.Sprintf("%d more events than lines here; ask the API for them at /v1/events", leftOut))
	}
	if write {
		text := e.Name + ": " + e.Facts
		if e.Severity == record.SeverityInfo {
			f.options.Log(slog.LevelInfo, "info: "+text)
			return
		}
		f.options.Log(slog.LevelWarn, text) // as in the log of an agent: the collector itself has no error
	}
}

func (f *Finder) save() {
	if err := f.file.Save(); err != nil {
		f.options.Log(slog.LevelWarn, fmt.Sprintf("the next collector will not know what is going on: %v", err))
	}
}

var (
	descTold  = &metrics.Desc{Name: "waymark_events_total", Help: "Events that were told, by kind of event.", Labels: []string{"kind"}}
	descBegun = &metrics.Desc{
		Name: "waymark_events_begun", Help: "What has begun and not ended, by the kind of event that began it.", Labels: []string{"kind"},
	}
	descLeftOut = &metrics.Desc{
		Name: "waymark_events_left_out_total",
		Help: "Events that were not told, because there were six of their kind and subject in ten minutes, or 1000 in a minute.",
	}
	descUnexamined = &metrics.Desc{
		Name: "waymark_events_unexamined_total",
		Help: "Records in which no events were looked for: of packets beyond 20,000 a second, and all beyond those that may wait.",
	}
)

// Collect adds the metrics. The kinds that a collector finds exist from the start.
func (f *Finder) Collect(g *metrics.Gatherer) {
	t := f.log.Totals()
	for _, name := range kinds {
		g.Add(descTold, float64(t.Admitted[name]), name)
		if record.EventKindOf(name).Begins() {
			g.Add(descBegun, float64(t.Begun[name]), name)
		}
	}
	g.Add(descLeftOut, float64(t.LeftOut))
	f.mu.Lock()
	defer f.mu.Unlock()
	g.Add(descUnexamined, float64(f.unexamined))
}

// kinds are the events that a collector finds.
var kinds = []string{
	record.EventSegmentSlow, record.EventSegmentUsual, record.EventHeldLong, record.EventHeldUsual, record.EventLoss, record.EventLossEnded,
	record.EventPathsMoved, record.EventNodeSilent, record.EventNodeHeard, record.EventNotSeen,
}
