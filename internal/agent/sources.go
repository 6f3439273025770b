// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// sources polls whether the kernel would now choose other tunnel sources. No single
// event reports that: routes, rules and addresses all decide.
type sources struct {
	idle
	*core
}

func (s *sources) run(ctx context.Context) error {
	s.tasks.every(ctx, clockPeriod, s.follow)
	return nil
}

func (s *sources) follow() {
	for to, before := range s.state.Load().resolved.Derived {
		now, err := config.SourceOf(s.system, to)
		if err != nil {
			now = netip.Addr{}
		}
		if now != before {
			s.look()
			return
		}
	}
}

// sourcelessWarnings are about encapsulations that wait for a tunnel source.
func sourcelessWarnings(list []config.Sourceless) []health.Warning {
	var ws []health.Warning
	for _, s := range list {
		ws = append(ws, health.New(health.TunnelUnroutable, "",
			fmt.Sprintf("encapsulation %s is not in force, because its tunnel to %s has no source: %s", s.Encapsulation, s.Destination, s.Cause),
			fmt.Sprintf("add a route to %s, or set tunnel.source to an address of this node; the encapsulation comes into force as soon as there is one", s.Destination)))
	}
	return ws
}

// checkSource refuses a new rule whose tunnel would have no source.
func (c *core) checkSource(e config.Encapsulation) error {
	if e.Tunnel == nil || e.Tunnel.Source.IsValid() || e.Mode == model.ModeInline {
		return nil
	}
	if _, err := config.SourceOf(c.system, e.Tunnel.Destination); err != nil {
		return fmt.Errorf("tunnel source: %w; set one of this node's addresses with tunsrc", err)
	}
	return nil
}
