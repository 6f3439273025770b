// SPDX-License-Identifier: Apache-2.0

// Package agent wires the data plane, the configuration, the exporters and the
// local API of one network namespace together. It is the only place that does.
//
// The configuration file is the truth at start and at reload. Changes made through the
// API in between are volatile, like those made with "ip": they end with the next
// reload, and survive a restart of the agent only if the file has not changed.
package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/agent/instances"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// Datapath is what the agent needs from the data plane; *datapath.Datapath implements
// and documents it.
type Datapath interface {
	Apply(datapath.Config) error
	Intact() bool
	Hooks(look func(model.IfIndex, datapath.AttachMode) bool) []datapath.HookState
	Devices() ([]datapath.DeviceTraffic, error)
	Reposition(index model.IfIndex, ingress bool) error
	Interfaces() []datapath.InterfaceStatus
	Counters() ([]datapath.Counters, error)
	ReadSamples(context.Context, datapath.Samples) error
	ReadWaiting(datapath.Samples) error
	ReadThrough() bool
	CollectFlows(func(datapath.Flow)) error
	CollectEdges(func(datapath.EdgeFlow)) (left edgetoedge.Totals, err error)
	Delays() (list []datapath.Delays, counts bool, err error)
	Blocks(block uint64, visit func(datapath.BlockCounts))
	BlockReported(flow string, block uint64)
	Coverage() *coverage.Log
	NewTaps() *datapath.Taps
	SetTAIOffset(time.Duration) error
	FollowClock() error
	SetRecordsWanted(n int) error
	SetPathMTU(encapsulation string, mtu int) error
	Decapsulations() ([]netip.Addr, error)
	Forwarding() (*datapath.Forwarding, error)
	Close() error
	Remove() error
	AwaitLeft()
}

// openDatapath checks what the data plane of an instance needs, and opens it.
func openDatapath(instance api.Instance, log *slog.Logger) (Datapath, bool, error) {
	if err := health.CheckCapabilities(); err != nil {
		return nil, false, err
	}
	pins, err := instances.PreparePins(api.Root)
	if err != nil {
		return nil, false, err
	}
	pins.Sweep(api.Root, instance, log)
	d, err := datapath.Open(datapath.Options{PinPath: pins.Path(instance), Log: log})
	if err != nil {
		return nil, false, err
	}
	return d, pins.Private, nil
}

// generation is the data plane's form of a resolved configuration. Services may change
// its encapsulations, which are a copy.
func generation(r config.Resolved, nextHops int) datapath.Config {
	r.Node.Encapsulations = slices.Clone(r.Node.Encapsulations)
	c := datapath.Config{Node: r.Node, Attach: make(map[model.IfIndex]datapath.AttachMode, len(r.Attach))}
	for index, mode := range r.Attach {
		c.Attach[index] = datapath.AttachMode(mode)
	}
	c.Places, c.Fast, c.NextHops, c.StackOptions = r.Places, r.Fast, nextHops, &r.StackOptions
	return c
}
