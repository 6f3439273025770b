// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/hookwatch"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
)

// A program that is out of its place is taken back, with a warning that ends and tells who
// was before it; services learn of the time in between.
func TestHookDisplaced(t *testing.T) {
	h := newHarness(t, strings.Replace(agenttest.BaseConfig, "role: [ingress, egress]}", "role: []}", 1))
	h.Start()
	watch := only[*hooks](h)
	hook := datapath.HookState{Index: 2, Name: "eth0", Mode: datapath.AttachTCX, Program: 7, Attached: true, InPlace: true}
	begin := time.Now()
	var gaps []hookwatch.Gap
	watch.gapListeners = append(watch.gapListeners, func(g hookwatch.Gap) { gaps = append(gaps, g) })
	h.Datapath.SetHook(hook)
	watch.checkAndRepair(nil, begin)
	hook.InPlace, hook.Before = false, []datapath.OtherProgram{{Program: 9, Name: "cil_to_netdev", Kind: "tcx"}}
	h.Datapath.SetHook(hook)
	watch.checkAndRepair(nil, time.Now())
	s := h.agent.state.Load()
	ws := watch.Warnings(s)
	if len(h.Datapath.Moved) != 1 || len(ws) != 1 || ws[0].Code != health.HookDisplaced || ws[0].Severity != health.Error ||
		!strings.Contains(ws[0].Text, "there again") {
		t.Errorf("moved %v, warnings %+v", h.Datapath.Moved, ws)
	}
	if len(gaps) != 2 || gaps[0].Since != begin || !gaps[0].Until.IsZero() || gaps[1].Since != begin || gaps[1].Until.IsZero() {
		t.Errorf("gaps %+v", gaps)
	}
	status, err := h.agent.status()
	if err != nil || len(status.Interfaces[0].Hooks) != 1 || !status.Interfaces[0].Hooks[0].InPlace {
		t.Errorf("status: %+v, %v", status.Interfaces, err)
	}
	if f := watch.fact(s.Resolved.Node.Interfaces[0], false, time.Now().Add(2*hookRemember)); len(health.CheckHook(f)) != 0 {
		t.Errorf("long after it: %+v", f)
	}
}

// A hook without packets is a warning while its device counts some.
func TestHookBypassed(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	watch := only[*hooks](h)
	hook := datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachXDP, Attached: true, InPlace: true}
	h.Datapath.SetHook(hook)
	set := func(device, hook uint64) {
		h.Datapath.Mu.Lock()
		defer h.Datapath.Mu.Unlock()
		h.Datapath.Traffic = []datapath.DeviceTraffic{{Index: 3, Received: device, AtIngress: hook}}
	}
	begin := time.Now()
	watch.checkAndRepair(nil, begin)
	set(100, 10)
	watch.count(begin)
	set(200, 10)
	watch.count(begin.Add(10 * time.Second))
	ws := watch.Warnings(h.agent.state.Load())
	if len(ws) != 1 || ws[0].Code != health.HookBypassed || ws[0].Interface != "eth1" {
		t.Errorf("%+v", ws)
	}
	set(210, 11)
	watch.count(begin.Add(12 * time.Second))
	if ws := watch.Warnings(h.agent.state.Load()); len(ws) != 0 {
		t.Errorf("packets come again: %+v", ws)
	}
}

// A program that was taken off makes the agent apply its configuration again.
func TestHookDetached(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	hook := datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX}
	h.Datapath.SetHook(hook)
	watch := only[*hooks](h)
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if ws := watch.Warnings(h.agent.state.Load()); len(ws) == 1 && ws[0].Code == health.HookDetached {
			break
		}
		if time.Since(begin) > patience.Of(10*time.Second) {
			t.Fatal("no warning")
		}
	}
	agenttest.Eventually(t, "it is put back", func() bool {
		watch.mu.Lock()
		defer watch.mu.Unlock()
		return watch.watch.State(hookwatch.Key{Index: 3, Ingress: true}).Repairs > 0
	})
}

