// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// shortfalls warns of counters of services that recently grew, although nothing should be lost
// or missing there. It reads them as metrics, so a service has nothing to do for it.
type shortfalls struct {
	service.Idle
	*core
	gather  func(*metrics.Gatherer) // the metrics of all services
	recent  []service.Samples       // as health.CountedHere
	watched []health.Counter
	names   []string             // of the metrics
	logged  map[health.Code]bool // only for the goroutine that notes
}

func newShortfalls(c *core, gather func(*metrics.Gatherer)) *shortfalls {
	x := &shortfalls{core: c, gather: gather, watched: health.CountedHere()}
	x.recent = make([]service.Samples, len(x.watched))
	for _, w := range x.watched {
		x.names = append(x.names, metricOf(w))
	}
	return x
}

func metricOf(c health.Counter) string { return "waymark_" + c.Metric + "_total" }

// Prepare notes the counters of a start, because only growth is warned of.
func (x *shortfalls) Prepare(p *service.Plan) error {
	if p.Before == nil {
		p.OnCommit(x.sampleTotals)
	}
	return nil
}

func (x *shortfalls) Run(ctx context.Context) error {
	x.tasks.Every(ctx, service.SamplePeriod, func() {
		x.sampleTotals()
		x.logBegin()
	})
	return nil
}

func (x *shortfalls) totals() []uint64 {
	g := metrics.Only(x.names...)
	x.gather(g)
	list := make([]uint64, len(x.watched))
	for i, w := range x.watched {
		list[i] = uint64(g.Sum(x.names[i], w.Value))
	}
	return list
}

func (x *shortfalls) sampleTotals() {
	now := time.Now()
	for i, total := range x.totals() {
		x.recent[i].Add(now, total)
	}
}

func (x *shortfalls) Warnings(*service.State) []health.Warning {
	totals := x.totals()
	for i := range totals {
		totals[i] = x.recent[i].Growth(totals[i])
	}
	return health.Counted(totals)
}

// logBegin logs when something begins to be lost, because no reload does.
func (x *shortfalls) logBegin() {
	now := make(map[health.Code]bool)
	for _, w := range health.WithoutHints(x.Warnings(nil)) {
		if !x.logged[w.Code] && !now[w.Code] {
			x.logWarning(w)
		}
		now[w.Code] = true
	}
	x.logged = now
}
