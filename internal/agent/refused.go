// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// refusals warns of recently refused packets of tunnels that end at this node.
type refusals struct {
	idle
	*core
	source, bare, taken recently
	logged              bool // the current warnings are in the log; only for the goroutine that notes
}

// prepare notes what was refused before this agent, because only growth is warned of.
func (r *refusals) prepare(p *plan) error {
	if p.before == nil {
		p.commit(r.note)
	}
	return nil
}

func (r *refusals) run(ctx context.Context) error {
	r.tasks.every(ctx, notePeriod, func() {
		if len(r.state.Load().resolved.Node.Decapsulations) == 0 {
			r.logged = false
			return // nothing can be refused
		}
		r.note()
		r.logBegin()
	})
	return nil
}

// total counts since the data plane was made.
func (r *refusals) total() (n health.Refusals, err error) {
	counters, err := r.datapath.Counters()
	for i := range counters {
		c := &counters[i]
		n.Source += c.Ingress[model.OutcomeDecapRefusedSource]
		n.Bare += c.Ingress[model.OutcomeDecapRefusedBare]
		n.Taken += c.Ingress[model.OutcomeTunnelDecapsulated]
	}
	return n, err
}

func (r *refusals) note() {
	if total, err := r.total(); err == nil {
		now := time.Now()
		r.source.add(now, total.Source)
		r.bare.add(now, total.Bare)
		r.taken.add(now, total.Taken)
	}
}

func (r *refusals) warnings(s *state) []health.Warning {
	if len(s.resolved.Node.Decapsulations) == 0 {
		return nil
	}
	total, err := r.total()
	if err != nil {
		return nil
	}
	return health.RefusedTunnels(decapsulationFacts(s.resolved.Node), health.Refusals{
		Source: r.source.growth(total.Source), Bare: r.bare.growth(total.Bare), Taken: r.taken.growth(total.Taken),
	})
}

// logBegin logs when packets begin to be refused, because no reload does.
func (r *refusals) logBegin() {
	ws := r.warnings(r.state.Load())
	if !r.logged {
		for _, w := range ws {
			r.logWarning(w)
		}
	}
	r.logged = len(ws) > 0
}

func decapsulationFacts(node model.NodeConfig) (list []health.Decapsulation) {
	for _, d := range node.Decapsulations {
		isAny := func(p netip.Prefix) bool { return p.Bits() == 0 }
		list = append(list, health.Decapsulation{
			Destination:  d.TunnelDestination,
			AnySource:    len(d.Sources) == 0 || slices.ContainsFunc(d.Sources, isAny),
			Bare:         d.Bare,
			NoNamespaces: len(node.Namespaces) == 0,
		})
	}
	return list
}
