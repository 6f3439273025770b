// SPDX-License-Identifier: Apache-2.0

// Package daemon puts the stages of the collector together: what receives and joins, the store, and the API.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/api"
	"github.com/waymark-net/waymark/collector/internal/events"
	"github.com/waymark-net/waymark/collector/internal/live"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/settings"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/collect/pathmetrics"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/supervisor"
)

const (
	// aliveInterval is how often the service manager hears that the collector lives.
	aliveInterval = time.Second
	// stuck is how long the joining stage may take to answer, and the store for what it does in a second, or for one
	// rollup. Those of 600,000 packets take half a second, on a machine without time to spare several times that.
	stuck = 30 * time.Second
)

// Daemon is a collector with a store. It does nothing before Run.
type Daemon struct {
	Settings *settings.Settings
	Manager  *supervisor.Manager // nil: none
	Notify   func(level slog.Level, text string)
	Ready    func(endpoints []string, api string) // may be nil

	store     *store.Store
	collector *collect.Collector
	sink      *sink.Queued
	outputs   []sink.Sink
	paths     *pathmetrics.Counters
	events    *events.Finder
	began     time.Time

	stuck time.Duration          // 0: the constant
	free  func() (uint64, error) // see [store.Options]; nil: of the disk
}

// room is of records that wait for the store: as many as the joining stage makes in some seconds.
const room = 1 << 16

// Run receives and keeps until the context ends.
func (d *Daemon) Run(ctx context.Context) (err error) {
	config, err := d.Settings.Collect()
	if err != nil {
		return err
	}
	who, err := d.Settings.Access(d.Notify)
	if err != nil {
		return err
	}
	guard, err := access.New(who)
	if err != nil {
		return err
	}
	of := d.Settings.Store
	var kept atomic.Pointer[sink.Queued] // the store asks what its sink lost, and is there before it
	missed := func() uint64 {
		if s := kept.Load(); s != nil {
			return s.Stats().Missed()
		}
		return 0
	}
	d.store, err = store.New(ctx, store.Options{
		Directory: of.Directory, Age: time.Duration(of.Age), Bytes: int64(of.Size), Reserve: uint64(of.Free), Memory: int64(of.Memory),
		Log: d.Notify, Missed: missed, Free: d.free,
	})
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	var waiting sink.QueueSpace
	waiting.SetBurst(room)
	hub := live.New()
	d.sink = store.Sink(hub.Writer(store.NewWriter(d.store)), &waiting)
	kept.Store(d.sink)
	if err := d.openOutputs(); err != nil {
		return err
	}
	config.Sinks = d.outputs
	config.Notify = d.Notify
	config.Keeper = d.Manager.Sockets()
	config.Templates = filepath.Join(of.Directory, "templates.json")
	if d.collector, err = collect.New(config); err != nil {
		return err
	}
	if err := d.collector.Open(); err != nil {
		return err
	}
	asked := &query.Queries{
		Store: d.store, Time: time.Duration(d.Settings.API.Time), AtOnce: int(d.Settings.API.Queries), Live: d.live, Hub: hub,
		Names: d.collector.Names, Settings: d.Settings,
	}
	server, err := api.Serve(guard, asked, d.collector.Collect, d.collect, d.paths.Collect, d.events.Collect)
	if err != nil {
		return errors.Join(err, d.collector.Close())
	}
	defer server.Close()
	d.announce(server.URL())
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := cmp.Or(d.stuck, stuck)
	go reportAlive(running, d.Manager, func() (string, bool) { return d.status(limit) }, aliveInterval, limit)
	go hub.Run(running)
	err = d.collector.Run(ctx)
	cancel() // streams end, so that the server need not wait for them
	d.Manager.Stopping("writes what it has received")
	return err
}

// announce says that everything is open.
func (d *Daemon) announce(url string) {
	var at []string
	for _, e := range d.collector.Endpoints() {
		at = append(at, e.String())
	}
	d.Notify(slog.LevelInfo, "receives at "+strings.Join(at, ", ")+", keeps in "+d.Settings.Store.Directory+", answers at "+url)
	if d.Ready != nil {
		d.Ready(at, url)
	}
	d.Manager.Ready("receives at " + strings.Join(at, ", "))
}

// reportAlive tells the service manager in each interval that the collector lives, as long as status says that its stages
// move. status may wait for a stage's lock, for as long as stuck.
func reportAlive(
	ctx context.Context,
	m *supervisor.Manager,
	status func() (text string, moves bool),
	interval, stuck time.Duration,
) {
	type state struct {
		text  string
		moves bool
	}
	each := time.NewTicker(interval)
	defer each.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-each.C:
		}
		looked := make(chan state, 1)
		go func() {
			text, moves := status()
			looked <- state{text, moves}
		}()
		select {
		case s := <-looked:
			m.Status(s.text)
			if s.moves {
				m.Alive()
			}
		case <-time.After(stuck): // it is not alive
		case <-ctx.Done():
			return
		}
	}
}

// status is the state in a sentence, and whether the store has done within stuck what it does every second. It needs the
// lock of the joining stage. It needs none of the store, which questions do not wait for either.
func (d *Daemon) status(stuck time.Duration) (text string, moves bool) {
	if since := d.store.SinceTended(); since > stuck {
		return fmt.Sprintf("the store has done nothing for %s; does its disk answer?", since.Round(time.Second)), false
	}
	s, files := d.collector.Stats(), d.store.Files()
	text = fmt.Sprintf("%s received, %s", columns.Counted(s.Records, "record"), columns.Counted(len(files), "file"))
	if fault, _ := d.store.Fault(); fault != "" {
		text += "; nothing is written: " + fault
	}
	return text, true
}

// live is what only the running collector knows.
func (d *Daemon) live() query.Live {
	s := d.collector.Stats()
	live := query.Live{Collector: s.Record(), Sink: d.sink.Stats(), Began: d.began, Buffers: d.collector.Buffers()}
	live.Exporters, live.Ignored = d.collector.Exporters()
	for _, o := range d.outputs {
		live.Outputs = append(live.Outputs, query.Output{Name: o.Name(), Stats: o.Stats()})
	}
	return live
}
