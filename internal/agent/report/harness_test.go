// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
)

// harness is a node with the services of this package.
type harness struct {
	*agenttest.Node
	agent *agenttest.Agent
	d     Dependencies

	records *Records
	sinks   *Sinks
	flows   *Flows
	edges   *Edges
	copies  *Loopbacks
	reader  *Reader
	shared  *SharedIDs
	losses  *RecordLosses
}

// noGaps is a node where no packet passes the programs.
type noGaps struct{}

func (noGaps) Look(int)                                            {}
func (noGaps) NotedUntil(now time.Time, _ time.Duration) time.Time { return now }

func newHarness(t *testing.T, yaml string) *harness {
	t.Helper()
	h := &harness{Node: agenttest.New(t, yaml)}
	h.Serve(func(a *agenttest.Agent) []service.Service {
		h.agent = a
		h.d = Dependencies{
			Log: a.Logger, NodeName: func() string { return agenttest.NodeName }, State: &a.State, Tasks: &a.Tasks, System: h.System,
			Datapath: h.Datapath,
		}
		clock := NewClock(h.d)
		h.sinks = NewSinks(h.d, os.Stdout, nil)
		h.records = NewRecords(h.d, clock, h.sinks, a.Closing)
		h.copies, h.shared = NewLoopbacks(h.d), NewSharedIDs(h.d, h.records)
		h.reader = NewReader(h.d, h.records, h.copies, h.shared)
		h.flows = NewFlows(h.d, h.reader, noGaps{})
		h.edges = NewEdges(h.d, h.records, noGaps{})
		kernel := NewKernelEvents(h.d, h.records)
		h.losses = NewRecordLosses(h.d, h.sinks, h.flows, kernel)
		return []service.Service{
			clock, h.sinks, h.records, h.flows, h.edges, h.copies, h.reader, h.shared, kernel, h.losses,
			NewCompleteness(h.d, h.sinks, h.losses, noGaps{}), NewDelays(h.d),
		}
	})
	return h
}
