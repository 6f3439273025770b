// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Edges makes records of the flows that are measured from edge to edge, at the end of each
// interval.
type Edges struct {
	service.Idle
	d       Dependencies
	records *Records
	gaps    Gaps

	mu     sync.Mutex // guards what follows
	losses edgetoedge.Losses
	sums   edgetoedge.Totals
	lost   uint64
	unsure uint64            // numbers that are missing, of which it is not known whether their packets were lost
	left   edgetoedge.Totals // of flows that had given way to others when the last interval ended
	leftIn uint64            // packets of all such flows
}

// NewEdges makes the service; gaps tell of which losses nothing is known.
func NewEdges(d Dependencies, records *Records, known Gaps) *Edges {
	return &Edges{d: d, records: records, gaps: known}
}

func (e *Edges) Run(ctx context.Context) error {
	for took := time.Duration(0); service.Sleep(ctx, max(exportInterval(e.d.State.Load())-took, 0)); {
		began := time.Now()
		e.end()
		took = time.Since(began)
	}
	return nil
}

// Close reports what is left: the next agent continues with what comes after it.
func (e *Edges) Close(bool) { e.end() }

// end reports the flows of an interval.
func (e *Edges) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gaps.Look(fewLooks)
	now, unseen := instant.Of(time.Now()), mayHaveMissed(e.d.Datapath.Coverage(), exportInterval(e.d.State.Load()))
	var err error
	e.left, err = e.d.Datapath.CollectEdges(func(f datapath.EdgeFlow) {
		lost := e.losses.AddTotals(f.Key, f.Totals)
		e.add(f.Totals, lost, unseen)
		if f.Packets > 0 {
			r := newEdgeFlow(f, lost, now, e.d.NodeName())
			if r.Lost.Present && lost > 0 && unseen {
				r.Lost = record.NewField(uint64(0), false)
			}
			e.records.Offer(r)
		}
	})
	e.losses.EndInterval()
	e.add(e.left, uint64(max(int64(e.left.Expected-e.left.Unique), 0)), unseen)
	e.leftIn += e.left.Packets
	if err != nil {
		e.d.Log.Warn("flows measured from edge to edge could not be read", "error", err)
	}
}

func (e *Edges) add(t edgetoedge.Totals, lost uint64, unseen bool) {
	e.sums.Packets += t.Packets
	e.sums.Duplicates += t.Duplicates
	e.sums.Reordered += t.Reordered
	e.sums.Late += t.Late
	e.sums.Restarts += t.Restarts
	if unseen {
		e.unsure += lost
	} else {
		e.lost += lost
	}
}

// Warnings is one if packets of the last interval are in no record.
func (e *Edges) Warnings(*service.State) []health.Warning {
	e.mu.Lock()
	defer e.mu.Unlock()
	return health.LeftEdgeFlows(e.left.Packets)
}

// newEdgeFlow is the record of what a node measured of a flow.
func newEdgeFlow(f datapath.EdgeFlow, lost uint64, now instant.Time, node string) *record.EdgeFlow {
	numbered := f.Type&(ioam.EdgeToEdgeSequence64|ioam.EdgeToEdgeSequence32) != 0
	count := func(n uint64) record.Field[uint64] {
		if !numbered {
			return record.Field[uint64]{}
		}
		return record.NewField(n, true)
	}
	r := &record.EdgeFlow{
		Time: now, Node: node, Namespace: f.Namespace, Type: f.Type,
		Source: f.Source, Destination: f.Destination, FlowLabel: f.FlowLabel,
		Packets: f.Packets, First: instant.Of(f.First), Last: instant.Of(f.Last),
		Lost: count(lost), Duplicates: count(f.Duplicates), Reordered: count(f.Reordered), Late: count(f.Late), Restarts: count(f.Restarts),
	}
	if f.Delays > 0 {
		r.Delay = &record.EdgeDelays{Min: int64(f.DelayMin), Max: int64(f.DelayMax), Sum: int64(f.DelaySum), Count: f.Delays}
	}
	return r
}

var (
	descEdgePackets = service.Metric("e2e_packets_total", "Packets whose Edge-to-Edge option this node has measured.")
	descEdgeLost    = service.Metric("e2e_lost_total", "Packets that were lost, by their Edge-to-Edge Sequence Numbers.")
	descEdgeUnsure  = service.Metric(
		"e2e_lost_unknown_total",
		"Packets whose Edge-to-Edge Sequence Numbers did not come while packets may have passed this node without its program: it "+
			"is not known whether they were lost.",
	)
	descEdgeDuplicates = service.Metric("e2e_duplicates_total", "Packets whose Edge-to-Edge Sequence Number had come before.")
	descEdgeReordered  = service.Metric("e2e_reordered_total", "Packets that came after one with a higher Edge-to-Edge Sequence Number.")
	descEdgeLate       = service.Metric("e2e_late_total", "Packets with an Edge-to-Edge Sequence Number outside the window.")
	descEdgeUnrecorded = service.Metric(
		"e2e_unrecorded_packets_total",
		"Packets that are in the sums of Edge-to-Edge measurements, and in no record: their flow had given way to another one when "+
			"the interval ended.",
	)
	descEdgeRestarts = service.Metric("e2e_restarts_total", "How often the Edge-to-Edge Sequence Numbers of a flow began again.")
)

func (e *Edges) Collect(g *metrics.Gatherer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g.Add(descEdgePackets, float64(e.sums.Packets))
	g.Add(descEdgeLost, float64(e.lost))
	g.Add(descEdgeUnsure, float64(e.unsure))
	g.Add(descEdgeDuplicates, float64(e.sums.Duplicates))
	g.Add(descEdgeReordered, float64(e.sums.Reordered))
	g.Add(descEdgeLate, float64(e.sums.Late))
	g.Add(descEdgeRestarts, float64(e.sums.Restarts))
	g.Add(descEdgeUnrecorded, float64(e.leftIn))
}
