// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"maps"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/responder"
)

// Responders answer other nodes in protocols other than STAMP.
type Responders struct {
	listeners[config.Responder, *responder.Responder]
	counts respondersCounts // of responders that have ended; guarded by mu
}

// respondersCounts are the counters of responders, by protocol.
type respondersCounts map[config.ResponderProtocol]responder.Counts

var responderProtocols = map[config.ResponderProtocol]responder.Protocol{
	config.ResponderTWAMPLight:   responder.LossQueries,
	config.ResponderRFC6374Loss:  responder.LossMessages,
	config.ResponderRFC6374Delay: responder.DelayMessages,
}

// NewResponders makes responders that answer about blocks.
func NewResponders(d Dependencies, of *Blocks) *Responders {
	r := &Responders{counts: make(respondersCounts)}
	r.listeners = listeners[config.Responder, *responder.Responder]{
		d: d, want: func(c *config.Config) []config.Responder { return c.Responders },
		describe: func(w *config.Responder) string { return "the responder of " + string(w.Protocol) },
		ended:    r.counts.add,
		make: func(w *config.Responder) (*responder.Responder, error) {
			return responder.New(responder.Config{
				Protocol: responderProtocols[w.Protocol], Local: w.At(), Allowed: config.Prefixes(w.Allow), Rate: int(w.Rate), Short: w.Short,
				Flow: of.flowOf,
			}), nil
		},
	}
	return r
}

// add adds a responder's counters.
func (c respondersCounts) add(w *config.Responder, one *responder.Responder) {
	c[w.Protocol] = c[w.Protocol].Plus(one.Counts())
}

var (
	descResponderDropped = service.Metric(
		"responder_socket_dropped_total",
		"Queries for which the socket of a responder had no room.",
		"protocol",
	)

	descResponder = service.Metric(
		"responder_queries_total",
		"Queries that reached the responders, by protocol and outcome.",
		"protocol",
		"outcome",
	)
	descRepeated = service.Metric(
		"responder_queries_repeated_total",
		"Queries that a responder had received before: duplicated by the network, or replayed. They are answered.",
		"protocol",
	)
)

// total counts since the agent began, by protocol.
func (r *Responders) total() respondersCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := maps.Clone(r.counts)
	for _, w := range r.wanted { // also one that never ran
		counts[w.Protocol] = counts[w.Protocol].Plus(responder.Counts{})
	}
	r.each(counts.add)
	return counts
}

func (r *Responders) Report(_ *service.State, out *api.Status) {
	for protocol, c := range r.total() {
		if queries := service.CountsByName[responder.Outcome](c.Outcomes[:]); len(queries) > 0 {
			if out.Measurement.ResponderQueries == nil {
				out.Measurement.ResponderQueries = make(map[string]map[string]uint64)
			}
			out.Measurement.ResponderQueries[string(protocol)] = queries
		}
	}
}

func (r *Responders) Collect(g *metrics.Gatherer) {
	for protocol, c := range r.total() {
		for o, n := range c.Outcomes {
			g.Add(descResponder, float64(n), string(protocol), responder.Outcome(o).String())
		}
		g.Add(descRepeated, float64(c.Repeated), string(protocol))
		g.Add(descResponderDropped, float64(c.SocketDropped), string(protocol))
	}
}
