// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
)

// clockRecords are the records of blocks that sinks get besides the results: of each node, the one with the greatest
// error of its clock in each interval. There may be thousands of blocks a second, and all of a node say the same of its
// clock.
type clockRecords struct {
	interval time.Duration // 0: sinks get none
	most     int           // nodes
	nodes    map[join.Exporter]*clockRecord
	emit     func(record.Record)
}

// clockRecord is the next one of a node.
type clockRecord struct {
	last     time.Time     // when sinks got the one before
	greatest *record.Block // nil: none came since
}

func newClockRecords(interval time.Duration, most int, emit func(record.Record)) clockRecords {
	return clockRecords{interval: interval, most: most, nodes: map[join.Exporter]*clockRecord{}, emit: emit}
}

// add gives out the first record of a node at once, so that its clock is known from then on.
func (c *clockRecords) add(from join.Exporter, b *record.Block, now time.Time) {
	if c.interval == 0 || b.Node == "" || !b.ClockError.Valid {
		return
	}
	n := c.nodes[from]
	if n == nil {
		if len(c.nodes) >= c.most {
			return
		}
		n = &clockRecord{}
		c.nodes[from] = n
	}
	if n.greatest == nil || n.greatest.ClockError.Value < b.ClockError.Value {
		n.greatest = b
	}
	c.giveOut(n, now)
}

func (c *clockRecords) giveOut(n *clockRecord, now time.Time) {
	if n.greatest != nil && now.Sub(n.last) >= c.interval {
		c.emit(n.greatest)
		n.last, n.greatest = now, nil
	}
}

// expire gives out what is due of nodes that send nothing any more, and forgets them.
func (c *clockRecords) expire(now time.Time) {
	for from, n := range c.nodes {
		if c.giveOut(n, now); n.greatest == nil && now.Sub(n.last) >= c.interval {
			delete(c.nodes, from)
		}
	}
}

// finish gives out all that waits.
func (c *clockRecords) finish() {
	for _, n := range c.nodes {
		if n.greatest != nil {
			c.emit(n.greatest)
		}
	}
	clear(c.nodes)
}
