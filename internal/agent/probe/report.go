// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/http"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/pathtrace/monitor"
)

var (
	descSent = service.Metric(
		"probe_packets_total",
		"Packets that this node sent for probes, by kind: probe, hop_limited (their hop limits are to end on the way, or they ask "+
			"nodes for copies), suppressed (not sent, because of the budget), skipped (not sent, because the agent was late), failed "+
			"(the kernel sent them not).",
		"kind",
	)
	descCopies  = service.Metric("probe_copies_total", "Copies of probes that nodes on the way returned (RFC 9322).")
	descIgnored = service.Metric(
		"probe_replies_ignored_total",
		"Replies to probes that were not used, by cause: malformed, foreign (to others), mac_wrong, late (the probe has a reply, or "+
			"was given up).",
		"cause",
	)
	descAnswered = service.Metric(
		"probe_answered_total",
		"Probes to a destination that were answered, by path: the ids of its nodes.",
		"destination",
		"path",
	)
	descLost = service.Metric(
		"probe_lost_total",
		"Probes to a destination that were not answered within the timeout, whatever their path.",
		"destination",
	)
	descFlows = service.Metric(
		"probe_flows",
		"Flows of probes to a destination by state: answered, lost (they were answered before, or never, as waymark probes says), waiting.",
		"destination",
		"state",
	)
	descPathFlows = service.Metric("probe_path_flows", "Flows of probes that take a path now.", "destination", "path")
	descLostAfter = service.Metric(
		"probe_lost_after",
		"Flows of probes to a destination that vanish after a node, before the next one that replied until then. Empty labels: the "+
			"place is not known.",
		"destination",
		"after",
		"before",
	)
	descMoves      = service.Metric("probe_path_changes_total", "Flows of probes that took another path than before.")
	descEvents     = service.Metric("probe_events_total", "Events about probes, by name.", "event")
	descRoundTrips = withBuckets(
		service.Metric(
			"probe_round_trip_seconds",
			"Round trips of probes to a destination, by path: the ids of its nodes. A histogram.",
			"destination",
			"path",
		),
	)
)

// withBuckets makes a histogram of a metric: of round trips, with a series for each path.
func withBuckets(d *metrics.Desc) *metrics.Desc {
	d.Bounds, d.Most = monitor.Bounds(), 2048
	return d
}

func (p *Probes) Collect(g *metrics.Gatherer) {
	m, counts := p.now()
	for _, one := range []struct {
		kind string
		n    uint64
	}{
		{"probe", counts.Sent}, {"hop_limited", counts.HopLimited}, {"suppressed", counts.Suppressed}, {"skipped", counts.Skipped},
		{"failed", counts.SendFailed},
	} {
		g.Add(descSent, float64(one.n), one.kind)
	}
	for _, one := range []struct {
		cause string
		n     uint64
	}{{"malformed", counts.Malformed}, {"foreign", counts.Foreign}, {"mac_wrong", counts.Forged}, {"late", counts.Late}} {
		g.Add(descIgnored, float64(one.n), one.cause)
	}
	g.Add(descCopies, float64(counts.Copies))
	g.Add(descMoves, float64(counts.Moves))
	for kind, n := range counts.Events {
		g.Add(descEvents, float64(n), eventNames[kind])
	}
	if m == nil {
		return
	}
	for _, s := range m.States() {
		g.Add(descLost, float64(s.Unanswered), s.Name)
		g.Add(descFlows, float64(s.Answered), s.Name, "answered")
		g.Add(descFlows, float64(s.Lost), s.Name, "lost")
		g.Add(descFlows, float64(s.Flows-s.Answered-s.Lost), s.Name, "waiting")
		for i := range s.Paths {
			one := &s.Paths[i]
			g.Add(descAnswered, float64(one.Received), s.Name, one.Key)
			g.Add(descPathFlows, float64(one.Flows), s.Name, one.Key)
			g.AddHistogram(descRoundTrips, one.Trips, s.Name, one.Key)
		}
		flows := make(map[[2]string]int)
		var order [][2]string
		for _, one := range s.Places {
			at := [2]string{one.After, one.Before}
			if _, twice := flows[at]; !twice {
				order = append(order, at)
			}
			flows[at] += one.Flows
		}
		for _, at := range order {
			g.Add(descLostAfter, float64(flows[at]), s.Name, at[0], at[1])
		}
	}
}

