// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// SampleEvery is the n of sampling: the limit that RFC 9326 §3.1.2 recommends.
const SampleEvery = 100

// exports records what happened to the exports of a burst, and checks them
// against the export mode: each was written or is counted as lost.
func (m *measuring) exports(v *Variant, l *line, before, after [][]datapath.Counters) error {
	if v.Exports == model.ExportNone || len(v.Wants) == 0 {
		return nil
	}
	n := l.Nodes[v.Wants[0].Node]
	was, is := sumExports(before[v.Wants[0].Node]), sumExports(after[v.Wants[0].Node])
	made := report.Exports{Written: is.Written - was.Written, Lost: is.Lost - was.Lost, Suppressed: is.Suppressed - was.Suppressed}
	due := v.counted(l, before, after)
	postcards := made.Written + made.Lost
	switch {
	case made.Suppressed > 0:
		return fmt.Errorf("limits suppressed %d exports", made.Suppressed)
	case n.reader == nil && postcards > 0:
		return fmt.Errorf("%d postcards, although no reader asked for any", postcards)
	case n.reader == nil:
		return nil
	case v.Exports == model.ExportEvery && postcards != due,
		v.Exports == model.ExportAggregate && postcards > 0,
		v.Exports == model.ExportSample && (postcards+1 < due/SampleEvery || postcards > due/SampleEvery+1):
		return fmt.Errorf("%d postcards of %d packets", postcards, due)
	}
	if v.Exports != model.ExportEvery {
		l.aggregated += due
	}
	n.reader.catchUp(is.Written)
	made.Dropped = n.reader.takeDropped()
	m.seriesOf(v).exports.Add(made)
	return nil
}

// sumExports sums exports over a node's interfaces.
func sumExports(counters []datapath.Counters) (e report.Exports) {
	for _, c := range counters {
		e.Add(report.Exports{Written: c.Postcards, Lost: c.RecordsLost, Suppressed: c.ExportsSuppressed})
	}
	return e
}

// counted is how many packets had the outcome of Wants[0]; some that should be
// forwarded without the stack may have gone through it.
func (v *Variant) counted(l *line, before, after [][]datapath.Counters) (n uint64) {
	w := v.Wants[0]
	ways := []Want{w}
	if w.Hook == HookForwarded {
		ways = append(ways, Want{Node: w.Node, Hook: datapath.HookEgressTC, Outcome: w.Outcome})
	}
	for _, w := range ways {
		index := w.interfaceOf(l)
		n += w.of(after[w.Node], index) - w.of(before[w.Node], index)
	}
	return n
}

// checkFlows compares the packets in all flow records with those that were added
// to flows.
func (l *line) checkFlows() error {
	for _, n := range l.Nodes {
		if n.reader == nil || l.aggregated == 0 {
			continue
		}
		if err := n.reader.datapath.CollectFlows(n.reader.flow); err != nil {
			return err
		}
		reported := n.reader.packets.Load()
		if reported < l.aggregated || reported > l.aggregated+uint64(l.looks) {
			return fmt.Errorf("flows tell of %d packets; %d were added to them, and at most %d more", reported, l.aggregated, l.looks)
		}
	}
	return nil
}
