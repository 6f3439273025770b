// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// longestGap is the longest time without results that a record is made of. What looks longer
// is a clock that was set, or another length of blocks.
const longestGap = 31 * 24 * time.Hour

// continueAfter notes which block of each flow had a result last: by this agent, or, as the
// data plane remembers, by an earlier one.
func (m *LossMeter) continueAfter(before model.Measurement, b *closedBlock) {
	next := make(map[string]int64, len(b.measurement.Flows))
	for i := range b.measurement.Flows {
		name := b.measurement.Flows[i].Name
		last, known := m.reported[name]
		if !known || before.Block != b.measurement.Block {
			last = int64(b.counts[name].LastReported)
		}
		if last > 0 {
			next[name] = last
		}
	}
	m.reported = next
}

// fillGap reports the blocks of a flow before a result that have none, because no agent ran,
// or the clock leapt: as one record without data, however many they are.
func (m *LossMeter) fillGap(f *model.MeasuredFlow, r *loss.Result) {
	last, known := m.reported[f.Name]
	m.reported[f.Name] = max(last, r.Block)
	blocks := r.Block - last - 1
	if !known || blocks < 1 || blocks > int64(longestGap/r.Length) {
		return
	}
	gap := noData(r, last+1, blocks)
	list := recordsOfResult(m.d.NodeName(), f, &gap, instant.Of(time.Now()))
	m.pastResults.add(&gap, f.Name, "", "")
	m.results = append(m.results, flowResult{flow: f.Name, list: list})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.verdicts[loss.NoData] += uint64(blocks)
	if f.Metrics {
		n := m.named[f.Name]
		n.verdicts[loss.NoData] += uint64(blocks)
		m.named[f.Name] = n
	}
}

// noData is the result of several blocks of which nothing is known.
func noData(like *loss.Result, first, blocks int64) loss.Result {
	missing := func(p loss.PointID) loss.End {
		return loss.End{Point: p, Reasons: loss.Missing, ClockError: loss.UnknownClock}
	}
	return loss.Result{
		Flow: like.Flow, Block: first, Start: first * int64(like.Length), Length: time.Duration(blocks) * like.Length,
		Whole: loss.Segment{From: missing(like.Whole.From.Point), To: missing(like.Whole.To.Point), Verdict: loss.NoData},
	}
}
