// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/report"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/loss"
)

// harness is a node with the services of this package, and observers and sinks of their records.
type harness struct {
	*agenttest.Node
	agent *agenttest.Agent
	d     Dependencies

	blocks     *Blocks
	loss       *LossMeter
	delays     *DelayMeter
	reflector  *Reflector
	responders *Responders
}

// noGaps is a node where no packet passes uncounted.
type noGaps struct{}

func (noGaps) Look(int)                                                                {}
func (noGaps) Await(context.Context, time.Time, time.Time, time.Duration) loss.Reasons { return 0 }

func newHarness(t *testing.T, yaml string) *harness {
	t.Helper()
	h := &harness{Node: agenttest.New(t, yaml)}
	h.Serve(func(a *agenttest.Agent) []service.Service {
		h.agent = a
		made := report.Dependencies{
			Log: a.Logger, NodeName: func() string { return agenttest.NodeName }, State: &a.State, Tasks: &a.Tasks, System: h.System,
			Datapath: h.Datapath,
		}
		clock, sinks := report.NewClock(made), report.NewSinks(made, os.Stdout, nil)
		records := report.NewRecords(made, clock, sinks, a.Closing)
		report.NewRecordLosses(made, sinks, report.NewFlows(made, nil, nil), report.NewKernelEvents(made, records)) // exporters tell them
		h.d = Dependencies{
			Log: a.Logger, NodeName: func() string { return agenttest.NodeName }, State: &a.State, Tasks: &a.Tasks, System: h.System,
			Datapath: h.Datapath, Records: records,
		}
		h.blocks, h.delays = NewBlocks(h.d, noGaps{}, a.Edit), NewDelayMeter(h.d)
		h.loss = NewLossMeter(h.d, h.blocks, h.delays)
		h.reflector, h.responders = NewReflector(h.d, h.blocks), NewResponders(h.d, h.blocks)
		return []service.Service{
			clock, sinks, records, NewCoverage(h.d), NewUnservedInterfaces(h.d), h.blocks, h.reflector, h.responders, NewTraceEndpoint(h.d), h.loss,
			h.delays,
		}
	})
	return h
}