// startWithoutTimer starts an agent that looks at its hooks only when it is notified.
func startWithoutTimer(t *testing.T) (*harness, *hooks) {
	t.Helper()
	h := newHarness(t, agenttest.BaseConfig)
	prepare := h.PrepareAgent
	h.PrepareAgent = func(ready func()) func(context.Context) error {
		run := prepare(ready)
		only[*hooks](h).period = time.Hour
		return run
	}
	h.Start()
	return h, only[*hooks](h)
}

// The kernel's notification of a changed filter alone makes the agent look, at that interface only.
func TestHookNotified(t *testing.T) {
	h, watch := startWithoutTimer(t)
	looked := func(index model.IfIndex) bool {
		watch.mu.Lock()
		defer watch.mu.Unlock()
		return !watch.watch.State(hookwatch.Key{Index: index, Ingress: true}).Checked.IsZero()
	}
	for _, index := range []model.IfIndex{2, 3} {
		h.Datapath.SetHook(datapath.HookState{Index: index, Ingress: true, Mode: datapath.AttachClsact})
	}
	h.System.Filters <- 3
	agenttest.Eventually(t, "the repair", func() bool {
		watch.mu.Lock()
		defer watch.mu.Unlock()
		return watch.watch.State(hookwatch.Key{Index: 3, Ingress: true}).Repairs > 0
	})
	if looked(2) {
		t.Error("a notification about eth1 made the agent look at eth0")
	}
	h.System.Filters <- 2
	agenttest.Eventually(t, "the look at eth0", func() bool { return looked(2) })
}

// What a change found off its hook and put back before any look is a warning and a gap as if a look had found it.
func TestHookPutBack(t *testing.T) {
	h, watch := startWithoutTimer(t)
	var gaps []hookwatch.Gap
	watch.gapListeners = append(watch.gapListeners, func(g hookwatch.Gap) { gaps = append(gaps, g) })
	hook := datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX, Attached: true, InPlace: true}
	h.Datapath.SetHook(hook)
	begin := time.Now()
	watch.checkAndRepair(nil, begin)
	hook.PutBack = true
	h.Datapath.SetHook(hook)
	watch.checkAndRepair(nil, time.Now())
	ws := watch.Warnings(h.agent.state.Load())
	if len(ws) != 1 || ws[0].Code != health.HookDetached || !strings.Contains(ws[0].Text, "it is back in tcx since") || watch.repair != 1 {
		t.Errorf("%d repairs, warnings %+v", watch.repair, ws)
	}
	if len(gaps) != 2 || gaps[0].Cause != hookwatch.Detached || gaps[0].Since != begin || gaps[1].Since != begin || gaps[1].Until.IsZero() {
		t.Errorf("gaps %+v", gaps)
	}
}

// A program that is displaced again, long after the agent moved it, is moved at once: no time of the past is named.
func TestHookNextMoveIsAhead(t *testing.T) {
	h, watch := startWithoutTimer(t)
	hook := datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX, Attached: true, InPlace: true}
	away := hook
	away.InPlace = false
	k := hookwatch.Key{Index: 3, Ingress: true}
	look := func(s datapath.HookState, now time.Time) {
		watch.recordStates(watch.served(), []datapath.HookState{s}, now)
	}
	begin := time.Now()
	look(hook, begin)
	look(away, begin.Add(time.Second))
	watch.mu.Lock()
	watch.watch.Repaired(k, false, nil, begin.Add(time.Second))
	next := watch.watch.State(k).Next
	watch.mu.Unlock()
	in := h.agent.state.Load().Resolved.Node.Interfaces
	eth1 := in[slices.IndexFunc(in, func(i model.Interface) bool { return i.Index == 3 })]
	look(away, next.Add(-time.Millisecond))
	for now, want := range map[time.Time]string{
		next.Add(-time.Millisecond): "the next move is at ", next: "it is being moved", next.Add(time.Hour): "it is being moved",
	} {
		watch.mu.Lock()
		ws := health.CheckHook(watch.fact(eth1, true, now))
		watch.mu.Unlock()
		if len(ws) != 1 || ws[0].Code != health.HookDisplaced || !strings.Contains(ws[0].Text, want) {
			t.Errorf("%v after: %+v, want %q", now.Sub(next), ws, want)
		}
	}
}
