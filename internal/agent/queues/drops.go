// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath/queue"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// drops are the packets that queues of served interfaces dropped in about the last minute, as the kernel counts
// them, whether queues are measured or not.
type drops struct {
	logged map[model.IfIndex]bool // the current warnings are in the log; only for the goroutine that looks

	mu      sync.Mutex // guards what follows
	sampled time.Time
	queues  map[model.IfIndex]*dropped
}

// dropped is what one queue dropped.
type dropped struct {
	kind   string
	total  uint64 // at the last look
	recent service.Samples
}

// due reports whether it is time for another look.
func (d *drops) due(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return now.Sub(d.sampled) >= service.SamplePeriod
}

// add adds a look at the queues.
func (d *drops) add(served []model.Interface, disciplines map[model.IfIndex]queue.Discipline, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sampled = now
	next := make(map[model.IfIndex]*dropped, len(served))
	for _, in := range served {
		seen, there := disciplines[in.Index]
		if !there {
			continue
		}
		one := d.queues[in.Index]
		if one != nil && seen.Dropped < one.total { // another queue, which counts from 0
			one = &dropped{}
			one.recent.Add(now, 0)
		}
		if one == nil {
			one = &dropped{}
		}
		one.kind, one.total = seen.Kind, seen.Dropped
		one.recent.Add(now, seen.Dropped)
		next[in.Index] = one
	}
	d.queues = next
}

// warnings are about the queues of served interfaces that dropped packets.
func (d *drops) warnings(served []model.Interface) (ws []health.Warning) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, in := range served {
		if one := d.queues[in.Index]; one != nil {
			ws = append(ws, health.DroppedInQueue(in.Name, one.kind, one.recent.Growth(one.total))...)
		}
	}
	return ws
}

// sampleDrops looks at the queues from time to time, and logs when one begins to drop packets.
func (q *Queues) sampleDrops(now time.Time) {
	state := q.d.State.Load()
	if state == nil || !q.drops.due(now) {
		return
	}
	disciplines, err := q.d.Machine.Disciplines()
	if err != nil {
		q.d.Log.Debug("look at the kernel's queues", "error", err)
		return
	}
	served := state.Resolved.Node.Interfaces
	q.drops.add(served, disciplines, now)
	logged := make(map[model.IfIndex]bool)
	for _, in := range served {
		for _, w := range q.drops.warnings([]model.Interface{in}) {
			if logged[in.Index] = true; !q.drops.logged[in.Index] {
				service.LogWarning(q.d.Log, w)
			}
		}
	}
	q.drops.logged = logged
}

// Warnings are about queues that drop packets.
func (q *Queues) Warnings(s *service.State) []health.Warning {
	return q.drops.warnings(s.Resolved.Node.Interfaces)
}
