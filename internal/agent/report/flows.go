// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
)

// Flows makes records of the data plane's flows at the end of each interval.
type Flows struct {
	service.Idle
	d      Dependencies
	reader *Reader
	gaps   Gaps
	flowAllowance
	suppressed atomic.Uint64
	more       atomic.Uint64 // packets of the suppressed flows, minus one each
}

// NewFlows makes the service, whose flows the reader makes records of.
func NewFlows(d Dependencies, reader *Reader, known Gaps) *Flows {
	return &Flows{d: d, reader: reader, gaps: known}
}

func (f *Flows) Run(ctx context.Context) error {
	for took := time.Duration(0); service.Sleep(ctx, max(exportInterval(f.d.State.Load())-took, 0)); {
		began := time.Now()
		f.end()
		took = time.Since(began)
	}
	return nil
}

// mayHaveMissed reports whether packets may have passed the programs in an interval that ends now, or in
// the one before, whose missing packets may be noticed in this one.
func mayHaveMissed(noted *coverage.Log, interval time.Duration) bool {
	now := time.Now()
	return noted.Within("", coverage.Both, now.Add(-2*interval).UnixNano(), now.UnixNano())&loss.NotExecuted != 0
}

// Close exports the flows of tables that are gone, which the next agent does not see.
func (f *Flows) Close(bool) { f.end() }

// end exports the flows of an interval.
func (f *Flows) end() {
	f.gaps.Look(fewLooks)
	left := f.grant(time.Now(), f.d.State.Load().Resolved.Node.ExportRate, exportInterval(f.d.State.Load()))
	err := f.d.Datapath.CollectFlows(func(flow datapath.Flow) {
		switch {
		case flow.Paid: // counted when it was handed over
		case left == 0:
			f.suppressed.Add(1)
			f.more.Add(max(flow.Packets, 1) - 1)
			return
		default:
			left--
		}
		f.reader.flow(flow)
	})
	if err != nil {
		f.d.Log.Warn("flows could not be read", "error", err)
	}
}

var (
	descFlowsSuppressed = service.Metric("flows_suppressed_total", "Flows that export-rate suppressed when their interval ended.")
	descFlowsUnsure     = service.Metric(
		"flows_gaps_unknown_total",
		"Flow records without the number of missing packets, because it is not known.",
	)
)

func (f *Flows) Collect(g *metrics.Gatherer) {
	g.Add(descFlowsSuppressed, float64(f.suppressed.Load()))
	g.Add(descFlowsUnsure, float64(f.reader.flowsUnsure.Load()))
}

// flowAllowance is how many flows may be exported when an interval ends.
type flowAllowance struct {
	collected time.Time // when flows were last exported
}

// grant is the number of flows that a rate per second allows for the time since the
// last grant (RFC 9326 §3.1.2), at most an interval.
func (f *flowAllowance) grant(now time.Time, rate uint32, interval time.Duration) uint64 {
	since := interval
	if !f.collected.IsZero() {
		since = min(max(now.Sub(f.collected), time.Second), interval)
	}
	f.collected = now
	return uint64(since.Seconds() * float64(cmp.Or(rate, model.DefaultExportRate)))
}
