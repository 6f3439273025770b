// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/collect/known"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// verdicts says what became of packets, from their postcards and from what exporters are
// known to have reported.
type verdicts struct {
	base    *known.Base
	routes  *known.Routes
	pairs   *known.Pairs
	slack   time.Duration
	lost    uint64 // paths
	unknown uint64
}

// newVerdicts makes verdicts without any. Exporters report several times within the wait
// for a packet, of which a part is left for delays that are greater than before.
func newVerdicts(wait time.Duration) verdicts {
	return verdicts{base: known.NewBase(), routes: known.NewRoutes(), pairs: known.NewPairs(), slack: cmp.Or(wait, join.DefaultWait) / 4}
}

// message takes a message before the records in it.
func (v *verdicts) message(from *origin, m *ipfix.Message, now time.Time) {
	has := func(causes ...ipfix.Cause) bool {
		return slices.ContainsFunc(m.Problems, func(p ipfix.Problem) bool { return slices.Contains(causes, p.Cause) })
	}
	n := m.Counted
	v.base.Message(from.feed, from.exporter, known.Arrived{
		First: m.Sequence == 0, // The first message of a session has this number (RFC 7011 §3.1).
		Gaps:  n.Gaps, Missed: n.Missed, Awaited: n.Awaited(), Breaks: n.Breaks,
		Understood: !has(ipfix.CauseUnknownTemplate, ipfix.CauseValueLimit), Late: has(ipfix.CauseSequenceOutOfOrder),
	}, now)
}

// report takes an options record that says until when postcards were reported.
func (v *verdicts) report(from *origin, r *record.Reading, data ipfix.DataRecord) {
	if !r.Reporting {
		return
	}
	p, ok := r.ReportingOf(data)
	if !ok || p.Domain != from.exporter.Domain {
		return
	}
	v.base.Report(from.feed, p.Namespace, known.Report{
		Since: p.Since.Time, Until: p.Until.Time, Counted: p.Counted.Time, Served: p.Served.Time,
		Sampling: p.Sampling, Suppressed: p.Suppressed, Lost: p.Lost, NotSent: p.NotSent,
	})
}

// of is what became of a path's packet.
func (v *verdicts) of(p *joined) known.Verdict {
	result := known.Verdict{Fate: record.PathArrived}
	switch r := p.record; {
	case slices.ContainsFunc(p.stops, func(s known.Stop) bool { return s.Role == record.Decapsulating }):
	case r.Reason == record.PathNotSeenFurther:
		result = known.LostAfter(
			known.Question{Key: p.key, Sequence: r.Sequence, Last: p.stops[len(p.stops)-1], Slack: v.slack},
			v.routes,
			v.base,
		)
	default:
		result = known.Verdict{Fate: record.PathUnknown, Doubt: []known.Doubtful{{Answer: known.Answer{Doubt: record.DoubtEnded}}}}
	}
	if p.record.Reason != record.PathHopLimitsUneven { // else the order is not known
		v.routes.Learn(p.key, p.stops, p.at)
	}
	v.pairs.Count(p.key.Namespace, p.stops, result)
	switch result.Fate {
	case record.PathLost:
		v.lost++
	case record.PathUnknown:
		v.unknown++
	}
	return result
}

// addVerdict completes a path with what became of its packet.
func (c *joining) addVerdict(p *joined) {
	r, v := p.record, c.verdicts.of(p)
	r.Verdict = v.Fate
	if v.Fate == record.PathLost {
		r.Silent = v.Silent
	}
	for _, d := range v.Doubt {
		r.Unknown = append(
			r.Unknown,
			record.Doubtful{Node: c.names.node(d.Exporter), Exporter: d.Exporter.Addr, Doubt: d.Doubt, Since: instant.Of(d.Since)},
		)
	}
}

// pairs are the totals of all pairs of nodes, by name.
func (c *joining) pairs() []record.Pair {
	list := make([]record.Pair, 0, len(c.verdicts.pairs.Of)+1)
	for p, t := range c.verdicts.pairs.Of {
		list = append(list, record.Pair{
			Namespace: p.Namespace, From: c.names.node(p.From), FromExporter: p.From.Addr, To: c.names.node(p.To), ToExporter: p.To.Addr,
			Packets: t.Packets, Lost: t.Lost, Unknown: t.Unknown,
		})
	}
	slices.SortFunc(list, func(a, b record.Pair) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.From, b.From), a.FromExporter.Compare(b.FromExporter),
			cmp.Compare(a.To, b.To), a.ToExporter.Compare(b.ToExporter))
	})
	if t := c.verdicts.pairs.Rest; t.Packets > 0 {
		list = append(list, record.Pair{Packets: t.Packets, Lost: t.Lost, Unknown: t.Unknown})
	}
	return list
}
