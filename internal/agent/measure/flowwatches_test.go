// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// marked are the warnings of the records that "waymark loss" shows.
func marked(t *testing.T, h *harness) (codes string) {
	t.Helper()
	lines, err := h.Client.Loss(context.Background(), api.RecordFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if r, err := record.Parse(line); err != nil {
			t.Fatal(err)
		} else if l, ok := r.(*record.Loss); ok {
			codes += l.Warning
		}
	}
	return codes
}

// warned are the codes of the flow's warnings in the status.
func warned(t *testing.T, h *harness) (codes string) {
	t.Helper()
	status, err := h.Client.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range status.Warnings {
		if strings.HasPrefix(string(w.Code), "flow_") {
			codes += string(w.Code) + ": " + w.Text + "\n"
		}
	}
	return codes
}

// An agent warns while a flow loses more than it may, and when no other node answers; the status,
// the log, the metrics and the records have it.
func TestFlowThresholds(t *testing.T) {
	port := agenttest.FreePort(t)
	const flow = "flows: [{name: red, direction: %s, source: 2001:db8::1, segments: [\"fc00:2::e\"]%s}]\n" +
		"measurement: {block: 100ms, guard: 20ms, clock-error: 1ms}\n"
	far := newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "in", "")+"stamp: {listen: \"[::1]:"+port+"\", allow: [\"::1/128\"]}\n")
	far.Start()
	near := newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "out", ", points: [\"far=[::1]:"+port+"\"], max-loss: 33%, no-data-after: 5"))
	near.Start()
	await := func(what string, holds func() bool) {
		t.Helper()
		e2e.Await(t, what, 10*time.Second, holds)
	}
	measures := func() bool {
		meter := near.loss
		meter.mu.Lock()
		defer meter.mu.Unlock()
		return meter.packets.Sent > 0
	}
	await("a measured block", measures)
	if w := warned(t, near); strings.Contains(w, "loss_high") {
		t.Errorf("without loss: %s", w)
	}
	far.Datapath.LostPackets.Store(1)
	await("the warning", func() bool {
		return strings.Contains(warned(t, near), "flow_loss_high: flow red lost 1 of 3 packets (33.33%)")
	})
	await("a marked record", func() bool { return marked(t, near) == "flow_loss_high" })
	if w := warned(t, near); !strings.Contains(w, "more than max-loss: 33%; 1 of them between this node and far (::1)") {
		t.Error(w)
	}
	far.Datapath.LostPackets.Store(0)
	await("its end", func() bool { return warned(t, near) == "" && marked(t, near) == "" })
	checkRemoved(t, near, far)
	for _, want := range []string{"warning=flow_loss_high", "the flow is within its threshold again"} {
		if !strings.Contains(near.Log.String(), want) {
			t.Errorf("the log has no %q: %s", want, near.Log)
		}
	}
	if err := far.End(); err != nil {
		t.Fatal(err)
	}
	await("no data", func() bool {
		w := warned(t, near)
		return strings.Contains(w, "flow_unmeasured: the loss of flow red has not been known for ") && strings.Contains(w, ": far (::1): missing")
	})
	await("a marked record", func() bool { return marked(t, near) == "flow_unmeasured" })
}

// checkRemoved removes a flow that is beyond its threshold, and adds it again: the warning ends at
// once.
func checkRemoved(t *testing.T, near, far *harness) {
	t.Helper()
	far.Datapath.LostPackets.Store(1)
	e2e.Await(t, "the warning", 10*time.Second, func() bool { return strings.Contains(warned(t, near), "flow_loss_high") })
	flows, err := near.Client.MeasuredFlows(context.Background())
	if err != nil || len(flows) != 1 {
		t.Fatalf("%+v, %v", flows, err)
	}
	if err := near.Client.RemoveFlow(context.Background(), "red"); err != nil {
		t.Fatal(err)
	}
	if w := warned(t, near); w != "" {
		t.Errorf("a flow that was removed: %s", w)
	}
	far.Datapath.LostPackets.Store(0)
	compares := func() bool {
		meter := near.loss
		meter.mu.Lock()
		defer meter.mu.Unlock()
		return len(meter.last) > 0
	}
	e2e.Await(t, "the end of the comparison", 10*time.Second, func() bool { return !compares() })
	if err := near.Client.AddFlow(context.Background(), flows[0].Flow); err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "the comparison", 10*time.Second, compares)
}

// Warnings name points as the operator does, and by their place in the path without a name.
func TestPointsInWarnings(t *testing.T) {
	at := netip.MustParseAddrPort("[2001:db8::7]:862")
	f := watchedFlow{MeasuredFlow: model.MeasuredFlow{Points: []netip.AddrPort{at, at}, PointNames: []string{"north", ""}}}
	for id, want := range []string{"this node", "north (2001:db8::7)", "node 2 (2001:db8::7)"} {
		if got := f.point(loss.PointID(id)); got != want {
			t.Errorf("%d: %s, want %s", id, got, want)
		}
	}
}

// With many flows, warnings and lines in the log are few, and the metrics exact.
func TestManyFlowsBeyondThresholds(t *testing.T) {
	log, share := &agenttest.Log{}, loss.Share(0)
	w := flowWatches{d: Dependencies{
		Log: slog.New(slog.NewTextHandler(log, nil)), NodeName: func() string { return "r2" }, Records: &offered{},
	}}
	var flows []model.MeasuredFlow
	for i := range 1000 {
		flows = append(flows, model.MeasuredFlow{Name: fmt.Sprint("flow", i), Thresholds: loss.Thresholds{MaxLoss: &share, NoDataAfter: 1}})
	}
	w.begin(flows)
	known := func(n uint64) loss.Number { return loss.Number{Value: n, Known: true} }
	lossy := loss.Result{
		Block: 1,
		Whole: loss.Segment{Verdict: loss.Measured, Packets: loss.Tally{Sent: known(2), Received: known(1), Lost: known(1)}},
	}
	for _, f := range flows {
		if code, _ := w.result(f.Name, &lossy, nil); code != health.FlowLossHigh {
			t.Fatalf("%s: %q", f.Name, code)
		}
	}
	ws := w.warnings()
	if len(ws) != mostFlowWarnings+1 || !strings.Contains(ws[len(ws)-1].Text, "990 further flows") {
		t.Errorf("%d warnings: %+v", len(ws), ws)
	}
	if n := strings.Count(log.String(), "\n"); n != mostFlowWarnings+1 {
		t.Errorf("%d lines: %s", n, log)
	}
	w.begin(flows[:5]) // the others are gone, these as before
	if ws := w.warnings(); len(ws) != 5 {
		t.Errorf("%d warnings: %+v", len(ws), ws)
	}
	share2 := loss.Share(7)
	flows[0].Thresholds.MaxLoss = &share2
	w.begin(flows[:5])
	if ws := w.warnings(); len(ws) != 4 {
		t.Errorf("a flow with another threshold is as before: %+v", ws)
	}
	w.recordUnasked(loss.Result{Block: 2}, problem.New("port 1206 is taken", "choose another port"))
	if ws := w.warnings(); len(ws) != 9 || !strings.HasSuffix(ws[8].Text, "other nodes cannot be asked: port 1206 is taken") ||
		ws[8].Cure != "choose another port" {
		t.Errorf("%d warnings: %+v", len(ws), ws)
	}
	if code, _ := w.result("gone", &lossy, nil); code != "" {
		t.Errorf("a flow that is gone: %q", code)
	}
}
