// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"iter"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
)

// Metrics of the flows for which the configuration asks, with their names.
var (
	descFlowPackets     = desc("flow_packets_total", "Packets of a flow that this node counted, in closed blocks, if the flow has metrics: true.", "flow", "direction")
	descFlowOctets      = desc("flow_octets_total", "Octets of these IPv6 packets.", "flow", "direction")
	descFlowLossBlocks  = desc("flow_loss_blocks_total", "Blocks of a flow that were compared with other nodes, by verdict, if the flow has metrics: true.", "flow", "verdict")
	descFlowLossPackets = desc("flow_loss_packets_total", "Packets of a flow in blocks whose counters are exact, from ingress to egress, by what became of them, if the flow has metrics: true.", "flow", "kind")
	descFlowDelay       = desc("flow_delay_seconds", "Mean delay of a flow from ingress to egress in the last block with a result, by method, if the flow has metrics: true.", "flow", "method")
)

// flowResults are what became of a flow's blocks.
type flowResults struct {
	verdicts [loss.NumVerdicts]uint64
	packets  loss.Totals
}

// withMetrics are the flows that have metrics of their own.
func withMetrics(flows []model.MeasuredFlow) iter.Seq[*model.MeasuredFlow] {
	return func(yield func(*model.MeasuredFlow) bool) {
		for i := range flows {
			if flows[i].Metrics && !yield(&flows[i]) {
				return
			}
		}
	}
}

// keepNamed forgets what was counted of other flows than those that have metrics, and
// adds those that are missing.
func keepNamed[V any](counted map[string]V, flows []model.MeasuredFlow) map[string]V {
	next := make(map[string]V)
	for f := range withMetrics(flows) {
		next[f.Name] = counted[f.Name]
	}
	return next
}

// collectNamed adds what this node counted of flows that have metrics. Its lock is held.
func (m *measured) collectNamed(g *metrics.Gatherer, flows []model.MeasuredFlow) {
	for f := range withMetrics(flows) {
		c := m.named[f.Name]
		g.Add(descFlowPackets, float64(c.Packets), f.Name, f.Direction.String())
		g.Add(descFlowOctets, float64(c.Octets), f.Name, f.Direction.String())
	}
}

// countNamed adds a block to the sums of flows that have metrics. Its lock is held.
func (m *measured) countNamed(flows []model.MeasuredFlow, block map[string]datapath.BlockCounts) {
	m.named = keepNamed(m.named, flows)
	for name, sum := range m.named {
		sum.Packets += block[name].Packets
		sum.Octets += block[name].Octets
		m.named[name] = sum
	}
}

// collectNamed adds the results of flows that have metrics. Its lock is held.
func (m *lossMeter) collectNamed(g *metrics.Gatherer) {
	for f := range withMetrics(m.state.Load().resolved.Node.Measurement.Flows) {
		if len(f.Points) == 0 {
			continue
		}
		r := m.named[f.Name]
		for v, n := range r.verdicts {
			g.Add(descFlowLossBlocks, float64(n), f.Name, loss.Verdict(v).String())
		}
		addTotals(g, descFlowLossPackets, &r.packets, f.Name)
		for _, each := range append(m.last[f.Name][:len(m.last[f.Name]):len(m.last[f.Name])], m.delays(f.Name)...) {
			if d, ok := each.(*record.Delay); ok && d.Scope == record.WholeWay {
				g.Add(descFlowDelay, time.Duration(d.Mean).Seconds(), f.Name, d.Method.String())
			}
		}
	}
}

// addTotals adds packets by what became of them.
func addTotals(g *metrics.Gatherer, d *metrics.Desc, t *loss.Totals, labels ...string) {
	for _, p := range []struct {
		kind string
		n    uint64
	}{{"sent", t.Sent}, {"received", t.Received}, {"lost", t.Lost}, {"duplicated", t.Duplicated}} {
		g.Add(d, float64(p.n), append(labels[:len(labels):len(labels)], p.kind)...)
	}
}
