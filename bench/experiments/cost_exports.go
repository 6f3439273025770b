// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"net/netip"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Names of configurations that export.
const (
	exportingTransit       = "transit that exports: "
	exportingDecapsulation = "decapsulation that exports: "
	exportingEncapsulation = "encapsulation that exports: "
)

var exportModes = map[string]model.ExportMode{
	"nothing": model.ExportNone, "every": model.ExportEvery, "aggregate": model.ExportAggregate, "sample": model.ExportSample,
}

// collecting is a collector's address inside the prefix of the measured packets.
var collecting = netip.MustParseAddr("2001:db8:2::c")

// exporting makes a node export, with limits that are never reached.
func exporting(c model.NodeConfig, way model.ExportMode) model.NodeConfig {
	c.ExportLimit, c.ExportRate = 1, model.MaxExportRate
	c.Collectors = []model.Collector{{Address: collecting, Port: 9, Protocol: harness.NextUDP}}
	c.Namespaces[0].Export = way
	if way == model.ExportSample {
		c.Namespaces[0].Sample = harness.SampleEvery
	}
	return c
}

// exportConfigs are nodes that export.
func exportConfigs() map[string]model.NodeConfig {
	configs := make(map[string]model.NodeConfig)
	for name, way := range exportModes {
		c := exporting(nodeConfig(), way)
		configs[exportingTransit+name] = c

		c.Decapsulations = []model.Decapsulation{{TunnelDestination: harness.TunnelEnd}}
		configs[exportingDecapsulation+name] = c

		c.Decapsulations = nil
		c.Encapsulations = []model.Encapsulation{{
			Name: "measured", Interface: ours, Mode: model.ModeInline,
			Match:   model.Match{Destination: netip.PrefixFrom(harness.Destination, 64).Masked()},
			Options: []model.InsertedOption{directExport{kind: typeNodeID, flags: bothExtensions}.option()},
		}}
		configs[exportingEncapsulation+name] = c
	}
	return configs
}

// exportCases measure what exports cost at the hooks that make or prepare them.
func exportCases() []costCase {
	var cases []costCase
	frame := func(kind ioam.TraceType) []byte { return padded(110, directExportOption(kind, bothExtensions)) }
	add := func(hook datapath.Hook, detail string, outcome model.Outcome, config string, frame []byte) {
		in := harness.SKB{}
		if hook == datapath.HookEgressTC {
			in = harness.ArrivedAt(other)
		}
		cases = append(cases, costCase{hook, detail, outcome, config, frame, in, 0})
	}
	for _, hook := range []datapath.Hook{datapath.HookIngressXDP, datapath.HookIngressTC} {
		add(hook, "nothing exported", model.OutcomeDirectExport, exportingTransit+"nothing", frame(typeNodeID))
		add(hook, "exported at egress", model.OutcomeDirectExport, exportingTransit+"aggregate", frame(typeNodeID))
		add(hook, "exported at egress, with transit delay", model.OutcomeDirectExport, exportingTransit+"aggregate", frame(typeOnlyDelay))
		inner := harness.IPv6(harness.Source, harness.Destination, harness.NextUDP, harness.UDP(24))
		for _, way := range []string{"nothing", "aggregate", "every"} {
			add(hook, "Direct Export, "+way, model.OutcomeTunnelDecapsulated, exportingDecapsulation+way,
				tunnelled(inner, directExportOption(typeNodeID, bothExtensions)))
		}
	}
	hook := datapath.HookEgressTC
	for _, way := range []string{"nothing", "aggregate", "every"} {
		add(hook, "transit, "+way, model.OutcomeDirectExport, exportingTransit+way, frame(typeNodeID))
	}
	chosen := frame(typeNodeID)
	add(hook, "transit, sample, chosen", model.OutcomeDirectExport, exportingTransit+"sample", chosen)
	add(hook, "transit, sample, not chosen", model.OutcomeDirectExport, exportingTransit+"sample", harness.With(chosen, atSequence+3, 1))
	add(hook, "transit, aggregate, with transit delay", model.OutcomeDirectExport, exportingTransit+"aggregate", frame(typeOnlyDelay))
	for _, way := range []string{"nothing", "aggregate", "sample", "every"} {
		add(
			hook,
			"Direct Export with flow hash and sequence, "+way,
			model.OutcomeEncapInserted,
			exportingEncapsulation+way,
			harness.Plain(harness.Destination, 78),
		)
	}
	return append(cases, costCase{
		hook, "a collector's", model.OutcomeEncapSkippedExport, exportingEncapsulation + "aggregate", harness.Plain(collecting, 78),
		harness.ArrivedAt(other), 0,
	})
}

// writesPostcards reports whether packets of a configuration may become
// postcards.
func writesPostcards(config string) bool {
	for _, role := range []string{exportingTransit, exportingDecapsulation, exportingEncapsulation} {
		if config == role+"every" || config == role+"sample" {
			return true
		}
	}
	return false
}
