// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/kernelevents"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// kernelEvents is what the kernel's own IOAM tells. The kernel makes no events
// while nobody listens.
type kernelEvents struct {
	watch
	count kernelevents.Counters
}

// followKernelEvents listens while that is configured and somebody wants
// records.
func (a *Agent) followKernelEvents(ctx context.Context) {
	hear := func(ctx context.Context, begun func()) error {
		return a.options.System.WatchKernelEvents(ctx, &a.kernelEvents.count, func() {
			begun()
			a.log.Info("hearing the events of the kernel's own IOAM")
		}, a.kernelEvent)
	}
	a.kernelEvents.follow(ctx, hear, func(err error) {
		a.log.Warn("the events of the kernel's own IOAM are not heard", "error", err)
	})
}

// kernelEvent hands on a trace that the kernel's own IOAM has filled.
func (a *Agent) kernelEvent(trace ioam.Trace) {
	a.records.read.Add(1)
	out, err := record.NewKernelTrace(time.Now(), trace, a.clock())
	if err != nil {
		a.records.malformed.Add(1) // the nodes that can be read are there
	}
	out.Node = a.options.NodeName
	a.offer(&out)
}

// kernelEventStatus counts events, when they are configured.
func (a *Agent) kernelEventStatus(s *state) *api.KernelEvents {
	if !s.config.Node.KernelEvents {
		return nil
	}
	c := &a.kernelEvents.count
	return &api.KernelEvents{Received: c.Received(), Malformed: c.Malformed(), Lost: c.Lost()}
}

// kernelEventWarnings say why the kernel's events are not heard.
func (a *Agent) kernelEventWarnings() []health.Warning {
	fault := a.kernelEvents.fault.Load()
	if fault == nil {
		return nil
	}
	return []health.Warning{health.New(health.KernelUnheard, "",
		"traces that the kernel's own IOAM fills give no records: "+*fault,
		"use Linux 6.9 or newer, give the agent CAP_NET_ADMIN, or set node.kernel-events: false; the agent tries again every second")}
}
