// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/hookwatch"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
)

func (d *fakeDatapath) Hooks(look func(model.IfIndex, datapath.AttachMode) bool) []datapath.HookState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.hooks), func(s datapath.HookState) bool { return !look(s.Index, s.Mode) })
}

func (d *fakeDatapath) Devices() ([]datapath.DeviceTraffic, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.devices), nil
}

func (d *fakeDatapath) Reposition(index model.IfIndex, ingress bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.moved = append(d.moved, index)
	for i := range d.hooks {
		if d.hooks[i].Index == index && d.hooks[i].Ingress == ingress && !d.stuck {
			d.hooks[i].InPlace, d.hooks[i].Before = true, nil
		}
	}
	return nil
}

func (s *fakeSystem) WatchFilters(ctx context.Context, _ func(model.IfIndex)) error {
	<-ctx.Done()
	return nil
}

// setHook changes what looks at a hook find.
func (d *fakeDatapath) setHook(s datapath.HookState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hooks = slices.DeleteFunc(d.hooks, func(h datapath.HookState) bool { return h.Index == s.Index && h.Ingress == s.Ingress })
	d.hooks = append(d.hooks, s)
}

// A program that is out of its place is taken back, with a warning that ends and tells who
// was before it; services learn of the time in between.
func TestHookDisplaced(t *testing.T) {
	h := newHarness(t, strings.Replace(baseConfig, "role: [ingress, egress]}", "role: []}", 1))
	h.start()
	watch := only[*hooks](h)
	hook := datapath.HookState{Index: 2, Name: "eth0", Mode: datapath.AttachTCX, Program: 7, Attached: true, InPlace: true}
	begin := time.Now()
	var gaps []hookwatch.Gap
	watch.told = append(watch.told, func(g hookwatch.Gap) { gaps = append(gaps, g) })
	h.datapath.setHook(hook)
	watch.look(nil, begin)
	hook.InPlace, hook.Before = false, []datapath.OtherProgram{{Program: 9, Name: "cil_to_netdev", Kind: "tcx"}}
	h.datapath.setHook(hook)
	watch.look(nil, begin.Add(time.Second))
	s := h.agent.state.Load()
	ws := watch.warnings(s)
	if len(h.datapath.moved) != 1 || len(ws) != 1 || ws[0].Code != health.HookDisplaced || ws[0].Severity != health.Error || !strings.Contains(ws[0].Text, "there again") {
		t.Errorf("moved %v, warnings %+v", h.datapath.moved, ws)
	}
	if len(gaps) != 2 || gaps[0].Since != begin || !gaps[0].Until.IsZero() || gaps[1].Since != begin || gaps[1].Until.IsZero() {
		t.Errorf("gaps %+v", gaps)
	}
	status, err := h.agent.status()
	if err != nil || len(status.Interfaces[0].Hooks) != 1 || !status.Interfaces[0].Hooks[0].InPlace {
		t.Errorf("status: %+v, %v", status.Interfaces, err)
	}
	if f := watch.fact(s.resolved.Node.Interfaces[0], false, time.Now().Add(2*hookRemember)); len(health.CheckHook(f)) != 0 {
		t.Errorf("long after it: %+v", f)
	}
}

// A hook without packets is a warning while its device counts some.
func TestHookBypassed(t *testing.T) {
	h := newHarness(t, baseConfig)
	h.start()
	watch := only[*hooks](h)
	hook := datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachXDP, Attached: true, InPlace: true}
	h.datapath.setHook(hook)
	set := func(device, hook uint64) {
		h.datapath.mu.Lock()
		defer h.datapath.mu.Unlock()
		h.datapath.devices = []datapath.DeviceTraffic{{Index: 3, Received: device, AtIngress: hook}}
	}
	begin := time.Now()
	watch.look(nil, begin)
	set(100, 10)
	watch.count(begin)
	set(200, 10)
	watch.count(begin.Add(10 * time.Second))
	ws := watch.warnings(h.agent.state.Load())
	if len(ws) != 1 || ws[0].Code != health.HookBypassed || ws[0].Interface != "eth1" {
		t.Errorf("%+v", ws)
	}
	set(210, 11)
	watch.count(begin.Add(12 * time.Second))
	if ws := watch.warnings(h.agent.state.Load()); len(ws) != 0 {
		t.Errorf("packets come again: %+v", ws)
	}
}

// A program that was taken off makes the agent apply its configuration again.
func TestHookDetached(t *testing.T) {
	h := newHarness(t, baseConfig)
	h.start()
	hook := datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX}
	h.datapath.setHook(hook)
	watch := only[*hooks](h)
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if ws := watch.warnings(h.agent.state.Load()); len(ws) == 1 && ws[0].Code == health.HookDetached {
			break
		}
		if time.Since(begin) > patience.Of(10*time.Second) {
			t.Fatal("no warning")
		}
	}
	eventually(t, "it is put back", func() bool {
		watch.mu.Lock()
		defer watch.mu.Unlock()
		return watch.watch.State(hookwatch.Key{Index: 3, Ingress: true}).Repairs > 0
	})
}
