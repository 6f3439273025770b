// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// drops warns of packets that the policy of this node recently dropped, of proofs of transit
// that it recently rejected, of headers that could not be removed, and of offloaded packets that
// got no number.
type drops struct {
	service.Idle
	*core
	mu     sync.Mutex
	recent map[model.IfIndex][]service.Samples // guarded by mu
	logged map[health.Warning]bool             // without texts: those in the log; only for the goroutine that notes
}

func newDrops(c *core) *drops {
	return &drops{core: c, recent: make(map[model.IfIndex][]service.Samples)}
}

// The counters of an interface that are watched: of packets dropped by the edge, of proofs of
// transit, of removals that failed, of offloaded packets without a header, of what is missing in
// measurements, and of the outcomes that health words itself.
const (
	dropEdge         = iota // three, as in edgeDrops
	dropEdgeOut      = dropEdge + 3
	dropProofs       = dropEdgeOut + 3 // seven, as in dropCounters
	dropRemovals     = dropProofs + 7  // two: on arrival and on departure
	dropOffloaded    = dropRemovals + 2
	dropUnmarked     = dropOffloaded + 1 // packets of measured flows without their mark
	dropRestarts     = dropUnmarked + 1  // numbers of flows that begin again
	dropCopies       = dropRestarts + 1  // of packets with the Loopback flag
	dropMalformedSRH = dropCopies + 1
	dropNoted        = dropMalformedSRH + 1 // as health.NotedOutcomes
)

var notedOutcomes = health.NotedOutcomes()

func dropCounters(c *datapath.Counters) []uint64 {
	list := []uint64{
		c.Ingress[model.OutcomeBoundaryDropped], c.Ingress[model.OutcomeBoundaryUnprovenDropped], c.Ingress[model.OutcomeBoundaryTunnelDropped],
		c.Egress[model.OutcomeBoundaryDropped], c.Egress[model.OutcomeBoundaryUnprovenDropped], c.Egress[model.OutcomeBoundaryTunnelDropped],
		c.IngressOptions[model.OutcomePotAccepted], c.IngressOptions[model.OutcomePotRejected], c.IngressOptions[model.OutcomePotInvalid],
		c.IngressOptions[model.OutcomePotReplayed], c.IngressOptions[model.OutcomePotTooOld], c.IngressOptions[model.OutcomePotAhead], c.Ingress[model.OutcomePotDropped],
		c.Ingress[model.OutcomeDecapFailed], c.Egress[model.OutcomeDecapFailed],
		c.Egress[model.OutcomeEncapSkippedGSO] + c.Forwarded[model.OutcomeEncapSkippedGSO],
		sumOf(c.Unmarked[:]),
		c.SequencesEvicted + c.EdgeNumbersEvicted,
		c.Loopback.Suppressed,
		sumOf(c.SRHMalformed[:]),
	}
	for _, o := range notedOutcomes {
		list = append(list, countOf(c, o))
	}
	return list
}

// countOf is how often an outcome happened at an interface: to options, if it is one of theirs, else
// to packets.
func countOf(c *datapath.Counters, o model.Outcome) uint64 {
	if o >= model.FirstOptionOutcome && o < model.NumOptionOutcomes {
		return c.IngressOptions[o] + c.EgressOptions[o]
	}
	return c.Ingress[o] + c.Egress[o] + c.Forwarded[o]
}

