// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/waymark-net/waymark/collector/internal/events"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/collect/pathmetrics"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

// openOutputs makes all that gets records: the store, the metrics of paths, and what the file exports to.
func (d *Daemon) openOutputs() error {
	d.began = time.Now()
	d.paths = pathmetrics.New(int(d.Settings.Metrics.Series))
	counting := sink.NewQueued(sink.Each(d.paths.Observe), sink.Settings{Name: "metrics", QueueSpace: collect.NewQueueSpace()})
	name, err := os.Hostname()
	if err != nil {
		name = "waymark-collector"
	}
	d.events = events.New(events.Options{
		Node: nodenames.Printable(name), ClockError: d.Settings.Events.OrUnknown(),
		File:  filepath.Join(d.Settings.Store.Directory, "events.jsonl"),
		Names: func() []nodenames.Node { return d.collector.Names() }, Log: d.Notify,
	}, d.began)
	kept := sink.Except(d.sink, record.KindStatistics)
	d.outputs = []sink.Sink{kept, sink.Only(counting, record.KindPath, record.KindTrace), d.events}
	tell := []sink.Sink{kept}
	for i := range d.Settings.Export {
		one, err := d.Settings.Export[i].Open(sink.Environment{
			Stdout: os.Stdout, Log: slog.New(slog.DiscardHandler), QueueSpace: collect.NewQueueSpace(), Version: commandline.Version(),
			Facts: func() sink.Facts { return sink.Facts{Node: name} }, Metrics: d.gather,
		})
		if err != nil {
			for _, s := range d.outputs {
				s.Close()
			}
			return fmt.Errorf("export[%d]: %w", i, err)
		}
		d.outputs, tell = append(d.outputs, one), append(tell, one)
	}
	d.events.Tell(tell...)
	return nil
}

// gather is all metrics now, for OpenTelemetry.
func (d *Daemon) gather() *metrics.Gatherer {
	g := &metrics.Gatherer{}
	d.collector.Collect(g)
	d.collect(g)
	d.paths.Collect(g)
	d.events.Collect(g)
	return g
}
