// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// service is one task of an agent. Each has its own file and a line in
// [Agent.assemble], embeds idle, and defines only the methods that it needs.
type service interface {
	// open is called once, before the first configuration.
	open() error
	// prepare gets ready for another configuration, without a change to the running
	// one. It adds to the plan what to do when the plan is committed or abandoned.
	prepare(*plan) error
	// run works until the context ends. An error ends the agent.
	run(context.Context) error
	// close is called once, after run has ended, while the data plane is still
	// open. removing reports whether it will be removed.
	close(removing bool)

	// collect adds the service's metrics.
	collect(*metrics.Gatherer)
	// warnings are the service's current problems.
	warnings(*state) []health.Warning
	// report fills in the service's part of the status.
	report(*state, *api.Status)
	// routes are the API requests that the service answers.
	routes() []route
}

// idle is a service that does nothing.
type idle struct{}

func (idle) open() error                      { return nil }
func (idle) prepare(*plan) error              { return nil }
func (idle) run(context.Context) error        { return nil }
func (idle) close(bool)                       {}
func (idle) collect(*metrics.Gatherer)        {}
func (idle) warnings(*state) []health.Warning { return nil }
func (idle) report(*state, *api.Status)       {}
func (idle) routes() []route                  { return nil }

// core is what all services share.
type core struct {
	options  Options
	log      *slog.Logger
	system   System
	host     config.Host // the system, with cached names
	datapath Datapath

	privatePins bool // the data plane's pins are in this process's own mount namespace

	change   changeLock            // held while the state is being replaced
	changing changing              // of interfaces
	tasks    tasks                 // periodic work of services
	state    atomic.Pointer[state] // nil before the first configuration
	wake     chan struct{}         // resolve the configuration again
	closing  chan struct{}         // closed when streams must end
}

// look makes the agent resolve its configuration again.
func (c *core) look() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// logEach logs each line of an error separately, because a log record is one line.
func (c *core) logEach(level slog.Level, message string, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		c.log.Log(context.Background(), level, message, "error", line)
	}
}

func (c *core) logWarning(w health.Warning) {
	level := slog.LevelWarn
	switch w.Severity {
	case health.Error:
		level = slog.LevelError
	case health.Info:
		level = slog.LevelInfo
	}
	attributes := []any{"warning", w.Code}
	if w.Interface != "" {
		attributes = append(attributes, "interface", w.Interface)
	}
	c.log.Log(context.Background(), level, w.Text, append(attributes, "cure", w.Cure)...)
}

// plan is a change of the state that is not in force yet.
type plan struct {
	before     *state // nil at the start
	next       *state // resolved
	generation datapath.Config

	committed, abandoned []func()
}

// commit adds what a service does once the plan is in force and the state is the next
// one.
func (p *plan) commit(do func()) { p.committed = append(p.committed, do) }

// abandon adds how a service undoes what it prepared.
func (p *plan) abandon(do func()) { p.abandoned = append(p.abandoned, do) }

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
