// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// Coverage notes which interfaces are configured and not there, and warns of those at which
// packets of measured flows may pass uncounted. The data plane notes what changes.
type Coverage struct {
	service.Idle
	d Dependencies
}

// NewCoverage makes the service, whose notes the data plane keeps.
func NewCoverage(d Dependencies) *Coverage { return &Coverage{d: d} }

// Prepare notes the interfaces that are missing. Of the time before this agent, nothing is
// known.
func (c *Coverage) Prepare(p *service.Plan) error {
	from := int64(0)
	if p.Before != nil {
		from = time.Now().UnixNano()
	}
	p.OnCommit(func() {
		if !p.Generation.Noticed.IsZero() && from != 0 {
			from = p.Generation.Noticed.UnixNano()
		}
		c.recordMissing(p.Next, from)
	})
	return nil
}

func (c *Coverage) recordMissing(s *service.State, from int64) {
	log, missing := c.d.Datapath.Coverage(), s.Resolved.Missing
	for _, i := range s.Config.Interfaces {
		if slices.Contains(missing, i.Name) {
			log.Begin(coverage.Gap{Interface: i.Name, Ways: waysOf(i.Role, i.Boundary.Default), Why: loss.InterfacesChanged, From: from})
		}
	}
	log.KeepOpen(missing, loss.InterfacesChanged, time.Now().UnixNano())
}

func waysOf(roles []model.Role, boundary model.Boundary) coverage.Ways {
	i := model.Interface{Boundary: boundary}
	for _, r := range roles {
		i.Roles |= r
	}
	return datapath.WaysOf(i)
}

// recentlyUnserved is how long a warning of packets at an interface that is not counted
// outlasts them.
const recentlyUnserved = time.Minute

func (c *Coverage) Warnings(s *service.State) (ws []health.Warning) {
	if len(s.Resolved.Node.Measurement.Flows) == 0 {
		return nil
	}
	at := time.Now().Add(-recentlyUnserved).UnixNano()
	unserved := make(map[string][]string) // flows by interface
	lasting := make(map[coverage.Gap]bool)
	for _, g := range c.d.Datapath.Coverage().Since(at) {
		switch {
		case g.Why == loss.UnservedInterface:
			if list := unserved[g.Interface]; !slices.Contains(list, g.Flow) {
				unserved[g.Interface] = append(list, g.Flow)
			}
		case g.To != coverage.Open || lasting[coverage.Gap{Interface: g.Interface, Why: g.Why}]:
		case g.Why == loss.NotExecuted:
			ws = append(ws, health.NotExecutedUncovered(g.Interface))
		case g.Why == loss.InterfacesChanged:
			ws = append(ws, health.MissingUncovered(g.Interface))
		}
		if g.To == coverage.Open {
			lasting[coverage.Gap{Interface: g.Interface, Why: g.Why}] = true // several have one warning
		}
	}
	for name, flows := range unserved {
		ws = append(ws, health.UnservedUncovered(name, slices.Min(flows), len(flows)))
	}
	return ws
}
