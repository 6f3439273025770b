// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/hookwatch"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
)

// hooks watches whether the programs are executed, and puts them back on their hooks and
// in their places. The kernel notifies of changes of queueing disciplines and filters; of
// tcx and XDP it does not, so they are looked at every second.
type hooks struct {
	service.Idle
	*core
	refresh func() error
	changed chan model.IfIndex
	period  time.Duration // between looks without a notification

	mu           sync.Mutex
	watch        *hookwatch.Hooks
	looks        map[hookwatch.Key]datapath.HookState
	xdp          map[model.IfIndex]string
	nextClsact   int                     // of the clsact hooks that are looked at next
	repair       uint64                  // repairs since the start
	logged       map[health.Warning]bool // without texts; only for the goroutine that looks
	gapListeners []func(hookwatch.Gap)
}

func newHooks(c *core, refresh func() error) *hooks {
	h := &hooks{core: c, refresh: refresh, changed: make(chan model.IfIndex, 64), period: hookPeriod,
		looks: make(map[hookwatch.Key]datapath.HookState)}
	h.watch = hookwatch.New(func(g hookwatch.Gap) {
		for _, listener := range h.gapListeners {
			listener(g)
		}
	})
	return h
}

const (
	hookPeriod    = time.Second
	trafficRounds = 2 // every how many looks the packets are compared
	filterQuota   = 64
	filterSettle  = 20 * time.Millisecond
	hookRemember  = time.Minute // how long a repaired hook stays a warning
	hookGroups    = 1 << 10     // changes that one look takes together
)

// notExecuting calls listener, not twice at a time, with each time in which packets may have
// passed a hook without the program: when it becomes known, and again when it has ended.
// It is called before the agent runs.
func (h *hooks) notExecuting(listener func(hookwatch.Gap)) {
	h.gapListeners = append(h.gapListeners, listener)
}

func (h *hooks) Run(ctx context.Context) error {
	go h.follow(ctx)
	for due, round := service.Due(h.period), 0; ; {
		which := map[model.IfIndex]bool{}
		select {
		case <-ctx.Done():
			return nil
		case <-due:
			due = service.Due(h.period)
			round++
		case index := <-h.changed:
			which[index] = true
			if !service.Sleep(ctx, filterSettle) {
				return nil
			}
			h.drain(which)
		}
		h.checkAndRepair(which, time.Now())
		if len(which) == 0 && round%trafficRounds == 0 {
			h.count(time.Now())
		}
		h.logBegin()
	}
}

// drain takes the changes that came in a burst.
func (h *hooks) drain(which map[model.IfIndex]bool) {
	for range hookGroups {
		select {
		case index := <-h.changed:
			which[index] = true
		default:
			return
		}
	}
}

// follow hears of changes of clsact. Without it, the hooks are looked at in turn.
func (h *hooks) follow(ctx context.Context) {
	for {
		err := h.system.WatchFilters(ctx, func(index model.IfIndex) {
			select {
			case h.changed <- index:
			default: // the next turn sees it
			}
		})
		if ctx.Err() != nil {
			return
		}
		h.log.Debug("watch the filters again", "error", err)
		if !service.Sleep(ctx, service.RetryPeriod) {
			return
		}
	}
}

// selection is which hooks a look is at: those of some interfaces, or all, of clsact a
// share in turn.
func (h *hooks) selection(which map[model.IfIndex]bool) func(model.IfIndex, datapath.AttachMode) bool {
	if len(which) > 0 {
		return func(index model.IfIndex, _ datapath.AttachMode) bool { return which[index] }
	}
	served := h.state.Load().Resolved.Node.Interfaces
	turn := make(map[model.IfIndex]bool)
	for range min(filterQuota/2, len(served)) {
		h.nextClsact = (h.nextClsact + 1) % len(served)
		turn[served[h.nextClsact].Index] = true
	}
	return func(index model.IfIndex, mode datapath.AttachMode) bool {
		return mode != datapath.AttachClsact || turn[index]
	}
}

// checkAndRepair looks at hooks, and repairs those that need it: edges first.
func (h *hooks) checkAndRepair(which map[model.IfIndex]bool, now time.Time) {
	if h.state.Load() == nil {
		return
	}
	served := h.served()
	reattach, reposition := h.recordStates(served, h.datapath.Hooks(h.selection(which)), now)
	h.putBack(served, reattach, reposition)
}

