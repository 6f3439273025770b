// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// refusals tells how many packets of tunnels that end here were refused lately.
type refusals struct {
	source, bare, taken recently
	logged              bool // what the warnings say now; of the one who keeps the time
}

// totalRefusals counts since the data plane was made.
func (a *Agent) totalRefusals() (r health.Refusals, err error) {
	counters, err := a.datapath.Counters()
	for _, c := range counters {
		r.Source += c.Ingress[model.OutcomeDecapRefusedSource]
		r.Bare += c.Ingress[model.OutcomeDecapRefusedBare]
		r.Taken += c.Ingress[model.OutcomeTunnelDecapsulated]
	}
	return r, err
}

func (a *Agent) noteRefusals() {
	if total, err := a.totalRefusals(); err == nil {
		now := time.Now()
		a.refused.source.add(now, total.Source)
		a.refused.bare.add(now, total.Bare)
		a.refused.taken.add(now, total.Taken)
	}
}

func (a *Agent) refusalWarnings(s *state) []health.Warning {
	total, err := a.totalRefusals()
	if err != nil || len(s.resolved.Node.Decapsulations) == 0 {
		return nil
	}
	r := &a.refused
	return health.RefusedTunnels(decapsulationFacts(s), health.Refusals{
		Source: r.source.growth(total.Source), Bare: r.bare.growth(total.Bare), Taken: r.taken.growth(total.Taken),
	})
}

// logRefusals says in the log when packets begin to be refused: no reload comes
// with that.
func (a *Agent) logRefusals() {
	ws := a.refusalWarnings(a.state.Load())
	if !a.refused.logged {
		for _, w := range ws {
			a.logWarning(w)
		}
	}
	a.refused.logged = len(ws) > 0
}

func decapsulationFacts(s *state) (list []health.Decapsulation) {
	for _, d := range s.resolved.Node.Decapsulations {
		isAny := func(p netip.Prefix) bool { return p.Bits() == 0 }
		list = append(list, health.Decapsulation{
			Destination:  d.TunnelDestination,
			AnySource:    len(d.Sources) == 0 || slices.ContainsFunc(d.Sources, isAny),
			Bare:         d.Bare,
			NoNamespaces: len(s.resolved.Node.Namespaces) == 0,
		})
	}
	return list
}
