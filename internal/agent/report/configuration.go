// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/sink"
)

// exportInterval is how often flows are exported.
func exportInterval(s *service.State) time.Duration {
	return max(time.Duration(s.Config.Node.ExportInterval), time.Second)
}

// postcardNamespaces are the namespaces in which a node makes postcards.
func postcardNamespaces(node model.NodeConfig) (list []sink.Reported) {
	for _, ns := range node.Namespaces {
		switch ns.Export {
		case model.ExportEvery:
			list = append(list, sink.Reported{Namespace: ns.ID, Sampling: 1})
		case model.ExportSample:
			list = append(list, sink.Reported{Namespace: ns.ID, Sampling: max(ns.Sample, 1)})
		}
	}
	return list
}

// burstOf is how many records of measured flows come at a time, at most.
func burstOf(flows []model.MeasuredFlow) (records int) {
	const kinds = 4 // a loss, and delays of up to three methods
	for i := range flows {
		switch points := len(flows[i].Points); points {
		case 0:
			records++ // what this node counted
		case 1:
			records += 2 * kinds // of the way, and of test packets
		default:
			records += (points + 2) * kinds
		}
	}
	return records
}

// whyNone says why a node makes no records: no packet's traces end there, it computes the loss
// of no flow, returns no copies to itself, sends no probes, and it neither exports anything nor listens for the kernel's events. It is
// "" if the node may make some.
func whyNone(c *config.Config) string {
	if c.Node.Mode == config.ModeObserve && !c.Node.KernelEvents && c.Probes == nil {
		return "this node makes no records: with node.mode: observe it only counts packets, see waymark status"
	}
	if c.Node.KernelEvents || c.Probes != nil ||
		slices.ContainsFunc(c.Flows, func(f config.Flow) bool { return len(f.Points) > 0 || f.LastPoint != 0 || f.Point != 0 }) ||
		slices.ContainsFunc(c.Encapsulations, asksForCopies) {
		return ""
	}
	removes := len(c.Decapsulations) > 0 ||
		slices.ContainsFunc(c.Namespaces, func(ns config.Namespace) bool { return ns.Remove || ns.EdgeToEdge })
	exports := slices.ContainsFunc(c.Namespaces, func(ns config.Namespace) bool { return ns.Export != model.ExportNone })
	arrive := slices.ContainsFunc(c.Interfaces, func(i config.Interface) bool { return slices.Contains(i.Role, model.RoleIngress) })
	inserts := slices.ContainsFunc(c.Encapsulations, func(e config.Encapsulation) bool {
		return slices.ContainsFunc(e.Options, func(o config.Option) bool { return o.DirectExport != nil })
	})
	switch {
	case removes && (arrive || exports && inserts), exports && (arrive || inserts):
		return ""
	case removes || exports:
		return "this node makes no records: no interface has the ingress role, so no packet's IOAM is read here; add ingress to the " +
			"role of the interface by which the packets arrive"
	}
	return "this node makes no records: it has no decapsulations, no namespace with remove or e2e, or with export for Direct " +
		"Exports, and no flow with points; observe the node where the domain ends"
}

// asksForCopies reports whether copies of packets come back, of which this node makes records.
func asksForCopies(e config.Encapsulation) bool {
	return slices.ContainsFunc(e.Options, func(o config.Option) bool { return o.Trace != nil && o.Trace.Loopback > 0 })
}
