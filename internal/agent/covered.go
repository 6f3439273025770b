// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
)

// covered notes which interfaces are configured and not there, and warns of those at which
// packets of measured flows may pass uncounted. The data plane notes what changes.
type covered struct {
	idle
	*core
}

// prepare notes the interfaces that are missing. Of the time before this agent, nothing is
// known.
func (c *covered) prepare(p *plan) error {
	from := int64(0)
	if p.before != nil {
		from = time.Now().UnixNano()
	}
	p.commit(func() {
		if !p.generation.Noticed.IsZero() && from != 0 {
			from = p.generation.Noticed.UnixNano()
		}
		c.note(p.next, from)
	})
	return nil
}

func (c *covered) note(s *state, from int64) {
	log, missing := c.datapath.Coverage(), s.resolved.Missing
	for _, i := range s.config.Interfaces {
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

func (c *covered) warnings(s *state) (ws []health.Warning) {
	if len(s.resolved.Node.Measurement.Flows) == 0 {
		return nil
	}
	at := time.Now().Add(-recentlyUnserved).UnixNano()
	unserved := make(map[string][]string) // flows by interface
	lasting := make(map[coverage.Gap]bool)
	for _, g := range c.datapath.Coverage().Since(at) {
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

// gapBits are the reasons for which an interface is not counted, as nodes tell each other.
var gapBits = []struct {
	reason loss.Reasons
	bit    blocks.Gaps
}{
	{loss.InterfacesChanged, blocks.GapChanged}, {loss.UnservedInterface, blocks.GapUnserved}, {loss.NotExecuted, blocks.GapNotExecuted},
}

func gapsOf(r loss.Reasons) (g blocks.Gaps) {
	for _, b := range gapBits {
		if r&b.reason != 0 {
			g |= b.bit
		}
	}
	return g
}

// uncoveredBy are the reasons that another node gives. A bit of a later version is a change
// of interfaces.
func uncoveredBy(g blocks.Gaps) (r loss.Reasons) {
	for _, b := range gapBits {
		if g&b.bit != 0 {
			r |= b.reason
		}
		g &^= b.bit
	}
	if g != 0 {
		r |= loss.InterfacesChanged
	}
	return r
}
