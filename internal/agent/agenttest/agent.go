// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// NodeName is what agents call the node in records.
const NodeName = "gamma"

// Agent is a small agent: the services of one package on a node, with their part of the API. It
// puts configurations in force as an agent does, and has nothing else of one.
type Agent struct {
	Logger  *slog.Logger
	State   atomic.Pointer[service.State]
	Tasks   service.Tasks
	Changes service.ChangeLock
	Closing chan struct{} // closed when streams must end

	node     *Node
	services []service.Service
}

// Serve makes the node's agent a small one, of the services that assemble returns, in its order.
func (n *Node) Serve(assemble func(*Agent) []service.Service) {
	n.PrepareAgent = func(ready func()) func(context.Context) error {
		a := &Agent{node: n, Logger: slog.New(slog.NewTextHandler(n.Log, nil)), Closing: make(chan struct{})}
		a.services = assemble(a)
		return func(ctx context.Context) error { return a.run(ctx, ready) }
	}
}

func (a *Agent) run(ctx context.Context, ready func()) error {
	file, err := service.LoadFile(a.node.File, a.node.System)
	if err == nil {
		err = os.MkdirAll(a.node.Instance.Dir, 0o700)
	}
	if err != nil {
		return err
	}
	for _, s := range a.services {
		if err := s.Open(); err != nil {
			return err
		}
	}
	if err := a.apply(file); err != nil {
		return err
	}
	if err := os.Remove(a.node.Instance.Socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", a.node.Instance.Socket())
	if err != nil {
		return err
	}
	server := http.Server{Handler: a.api()}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) }) // until it is closed
	ready()
	failed := make(chan error, len(a.services))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, s := range a.services {
		running.Go(func() {
			if err := s.Run(ctx); err != nil {
				failed <- err
			}
		})
	}
	select {
	case err = <-failed:
		cancel()
	case <-ctx.Done():
	}
	close(a.Closing)
	err = errors.Join(err, server.Shutdown(context.Background()))
	running.Wait()
	for _, s := range slices.Backward(a.services) {
		s.Close(false)
	}
	return errors.Join(err, a.node.Datapath.Close())
}

// apply puts a state in force. The caller holds a.Changes, or is alone.
func (a *Agent) apply(next *service.State) (err error) {
	if next.Resolved, err = next.Config.Resolve(a.node.System); err != nil {
		return err
	}
	next.Name(cmp.Or(next.Config.Node.Name, NodeName), nil)
	p := &service.Plan{Before: a.State.Load(), Next: next, Generation: datapath.Config{Node: next.Resolved.Node}}
	p.Generation.Node.Encapsulations = slices.Clone(next.Resolved.Node.Encapsulations)
	for _, s := range a.services {
		if err == nil {
			err = s.Prepare(p)
		}
	}
	if err == nil {
		err = a.node.Datapath.Apply(p.Generation)
	}
	if err != nil {
		p.Abandon()
		return err
	}
	a.State.Store(next)
	p.Commit()
	return nil
}

// Reload puts the node's file in force.
func (a *Agent) Reload() error {
	a.Changes.Lock()
	defer a.Changes.Unlock()
	file, err := service.LoadFile(a.node.File, a.node.System)
	if err != nil {
		return err
	}
	return a.apply(file)
}

// Edit puts a changed copy of the configuration in force.
func (a *Agent) Edit(change func(*config.Config) (*config.Config, error)) error {
	a.Changes.Lock()
	defer a.Changes.Unlock()
	before := a.State.Load()
	c, err := change(before.Config)
	if err != nil {
		return err
	}
	return a.apply(before.With(c))
}

// Warnings are those of the services.
func (a *Agent) Warnings() []health.Warning {
	ws := []health.Warning{}
	for _, s := range a.services {
		ws = append(ws, s.Warnings(a.State.Load())...)
	}
	return ws
}

// api answers what services tell about themselves, and their own requests.
func (a *Agent) api() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler(func(g *metrics.Gatherer) {
		for _, s := range a.services {
			s.Collect(g)
		}
	}, metrics.Process))
	routes := service.Routes{
		"GET /v1/status": func(w http.ResponseWriter, _ *http.Request) error {
			out := api.Status{Warnings: a.Warnings()}
			for _, s := range a.services {
				s.Report(a.State.Load(), &out)
			}
			service.Answer(w, http.StatusOK, out)
			return nil
		},
		"GET /v1/warnings": func(w http.ResponseWriter, _ *http.Request) error {
			service.Answer(w, http.StatusOK, a.Warnings())
			return nil
		},
		"POST /v1/reload": func(w http.ResponseWriter, _ *http.Request) error {
			err := a.Reload()
			if err == nil {
				service.Answer(w, http.StatusOK, api.Reloaded{})
			}
			return err
		},
	}
	for _, s := range a.services {
		for pattern, handle := range s.Routes() {
			routes[pattern] = handle
		}
	}
	for pattern, handle := range routes {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := handle(w, r); err != nil {
				service.Refuse(w, err)
			}
		})
	}
	return mux
}
