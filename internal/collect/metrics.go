// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
)

func desc(name, help string, labels ...string) *metrics.Desc {
	return &metrics.Desc{Name: "waymark_collect_" + name, Help: help, Labels: labels}
}

// Metrics with a label; every counter of Stats.Counts has one of its own.
var (
	descPaths      = desc("paths_total", "Paths, by the reason why they are incomplete.", "reason")
	descMalformed  = desc("malformed_total", "Errors in messages and their parts, by cause; for sequence_gap, missed records.", "cause")
	descImpossible = desc("impossible_total", "Records that were dropped, by cause.", "cause")
	descWaiting    = desc("waiting_packets", "Packets that wait for postcards.")
	descSessions   = desc("sessions", "Transport sessions.")
	descBeyond     = desc(
		"flows_beyond_threshold",
		"Measured flows that are beyond --max-loss or --max-delay, by the code of the warning.",
		"code",
	)
	descTemplates = desc("templates", "Templates of all sessions.")
)

// Collect adds the collector's metrics. All series exist from the start.
func (c *Collector) Collect(g *metrics.Gatherer) {
	s := c.Stats()
	for _, n := range s.Counts() {
		g.Add(desc(n.Name+"_total", n.Meaning), float64(n.Value))
	}
	for d, counts := range map[*metrics.Desc][]record.Count{descPaths: s.Paths(), descMalformed: s.Malformed(),
		descImpossible: s.Impossible()} {
		for _, n := range counts {
			g.Add(d, float64(n.Value), n.Name)
		}
	}
	g.Add(descWaiting, float64(s.Waiting))
	g.Add(descSessions, float64(c.decoder.Sessions()))
	g.Add(descTemplates, float64(c.decoder.Templates()))
	c.output.collect(g)
	for i, t := range thresholds {
		g.Add(descBeyond, float64(s.Beyond[i]), string(t.code))
	}
}

// serveMetrics serves /metrics, if the configuration asks for it.
func (c *Collector) serveMetrics() error {
	if c.config.Metrics == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler(c.Collect))
	server, err := metrics.Serve(c.config.Metrics, mux, func(_ *metrics.Server, err error) {
		c.config.Notify(slog.LevelError, fmt.Sprintf("metrics are no longer served: %v", err))
	})
	if err != nil {
		return fmt.Errorf("serve metrics at %s: %w", c.config.Metrics, listenFault(err, "--metrics"))
	}
	c.metrics = server
	return nil
}
