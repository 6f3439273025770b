// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// drops warns of packets that the policy of this node recently dropped, of proofs of transit
// that it recently rejected, of headers that could not be removed, and of offloaded packets that
// got no number.
type drops struct {
	idle
	*core
	mu     sync.Mutex
	recent map[model.IfIndex]*[numDropCounters]recently // guarded by mu
	logged map[health.Warning]bool                      // without texts: those in the log; only for the goroutine that notes
}

func newDrops(c *core) *drops {
	return &drops{core: c, recent: make(map[model.IfIndex]*[numDropCounters]recently)}
}

// The counters of an interface that are watched: of packets dropped by the edge, of proofs of
// transit, of removals that failed, and of offloaded packets without a header.
const (
	dropEdge        = iota // three, as in edgeDrops
	dropEdgeOut     = dropEdge + 3
	dropProofs      = dropEdgeOut + 3 // seven, as in dropCounters
	dropRemovals    = dropProofs + 7  // two: on arrival and on departure
	dropOffloaded   = dropRemovals + 2
	numDropCounters = dropOffloaded + 1
)

func dropCounters(c *datapath.Counters) [numDropCounters]uint64 {
	return [...]uint64{
		c.Ingress[model.OutcomeBoundaryDropped], c.Ingress[model.OutcomeBoundaryUnprovenDropped], c.Ingress[model.OutcomeBoundaryTunnelDropped],
		c.Egress[model.OutcomeBoundaryDropped], c.Egress[model.OutcomeBoundaryUnprovenDropped], c.Egress[model.OutcomeBoundaryTunnelDropped],
		c.IngressOptions[model.OutcomePotAccepted], c.IngressOptions[model.OutcomePotRejected], c.IngressOptions[model.OutcomePotInvalid],
		c.IngressOptions[model.OutcomePotReplayed], c.IngressOptions[model.OutcomePotTooOld], c.IngressOptions[model.OutcomePotAhead], c.Ingress[model.OutcomePotDropped],
		c.Ingress[model.OutcomeDecapFailed], c.Egress[model.OutcomeDecapFailed],
		c.Egress[model.OutcomeEncapSkippedGSO],
	}
}

func edgeDrops(n []uint64) health.EdgeDrops {
	return health.EdgeDrops{IOAM: n[0], Unproven: n[1], Tunnel: n[2]}
}

// prepare notes what was dropped before this agent, because only growth is warned of.
func (d *drops) prepare(p *plan) error {
	if p.before == nil {
		p.commit(d.note)
	}
	return nil
}

func (d *drops) run(ctx context.Context) error {
	d.tasks.every(ctx, notePeriod, func() {
		d.note()
		d.logBegin()
	})
	return nil
}

func (d *drops) note() {
	counters, err := d.datapath.Counters()
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before, now := d.recent, time.Now()
	d.recent = make(map[model.IfIndex]*[numDropCounters]recently, len(counters))
	for i := range counters {
		at := counters[i].Index
		if d.recent[at] = before[at]; d.recent[at] == nil {
			d.recent[at] = new([numDropCounters]recently)
		}
		for k, total := range dropCounters(&counters[i]) {
			d.recent[at][k].add(now, total)
		}
	}
}

// growth is how much the counters of an interface recently grew.
func (d *drops) growth(c *datapath.Counters) (n [numDropCounters]uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if recent := d.recent[c.Index]; recent != nil {
		for k, total := range dropCounters(c) {
			n[k] = recent[k].growth(total)
		}
	}
	return n
}

// warnings leaves out interfaces that have got the role since they dropped packets.
func (d *drops) warnings(s *state) (ws []health.Warning) {
	counters, err := d.datapath.Counters()
	if err != nil {
		return nil
	}
	served := make(map[model.IfIndex]model.Interface)
	for _, i := range s.resolved.Node.Interfaces {
		served[i.Index] = i
	}
	for i := range counters {
		in, ok := served[counters[i].Index]
		if !ok {
			continue
		}
		n := d.growth(&counters[i])
		if in.Roles&model.RoleIngress == 0 {
			ws = append(ws, health.DroppedOnArrival(in.Name, edgeDrops(n[dropEdge:]))...)
		}
		if in.Roles&model.RoleEgress == 0 {
			ws = append(ws, health.DroppedOnDeparture(in.Name, edgeDrops(n[dropEdgeOut:]))...)
		}
		p := n[dropProofs:]
		ws = append(ws, health.RejectedProofs(in.Name, health.Proofs{Accepted: p[0], Rejected: p[1], Invalid: p[2], Replayed: p[3], TooOld: p[4], Ahead: p[5], Dropped: p[6]})...)
		ws = append(ws, health.FailedRemovals(in.Name, n[dropRemovals]+n[dropRemovals+1])...)
		if e := numbering(s.resolved.Node, in.Index); e != "" {
			ws = append(ws, health.SkippedOffloaded(in.Name, e, n[dropOffloaded])...)
		}
	}
	return ws
}

// numbering is the first encapsulation of an interface that needs a number for each segment; "" if
// none does.
func numbering(node model.NodeConfig, at model.IfIndex) string {
	i := slices.IndexFunc(node.Encapsulations, func(e model.Encapsulation) bool {
		return e.Interface == at && slices.ContainsFunc(e.Options, func(o model.InsertedOption) bool { return o.Proof != nil || o.EdgeToEdge != nil })
	})
	if i < 0 {
		return ""
	}
	return node.Encapsulations[i].Name
}

// logBegin logs when packets begin to be dropped, because no reload does.
func (d *drops) logBegin() {
	now := make(map[health.Warning]bool)
	for _, w := range health.WithoutHints(d.warnings(d.state.Load())) {
		which := health.Warning{Code: w.Code, Interface: w.Interface}
		if !d.logged[which] && !now[which] {
			d.logWarning(w)
		}
		now[which] = true
	}
	d.logged = now
}
