// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// RecordLosses counts the records and kernel events that found no room, and the postcards and
// flows that limits suppressed.
type RecordLosses struct {
	service.Idle
	d          Dependencies
	flows      *Flows
	kernel     *KernelEvents
	lost       service.Samples
	suppressed service.Samples
	times      lossTimes

	mu      sync.Mutex
	seen    uint64 // lost records, when last looked
	ignored uint64 // of these, what was lost while only the history wanted records
}

// NewRecordLosses makes the service, and lets exporters of the sinks tell collectors what it counts.
func NewRecordLosses(d Dependencies, sinks *Sinks, flows *Flows, kernel *KernelEvents) *RecordLosses {
	l := &RecordLosses{d: d, flows: flows, kernel: kernel}
	sinks.environment.Facts = l.facts
	return l
}

// Prepare notes what was lost before this agent, because only growth is warned of.
func (l *RecordLosses) Prepare(p *service.Plan) error {
	if p.Before == nil {
		p.OnCommit(l.sampleLosses)
	}
	return nil
}

func (l *RecordLosses) Run(ctx context.Context) error {
	l.d.Tasks.Every(ctx, service.SamplePeriod, l.sampleLosses)
	return nil
}

// total counts since the data plane or the agent was made.
func (l *RecordLosses) total() (lost, suppressed uint64, err error) {
	counters, err := l.d.Datapath.Counters()
	for i := range counters {
		lost += counters[i].RecordsLost
		suppressed += counters[i].ExportsSuppressed
	}
	return lost + l.kernel.count.Lost(), suppressed + l.flows.suppressed.Load(), err
}

// missed counts the lost records that a reader lacks: while only the history wants records, it
// takes a sample of them, and more are made than it takes.
func (l *RecordLosses) missed(lost uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost > l.seen && l.flows.reader.records.isSampled() {
		l.ignored += lost - l.seen
	}
	l.seen = lost
	return lost - min(l.ignored, lost)
}

func (l *RecordLosses) sampleLosses() {
	if lost, suppressed, err := l.total(); err == nil {
		l.lost.Add(time.Now(), l.missed(lost))
		l.suppressed.Add(time.Now(), suppressed)
		l.times.noteTotal(time.Now(), lost+suppressed)
	}
}

// facts are what exporters send to collectors about the node.
func (l *RecordLosses) facts() sink.Facts {
	f := sink.Facts{Node: l.d.NodeName(), NodeID: ioam.NodeIDUnavailable, NodeIDWide: ioam.NodeIDWideUnavailable}
	if lost, suppressed, err := l.total(); err == nil {
		f.Lost, f.Suppressed, f.Ignored = lost, suppressed, lost+suppressed+l.flows.more.Load()
		f.FirstLoss, f.LastLoss = l.times.noteTotal(time.Now(), lost+suppressed)
	}
	if s := l.d.State.Load(); s != nil {
		f.NodeID, f.NodeIDWide = s.Resolved.Node.ID, s.Resolved.Node.IDWide
		for _, i := range s.Resolved.Node.Interfaces {
			f.Interfaces = append(
				f.Interfaces,
				sink.Interface{Index: i.Index, Name: i.Name, Description: s.Resolved.Descriptions[i.Index], ID: i.ID, IDWide: i.IDWide},
			)
		}
	}
	return f
}

func (l *RecordLosses) Warnings(*service.State) (ws []health.Warning) {
	lost, suppressed, err := l.total()
	if err != nil {
		return nil
	}
	if n := l.lost.Growth(l.missed(lost)); n > 0 {
		ws = append(ws, health.New(health.RecordsLost, "",
			fmt.Sprintf("%d records were lost in the last minute: they came faster than the agent reads them", n),
			"lower the frequency of the encapsulations"))
	}
	if n := l.suppressed.Growth(suppressed); n > 0 {
		ws = append(ws, health.New(health.ExportsSuppressed, "",
			fmt.Sprintf("%d postcards or flows were not exported in the last minute: the export limits were reached", n),
			"select fewer packets at encapsulating nodes (flows, frequency), set export: aggregate, or, if collectors and links can "+
				"take more, raise node.export-limit and node.export-rate",
		))
	}
	return ws
}

// lossTimes is when this agent first and last noticed losses. It checks every few
// seconds, because the data plane counts losses without their time.
type lossTimes struct {
	mu          sync.Mutex
	total       uint64
	first, last time.Time
}

// noteTotal takes the number of losses, and returns the times of the first and the last one. Both
// are zero while there are none.
func (l *lossTimes) noteTotal(now time.Time, total uint64) (first, last time.Time) {
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
