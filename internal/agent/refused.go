// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// refusals warns of recently refused packets of tunnels that end at this node.
type refusals struct {
	service.Idle
	*core
	wrongSource, withoutIOAM, decapsulated service.Samples
	logged                                 bool // the current warnings are in the log; only for the goroutine that notes
}

// Prepare notes what was refused before this agent, because only growth is warned of.
func (r *refusals) Prepare(p *service.Plan) error {
	if p.Before == nil {
		p.OnCommit(r.sampleTotals)
	}
	return nil
}

func (r *refusals) Run(ctx context.Context) error {
	r.tasks.Every(ctx, service.SamplePeriod, func() {
		if len(r.state.Load().Resolved.Node.Decapsulations) == 0 {
			r.logged = false
			return // nothing can be refused
		}
		r.sampleTotals()
		r.logBegin()
	})
	return nil
}

// total counts since the data plane was made.
func (r *refusals) total() (n health.Refusals, err error) {
	counters, err := r.datapath.Counters()
	for i := range counters {
		c := &counters[i]
		n.WrongSource += c.Ingress[model.OutcomeDecapRefusedSource]
		n.WithoutIOAM += c.Ingress[model.OutcomeDecapRefusedBare]
		n.Decapsulated += c.Ingress[model.OutcomeTunnelDecapsulated]
	}
	return n, err
}

func (r *refusals) sampleTotals() {
	if total, err := r.total(); err == nil {
		now := time.Now()
		r.wrongSource.Add(now, total.WrongSource)
		r.withoutIOAM.Add(now, total.WithoutIOAM)
		r.decapsulated.Add(now, total.Decapsulated)
	}
}

func (r *refusals) Warnings(s *service.State) []health.Warning {
	if len(s.Resolved.Node.Decapsulations) == 0 {
		return nil
	}
	total, err := r.total()
	if err != nil {
		return nil
	}
	return health.RefusedTunnels(decapsulationFacts(s.Resolved.Node), health.Refusals{
		WrongSource: r.wrongSource.Growth(total.WrongSource), WithoutIOAM: r.withoutIOAM.Growth(total.WithoutIOAM),
		Decapsulated: r.decapsulated.Growth(total.Decapsulated),
	})
}

// logBegin logs when packets begin to be refused, because no reload does.
func (r *refusals) logBegin() {
	ws := r.Warnings(r.state.Load())
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