// recordStates records the states that a look at a time found, and returns what needs a repair.
func (h *hooks) recordStates(
	served map[model.IfIndex]model.Interface,
	states []datapath.HookState,
	now time.Time,
) (reattach, reposition []hookwatch.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watch.Keep(func(k hookwatch.Key) bool { _, ok := served[k.Index]; return ok })
	for k := range h.looks {
		if _, ok := served[k.Index]; !ok {
			delete(h.looks, k)
		}
	}
	for _, s := range states {
		k := hookwatch.Key{Index: s.Index, Ingress: s.Ingress}
		in, ok := served[s.Index]
		if !ok {
			continue
		}
		if s.Fault != "" {
			h.watch.Fail(k)
			continue
		}
		h.looks[k] = s
		if s.PutBack { // by a refresh: the kernel's notification of a changed interface may come first
			h.repair++
			h.watch.Observe(k, hookwatch.Look{}, now)
			h.watch.Repaired(k, in.Filters(s.Ingress), nil, now)
		}
		switch h.watch.Observe(k, hookwatch.Look{Attached: s.Attached, InPlace: s.InPlace, Changed: s.Changed}, now) {
		case hookwatch.Reattach:
			reattach = append(reattach, k)
		case hookwatch.Reposition:
			if in.Filters(s.Ingress) {
				reposition = append([]hookwatch.Key{k}, reposition...)
			} else {
				reposition = append(reposition, k)
			}
		}
	}
	return reattach, reposition
}

// putBack repairs hooks, and looks at them again.
func (h *hooks) putBack(served map[model.IfIndex]model.Interface, reattach, reposition []hookwatch.Key) {
	if len(reattach)+len(reposition) == 0 {
		return
	}
	h.logBegin()
	repaired := map[model.IfIndex]bool{}
	recordRepair := func(k hookwatch.Key, err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.repair++
		repaired[k.Index] = true
		h.watch.Repaired(k, served[k.Index].Filters(k.Ingress), err, time.Now())
	}
	if len(reattach) > 0 {
		err := h.refresh() // puts back all, edges first
		for _, k := range reattach {
			recordRepair(k, err)
		}
	}
	for _, k := range reposition {
		recordRepair(k, h.datapath.Reposition(k.Index, k.Ingress))
	}
	now := time.Now()
	states := h.datapath.Hooks(func(index model.IfIndex, _ datapath.AttachMode) bool { return repaired[index] })
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range states {
		k := hookwatch.Key{Index: s.Index, Ingress: s.Ingress}
		if _, ok := served[s.Index]; ok && s.Fault == "" && s.Attached && s.InPlace {
			h.looks[k] = s
			h.watch.Observe(k, hookwatch.Look{Attached: true, InPlace: true}, now)
		}
	}
}

func (h *hooks) served() map[model.IfIndex]model.Interface {
	served := make(map[model.IfIndex]model.Interface)
	for _, i := range h.state.Load().Resolved.Node.Interfaces {
		served[i.Index] = i
	}
	return served
}

// count compares what devices and hooks have counted. What is forwarded without the stack
// leaves by no egress hook, so egress is not compared then.
func (h *hooks) count(now time.Time) {
	devices, err := h.datapath.Devices()
	if err != nil {
		return
	}
	fast := len(h.state.Load().Resolved.Fast) > 0
	h.mu.Lock()
	defer h.mu.Unlock()
	h.xdp = make(map[model.IfIndex]string)
	for _, d := range devices {
		if d.XDP != nil {
			h.xdp[d.Index] = d.XDP.String()
		}
		h.watch.Count(
			hookwatch.Key{Index: d.Index, Ingress: true},
			hookwatch.Traffic{Device: d.Received, Hook: d.AtIngress, Meanwhile: d.MeanwhileAtIngress},
			now,
		)
		if egress := (hookwatch.Key{Index: d.Index}); fast {
			h.watch.Incomparable(egress, now)
		} else {
			h.watch.Count(egress, hookwatch.Traffic{Device: d.Sent, Hook: d.AtEgress, Dropped: d.Dropped, Meanwhile: d.MeanwhileAtEgress}, now)
		}
	}
}

// directionOf is the word for a hook's direction.
func directionOf(ingress bool) string {
	if ingress {
		return "ingress"
	}
	return "egress"
}

