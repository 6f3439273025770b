// SPDX-License-Identifier: Apache-2.0

// Package agent wires the data plane, the configuration, the exporters and the
// local API of one network namespace together. It is the only place that does.
//
// The configuration file is the truth at start and at reload. What the API
// changes in between is volatile, as what "ip" changes is: it ends with the
// next reload, and survives a restart of the agent only while the file is what
// it was.
package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// Datapath is what the agent needs of the data plane; *datapath.Datapath has
// it, and documents it.
type Datapath interface {
	Apply(datapath.Config) error
	Intact() bool
	Interfaces() []datapath.InterfaceStatus
	Counters() ([]datapath.Counters, error)
	ReadSamples(context.Context, datapath.Samples) error
	ReadWaiting(datapath.Samples) error
	CollectFlows(func(datapath.Flow)) error
	SetTAIOffset(time.Duration) error
	SetRecordsWanted(bool) error
	SetPathMTU(encapsulation string, mtu int) error
	Decapsulations() ([]netip.Addr, error)
	Forwarding() (*datapath.Forwarding, error)
	Close() error
	Remove() error
}

// openDatapath opens the data plane of a place, after what it needs is there.
func openDatapath(place api.Place, log *slog.Logger) (Datapath, bool, error) {
	if err := health.CheckCapabilities(); err != nil {
		return nil, false, err
	}
	pins, err := preparePins(api.Root)
	if err != nil {
		return nil, false, err
	}
	sweep(api.Root, pins.root, place, log)
	d, err := datapath.Open(datapath.Options{PinPath: pins.path(place), Log: log})
	if err != nil {
		return nil, false, err
	}
	return d, pins.private, nil
}

// generation is the data plane's form of a resolved configuration, with the
// path MTU of each tunnel's destination.
func generation(r config.Resolved, nextHops int, pathMTU func(netip.Addr) int) datapath.Config {
	r.Node.Encapsulations = slices.Clone(r.Node.Encapsulations)
	for i := range r.Node.Encapsulations {
		if e := &r.Node.Encapsulations[i]; e.Mode != model.ModeInline {
			e.PathMTU = pathMTU(e.TunnelDestination)
		}
	}
	c := datapath.Config{Node: r.Node, Attach: make(map[model.IfIndex]datapath.AttachMode, len(r.Attach))}
	for index, mode := range r.Attach {
		c.Attach[index] = datapath.AttachMode(mode)
	}
	c.Fast, c.NextHops = r.Fast, nextHops
	return c
}
