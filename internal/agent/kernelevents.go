// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/kernelevents"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// kernelEvents makes records of the events of the kernel's own IOAM. The kernel makes
// no events while nothing listens.
type kernelEvents struct {
	idle
	*core
	watch
	records *records
	count   kernelevents.Counters
}

func newKernelEvents(c *core, r *records) *kernelEvents {
	k := &kernelEvents{core: c, watch: newWatch(), records: r}
	r.sources = append(r.sources, k.want)
	return k
}

// want starts or stops listening: it is needed while configured and records are wanted.
func (k *kernelEvents) want(records bool) {
	s := k.state.Load()
	k.set(records && s != nil && s.config.Node.KernelEvents)
}

func (k *kernelEvents) run(ctx context.Context) error {
	hear := func(ctx context.Context, begun func()) error {
		return k.system.WatchKernelEvents(ctx, &k.count, func() {
			begun()
			k.log.Info("receiving the events of the kernel's own IOAM")
		}, k.heard)
	}
	k.follow(ctx, hear, func(err error) {
		k.log.Warn("the events of the kernel's own IOAM are not received", "error", err)
	})
	return nil
}

// heard makes a record of a trace that the kernel's own IOAM has filled.
func (k *kernelEvents) heard(trace ioam.Trace) {
	k.records.read.Add(1)
	out, err := record.NewKernelTrace(time.Now(), trace, k.records.clock.ofRecords())
	if err != nil {
		k.records.malformed.Add(1) // the readable nodes are kept
	}
	out.Node = k.options.NodeName
	k.records.offer(&out)
}

var (
	descKernelEvents = desc("kernel_events_total", "Events of the kernel's own IOAM that the agent read.")
	descKernelBad    = desc("kernel_events_malformed_total", "Of these, those that could not be understood.")
	descKernelLost   = desc("kernel_events_lost_total", "Events of the kernel's own IOAM that overran the agent's socket.")
)

func (k *kernelEvents) collect(g *metrics.Gatherer) {
	g.Add(descKernelEvents, float64(k.count.Received()))
	g.Add(descKernelBad, float64(k.count.Malformed()))
	g.Add(descKernelLost, float64(k.count.Lost()))
}

// report counts events, when they are configured.
func (k *kernelEvents) report(s *state, status *api.Status) {
	if s.config.Node.KernelEvents {
		status.Records.KernelEvents = &api.KernelEvents{Received: k.count.Received(), Malformed: k.count.Malformed(), Lost: k.count.Lost()}
	}
}

// warnings say why the kernel's events are not received.
func (k *kernelEvents) warnings(*state) []health.Warning {
	fault := k.fault.Load()
	if fault == nil {
		return nil
	}
	return []health.Warning{health.New(health.KernelUnheard, "",
		"traces that the kernel's own IOAM fills make no records: "+*fault,
		"use Linux 6.9 or newer, give the agent CAP_NET_ADMIN, or set node.kernel-events: false; the agent tries again every second")}
}
