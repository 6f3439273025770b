// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/measure"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/patience"
)

// A block is complete only if it is known that all programs were executed until after its last
// packet: not if what keeps them from it is noticed after the block is read, or cannot be
// noticed yet.
func TestOnlyKnownBlocksAreComplete(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(h *harness, device *device)
	}{
		{"detached", func(h *harness, _ *device) {
			h.Datapath.SetHook(datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX})
		}},
		{"displaced", func(h *harness, _ *device) {
			h.Datapath.Mu.Lock()
			h.Datapath.Stuck = true
			h.Datapath.Mu.Unlock()
			h.Datapath.SetHook(datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX, Attached: true})
		}},
		{"looks fail", func(h *harness, _ *device) {
			h.Datapath.SetHook(datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX, Attached: true, InPlace: true,
				Fault: "permission denied"})
		}},
		{"bypassed", func(_ *harness, d *device) { d.bypass() }},
		{"a change of interfaces is not in force", func(h *harness, _ *device) {
			h.Datapath.SetRefusal(errors.New("not now"))
			h.System.SetLinks(func(links map[string]config.Link) { delete(links, "eth0") })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, agenttest.BaseConfig+`
measurement: {block: 200ms}
flows: [{name: red, direction: in, source: "2001:db8::1", segments: ["fc00:2::e"]}]
`)
			h.Datapath.SetHook(datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX, Attached: true, InPlace: true})
			h.Start()
			d := startDevice(t, h)
			last := func() *api.Block {
				list, err := h.Client.MeasuredFlows(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				return list[0].Last
			}
			complete := 0
			agenttest.Eventually(t, "complete blocks", func() bool {
				if b := last(); b != nil && b.Complete {
					complete++
				}
				return complete > 50
			})
			begun := time.Now()
			tt.do(h, d)
			agenttest.Eventually(t, "further blocks", func() bool {
				b := last()
				if b.Start.Add(200*time.Millisecond).After(begun.Add(20*time.Millisecond)) && b.Complete {
					t.Fatalf("the block from %v after it until %v is complete", b.Start.Sub(begun), b.Start.Sub(begun)+200*time.Millisecond)
				}
				return b.Start.After(begun.Add(1500 * time.Millisecond))
			})
		})
	}
}

// device counts packets, and so does its hook until it is bypassed.
type device struct {
	stop   chan struct{}
	past   atomic.Bool
	missed atomic.Int64 // when the last packet passed the hook, in Unix time
}

func startDevice(t *testing.T, h *harness) *device {
	d := &device{stop: make(chan struct{})}
	t.Cleanup(func() { close(d.stop) })
	go func() {
		for n, hook := uint64(1), uint64(1); ; n++ {
			select {
			case <-d.stop:
				return
			case <-time.After(time.Millisecond):
			}
			if d.past.Load() {
				d.missed.Store(time.Now().UnixNano())
			} else {
				hook++
			}
			h.Datapath.Mu.Lock()
			h.Datapath.Traffic = []datapath.DeviceTraffic{{Index: 3, Received: n, AtIngress: hook}}
			h.Datapath.Mu.Unlock()
		}
	}()
	return d
}

func (d *device) bypass() { d.past.Store(true) }
func (d *device) resume() { d.past.Store(false) }

// What is not known in time is a reason for each flow that it may concern.
func TestUnsettledBlocks(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	k := &knownUntil{core: &h.agent.core, hooks: only[*hooks](h), unserved: only[*measure.UnservedInterfaces](h)}
	agenttest.Eventually(t, "the first configuration is in force", func() bool { return k.changing.Since().IsZero() })
	block := time.Now()
	if why := k.Await(context.Background(), block, block.Add(patience.Of(time.Second)), time.Millisecond); why != 0 {
		t.Errorf("nothing happens, and %v is not known", why)
	}
	k.change.Lock() // the agent may look at its interfaces at any time
	defer k.change.Unlock()
	k.changing.Noticed()
	block = time.Now()
	if why := k.Await(context.Background(), block, block.Add(50*time.Millisecond), time.Millisecond); why != loss.InterfacesChanged {
		t.Errorf("a change is not in force, and %v is not known", why)
	}
	if since := k.changing.Begin(false); since.IsZero() || since.After(block) || k.changing.Since() != since {
		t.Errorf("changing since %v and %v", since, k.changing.Since())
	}
	k.changing.End(false)
	if k.changing.Since().IsZero() {
		t.Error("a change that failed is in force")
	}
	k.changing.Begin(true)
	k.changing.End(true)
	if since := k.changing.Since(); !since.IsZero() {
		t.Errorf("all is in force, and changing since %v", since)
	}
	k.changing.Begin(true)
	k.changing.End(false)
	if since := k.changing.Since(); !since.IsZero() {
		t.Errorf("a change that was refused is still to come, since %v", since)
	}
}

// Blocks during a gap that lasts are not complete, whatever else ends at the hook.
func TestGapsOfOneHook(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	now := time.Now()
	watch := only[*hooks](h)
	hook := datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX, Attached: true, InPlace: true}
	set := func(attached bool, second int) {
		hook.Attached = attached
		h.Datapath.SetHook(hook)
		h.Datapath.Mu.Lock()
		h.Datapath.Traffic = []datapath.DeviceTraffic{{Index: 3, Received: uint64(1000 + 100*second), AtIngress: 500}}
		h.Datapath.Mu.Unlock()
		at := now.Add(time.Duration(second) * time.Second)
		watch.recordStates(watch.served(), h.Datapath.Hooks(watch.selection(nil)), at)
		watch.count(at)
	}
	for second := range 20 {
		set(second != 12, second)
	}
	from, to := now.Add(30*time.Second), now.Add(31*time.Second)
	if why := h.Datapath.Coverage().Within("red", coverage.Both, from.UnixNano(), to.UnixNano()); why != loss.NotExecuted {
		t.Errorf("a bypass lasts, and the reason is %q", why)
	}
}
