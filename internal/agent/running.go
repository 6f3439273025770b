// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
)

// apply makes next what runs. On error nothing that runs has changed. The
// caller holds a.change.
func (a *Agent) apply(next *state, strict bool) error {
	c := *next.config
	c.Strict = c.Strict && strict
	resolved, err := c.Resolve(a.host())
	if err != nil {
		return err
	}
	next.resolved = resolved
	swap, err := a.sinks.prepare(next.config.Export, resolved.Node.ID)
	if err != nil {
		return err
	}
	if len(next.config.Export) > 0 { // not one record shall be missed
		if err := a.datapath.SetRecordsWanted(true); err != nil {
			swap.abandon()
			return err
		}
	}
	if err := a.datapath.Apply(generation(resolved, int(next.config.Node.NextHops), a.paths.table.MTU)); err != nil {
		swap.abandon()
		a.askForRecords()
		return fmt.Errorf("the data plane: %w", err)
	}
	swap.commit()
	before := a.state.Swap(next)
	a.sinks.environment.Changes.Announce()
	a.metricsServer.set(next.config.Metrics.Listen)
	a.routeWatch.set(len(resolved.Fast) > 0)
	a.askForRecords()
	a.logIDs(before, next)
	return nil
}

// start applies the file, or what an earlier agent has made of it.
func (a *Agent) start(file *state) error {
	a.change.Lock()
	defer a.change.Unlock()
	path := a.options.Place.RunningFile()
	kept, err := restore(path, file)
	if err != nil {
		a.logEach(slog.LevelWarn, "changes made at runtime are dropped", err)
	}
	if kept != nil {
		if err = a.apply(kept, true); err == nil {
			a.log.Info("changes made at runtime are in force again")
			return nil
		}
		a.logEach(slog.LevelWarn, "changes made at runtime are dropped", err)
	}
	if err := a.apply(file, true); err != nil {
		return err
	}
	a.forget(path)
	return nil
}

func (a *Agent) forget(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		a.log.Warn("forget the changes made at runtime", "error", err)
	}
}

// Reload makes the file what runs, and ends what the API changed. On error
// everything runs on as it was.
func (a *Agent) Reload() error {
	a.change.Lock()
	defer a.change.Unlock()
	if a.state.Load() == nil || a.ending {
		return errors.New("the agent is not running")
	}
	a.options.Manager.Reloading()
	defer func() { a.options.Manager.Ready(a.condition()) }() // what runs is ready, also when the file is refused
	modified := a.state.Load().modified
	file, err := loadFile(a.options.ConfigFile, a.options.System)
	if err == nil {
		err = a.apply(file, true)
	}
	if err != nil {
		text := err.Error()
		a.reloadFault.Store(&text)
		a.reloadsFailed.Add(1)
		a.logEach(slog.LevelError, "reload failed; what ran before runs on", err)
		return err
	}
	a.reloadFault.Store(nil)
	a.reloads.Add(1)
	a.forget(a.options.Place.RunningFile())
	a.log.Info("configuration reloaded", "file", a.options.ConfigFile)
	if modified {
		a.log.Warn("changes made at runtime have ended with the reload")
	}
	a.logWarnings()
	return nil
}

// logEach logs an error that holds several, each with a line of its own: one
// record of the log is one line.
func (a *Agent) logEach(level slog.Level, message string, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		a.log.Log(context.Background(), level, message, "error", line)
	}
}

// edit makes a changed copy of the running configuration what runs, and keeps
// it for the next agent. A change of nothing is done already.
func (a *Agent) edit(change func(*state) (*state, error)) error {
	a.change.Lock()
	defer a.change.Unlock()
	if a.ending {
		return errors.New("the agent is ending")
	}
	before := a.state.Load()
	next, err := change(before)
	if err != nil {
		return err
	}
	if next.equals(before) {
		return nil
	}
	if err := a.apply(next, false); err != nil {
		return err
	}
	if err := next.save(a.options.Place.RunningFile()); err != nil {
		a.log.Warn("a change made at runtime will not survive a restart", "error", err)
	}
	return nil
}

// refresh looks at interfaces, tunnel sources and collectors again, and applies what follows from it.
func (a *Agent) refresh() error {
	a.change.Lock()
	defer a.change.Unlock()
	if a.ending {
		return nil
	}
	s := a.state.Load()
	c := *s.config
	c.Strict = false
	resolved, err := c.Resolve(a.host())
	if err != nil {
		return err
	}
	if reflect.DeepEqual(withoutMTU(resolved), withoutMTU(s.resolved)) && a.datapath.Intact() {
		next := *s
		next.resolved = resolved // MTUs may differ
		a.state.Store(&next)
		return nil
	}
	next := *s
	if err := a.apply(&next, false); err != nil {
		return err
	}
	a.log.Info("interfaces, addresses or ids changed", "served", len(next.resolved.Node.Interfaces), "missing", next.resolved.Missing)
	for _, w := range sourcelessWarnings(a.state.Load().resolved.Sourceless) {
		a.logWarning(w)
	}
	return nil
}

// withoutMTU is what the data plane would see a difference in: it asks the
// kernel for MTUs itself.
func withoutMTU(r config.Resolved) config.Resolved {
	interfaces := make([]model.Interface, len(r.Node.Interfaces))
	copy(interfaces, r.Node.Interfaces)
	for i := range interfaces {
		interfaces[i].MTU = 0
	}
	r.Node.Interfaces = interfaces
	return r
}

// Interfaces come and go in bursts: one look is taken when the first change is
// this old. A look that fails is repeated.
const (
	settleTime = 100 * time.Millisecond
	retryTime  = time.Second
)

// followLinks keeps the data plane on the interfaces there are.
func (a *Agent) followLinks(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- a.options.System.WatchLinks(ctx, a.look) }()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case <-a.wake:
		}
		if !sleep(ctx, settleTime) {
			return nil
		}
		err := a.refresh()
		if err == nil {
			logged = ""
			continue
		}
		if text := err.Error(); text != logged { // it is tried again every second
			a.logEach(slog.LevelWarn, "the change of interfaces or ids is not in force yet", err)
			logged = text
		}
		time.AfterFunc(retryTime, a.look)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// followClock keeps TAI − UTC current in the data plane.
func (a *Agent) followClock() {
	clock, err := a.options.System.Clock()
	if err != nil {
		a.log.Debug("the clock's state is unknown", "error", err)
		return
	}
	if int64(clock.TAIOffset) == a.taiOffset.Load() {
		return
	}
	if err := a.datapath.SetTAIOffset(clock.TAIOffset); err != nil {
		a.log.Warn("the data plane does not know the offset of TAI", "error", err)
		return
	}
	a.taiOffset.Store(int64(clock.TAIOffset))
	a.log.Info("the offset of TAI from UTC changed", "offset", clock.TAIOffset)
}

// setEncapsulation adds or replaces a rule.
func (a *Agent) setEncapsulation(e config.Encapsulation, set func(*config.Config, config.Encapsulation) (*config.Config, error)) error {
	if err := a.checkSource(e); err != nil {
		return err
	}
	return a.edit(func(s *state) (*state, error) {
		c, err := set(s.config, e)
		if err != nil {
			return nil, err
		}
		return s.with(c), nil
	})
}
