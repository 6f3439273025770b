// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/supervisor"
)

// Options are fixed for the life of an agent.
type Options struct {
	ConfigFile string
	Place      api.Place
	NodeName   string // names this node in records
	OneClock   bool   // all nodes of the domain read this machine's clock
	Version    string
	Log        *slog.Logger
	Stdout     io.Writer // of an exporter to "-"
	Ready      func()    // called once everything runs; may be nil
	Manager    *supervisor.Manager

	// System and Open are the machine and its data plane; nil is the real one.
	System System
	Open   func(api.Place, *slog.Logger) (d Datapath, privatePins bool, err error)
}

// Agent serves one network namespace.
type Agent struct {
	options       Options
	log           *slog.Logger
	started       time.Time
	datapath      Datapath
	privatePins   bool
	stream        sink.Stream
	sinks         sinks
	metricsServer *metricsServer
	records       records
	recordsLost   recently
	suppressed    recently
	lossTimes     lossTimes
	exportLost    recently
	errorsLost    recently // ICMPv6 errors
	refused       refusals
	flows         flowAllowance
	paths         paths
	tunnelErrors  tunnelErrors
	names         names
	wake          chan struct{}          // something changed that the configuration depends on
	routeWatch    watch                  // of what the kernel forwards by
	byStack       atomic.Pointer[string] // why the stack forwards what was to go fast; nil when it does not
	kernelEvents  kernelEvents
	taiOffset     atomic.Int64 // nanoseconds, as the data plane was last told

	change changeLock                 // held while what runs is being replaced
	state  atomic.Pointer[state]      // what runs
	view   atomic.Pointer[exportView] // of it, for exports
	ending bool                       // under change: no more changes

	reloads       atomic.Uint64
	reloadsFailed atomic.Uint64
	reloadFault   atomic.Pointer[string] // of the last reload

	stop    chan bool     // asks to end; true removes the data plane
	removed chan removal  // the answer to true
	closing chan struct{} // closed when streams must end
}

// New makes an agent that does nothing yet.
func New(o Options) *Agent {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.System == nil {
		o.System = kernel{}
	}
	if o.Open == nil {
		o.Open = openDatapath
	}
	a := &Agent{
		options: o,
		log:     o.Log,
		stop:    make(chan bool, 1),
		removed: make(chan removal, 1),
		closing: make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	a.paths.wake = make(chan struct{}, 1)
	a.names = names{lookup: o.System.Addresses, known: map[string][]netip.Addr{}}
	a.routeWatch.wanted, a.kernelEvents.wanted = make(chan bool, 1), make(chan bool, 1)
	a.sinks.environment = sink.Environment{Stdout: o.Stdout, Log: o.Log, Facts: a.sinkFacts, Changes: &sink.Changes{}, Shared: &sync.Map{}}
	a.metricsServer = newMetricsServer(a)
	return a
}

// Run serves until the context ends or the API says so. Packets keep their
// treatment then, unless the API asked to remove the data plane.
func (a *Agent) Run(ctx context.Context) error {
	a.started = time.Now()
	file, err := loadFile(a.options.ConfigFile, a.options.System)
	if err != nil {
		return err
	}
	held, err := acquire(a.options.Place)
	if err != nil {
		return err
	}
	defer held.release()
	if a.datapath, a.privatePins, err = a.options.Open(a.options.Place, a.log); err != nil {
		return err
	}
	if err := a.initialize(file); err != nil {
		return errors.Join(err, a.datapath.Close())
	}
	listener, err := listen(a.options.Place.Socket())
	if err != nil {
		a.sinks.close()
		return errors.Join(err, a.datapath.Close())
	}
	server := newServer(a, listener)
	a.log.Info("serving", "namespace", a.options.Place.ID, "socket", a.options.Place.Socket())
	if a.options.Ready != nil {
		a.options.Ready()
	}
	a.options.Manager.Ready(a.condition())

	remove, err := a.serve(ctx, server)
	a.options.Manager.Stopping(ending(remove))
	a.change.Lock()
	a.ending = true
	a.change.Unlock()
	err = errors.Join(err, a.end(remove))
	close(a.closing)
	server.shutdown()
	a.metricsServer.close()
	if remove {
		err = errors.Join(err, held.clear())
	}
	a.log.Info("ended", "removed", remove)
	return err
}

// initialize applies the configuration, with the clock known before.
func (a *Agent) initialize(file *state) error {
	clock, err := a.options.System.Clock()
	if err != nil { // timestamps are then off by the leap seconds at most
		a.log.Warn("the offset of TAI is unknown, 0 is assumed", "error", err)
	}
	if err := a.datapath.SetTAIOffset(clock.TAIOffset); err != nil {
		return err
	}
	a.taiOffset.Store(int64(clock.TAIOffset))
	a.restorePathMTUs()
	if err := a.start(file); err != nil {
		a.metricsServer.close()
		return err
	}
	a.logWarnings()
	a.noteLosses()
	a.exportLost.add(time.Now(), 0)
	return nil
}

// serve does the work until there is a reason to end.
func (a *Agent) serve(ctx context.Context, server *server) (remove bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { return a.datapath.ReadSamples(working, a.samples()) })
	group.Go(func() error { a.followFlows(working); return nil })
	group.Go(func() error { return a.followLinks(working) })
	group.Go(func() error { a.tick(working); return nil })
	group.Go(func() error { a.followNames(working); return nil })
	group.Go(func() error { a.hearTooBig(working); return nil })
	group.Go(func() error { a.followPathMTUs(working); return nil })
	group.Go(func() error { a.relayTunnelErrors(working); return nil })
	group.Go(func() error { a.followRoutes(working); return nil })
	group.Go(func() error { a.followKernelEvents(working); return nil })
	select {
	case <-working.Done():
	case remove = <-a.stop:
	case err = <-server.failed:
	}
	cancel()
	if fault := group.Wait(); fault != nil && !errors.Is(fault, context.Canceled) {
		err = errors.Join(err, fault)
	}
	if err != nil {
		err = fmt.Errorf("the agent cannot go on: %w", err)
	}
	return remove, err
}

