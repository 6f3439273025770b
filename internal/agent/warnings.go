// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// warnings is everything that is not as it should be, the severest first.
func (a *Agent) warnings() []health.Warning { return health.WithoutHints(a.diagnosis()) }

// diagnosis is that, and what could be done better.
func (a *Agent) diagnosis() []health.Warning {
	s := a.state.Load()
	ws := append(health.CheckNode(a.facts(s)), a.ownWarnings(s)...)
	health.Sort(ws)
	return ws
}

// facts reads what the health checks look at.
func (a *Agent) facts(s *state) health.Node {
	n := health.Node{
		TimestampFormat: s.resolved.Node.TimestampFormat,
		Missing:         s.resolved.Missing,
		Forwards:        a.options.System.Forwards(),
		OneClock:        a.options.OneClock,
		PrivatePins:     a.privatePins,
	}
	if clock, err := a.options.System.Clock(); err == nil {
		n.Clock = clock
	}
	names := map[model.IfIndex]string{}
	for _, i := range s.resolved.Node.Interfaces {
		names[i.Index] = i.Name
		n.Interfaces = append(n.Interfaces, a.options.System.InterfaceHealth(i.Name, i.MTU))
	}
	for _, status := range a.datapath.Interfaces() {
		for k := range n.Interfaces {
			if n.Interfaces[k].Name == names[status.Index] {
				n.Interfaces[k].XDPRefused = status.NativeXDPRefused
				n.Interfaces[k].Hook = string(status.Ingress)
			}
		}
	}
	for _, ns := range s.resolved.Node.Namespaces {
		if ns.Export != model.ExportNone && len(s.config.Export) == 0 {
			n.Unsent = append(n.Unsent, ns.ID)
		}
	}
	n.Ends, n.NoIngress = ends(s.config), !slices.ContainsFunc(s.config.Interfaces, func(i config.Interface) bool { return slices.Contains(i.Role, model.RoleIngress) })
	isOwn := a.options.System.OwnAddresses()
	n.Unsecured, n.NoCollectors = a.unsecured(s.config.Export, isOwn), s.config.CollectorsUnknown()
	for _, e := range s.resolved.Node.Encapsulations {
		fact := health.Encapsulation{Name: e.Name, Interface: names[e.Interface], Insertion: e.Insertion(), Options: len(e.Options)}
		fact.Unjoined = inserts(e, unjoined)
		fact.Own = e.Match.Source.IsSingleIP() && isOwn(e.Match.Source.Addr())
		fact.Exporting, fact.Unselective = !fact.Own && maybeExports(e), unselective(s.resolved.Node, e)
		fact.Unknown, fact.TooSmall = unfilled(s.resolved.Node, e)
		fact.Inline = e.Mode == model.ModeInline
		if !fact.Inline {
			fact.Source, fact.Destination = e.TunnelSource, e.TunnelDestination
			fact.NotOurs = !isOwn(e.TunnelSource)
			fact.NoRoute = a.options.System.NoRoute(e.TunnelDestination)
			fact.PathMTU = a.paths.table.MTU(e.TunnelDestination)
		}
		n.Encapsulations = append(n.Encapsulations, fact)
	}
	n.Decapsulations = decapsulationFacts(s)
	return n
}

// ends are the tunnels and the namespaces' traces that are to end at this node.
func ends(c *config.Config) (list []string) {
	for _, d := range c.Decapsulations {
		list = append(list, fmt.Sprintf("tunnels to %s", d.TunnelDestination))
	}
	for _, ns := range c.Namespaces {
		if ns.Remove {
			list = append(list, fmt.Sprintf("options of namespace %d", ns.ID))
		}
	}
	return list
}

// unfilled are the namespaces of the options that this node inserts and does not
// know, and of the traces that are too small for its own data.
func unfilled(node model.NodeConfig, e model.Encapsulation) (unknown, tooSmall []ioam.NamespaceID) {
	for _, o := range e.Options {
		var trace model.TraceOption
		switch {
		case o.Trace != nil:
			trace = *o.Trace
		case o.DirectExport != nil:
			trace = model.TraceOption{Namespace: o.DirectExport.Namespace, Size: model.MaxTraceDataSize}
		}
		switch own, known := node.OwnDataLen(trace); {
		case !known && !slices.Contains(unknown, trace.Namespace):
			unknown = append(unknown, trace.Namespace)
		case known && own > trace.Size && !slices.Contains(tooSmall, trace.Namespace):
			tooSmall = append(tooSmall, trace.Namespace)
		}
	}
	return unknown, tooSmall
}

// logWarnings logs what a start or a reload finds wrong with the node, for an
// operator who looks at nothing but the log. What comes later is in the status,
// or in the log with its cause.
func (a *Agent) logWarnings() {
	s := a.state.Load()
	ws := append(health.WithoutHints(health.CheckNode(a.facts(s))), sourcelessWarnings(s.resolved.Sourceless)...)
	ws = append(ws, a.fastWarnings()...)
	health.Sort(ws)
	for _, w := range ws {
		a.logWarning(w)
	}
}

func (a *Agent) logWarning(w health.Warning) {
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
	a.log.Log(context.Background(), level, w.Text, append(attributes, "cure", w.Cure)...)
}

