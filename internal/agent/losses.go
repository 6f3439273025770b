// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/sink"
)

// notePeriod is how often counters are sampled to warn of their growth.
const notePeriod = 5 * clockPeriod

// losses counts the records and kernel events that found no room, and the postcards and
// flows that limits suppressed.
type losses struct {
	idle
	*core
	flows      *flows
	kernel     *kernelEvents
	lost       recently
	suppressed recently
	times      lossTimes
}

// prepare notes what was lost before this agent, because only growth is warned of.
func (l *losses) prepare(p *plan) error {
	if p.before == nil {
		p.commit(l.note)
	}
	return nil
}

func (l *losses) run(ctx context.Context) error {
	l.tasks.every(ctx, notePeriod, l.note)
	return nil
}

// total counts since the data plane or the agent was made.
func (l *losses) total() (lost, suppressed uint64, err error) {
	counters, err := l.datapath.Counters()
	for i := range counters {
		lost += counters[i].RecordsLost
		suppressed += counters[i].ExportsSuppressed
	}
	return lost + l.kernel.count.Lost(), suppressed + l.flows.suppressed.Load(), err
}

func (l *losses) note() {
	if lost, suppressed, err := l.total(); err == nil {
		l.lost.add(time.Now(), lost)
		l.suppressed.add(time.Now(), suppressed)
		l.times.note(time.Now(), lost+suppressed)
	}
}

// facts are what exporters send to collectors about the node.
func (l *losses) facts() sink.Facts {
	f := sink.Facts{Node: l.options.NodeName}
	if lost, suppressed, err := l.total(); err == nil {
		f.Lost, f.Suppressed, f.Ignored = lost, suppressed, lost+suppressed+l.flows.more.Load()
		f.FirstLoss, f.LastLoss = l.times.note(time.Now(), lost+suppressed)
	}
	if s := l.state.Load(); s != nil {
		for _, i := range s.resolved.Node.Interfaces {
			f.Interfaces = append(f.Interfaces, sink.Interface{Index: i.Index, Name: i.Name})
		}
	}
	return f
}

func (l *losses) warnings(*state) (ws []health.Warning) {
	lost, suppressed, err := l.total()
	if err != nil {
		return nil
	}
	if n := l.lost.growth(lost); n > 0 {
		ws = append(ws, health.New(health.RecordsLost, "",
			fmt.Sprintf("%d records were lost in the last minute: they came faster than the agent reads them", n),
			"lower the frequency of the encapsulations"))
	}
	if n := l.suppressed.growth(suppressed); n > 0 {
		ws = append(ws, health.New(health.ExportsSuppressed, "",
			fmt.Sprintf("%d postcards or flows were not exported in the last minute: the export limits were reached", n),
			"select fewer packets at encapsulating nodes (flows, frequency), set export: aggregate, or, if collectors and links can take more, raise node.export-limit and node.export-rate"))
	}
	return ws
}

// recently measures how much a counter grew in about the last minute.
type recently struct {
	mu      sync.Mutex
	samples []sample // at most recentSamples, oldest first
}

type sample struct {
	at    time.Time
	total uint64
}

const (
	recentPeriod  = time.Minute
	recentSamples = 12
)

// add notes the counter's value.
func (r *recently) add(at time.Time, total uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, sample{at, total})
	for len(r.samples) > recentSamples || len(r.samples) > 1 && at.Sub(r.samples[0].at) > recentPeriod {
		r.samples = r.samples[1:]
	}
}

// full reports whether the samples go back as far as they are kept.
func (r *recently) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.samples) == recentSamples
}

// growth is how much the counter grew since the oldest sample.
func (r *recently) growth(total uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) == 0 || total < r.samples[0].total {
		return 0
	}
	return total - r.samples[0].total
}

// lossTimes is when this agent first and last noticed losses. It checks every few
// seconds, because the data plane counts losses without their time.
type lossTimes struct {
	mu          sync.Mutex
	total       uint64
	first, last time.Time
}

// note takes the number of losses and returns both times, which are zero while there
// are none.
func (l *lossTimes) note(now time.Time, total uint64) (first, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if total > l.total {
		if l.first.IsZero() {
			l.first = now
		}
		l.last = now
	}
	l.total = total
	return l.first, l.last
}
