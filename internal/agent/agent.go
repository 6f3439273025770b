// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waymark-net/waymark/internal/agent/instances"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/supervisor"
)

// Options are fixed for the lifetime of an agent.
type Options struct {
	ConfigFile string
	Instance   api.Instance
	NodeName   string // names this node in records, whatever its file says
	HostName   string // names it where neither does
	OneClock   bool   // all nodes of the domain use this machine's clock
	Version    string
	Log        *slog.Logger
	Stdout     io.Writer // for a sink to "-"
	Ready      func()    // called once everything runs; may be nil
	Manager    *supervisor.Manager

	// System and Open are the machine and its data plane; nil is the real one.
	System service.System
	Open   func(api.Instance, *slog.Logger) (d Datapath, privatePins bool, err error)
}

// Agent serves one network namespace: it applies a configuration, and its services do
// the rest.
type Agent struct {
	core
	started  time.Time
	services []service.Service // all of them, including those below
	health   *nodeHealth       // what a start and a reload log
	learned  *learned          // names from a collector
	reloads  *reloads          // counts reloads and their result
	onsets   *onsets           // since when there are warnings

	ending  bool                   // guarded by change: no more changes
	stop    chan bool              // requests the end; true removes the data plane
	removed chan instances.Removal // the answer to true
}

// New makes an agent that does nothing yet.
func New(o Options) *Agent {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.System == nil {
		o.System = service.Kernel{}
	}
	if o.Open == nil {
		o.Open = openDatapath
	}
	a := &Agent{stop: make(chan bool, 1), removed: make(chan instances.Removal, 1)}
	c := &a.core
	c.options, c.system = o, o.System
	c.log = service.FollowWarnings(o.Log, func(w health.Warning, at time.Time) { a.onsets.found(w, at) })
	c.wake, c.closing = make(chan struct{}, 1), make(chan struct{})
	a.assemble()
	return a
}

// Run serves until the context ends or the API stops it. Packets are then still
// processed as before, unless the API asked to remove the data plane.
func (a *Agent) Run(ctx context.Context) error {
	a.started = time.Now()
	file, err := service.LoadFile(a.options.ConfigFile, a.system)
	if err != nil {
		return err
	}
	held, err := instances.Hold(a.options.Instance)
	if err != nil {
		return err
	}
	defer held.Release()
	if a.datapath.Datapath, a.privatePins, err = a.options.Open(a.options.Instance, a.log); err != nil {
		return err
	}
	if err := a.initialize(file); err != nil {
		return errors.Join(err, a.datapath.Close())
	}
	listener, err := listen(a.options.Instance.Socket())
	if err != nil {
		return errors.Join(err, a.end(false))
	}
	server := newServer(a, listener)
	a.log.Info("serving", "namespace", a.options.Instance.ID, "socket", a.options.Instance.Socket())
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
	if remove {
		err = errors.Join(err, held.Clear())
	}
	a.log.Info("ended", "removed", remove)
	a.datapath.AwaitLeft() // another agent may start meanwhile
	return err
}

func (a *Agent) initialize(file *service.State) error {
	for _, s := range a.services {
		if err := s.Open(); err != nil {
			return err
		}
	}
	if err := a.start(file); err != nil {
		return err
	}
	a.health.logNew()
	return nil
}

// serve runs the services until there is a reason to end.
func (a *Agent) serve(ctx context.Context, server *server) (remove bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, working := errgroup.WithContext(ctx)
	for _, s := range a.services {
		group.Go(func() error { return s.Run(working) })
	}
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
		err = fmt.Errorf("the agent cannot continue: %w", err)
	}
	return remove, err
}

// end closes the services while the data plane still has its counters, then leaves the
// data plane in place or removes it.
func (a *Agent) end(removing bool) error {
	for _, s := range slices.Backward(a.services) {
		s.Close(removing)
	}
	if !removing {
		return a.datapath.Close()
	}
	r := instances.RemoveFrom(a.datapath)
	a.removed <- r
	return r.Err
}

// warnings are the health warnings, the severest first.
func (a *Agent) warnings() []health.Warning { return health.WithoutHints(a.diagnosis()) }

// diagnosis is the warnings and the hints.
func (a *Agent) diagnosis() []health.Warning {
	var ws []health.Warning
	s := a.state.Load()
	for _, each := range a.services {
		ws = append(ws, each.Warnings(s)...)
	}
	health.Sort(ws)
	a.onsets.date(ws)
	return ws
}
