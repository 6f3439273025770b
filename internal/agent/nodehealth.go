// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/agent/tunnel"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// nodeHealth warns of problems of the node and its configuration.
type nodeHealth struct {
	service.Idle
	*core
	paths  *tunnel.PathMTUs
	names  *names
	logged []health.Warning // of the last look for the log; guarded by change
}

func (h *nodeHealth) Warnings(s *service.State) []health.Warning {
	return append(h.ofNode(s), unsparedWarnings(s.Resolved)...)
}

func (h *nodeHealth) ofNode(s *service.State) []health.Warning {
	ws := append(health.CheckNode(h.facts(s)), sourcelessWarnings(s.Resolved.Sourceless)...)
	return append(append(ws, h.fastWarnings()...), renamedWarnings(s.Config)...)
}

// renamedWarnings are about keys of the file that have the name that they had before.
func renamedWarnings(c *config.Config) []health.Warning {
	var ws []health.Warning
	for _, f := range c.Renamed() {
		ws = append(ws, health.New(health.KeyRenamed, "",
			fmt.Sprintf("%s:%d:%d: %s; the former name is still accepted", f.File, f.Line, f.Column, f.Problem),
			f.Cure+"; then run: waymark agent reload"))
	}
	return ws
}

// since lists the warnings and hints that are not among the earlier ones.
func (h *nodeHealth) since(earlier []health.Warning) []health.Warning {
	ws := slices.DeleteFunc(h.Warnings(h.state.Load()), func(w health.Warning) bool { return slices.ContainsFunc(earlier, w.Equal) })
	health.Sort(ws)
	return service.NonNil(ws)
}

// logNew logs the problems that a start, a reload or a change of interfaces and addresses finds, and
// that were not there at the last of these. Other problems are in the status, or in the log with
// their cause. The caller holds change, or is alone.
func (h *nodeHealth) logNew() {
	begun, _ := h.lookForLog()
	for _, w := range begun {
		h.logWarning(w)
	}
}

// lookForLog returns the problems that begin, and how many the log has already.
func (h *nodeHealth) lookForLog() (begun []health.Warning, known int) {
	ws := health.WithoutHints(h.ofNode(h.state.Load()))
	health.Sort(ws)
	for _, w := range ws {
		if slices.ContainsFunc(h.logged, w.Equal) {
			known++
		} else {
			begun = append(begun, w)
		}
	}
	h.logged = ws
	return begun, known
}

// facts reads the facts that health checks need.
func (h *nodeHealth) facts(s *service.State) health.Node {
	n := configFacts(s.Config, s.Resolved.Node)
	n.TimestampFormat, n.Missing = s.Resolved.Node.TimestampFormat, missing(s)
	n.Forwards, n.OneClock, n.PrivatePins = h.system.Forwards(), h.options.OneClock, h.privatePins
	if clock, err := h.system.Clock(); err == nil {
		n.Clock = clock
	}
	isOwn := h.system.OwnAddresses()
	names := map[model.IfIndex]string{}
	for _, i := range s.Resolved.Node.Interfaces {
		names[i.Index] = i.Name
		fact := h.system.InterfaceHealth(i.Name, i.MTU)
		fact.Fills = i.Roles&model.RoleIngress != 0 && len(s.Resolved.Node.Namespaces) > 0
		fact.Removes = i.Roles&model.RoleIngress != 0 && s.Resolved.Node.Removes()
		fact.Keeps = fact.Removes && keepsTraces(s.Resolved.Node)
		fact.Differs = s.Config.Node.ReceiveOffload && headersDiffer(s.Resolved.Node, i.Index, isOwn)
		n.Interfaces = append(n.Interfaces, fact)
	}
	for _, status := range h.datapath.Interfaces() {
		for k := range n.Interfaces {
			if n.Interfaces[k].Name == names[status.Index] {
				n.Interfaces[k].XDPRefused = status.NativeXDPRefused
				n.Interfaces[k].Hook = string(status.Ingress)
				if s.Resolved.Fast[status.Index] && status.FastRefused == "" {
					n.Interfaces[k].Fills, n.Interfaces[k].Forwards = false, true // the stack does not get them
				}
			}
		}
	}
	n.Anonymous = s.Resolved.Node.ID == ioam.NodeIDUnavailable && s.Resolved.Node.IDWide == ioam.NodeIDWideUnavailable &&
		len(s.Resolved.Node.Namespaces) > 0
	n.Planned = insertions(s.Resolved.Planned, s.Resolved.Node.Interfaces)
	n.Unsecured = h.unsecured(s.Config.Sinks, isOwn)
	for i, e := range s.Resolved.Node.Encapsulations {
		fact := &n.Encapsulations[i]
		fact.Own = e.Match.Source.IsSingleIP() && isOwn(e.Match.Source.Addr())
		fact.Exporting = fact.Exporting && !fact.Own
		if !fact.Inline {
			fact.Source, fact.Destination = e.TunnelSource, e.TunnelDestination
			fact.NotOurs = !isOwn(e.TunnelSource)
			fact.NoRoute = h.system.NoRoute(e.TunnelDestination)
			fact.PathMTU, fact.PathUntil = h.paths.Known(e.TunnelDestination)
		}
	}
	return n
}

func (h *nodeHealth) fastWarnings() []health.Warning {
	var ws []health.Warning
	for _, i := range h.datapath.Interfaces() {
		if i.FastRefused != "" {
			ws = append(ws, health.New(health.FastRefused, i.Name,
				i.Name+" leaves all packets to the stack, although it has forwarding: fast: "+i.FastRefused,
				"do that, or set forwarding: stack"))
		}
	}
	return ws
}

// missing are the configured interfaces that do not exist, with what they filter.
func missing(s *service.State) (list []health.MissingInterface) {
	for _, name := range s.Resolved.Missing {
		m := health.MissingInterface{Name: name}
		for i := range s.Config.Interfaces {
			c := &s.Config.Interfaces[i]
			edge := model.Interface{Boundary: c.Boundary.Default, Policies: c.Boundary.Namespaces}.Strictest()
			if c.Name == name && len(c.Role) < 2 && edge != model.BoundaryIgnore {
				m.Boundary = edge.String()
			}
		}
		list = append(list, m)
	}
	return list
}

// sourcelessWarnings are about encapsulations that wait for a tunnel source.
func sourcelessWarnings(list []config.Sourceless) []health.Warning {
	var ws []health.Warning
	for _, s := range list {
		ws = append(ws, health.New(health.TunnelUnroutable, "",
			fmt.Sprintf("encapsulation %s is not in force, because its tunnel to %s has no source: %s", s.Encapsulation, s.Destination, s.Cause),
			fmt.Sprintf(
				"add a route to %s, or set tunnel.source to an address of this node; the encapsulation comes into force as soon as there is one",
				s.Destination,
			),
		))
	}
	return ws
}

// onsets keeps the time at which the agent first found each warning. It looks regularly, so that the
// time does not depend on when somebody asks.
type onsets struct {
	service.Idle
	*core
	diagnose func() []health.Warning

	mu    sync.Mutex
	known health.Onsets
}

func (o *onsets) Run(ctx context.Context) error {
	o.tasks.Every(ctx, service.SamplePeriod, func() { o.diagnose() })
	return nil
}

// found notes that a warning was logged at a time.
func (o *onsets) found(w health.Warning, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known.Found(w, at)
}

// date says of all warnings that there are now since when.
func (o *onsets) date(ws []health.Warning) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known.Look(ws, time.Now())
}
