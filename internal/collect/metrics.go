// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
)

func desc(name, help string, labels ...string) *metrics.Desc {
	return &metrics.Desc{Name: "waymark_collect_" + name, Help: help, Labels: labels}
}

// Metrics with a label; every counter of Stats.Counts has one of its own.
var (
	descPaths      = desc("paths_total", "Paths, by why they are incomplete.", "reason")
	descMalformed  = desc("malformed_total", "What was wrong with messages and their parts, by cause; of sequence_gap, records missed.", "cause")
	descImpossible = desc("impossible_total", "Records that were dropped, by cause.", "cause")
	descWaiting    = desc("waiting_packets", "Packets that wait for postcards.")
	descSessions   = desc("sessions", "Transport sessions.")
	descTemplates  = desc("templates", "Templates of all sessions.")
)

// Collect adds the collector's metrics. All series are there from the start.
func (c *Collector) Collect(g *metrics.Gatherer) {
	s := c.Stats()
	for _, n := range s.Counts() {
		g.Add(desc(n.Name+"_total", n.Meaning), float64(n.Value))
	}
	for d, counts := range map[*metrics.Desc][]record.Count{descPaths: s.Paths(), descMalformed: s.Malformed(), descImpossible: s.Impossible()} {
		for _, n := range counts {
			g.Add(d, float64(n.Value), n.Name)
		}
	}
	g.Add(descWaiting, float64(s.Waiting))
	g.Add(descSessions, float64(c.decoder.Sessions()))
	g.Add(descTemplates, float64(c.decoder.Templates()))
}
