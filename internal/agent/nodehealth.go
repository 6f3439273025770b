// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// nodeHealth warns of problems of the node and its configuration.
type nodeHealth struct {
	idle
	*core
	paths *pathMTUs
	names *names
}

func (h *nodeHealth) warnings(s *state) []health.Warning {
	return append(h.ofNode(s), unsparedWarnings(s.resolved)...)
}

func (h *nodeHealth) ofNode(s *state) []health.Warning {
	ws := append(health.CheckNode(h.facts(s)), sourcelessWarnings(s.resolved.Sourceless)...)
	return append(ws, h.fastWarnings()...)
}

// since lists the warnings and hints that are not among the earlier ones.
func (h *nodeHealth) since(earlier []health.Warning) []health.Warning {
	ws := slices.DeleteFunc(h.warnings(h.state.Load()), func(w health.Warning) bool { return slices.Contains(earlier, w) })
	health.Sort(ws)
	return nonNil(ws)
}

// logNode logs the problems that a start or a reload finds, for an operator who only
// reads the log. Later problems are in the status, or in the log with their cause.
func (h *nodeHealth) logNode() {
	ws := health.WithoutHints(h.ofNode(h.state.Load()))
	health.Sort(ws)
	for _, w := range ws {
		h.logWarning(w)
	}
}

// facts reads the facts that health checks need.
func (h *nodeHealth) facts(s *state) health.Node {
	n := configFacts(s.config, s.resolved.Node)
	n.TimestampFormat, n.Missing = s.resolved.Node.TimestampFormat, missing(s)
	n.Forwards, n.OneClock, n.PrivatePins = h.system.Forwards(), h.options.OneClock, h.privatePins
	if clock, err := h.system.Clock(); err == nil {
		n.Clock = clock
	}
	isOwn := h.system.OwnAddresses()
	names := map[model.IfIndex]string{}
	for _, i := range s.resolved.Node.Interfaces {
		names[i.Index] = i.Name
		fact := h.system.InterfaceHealth(i.Name, i.MTU)
		fact.Fills = i.Roles&model.RoleIngress != 0 && len(s.resolved.Node.Namespaces) > 0
		fact.Removes = i.Roles&model.RoleIngress != 0 && s.resolved.Node.Removes()
		fact.Keeps = fact.Removes && keepsTraces(s.resolved.Node)
		fact.Differs = s.config.Node.ReceiveOffload && headersDiffer(s.resolved.Node, i.Index, isOwn)
		n.Interfaces = append(n.Interfaces, fact)
	}
	for _, status := range h.datapath.Interfaces() {
		for k := range n.Interfaces {
			if n.Interfaces[k].Name == names[status.Index] {
				n.Interfaces[k].XDPRefused = status.NativeXDPRefused
				n.Interfaces[k].Hook = string(status.Ingress)
				if s.resolved.Fast[status.Index] && status.FastRefused == "" {
					n.Interfaces[k].Fills, n.Interfaces[k].Forwards = false, true // the stack does not get them
				}
			}
		}
	}
	n.Anonymous = s.resolved.Node.ID == ioam.NodeIDUnavailable && s.resolved.Node.IDWide == ioam.NodeIDWideUnavailable && len(s.resolved.Node.Namespaces) > 0
	n.Unsecured = h.unsecured(s.config.Sinks, isOwn)
	for i, e := range s.resolved.Node.Encapsulations {
		fact := &n.Encapsulations[i]
		fact.Own = e.Match.Source.IsSingleIP() && isOwn(e.Match.Source.Addr())
		fact.Exporting = fact.Exporting && !fact.Own
		if !fact.Inline {
			fact.Source, fact.Destination = e.TunnelSource, e.TunnelDestination
			fact.NotOurs = !isOwn(e.TunnelSource)
			fact.NoRoute = h.system.NoRoute(e.TunnelDestination)
			fact.PathMTU, fact.PathUntil = h.paths.table.MTU(e.TunnelDestination), h.paths.table.Until(e.TunnelDestination)
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
func missing(s *state) (list []health.MissingInterface) {
	for _, name := range s.resolved.Missing {
		m := health.MissingInterface{Name: name}
		for i := range s.config.Interfaces {
			c := &s.config.Interfaces[i]
			edge := model.Interface{Boundary: c.Boundary.Default, Policies: c.Boundary.Namespaces}.Strictest()
			if c.Name == name && len(c.Role) < 2 && edge != model.BoundaryIgnore {
				m.Boundary = edge.String()
			}
		}
		list = append(list, m)
	}
	return list
}
