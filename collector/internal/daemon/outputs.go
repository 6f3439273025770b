// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/collect/pathmetrics"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

// openOutputs makes all that gets records: the store, the metrics of paths, and what the file exports to.
func (d *Daemon) openOutputs() error {
	d.began = time.Now()
	d.paths = pathmetrics.New(int(d.Settings.Metrics.Series))
	counting := sink.NewQueued(sink.Each(d.paths.Observe), sink.Settings{Name: "metrics", Room: collect.NewRoom()})
	d.outputs = []sink.Sink{sink.Except(d.sink, record.KindStatistics), sink.Only(counting, record.KindPath)}
	name, err := os.Hostname()
	if err != nil {
		name = "waymark-collector"
	}
	for i := range d.Settings.Export {
		one, err := d.Settings.Export[i].Open(sink.Environment{
			Stdout: os.Stdout, Log: slog.New(slog.DiscardHandler), Room: collect.NewRoom(), Version: commandline.Version(),
			Facts: func() sink.Facts { return sink.Facts{Node: name} }, Metrics: d.gather,
		})
		if err != nil {
			for _, s := range d.outputs {
				s.Close()
			}
			return fmt.Errorf("export[%d]: %w", i, err)
		}
		d.outputs = append(d.outputs, one)
	}
	return nil
}

// gather is all metrics now, for OpenTelemetry.
func (d *Daemon) gather() *metrics.Gatherer {
	g := &metrics.Gatherer{}
	d.collector.Collect(g)
	d.collect(g)
	d.paths.Collect(g)
	return g
}
