// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// apply puts next in force; with fromFile, strict applies. On error nothing has
// changed. The caller holds a.change.
func (a *Agent) apply(next *service.State, fromFile bool) error {
	c := *next.Config
	c.Strict = c.Strict && fromFile
	resolved, err := c.Resolve(a.host)
	if err != nil {
		return err
	}
	next.Resolved = resolved
	next.Name(a.nameIn(next.Config), a.learned.namesFor(next.Config))
	p := &service.Plan{Before: a.state.Load(), Next: next, Generation: generation(resolved, int(next.Config.Node.NextHops))}
	p.Generation.Noticed = a.changing.Begin(changesInterfaces(p))
	if err := a.carryOut(p); err != nil {
		a.changing.End(false)
		p.Abandon()
		return err
	}
	a.state.Store(next)
	p.Commit()
	a.changing.End(true)
	return nil
}

// changesInterfaces reports whether packets may be counted at other interfaces, or otherwise.
func changesInterfaces(p *service.Plan) bool {
	return p.Before == nil || !reflect.DeepEqual(withoutMTU(p.Before.Resolved).Node.Interfaces, withoutMTU(p.Next.Resolved).Node.Interfaces)
}

// carryOut prepares the services, and gives the data plane its next generation.
func (a *Agent) carryOut(p *service.Plan) error {
	for _, s := range a.services {
		if err := s.Prepare(p); err != nil {
			return err
		}
	}
	if err := a.datapath.Apply(p.Generation); err != nil {
		return fmt.Errorf("the data plane: %w", err)
	}
	return nil
}

// start applies the file, or the changed configuration that an earlier agent kept.
func (a *Agent) start(file *service.State) error {
	a.change.Lock()
	defer a.change.Unlock()
	defer file.ReturnMemory()
	path := a.options.Instance.RunningFile()
	kept, err := service.Restore(path, file)
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
		a.log.Warn("delete the changes made at runtime", "error", err)
	}
}

// Reload puts the file in force, and drops changes made through the API. On error
// nothing changes.
func (a *Agent) Reload() error {
	_, err := a.reload()
	return err
}

// reload also reports what the file changed: whether it ended changes made through the
// API, and the warnings that the earlier configuration did not have.
func (a *Agent) reload() (done api.Reloaded, err error) {
	a.change.Lock()
	defer a.change.Unlock()
	if a.state.Load() == nil || a.ending {
		return done, errors.New("the agent is not running")
	}
	earlier := a.health.Warnings(a.state.Load())
	a.options.Manager.Reloading()
	defer func() { a.options.Manager.Ready(a.condition()) }() // the old configuration still runs when the file is refused
	before := a.state.Load()
	file, err := service.LoadFile(a.options.ConfigFile, a.system)
	if err == nil {
		defer file.ReturnMemory()
		err = a.apply(file, true)
	}
	if err != nil {
		a.reloads.fail(err)
		a.logEach(slog.LevelError, "reload failed; the previous configuration stays in force", err)
		return done, err
	}
	a.reloads.succeed()
	a.forget(a.options.Instance.RunningFile())
	begun, known := a.health.lookForLog()
	a.log.Info("configuration reloaded", "file", a.options.ConfigFile, "warnings_as_before", known)
	if before.Modified {
		a.log.Warn("changes made at runtime have ended with the reload")
	}
	ended := endsRemoved(before.Config, file.Config)
	for _, w := range append(begun, ended...) {
		a.logWarning(w)
	}
	ws := append(a.health.since(earlier), ended...)
	health.Sort(ws)
	return api.Reloaded{RuntimeChangesEnded: before.Modified, Warnings: ws}, nil
}

// endsRemoved warns of the tunnels that ended here before, and do not any more.
func endsRemoved(before, after *config.Config) (ws []health.Warning) {
	for _, d := range before.Decapsulations {
		same := func(other config.Decapsulation) bool { return other.TunnelDestination == d.TunnelDestination }
		if !slices.ContainsFunc(after.Decapsulations, same) {
			ws = append(ws, health.RemovedDecapsulation(d.TunnelDestination))
		}
	}
	return ws
}

// edit puts a changed copy of the running configuration in force, and keeps it for the
// next agent. It does nothing when the copy is equal.
func (a *Agent) edit(change func(*service.State) (*service.State, error)) error {
	a.change.Lock()
	defer a.change.Unlock()
	if a.ending {
		return errors.New("the agent is stopping")
	}
	before := a.state.Load()
	next, err := change(before)
	if err != nil {
		return err
	}
	if next.Equals(before) {
		return nil
	}
	if err := a.apply(next, false); err != nil {
		return err
	}
	if err := next.Save(a.options.Instance.RunningFile()); err != nil {
		a.log.Warn("a change made at runtime will not survive a restart", "error", err)
	}
	return nil
}

// refresh resolves interfaces, tunnel sources and collectors again, and applies the
// result.
func (a *Agent) refresh() error {
	a.change.Lock()
	defer a.change.Unlock()
	if a.ending {
		return nil
	}
	s := a.state.Load()
	c := *s.Config
	c.Strict = false
	a.changing.Begin(false)
	resolved, err := c.Resolve(a.host)
	if err != nil {
		a.changing.End(false)
		return err
	}
	if reflect.DeepEqual(withoutMTU(resolved), withoutMTU(s.Resolved)) && a.datapath.Intact() {
		next := *s
		next.Resolved = resolved // MTUs may differ
		a.state.Store(&next)
		a.changing.End(true)
		if !reflect.DeepEqual(resolved, s.Resolved) {
			a.health.logNew()
		}
		return nil
	}
	next := *s
	if err := a.apply(&next, false); err != nil {
		return err
	}
	a.log.Info("interfaces, addresses or ids changed", "served", len(next.Resolved.Node.Interfaces), "missing", next.Resolved.Missing)
	a.health.logNew()
	return nil
}

// withoutMTU removes MTUs, which the data plane asks the kernel for itself.
func withoutMTU(r config.Resolved) config.Resolved {
	interfaces := make([]model.Interface, len(r.Node.Interfaces))
	copy(interfaces, r.Node.Interfaces)
	for i := range interfaces {
		interfaces[i].MTU = 0
	}
	r.Node.Interfaces = interfaces
	return r
}
