// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

func edgeFlow(kind uint16, t edgetoedge.Totals) datapath.EdgeFlow {
	at := time.Date(2026, 11, 21, 5, 21, 0, 0, time.UTC)
	return datapath.EdgeFlow{
		Key: edgetoedge.Key{
			Namespace:   300,
			Type:        0x4000,
			Source:      netip.MustParseAddr("2001:db8:1::1"),
			Destination: netip.MustParseAddr("2001:db8:2::1"),
			FlowLabel:   uint32(kind),
		},
		Totals: t, First: at.Add(-5 * time.Second), Last: at,
	}
}

// The agent settles the losses of an interval, and adds up what all flows have counted. A flow
// that stays in the table without packets gives no record.
func TestEdgesOfAnInterval(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	x := h.edges
	lines := agenttest.Observe(t, h.Client, api.RecordFilter{})
	collect := func(list ...datapath.EdgeFlow) {
		h.Datapath.Edges.Store(&list)
		x.end()
	}
	collect(edgeFlow(1, edgetoedge.Totals{Packets: 12, Expected: 10, Unique: 9, Duplicates: 2, Reordered: 3, Late: 1, Restarts: 1}),
		edgeFlow(2, edgetoedge.Totals{Packets: 5, Expected: 5, Unique: 5}))
	collect(edgeFlow(1, edgetoedge.Totals{Packets: 1, Expected: 0, Unique: 1}), edgeFlow(2, edgetoedge.Totals{})) // it was late
	if h.Warned(health.EdgeFlowsLeft) {
		t.Error("a warning before a flow has left")
	}
	h.Datapath.EdgesLeft.Store(&edgetoedge.Totals{Packets: 20, Expected: 18, Unique: 15, Duplicates: 5, Reordered: 1})
	collect(edgeFlow(1, edgetoedge.Totals{}), edgeFlow(2, edgetoedge.Totals{}))
	if !h.Warned(health.EdgeFlowsLeft) {
		t.Error("no warning of flows that have left")
	}
	collect(edgeFlow(1, edgetoedge.Totals{Packets: 8, Expected: 10, Unique: 8}), edgeFlow(2, edgetoedge.Totals{}))
	for i, want := range [][3]uint64{{1, 12, 1}, {2, 5, 0}, {1, 1, 0}, {1, 8, 1}} { // flow, packets, lost
		r := receiveEdgeFlow(t, lines)
		if got := [3]uint64{uint64(r.FlowLabel), r.Packets, r.Lost.Value}; got != want {
			t.Errorf("record %d: %v, want %v", i, got, want)
		}
	}
	if h.Warned(health.EdgeFlowsLeft) {
		t.Error("a warning after an interval in which none has left")
	}
	b, err := h.Client.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		"waymark_e2e_packets_total 46", "waymark_e2e_lost_total 5", "waymark_e2e_duplicates_total 7", "waymark_e2e_unrecorded_packets_total 20",
		"waymark_e2e_reordered_total 4", "waymark_e2e_late_total 1", "waymark_e2e_restarts_total 1",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %q", want)
		}
	}
}

// Packets that did not come while they may have passed without the program are not called lost.
func TestLossesBesideGaps(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	x := h.edges
	lines := agenttest.Observe(t, h.Client, api.RecordFilter{})
	flows := func() {
		h.Datapath.Edges.Store(
			&[]datapath.EdgeFlow{
				edgeFlow(1, edgetoedge.Totals{Packets: 8, Expected: 10, Unique: 8}),
				edgeFlow(2, edgetoedge.Totals{Packets: 4, Expected: 4, Unique: 4}),
			},
		)
		x.end()
	}
	flows()
	now := time.Now()
	h.Datapath.Coverage().
		Add(coverage.Gap{Interface: "eth1", Ways: coverage.Both, Why: loss.NotExecuted, From: now.Add(-time.Second).UnixNano(),
			To: now.UnixNano()})
	flows()
	for i, want := range []record.Field[uint64]{record.NewField[uint64](2, true), record.NewField[uint64](0, true),
		record.NewField[uint64](0, false), record.NewField[uint64](0, true)} {
		if r := receiveEdgeFlow(t, lines); r.Lost != want {
			t.Errorf("record %d: lost %+v, want %+v", i, r.Lost, want)
		}
	}
	b, err := h.Client.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"waymark_e2e_lost_total 2", "waymark_e2e_lost_unknown_total 2"} {
		if !strings.Contains(string(b), want+"\n") {
			t.Errorf("metrics lack %q", want)
		}
	}
	r := h.reader
	before := r.flowsUnsure.Load()
	r.flow(datapath.Flow{Role: model.RoleTransit, Namespace: 123, Packets: 3, Skipped: 1})
	r.flow(datapath.Flow{Role: model.RoleTransit, Namespace: 123, Packets: 3})
	if n := r.flowsUnsure.Load() - before; n != 1 {
		t.Errorf("of %d flows, it is not known how many packets are missing, want 1", n)
	}
}

func receiveEdgeFlow(t *testing.T, lines <-chan string) *record.EdgeFlow {
	t.Helper()
	select {
	case line := <-lines:
		parsed, err := record.Parse([]byte(line))
		r, ok := parsed.(*record.EdgeFlow)
		if !ok {
			t.Fatalf("%s: %v", line, err)
		}
		return r
	case <-time.After(patience.Of(5 * time.Second)):
		t.Fatal("no record within 5 s")
		return nil
	}
}

func TestEdgeFlowRecord(t *testing.T) {
	f := edgeFlow(1, edgetoedge.Totals{Packets: 3, Expected: 4, Unique: 3, Delays: 2, DelaySum: 30, DelayMin: -10, DelayMax: 40})
	r := newEdgeFlow(f, 1, instant.Of(f.Last), "aramis")
	if r.Lost.Value != 1 || !r.Lost.Valid || r.Delay == nil || r.Delay.Min != -10 || r.Delay.Max != 40 || r.Delay.Sum != 30 ||
		r.Delay.Count != 2 ||
		r.Packets != 3 {
		t.Errorf("%+v", r)
	}
	if f.Type, f.Delays = 0x3000, 0; newEdgeFlow(f, 0, instant.Of(f.Last), "").Lost.Present {
		t.Error("a flow without numbers has lost packets")
	}
}
