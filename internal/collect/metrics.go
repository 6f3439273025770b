// SPDX-License-Identifier: Apache-2.0

package collect

import "github.com/prometheus/client_golang/prometheus"

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("waymark_collect_"+name, help, labels, nil)
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

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector. All series are there from the start.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.Stats()
	series := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, n := range s.Counts() {
		series(desc(n.Name+"_total", n.Meaning), prometheus.CounterValue, float64(n.Value))
	}
	for d, counts := range map[*prometheus.Desc][]Count{descPaths: s.Paths(), descMalformed: s.Malformed(), descImpossible: s.Impossible()} {
		for _, n := range counts {
			series(d, prometheus.CounterValue, float64(n.Value), n.Name)
		}
	}
	series(descWaiting, prometheus.GaugeValue, float64(s.Waiting))
	series(descSessions, prometheus.GaugeValue, float64(c.decoder.Sessions()))
	series(descTemplates, prometheus.GaugeValue, float64(c.decoder.Templates()))
}