func (h *hooks) Warnings(s *service.State) (ws []health.Warning) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range s.Resolved.Node.Interfaces {
		for _, ingress := range []bool{true, false} {
			ws = append(ws, health.CheckHook(h.fact(i, ingress, time.Now()))...)
		}
	}
	return ws
}

// fact is what the health check needs about one hook; the caller holds mu.
func (h *hooks) fact(i model.Interface, ingress bool, now time.Time) health.Hook {
	k := hookwatch.Key{Index: i.Index, Ingress: ingress}
	s, look := h.watch.State(k), h.looks[k]
	f := health.Hook{Interface: i.Name, Direction: directionOf(ingress), Place: look.Place.String(), Mode: string(look.Mode),
		OffSince: s.OffSince, AwaySince: s.AwaySince, Repairs: s.Repairs, Fault: s.Fault, Next: s.Next, Unseen: s.Unseen,
		UnseenSince: s.BypassedSince}
	if i.Filters(ingress) {
		f.Boundary = i.Strictest().String()
	}
	if !now.Before(f.Next) { // of an earlier repair
		f.Next = time.Time{}
	}
	if s.OffSince.IsZero() && now.Sub(s.Last.Until) < hookRemember {
		f.OffSince, f.OffUntil = s.Last.Since, s.Last.Until
	}
	if s.AwaySince.IsZero() && now.Sub(s.LastMove.Until) < hookRemember {
		f.AwaySince, f.AwayUntil = s.LastMove.Since, s.LastMove.Until
	}
	if now.Sub(s.Change.Until) < hookRemember {
		f.Changed, f.ChangedUntil = s.Change.Since, s.Change.Until
	}
	for _, b := range look.Before {
		f.Before = append(f.Before, b.String())
	}
	if x := h.xdp[i.Index]; x != "" && ingress {
		f.XDP = []string{x}
	}
	return f
}

// logBegin logs when a problem begins.
func (h *hooks) logBegin() {
	s := h.state.Load()
	if s == nil {
		return
	}
	now := make(map[health.Warning]bool)
	for _, w := range h.Warnings(s) {
		which := health.Warning{Code: w.Code, Interface: w.Interface}
		if !h.logged[which] && !now[which] {
			h.logWarning(w)
		}
		now[which] = true
	}
	h.logged = now
}

// Report lists the hooks of each interface.
func (h *hooks) Report(s *service.State, out *api.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range out.Interfaces {
		one := &out.Interfaces[n]
		for _, ingress := range []bool{true, false} {
			k := hookwatch.Key{Index: model.IfIndex(one.Index), Ingress: ingress}
			look, ok := h.looks[k]
			if !ok || one.Index == 0 {
				continue
			}
			known := h.watch.State(k)
			hook := api.Hook{Direction: directionOf(ingress), Mode: string(look.Mode), Program: look.Program, Place: look.Place.String(),
				Attached: look.Attached, InPlace: look.Attached &&
					look.InPlace, SeesPackets: known.BypassedSince.IsZero(), Checked: instant.Of(known.Checked)}
			if x := h.xdp[k.Index]; x != "" && ingress {
				hook.Before = append(hook.Before, x)
			}
			for _, b := range look.Before {
				hook.Before = append(hook.Before, b.String())
			}
			one.Hooks = append(one.Hooks, hook)
		}
	}
}

var (
	descHookExecuted = service.Metric(
		"hook_executed",
		"Whether the program on a hook is attached, in its place among those of others, and sees the packets that the interface counts: 1 or 0.",
		"interface",
		"hook",
	)
	descHookRepairs = service.Metric("hook_repairs_total", "How often the agent put a program back on its hook or in its place.")
)

func (h *hooks) Collect(g *metrics.Gatherer) {
	s := h.state.Load()
	if s == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range s.Resolved.Node.Interfaces {
		for _, ingress := range []bool{true, false} {
			k := hookwatch.Key{Index: i.Index, Ingress: ingress}
			if _, ok := h.looks[k]; !ok {
				continue
			}
			value, known := 0.0, h.watch.State(k)
			if known.OffSince.IsZero() && known.AwaySince.IsZero() && known.BypassedSince.IsZero() {
				value = 1
			}
			g.Add(descHookExecuted, value, i.Name, directionOf(ingress))
		}
	}
	g.Add(descHookRepairs, float64(h.repair))
}