func sumOf(counts []uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func edgeDrops(n []uint64) health.EdgeDrops {
	return health.EdgeDrops{IOAM: n[0], Unproven: n[1], Tunnel: n[2]}
}

// Prepare notes what was dropped before this agent, because only growth is warned of.
func (d *drops) Prepare(p *service.Plan) error {
	if p.Before == nil {
		p.OnCommit(d.sampleCounters)
	}
	return nil
}

func (d *drops) Run(ctx context.Context) error {
	d.tasks.Every(ctx, service.SamplePeriod, func() {
		counters, err := d.datapath.Counters()
		if err != nil {
			return
		}
		d.noteCounters(counters)
		d.logBegin(counters)
	})
	return nil
}

func (d *drops) sampleCounters() {
	if counters, err := d.datapath.Counters(); err == nil {
		d.noteCounters(counters)
	}
}

func (d *drops) noteCounters(counters []datapath.Counters) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, now := d.recent, time.Now()
	d.recent = make(map[model.IfIndex][]service.Samples, len(counters))
	for i := range counters {
		at, totals := counters[i].Index, dropCounters(&counters[i])
		if d.recent[at] = before[at]; d.recent[at] == nil {
			d.recent[at] = make([]service.Samples, len(totals))
		}
		for k, total := range totals {
			d.recent[at][k].Add(now, total)
		}
	}
}

// growth is how much the counters of an interface recently grew.
func (d *drops) growth(c *datapath.Counters) []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := dropCounters(c)
	recent := d.recent[c.Index]
	for k, total := range n {
		if n[k] = 0; recent != nil {
			n[k] = recent[k].Growth(total)
		}
	}
	return n
}

func (d *drops) Warnings(s *service.State) []health.Warning {
	counters, err := d.datapath.Counters()
	if err != nil {
		return nil
	}
	return d.judge(s, counters)
}

// judge leaves out interfaces that have got the role since they dropped packets.
func (d *drops) judge(s *service.State, counters []datapath.Counters) (ws []health.Warning) {
	served := make(map[model.IfIndex]model.Interface)
	for _, i := range s.Resolved.Node.Interfaces {
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
		ws = append(
			ws,
			health.RejectedProofs(
				in.Name,
				health.Proofs{Accepted: p[0], Rejected: p[1], Invalid: p[2], Replayed: p[3], TooOld: p[4], Ahead: p[5], Dropped: p[6]},
			)...)
		ws = append(ws, health.FailedRemovals(in.Name, n[dropRemovals]+n[dropRemovals+1])...)
		skipped := n[dropNoted:]
		if e := numbering(s.Resolved.Node, in.Index); e != "" {
			ws = append(ws, health.SkippedOffloaded(in.Name, e, n[dropOffloaded])...)
			skipped[slices.Index(notedOutcomes, model.OutcomeEncapSkippedGSO)] = 0
		}
		ws = append(ws, health.Noted(in.Name, skipped)...)
		if n := n[dropMalformedSRH]; n > 0 {
			ws = append(ws, health.MalformedSRH(in.Name, n, srhFaults(&counters[i]))...)
		}
		ws = append(ws, health.Unmarked(in.Name, n[dropUnmarked])...)
		ws = append(ws, health.NumbersRestarted(in.Name, n[dropRestarts])...)
		ws = append(ws, health.CopiesSuppressed(in.Name, n[dropCopies])...)
	}
	return ws
}

// srhFaults names what was ever wrong with the Segment Routing Headers at an interface.
func srhFaults(c *datapath.Counters) (list []string) {
	for f := range datapath.NumSRHFaults {
		if c.SRHMalformed[f] > 0 {
			list = append(list, f.String())
		}
	}
	return list
}

// numbering is the first encapsulation of an interface that needs a number for each segment; "" if
// none does.
func numbering(node model.NodeConfig, at model.IfIndex) string {
	i := slices.IndexFunc(node.Encapsulations, func(e model.Encapsulation) bool {
		return e.Interface == at &&
			slices.ContainsFunc(e.Options, func(o model.InsertedOption) bool { return o.Proof != nil || o.EdgeToEdge != nil })
	})
	if i < 0 {
		return ""
	}
	return node.Encapsulations[i].Name
}

// logBegin logs when packets begin to be dropped, because no reload does.
func (d *drops) logBegin(counters []datapath.Counters) {
	now := make(map[health.Warning]bool)
	for _, w := range health.WithoutHints(d.judge(d.state.Load(), counters)) {
		which := health.Warning{Code: w.Code, Interface: w.Interface}
		if !d.logged[which] && !now[which] {
			d.logWarning(w)
		}
		now[which] = true
	}
	d.logged = now
}
