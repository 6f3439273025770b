// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/pathtrace/endpoint"
)

// TraceEndpoint answers the probes of "waymark trace" that end at this node.
type TraceEndpoint struct {
	listeners[config.Trace, *endpoint.Endpoint]
	counts  [endpoint.NumOutcomes]uint64 // of endpoints that have ended; guarded by mu
	dropped uint64                       // by their sockets; guarded by mu
}

// NewTraceEndpoint makes the endpoint; without trace in the configuration, it does not listen.
func NewTraceEndpoint(d Dependencies) *TraceEndpoint {
	r := &TraceEndpoint{}
	r.listeners = listeners[config.Trace, *endpoint.Endpoint]{
		d: d, want: func(c *config.Config) []config.Trace { return optional(c.Trace) },
		describe: func(*config.Trace) string { return "the endpoint of traces" },
		ended: func(_ *config.Trace, one *endpoint.Endpoint) {
			r.add(&r.counts, one)
			r.dropped += one.Dropped()
		},
		make: func(w *config.Trace) (*endpoint.Endpoint, error) {
			key, err := readKey(w.KeyFile)
			return endpoint.New(
				endpoint.Config{Local: netip.AddrPort(w.Listen), Allowed: config.Prefixes(w.Allow), Rate: int(w.Rate), Key: key},
			), err
		},
	}
	return r
}

// add adds an endpoint's counters.
func (*TraceEndpoint) add(to *[endpoint.NumOutcomes]uint64, one *endpoint.Endpoint) {
	for o, n := range one.Counts() {
		to[o] += n
	}
}

var (
	descTraceProbes  = service.Metric("trace_probes_total", "Probes of waymark trace that ended at this node, by outcome.", "outcome")
	descTraceDropped = service.Metric("trace_socket_dropped_total", "Probes of waymark trace for which the socket had no room.")
)

func (r *TraceEndpoint) Collect(g *metrics.Gatherer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts, dropped := r.counts, r.dropped
	r.each(func(_ *config.Trace, one *endpoint.Endpoint) {
		r.add(&counts, one)
		dropped += one.Dropped()
	})
	g.Add(descTraceDropped, float64(dropped))
	for o, n := range counts {
		g.Add(descTraceProbes, float64(n), endpoint.Outcome(o).String())
	}
}