func (p *Probes) Routes() service.Routes {
	return service.Routes{
		// What the probes of `probes` in the configuration show: of each destination its `state` (`answered`, `lost`,
		// `unanswered` if no probe ever was, `waiting` if that is not known yet), its paths with round trips and losses,
		// and in `losses` the places where probes vanish. Counters run since the agent began to probe the destination.
		"GET /v1/probes": p.getProbes,
	}
}

func (p *Probes) getProbes(w http.ResponseWriter, _ *http.Request) error {
	m, counts := p.now()
	p.mu.Lock()
	out := api.Probes{
		Configured: p.wanted != nil, Destinations: []api.ProbedNode{}, Own: service.NonNil(p.own), Unresolved: service.NonNil(p.unresolved),
		Sent: counts.Sent, HopLimited: counts.HopLimited, Copies: counts.Copies,
		Suppressed: counts.Suppressed + counts.Skipped, Skipped: counts.Skipped, SendFailed: counts.SendFailed,
	}
	if p.wanted != nil {
		out.Interval, out.Flows, out.Budget = int64(p.wanted.Interval), int(p.wanted.Flows), int(p.wanted.Budget)
	}
	p.mu.Unlock()
	if m != nil {
		for _, s := range m.States() {
			out.Destinations = append(out.Destinations, node(&s))
		}
	}
	service.Answer(w, http.StatusOK, out)
	return nil
}

func node(s *monitor.State) api.ProbedNode {
	n := api.ProbedNode{
		Name: s.Name, Address: s.Address, State: api.ProbedAnswered, Flows: s.Flows, FlowsLost: s.Lost, Sent: s.Sent, Lost: s.Unanswered,
		LastMinute: api.ProbeCount{
			Probes: s.LastMinute.Finished,
			Lost:   s.LastMinute.Lost,
		}, Paths: []api.ProbedPath{}, Losses: []api.ProbeLosses{}, Said: s.NodeError,
	}
	switch {
	case !s.EverAnswered && s.Lost > 0:
		n.State = api.ProbedUnanswered
	case !s.EverAnswered:
		n.State = api.ProbedWaiting
	case s.Lost > 0:
		n.State = api.ProbedLost
	}
	for _, one := range s.Windows {
		n.LastMinutes = append(n.LastMinutes, api.ProbeCount{Probes: one.Finished, Lost: one.Lost})
	}
	var all metrics.Histogram
	for i := range s.Paths {
		one := &s.Paths[i]
		p := api.ProbedPath{
			Path: one.Key, Nodes: one.Named, Flows: one.Flows, Answered: one.Received, Lost: one.Lost, Overflow: one.Overflow,
			RoundTrip: times(one.Trips), Hops: []api.ProbedHop{},
		}
		for _, h := range one.Hops {
			hop := api.ProbedHop{NodeID: h.ID, Name: h.Name, Ingress: h.Ingress, Egress: h.Egress, Silent: h.Silent}
			if h.Address.IsValid() {
				hop.Address = &h.Address
			}
			p.Hops = append(p.Hops, hop)
		}
		n.Paths = append(n.Paths, p)
		all = monitor.Merge(all, one.Trips)
	}
	n.RoundTrip = times(all)
	for _, one := range s.Places {
		n.Losses = append(n.Losses, api.ProbeLosses{
			Flows: one.Flows, After: one.After, AfterHop: one.AfterHop, Before: one.Before, Evidence: string(one.Evidence),
			Since: instant.Of(one.Since), Path: one.Path,
			Error: one.Error, AgentAway: one.Refused, NeverAnswered: one.Never,
		})
	}
	return n
}

// times are the quantiles of a histogram; nil: it is empty.
func times(h metrics.Histogram) *api.ProbeTimes {
	n := monitor.Count(h)
	if n == 0 {
		return nil
	}
	at := func(share float64) int64 { return int64(monitor.Quantile(h, share)) }
	return &api.ProbeTimes{Count: n, Mean: int64(h.Sum / float64(n) * float64(time.Second)), P50: at(0.5), P95: at(0.95), P99: at(0.99)}
}
