// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"iter"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
)

// Metrics of the flows for which the configuration asks, with their names.
var (
	descFlowPackets = service.Metric(
		"flow_packets_total",
		"Packets of a flow that this node counted, in closed blocks, if the flow has metrics: true.",
		"flow",
		"direction",
	)
	descFlowOctets     = service.Metric("flow_octets_total", "Octets of these IPv6 packets.", "flow", "direction")
	descFlowLossBlocks = service.Metric(
		"flow_loss_blocks_total",
		"Blocks of a flow that were compared with other nodes, by verdict and segment, as below, if the flow has metrics: true.",
		"flow",
		"segment",
		"verdict",
	)
	descFlowLossPackets = service.Metric(
		"flow_loss_packets_total",
		"Packets of a flow in blocks whose counters are exact, by what became of them (kind, as in waymark_loss_packets_total) and "+
			"where: segment is whole, from ingress to egress, or its two nodes, such as ingress>north1. If the flow has metrics: true.",
		"flow",
		"kind",
		"segment",
	)
	descFlowDelay = service.Metric(
		"flow_delay_seconds",
		"Mean delay of a flow in the last block with a result, by method and segment, as above, if the flow has metrics: true.",
		"flow",
		"method",
		"segment",
	)
)

// flowResults are what became of a flow's blocks: on the whole way, and on each segment.
type flowResults struct {
	resultCounts
	segments []resultCounts
}

type resultCounts struct {
	verdicts [loss.NumVerdicts]uint64
	packets  loss.Totals
}

func (c *resultCounts) add(s *loss.Segment) {
	c.verdicts[s.Verdict]++
	c.packets.Add(&s.Packets)
}

// plus is the sum with a block's result.
func (f flowResults) plus(r *loss.Result) flowResults {
	f.add(&r.Whole)
	if len(f.segments) != len(r.Segments) { // the flow has other points
		f.segments = make([]resultCounts, len(r.Segments))
	}
	for i := range r.Segments {
		f.segments[i].add(&r.Segments[i])
	}
	return f
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

// keepNamed keeps what was counted of the flows that have metrics, forgets all other flows, and adds
// flows that are new.
func keepNamed[V any](counted map[string]V, flows []model.MeasuredFlow) map[string]V {
	next := make(map[string]V)
	for f := range withMetrics(flows) {
		next[f.Name] = counted[f.Name]
	}
	return next
}

// collectNamed adds what this node counted of flows that have metrics. Its lock is held.
func (m *Blocks) collectNamed(g *metrics.Gatherer, flows []model.MeasuredFlow) {
	for f := range withMetrics(flows) {
		c := m.named[f.Name]
		g.Add(descFlowPackets, float64(c.Packets), f.Name, f.Direction.String())
		g.Add(descFlowOctets, float64(c.Octets), f.Name, f.Direction.String())
	}
}

// countNamed adds a block to the sums of flows that have metrics. Its lock is held.
func (m *Blocks) countNamed(flows []model.MeasuredFlow, block map[string]datapath.BlockCounts) {
	m.named = keepNamed(m.named, flows)
	for name, sum := range m.named {
		sum.Packets += block[name].Packets
		sum.Octets += block[name].Octets
		m.named[name] = sum
	}
}

// collectNamed adds the results of flows that have metrics. Its lock is held.
func (m *LossMeter) collectNamed(g *metrics.Gatherer) {
	for f := range withMetrics(m.d.State.Load().Resolved.Node.Measurement.Flows) {
		if len(f.Points) == 0 {
			continue
		}
		r := m.named[f.Name]
		m.collectSegment(g, f.Name, wholeWay, &r.resultCounts)
		name := nodesOf(m.d.NodeName(), f)
		for i := range r.segments {
			m.collectSegment(g, f.Name, segmentLabel(name(loss.PointID(i)), name(loss.PointID(i+1))), &r.segments[i])
		}
		for _, each := range append(m.last[f.Name][:len(m.last[f.Name]):len(m.last[f.Name])], m.delays.lastOf(f.Name)...) {
			if d, ok := each.(*record.Delay); ok {
				segment := wholeWay
				if d.Scope != record.WholeWay {
					segment = segmentLabel(d.FromNode, d.ToNode)
				}
				g.Add(descFlowDelay, time.Duration(d.Mean).Seconds(), f.Name, d.Method.String(), segment)
			}
		}
	}
}

// wholeWay is the label of a flow's whole way, and segmentLabel that of a segment.
const wholeWay = "whole"

func segmentLabel(from, to string) string { return from + ">" + to }

func (m *LossMeter) collectSegment(g *metrics.Gatherer, flow, segment string, r *resultCounts) {
	for v, n := range r.verdicts {
		g.Add(descFlowLossBlocks, float64(n), flow, segment, loss.Verdict(v).String())
	}
	for kind, n := range becameOf(&r.packets) {
		g.Add(descFlowLossPackets, float64(n), flow, kind, segment)
	}
}

// becameOf are numbers of packets by what became of them.
func becameOf(t *loss.Totals) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for _, p := range []struct {
			kind string
			n    uint64
		}{{"sent", t.Sent}, {"received", t.Received}, {"lost", t.Lost}, {"duplicated", t.Duplicated}, {"lost_min", t.LostMin}} {
			if !yield(p.kind, p.n) {
				return
			}
		}
	}
}
