// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/kernelevents"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// KernelEvents makes records of the events of the kernel's own IOAM. The kernel makes
// no events while nothing listens.
type KernelEvents struct {
	service.Idle
	d Dependencies
	service.Watch
	records *Records
	count   kernelevents.Counters
}

// NewKernelEvents makes a source of records.
func NewKernelEvents(d Dependencies, r *Records) *KernelEvents {
	k := &KernelEvents{d: d, Watch: service.NewWatch(), records: r}
	r.sources = append(r.sources, k.setWanted)
	return k
}

// setWanted starts or stops listening: it is needed while configured and records are wanted.
func (k *KernelEvents) setWanted(records bool) {
	s := k.d.State.Load()
	k.Set(records && s != nil && s.Config.Node.KernelEvents)
}

func (k *KernelEvents) Run(ctx context.Context) error {
	listen := func(ctx context.Context, begun func()) error {
		return k.d.System.WatchKernelEvents(ctx, &k.count, func() {
			begun()
			k.d.Log.Info("receiving the events of the kernel's own IOAM")
		}, k.recordTrace)
	}
	k.Follow(ctx, listen, func(err error) {
		k.d.Log.Warn("the events of the kernel's own IOAM are not received", "error", err)
	})
	return nil
}

// recordTrace makes a record of a trace that the kernel's own IOAM has filled.
func (k *KernelEvents) recordTrace(trace ioam.Trace) {
	k.records.read.Add(1)
	out, err := record.NewKernelTrace(time.Now(), trace, k.records.clock.ofRecords())
	if err != nil {
		k.records.malformed.Add(1) // the readable nodes are kept
	}
	out.Node = k.d.NodeName()
	out.Name(k.d.State.Load().Names)
	k.records.Offer(&out)
}

var (
	descKernelEvents = service.Metric("kernel_events_total", "Events of the kernel's own IOAM that the agent read.")
	descKernelBad    = service.Metric("kernel_events_malformed_total", "Of these, those that could not be understood.")
	descKernelLost   = service.Metric("kernel_events_lost_total", "Events of the kernel's own IOAM that overran the agent's socket.")
)

func (k *KernelEvents) Collect(g *metrics.Gatherer) {
	g.Add(descKernelEvents, float64(k.count.Received()))
	g.Add(descKernelBad, float64(k.count.Malformed()))
	g.Add(descKernelLost, float64(k.count.Lost()))
}

// Report counts events, when they are configured.
func (k *KernelEvents) Report(s *service.State, status *api.Status) {
	if s.Config.Node.KernelEvents {
		status.Records.KernelEvents = &api.KernelEvents{Received: k.count.Received(), Malformed: k.count.Malformed(), Lost: k.count.Lost()}
	}
}

// Warnings say why the kernel's events are not received.
func (k *KernelEvents) Warnings(*service.State) []health.Warning {
	fault := k.Fault.Load()
	if fault == nil {
		return nil
	}
	return []health.Warning{health.New(health.KernelUnheard, "",
		"traces that the kernel's own IOAM fills make no records: "+*fault,
		"use Linux 6.9 or newer, give the agent CAP_NET_ADMIN, or set node.kernel-events: false; the agent tries again every second")}
}
