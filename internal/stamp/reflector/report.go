// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/problem"
)

// Report are the counters as JSON.
type Report struct {
	Kind          string            `json:"kind"`     // always "stamp_reflector"
	Outcomes      map[string]uint64 `json:"outcomes"` // of packets; each has one
	Notes         map[string]uint64 `json:"notes"`    // what was wrong besides
	Octets        uint64            `json:"octets"`   // of replies
	SocketDropped uint64            `json:"socket_dropped"`
	Sessions      int64             `json:"sessions"`
}

// Report names the counters.
func (c Counts) Report() Report {
	r := Report{
		Kind:          "stamp_reflector",
		Outcomes:      make(map[string]uint64),
		Notes:         make(map[string]uint64),
		Octets:        c.Octets,
		SocketDropped: c.SocketDropped,
		Sessions:      c.Sessions,
	}
	for i, n := range c.Outcomes {
		r.Outcomes[Outcome(i).String()] = n
	}
	for i, n := range c.Notes {
		r.Notes[Note(i).String()] = n
	}
	return r
}

// Text are the counters for people; besides the first, those that are 0 are left out.
func (c Counts) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d packets reflected, %d octets, %d sessions\n", c.Outcomes[Reflected], c.Octets, c.Sessions)
	line := func(n uint64, name, meaning string) {
		if n > 0 {
			fmt.Fprintf(&b, "  %-22s %8d  %s\n", name, n, meaning)
		}
	}
	for i, n := range c.Outcomes {
		if o := Outcome(i); o != Reflected {
			line(n, o.String(), o.Meaning())
		}
	}
	for i, n := range c.Notes {
		line(n, Note(i).String(), Note(i).Meaning())
	}
	line(c.SocketDropped, "socket_dropped", droppedMeaning)
	return b.String()
}

const droppedMeaning = "Packets for which the socket's buffer had no room."

var (
	descPackets = &metrics.Desc{Name: "waymark_stamp_packets_total", Help: "Test packets, by outcome.", Labels: []string{"outcome"}}
	descNotes   = &metrics.Desc{
		Name:   "waymark_stamp_notes_total",
		Help:   "What was wrong with test packets besides their outcome, by kind.",
		Labels: []string{"note"},
	}
	descOctets   = &metrics.Desc{Name: "waymark_stamp_reply_octets_total", Help: "Octets of replies, without headers."}
	descDropped  = &metrics.Desc{Name: "waymark_stamp_socket_dropped_total", Help: droppedMeaning}
	descSessions = &metrics.Desc{Name: "waymark_stamp_sessions", Help: "Sessions of a stateful reflector, as of its last packet."}
)

// Collect adds the metrics. All series exist from the start.
func (c Counts) Collect(g *metrics.Gatherer) {
	for i, n := range c.Outcomes {
		g.Add(descPackets, float64(n), Outcome(i).String())
	}
	for i, n := range c.Notes {
		g.Add(descNotes, float64(n), Note(i).String())
	}
	g.Add(descOctets, float64(c.Octets))
	g.Add(descDropped, float64(c.SocketDropped))
	g.Add(descSessions, float64(c.Sessions))
}

// ServeMetrics serves /metrics.
func (r *Reflector) ServeMetrics(address string, notify func(string)) (*metrics.Server, error) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler(func(g *metrics.Gatherer) { r.Counts().Collect(g) }))
	server, err := metrics.Serve(address, mux, func(_ *metrics.Server, err error) {
		notify(fmt.Sprintf("metrics are no longer served: %v", err))
	})
	if err != nil {
		return nil, problem.Wrap(
			fmt.Errorf("serve metrics at %s: %w", address, err),
			"set --metrics to an address and a free port of this machine",
		)
	}
	return server, nil
}
