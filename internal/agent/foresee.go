// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Foresee lists the warnings and hints that a configuration causes on any machine.
func Foresee(c *config.Config) []health.Warning {
	node := c.Anywhere()
	n := configFacts(c, node)
	n.OneClock = true // the file does not say whose clock the domain reads
	for i, e := range node.Encapsulations {
		if e.Match.Source.IsSingleIP() { // may be the node's own, which exports nothing of others
			n.Encapsulations[i].Exporting = false
		}
	}
	return health.CheckNode(n)
}

// configFacts are the facts that depend on the configuration, not on the machine.
// Exporting still counts rules that match only the node's own packets.
func configFacts(c *config.Config, node model.NodeConfig) health.Node {
	n := health.Node{
		Ends:           ends(c),
		Indistinct:     c.IndistinctFlows(),
		NoCollectors:   c.CollectorsUnknown(),
		Decapsulations: decapsulationFacts(node),
	}
	n.NoIngress = !slices.ContainsFunc(c.Interfaces, func(i config.Interface) bool { return slices.Contains(i.Role, model.RoleIngress) })
	for _, ns := range node.Namespaces {
		if ns.Export != model.ExportNone && len(c.Sinks) == 0 {
			n.Unsent = append(n.Unsent, ns.ID)
		}
		if n.ExportLimit = cmp.Or(node.ExportLimit, model.DefaultExportLimit); ns.Export == model.ExportEvery && n.ExportLimit > 1 &&
			len(c.Sinks) > 0 {
			n.Limited = append(n.Limited, ns.ID)
		}
	}
	names := map[model.IfIndex]string{}
	for _, i := range node.Interfaces {
		names[i.Index] = i.Name
	}
	shadowed := node.Shadowed()
	for i, e := range node.Encapsulations {
		fact := health.Encapsulation{Name: e.Name, Interface: names[e.Interface], Insertion: e.Insertion(), Options: len(e.Options)}
		fact.Inline, fact.Unjoined = e.Mode == model.ModeInline, inserts(e, unjoined)
		fact.Exporting, fact.Unselective = maybeExports(e), unselective(node, e)
		fact.Unknown, fact.TooSmall = unfilled(node, e)
		if j, is := shadowed[i]; is {
			fact.ShadowedBy = node.Encapsulations[j].Name
		}
		n.Encapsulations = append(n.Encapsulations, fact)
		n.Numbers = n.Numbers || slices.ContainsFunc(e.Options, func(o model.InsertedOption) bool { return o.Proof != nil })
	}
	return n
}

// insertions are the sizes of encapsulations, and the names of their interfaces.
func insertions(list []model.Encapsulation, at []model.Interface) (facts []health.Encapsulation) {
	names := map[model.IfIndex]string{}
	for _, i := range at {
		names[i.Index] = i.Name
	}
	for _, e := range list {
		facts = append(facts, health.Encapsulation{Name: e.Name, Interface: names[e.Interface], Insertion: e.Insertion()})
	}
	return facts
}

// ends lists the tunnels and the namespaces' options that end at this node by
// configuration.
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

// unfilled lists the namespaces of inserted options that this node does not know, and
// those of traces that are too small for its own data.
func unfilled(node model.NodeConfig, e model.Encapsulation) (unknown, tooSmall []ioam.NamespaceID) {
	for _, o := range e.Options {
		var trace model.TraceOption
		switch {
		case o.Proof != nil || o.EdgeToEdge != nil: // the namespace is known, else the configuration is refused; this node adds no data
			continue
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
