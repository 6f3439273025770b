// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"net/netip"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
)

// Sources polls whether the kernel would now choose other tunnel sources. No single
// event reports that: routes, rules and addresses all decide.
type Sources struct {
	service.Idle
	d Dependencies
}

// NewSources makes the poll of tunnel sources.
func NewSources(d Dependencies) *Sources { return &Sources{d: d} }

func (s *Sources) Run(ctx context.Context) error {
	s.d.Tasks.Every(ctx, service.PollPeriod, s.follow)
	return nil
}

func (s *Sources) follow() {
	for to, before := range s.d.State.Load().Resolved.Derived {
		now, err := config.SourceOf(s.d.System, to)
		if err != nil {
			now = netip.Addr{}
		}
		if now != before {
			s.d.Resolve()
			return
		}
	}
}