// unheardCure lets the agent hear ICMPv6 errors about tunnelled packets. It names
// the firewall, because the agent cannot see that one drops them.
const unheardCure = "give the agent CAP_NET_RAW (AmbientCapabilities and CapabilityBoundingSet in its systemd unit); " +
	"where a firewall drops packets of state invalid, let it first accept ICMPv6 types 1 to 4 to tunnel sources"

// ownWarnings are about the agent itself.
func (a *Agent) ownWarnings(s *state) []health.Warning {
	var ws []health.Warning
	if s.modified {
		ws = append(ws, health.New(health.RuntimeChanges, "",
			"changes made at runtime are in force; the next reload ends them",
			"write what shall stay into "+a.options.ConfigFile+" ('waymark agent config' prints it)"))
	}
	ws = append(ws, sourcelessWarnings(s.resolved.Sourceless)...)
	ws = append(ws, unsparedWarnings(s.resolved)...)
	if fault := a.reloadFault.Load(); fault != nil {
		ws = append(ws, health.New(health.ReloadFailed, "",
			"the last reload failed, and what ran before runs on: "+*fault,
			"correct the file, check it with 'waymark config check', and reload"))
	}
	ws = append(ws, a.fastWarnings()...)
	if fault := a.routeWatch.fault.Load(); fault != nil {
		ws = append(ws, health.New(health.RoutesUnwatched, "",
			"interfaces that forward fast leave their packets to the stack, because its routes are not watched: "+*fault,
			"set forwarding: stack, or mend what is said here; the agent tries again every second"))
	}
	ws = append(ws, a.stackWarnings()...)
	ws = append(ws, a.kernelEventWarnings()...)
	if fault := a.paths.fault.Load(); fault != nil && len(tunnels(s)) > 0 {
		ws = append(ws, health.New(health.PathMTUUnwatched, "",
			"Packet Too Big messages are not heard, so packets that a tunnel makes too large for a link of its path are lost: "+*fault,
			unheardCure))
	}
	if fault := a.tunnelErrors.fault.Load(); fault != nil && len(tunnels(s)) > 0 {
		ws = append(ws, health.New(health.TunnelErrorsUnheard, "",
			"ICMPv6 errors about tunnelled packets are not heard, so the packets' senders do not get them, and traceroute lacks the nodes inside tunnels: "+*fault,
			unheardCure))
	}
	ws = append(ws, a.lostErrorWarnings(s)...)
	ws = append(ws, a.refusalWarnings(s)...)
	if r := a.tunnelErrors.refusal.Load(); r != nil && time.Since(r.at) < refusalPeriod && len(tunnels(s)) > 0 {
		ws = append(ws, r.warning)
	}
	if err := a.metricsServer.fault(); err != nil {
		ws = append(ws, metricsWarning(err))
	}
	if lost, suppressed, err := a.losses(); err == nil {
		ws = append(ws, lossWarnings(a.recordsLost.growth(lost), a.suppressed.growth(suppressed))...)
	}
	for _, s := range a.sinks.stats() {
		if s.Network && s.Error != "" {
			ws = append(ws, health.New(health.CollectorAway, "",
				fmt.Sprintf("%s cannot be reached, and %d records wait for it: %s", s.name, s.Waiting(), s.Error),
				s.Cure+"; the agent tries again by itself"))
		}
	}
	if n := a.exportLost.growth(a.totalExportLost()); n > 0 {
		ws = append(ws, a.exporterWarning(n))
	}
	return ws
}

func (a *Agent) fastWarnings() []health.Warning {
	var ws []health.Warning
	for _, i := range a.datapath.Interfaces() {
		if i.FastRefused != "" {
			ws = append(ws, health.New(health.FastRefused, i.Name,
				i.Name+" leaves all to the stack, although it is to forward fast: "+i.FastRefused,
				"do that, or set forwarding: stack"))
		}
	}
	return ws
}

func lossWarnings(lost, suppressed uint64) []health.Warning {
	var ws []health.Warning
	if lost > 0 {
		ws = append(ws, health.New(health.RecordsLost, "",
			fmt.Sprintf("%d records were lost in the last minute: they came faster than the agent reads them", lost),
			"lower the frequency of the encapsulations"))
	}
	if suppressed > 0 {
		ws = append(ws, health.New(health.ExportsSuppressed, "",
			fmt.Sprintf("%d postcards or flows were not exported in the last minute: the limits of exports were reached", suppressed),
			"let encapsulating nodes choose fewer packets (flows, frequency), set export: aggregate, or, where collectors and links can take more, raise node.export-limit and node.export-rate"))
	}
	return ws
}

func metricsWarning(err error) health.Warning {
	return health.New(health.MetricsUnavailable, "",
		fmt.Sprintf("metrics are not served over the network: %v", err),
		"bring the loopback interface up, free the address, or set metrics.listen to another one or to "+string(config.ListenNone))
}

func (a *Agent) exporterWarning(n uint64) health.Warning {
	text := fmt.Sprintf("exporters lost %d records in the last minute", n)
	for _, s := range a.sinks.stats() {
		if s.Error != "" {
			text += fmt.Sprintf("; %s: %s", s.name, s.Error)
		}
	}
	return health.New(health.ExporterFailing, "", text, "see to the disk's space and speed, or to the collector, or lower the frequency of the encapsulations")
}
