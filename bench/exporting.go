// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// exports notes what became of the exports of a burst, and holds them to how
// the node exports: each is there, or counted as lost.
func (m *measuring) exports(v *variant, l *line, before, after [][]datapath.Counters) error {
	if v.exports == model.ExportNone || len(v.wants) == 0 {
		return nil
	}
	n := l.nodes[v.wants[0].node]
	was, is := sumExports(before[v.wants[0].node]), sumExports(after[v.wants[0].node])
	made := report.Exports{Written: is.Written - was.Written, Lost: is.Lost - was.Lost, Suppressed: is.Suppressed - was.Suppressed}
	due := v.counted(l, before, after)
	postcards := made.Written + made.Lost
	switch {
	case made.Suppressed > 0:
		return fmt.Errorf("limits suppressed %d exports", made.Suppressed)
	case n.reader == nil && postcards > 0:
		return fmt.Errorf("%d postcards that nobody wants", postcards)
	case n.reader == nil:
		return nil
	case v.exports == model.ExportEvery && postcards != due,
		v.exports == model.ExportAggregate && postcards > 0,
		v.exports == model.ExportSample && (postcards+1 < due/sampleEvery || postcards > due/sampleEvery+1):
		return fmt.Errorf("%d postcards of %d packets", postcards, due)
	}
	if v.exports != model.ExportEvery {
		l.aggregated += due
	}
	n.reader.catchUp(is.Written)
	made.Dropped = n.reader.takeDropped()
	m.seriesOf(v).exports.Add(made)
	return nil
}

// sumExports sums over a node's interfaces.
func sumExports(counters []datapath.Counters) (e report.Exports) {
	for _, c := range counters {
		e.Add(report.Exports{Written: c.Postcards, Lost: c.RecordsLost, Suppressed: c.ExportsSuppressed})
	}
	return e
}

// counted is how many packets ended as the first of wants says; of those that
// were to be forwarded without the stack, some may have gone through it.
func (v *variant) counted(l *line, before, after [][]datapath.Counters) (n uint64) {
	w := v.wants[0]
	ways := []want{w}
	if w.hook == hookForwarded {
		ways = append(ways, want{node: w.node, hook: datapath.HookEgressTC, outcome: w.outcome})
	}
	for _, w := range ways {
		index := w.interfaceOf(l)
		n += w.of(after[w.node], index) - w.of(before[w.node], index)
	}
	return n
}

// checkFlows holds the packets that flows came to over all bursts to those that
// were added to flows.
func (l *line) checkFlows() error {
	for _, n := range l.nodes {
		if n.reader == nil || l.aggregated == 0 {
			continue
		}
		if err := n.reader.datapath.CollectFlows(n.reader.flow); err != nil {
			return err
		}
		told := n.reader.packets.Load()
		if told < l.aggregated || told > l.aggregated+uint64(l.looks) {
			return fmt.Errorf("flows tell of %d packets; %d were added to them, and at most %d more", told, l.aggregated, l.looks)
		}
	}
	return nil
}