// end leaves the data plane, or takes it away.
func (a *Agent) end(removing bool) error {
	a.endRecords(removing)
	a.collectFlows() // of tables that are gone nobody else will
	a.sinks.close()  // while the data plane still has its counters
	if !removing {
		return a.datapath.Close()
	}
	r := remove(a.datapath)
	a.removed <- r
	return r.err
}

// How often the agent looks at what no event tells.
const (
	clockPeriod   = time.Second
	metricsPeriod = 5 // in clock periods
	// changeLimit is more than a change of what runs takes: with very many
	// interfaces that may be half a minute.
	changeLimit = time.Minute
)

// tick does what is due by time alone.
func (a *Agent) tick(ctx context.Context) {
	stuck := false
	for n := 1; sleep(ctx, clockPeriod); n++ {
		stuck = a.reportAlive(stuck)
		a.followClock()
		a.followSources()
		a.followIDs(n)
		if n%metricsPeriod != 0 {
			continue
		}
		a.options.Manager.Status(a.condition())
		a.metricsServer.retry()
		a.noteLosses()
		a.exportLost.add(time.Now(), a.totalExportLost())
		a.logRefusals()
	}
}

// reportAlive gives the service manager a sign of life, unless a change of what
// runs does not end: this clock would go on, while no interface, configuration
// or path MTU is followed any more. It returns whether that is so.
func (a *Agent) reportAlive(before bool) (stuck bool) {
	held := a.change.heldFor(time.Now())
	if held < changeLimit {
		a.options.Manager.Alive()
		return false
	}
	if !before {
		a.log.Error("a change of what runs has not ended; the service manager gets no signs of life until it does", "after", held.Round(time.Second))
	}
	return true
}

// losses are how many records and events of the kernel found no room and how
// many exports the limits suppressed, since the data plane or the agent was made.
func (a *Agent) losses() (lost, suppressed uint64, err error) {
	counters, err := a.datapath.Counters()
	for _, c := range counters {
		lost += c.RecordsLost
		suppressed += c.ExportsSuppressed
	}
	return lost + a.kernelEvents.count.Lost(), suppressed + a.flows.suppressed.Load(), err
}

// noteLosses keeps them, to tell later how much they grew.
func (a *Agent) noteLosses() {
	if lost, suppressed, err := a.losses(); err == nil {
		a.recordsLost.add(time.Now(), lost)
		a.suppressed.add(time.Now(), suppressed)
		a.lossTimes.note(time.Now(), lost+suppressed)
	}
	a.errorsLost.add(time.Now(), a.totalErrorsLost())
	a.noteRefusals()
}

func (a *Agent) totalExportLost() uint64 {
	var total uint64
	for _, s := range a.sinks.stats() {
		total += s.Missed()
	}
	return total
}
