// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"time"

	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/record"
)

// QueueWatch finds queues of this node's interfaces in which packets wait longer than usual, or that drop them.
// It judges them as an engine judges nodes that hold packets, by one clock.
type QueueWatch struct {
	engine   *Engine
	interval int       // of the engine's baselines, when they were saved last
	timed    time.Time // when a packet was, at about most
}

// NewQueueWatch makes it.
func NewQueueWatch(now time.Time) *QueueWatch {
	return &QueueWatch{engine: New(Settings{Octets: 1}, now)}
}

// queueEvents are the events of queues, by those of nodes.
var queueEvents = map[string]string{
	record.EventHeldLong: record.EventQueueSlow, record.EventHeldUsual: record.EventQueueUsual,
	record.EventLoss: record.EventQueueDrops, record.EventLossEnded: record.EventQueueDropsEnd,
}

// Add takes what an interface's queue did since the last time: how long packets waited in it, and how many
// came and were dropped.
func (q *QueueWatch) Add(now time.Time, name string, waits *exponential.Delays, packets Loss) {
	e := q.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	key := ends{source: name}
	p := e.pairs[key]
	if p == nil {
		if len(e.pairs) >= mostPairs || e.hops >= mostHops {
			return
		}
		p = newPair(key)
		e.pairs[key] = p
		p.Paths = append(p.Paths, &Path{ID: "queue", Hops: []Hop{{Place: Place{Node: name}}}})
		e.hops++
	}
	if len(p.Paths) == 0 { // it was not used in the interval before
		p.Paths = append(p.Paths, &Path{ID: "queue", Hops: []Hop{{Place: Place{Node: name}}}})
	}
	path := p.Paths[0]
	path.Packets += packets.Sent
	p.Packets += packets.Sent
	path.Hops[0].Held.Merge(waits)
	path.Hops[0].Loss.add(packets)
}

// Judge gives what was found since the last time. The caller calls it about every second.
func (q *QueueWatch) Judge(now time.Time) []Finding {
	q.engine.Advance(now)
	list := q.engine.Judge(now)
	for i := range list {
		f := &list[i]
		for _, name := range []*string{&f.Event, &f.Ends} {
			if of := queueEvents[*name]; of != "" {
				*name = of
			}
		}
		f.Source, f.Destination = "", ""
	}
	return list
}
