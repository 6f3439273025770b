// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The answer to a change has the warnings about the changed entry, and no others.
func TestChangesAreAdvisedOn(t *testing.T) {
	ctx := t.Context()
	trace := config.Option{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 12}}
	foreign := config.Option{Trace: &config.TraceOption{Namespace: 7, Type: 0x800000, Size: 12}}
	export := config.Option{DirectExport: &config.DirectExportOption{Namespace: 123, TraceType: 0x800000, OptionType: ioam.OptionIOAMStatic}}
	rule := func(name string, o config.Option) config.Encapsulation {
		return config.Encapsulation{Name: name, Interface: "eth1", Mode: model.ModeEncap, Frequency: model.Frequency{K: 1, N: 1},
			Tunnel: &config.Tunnel{Destination: mustAddr("2001:db8:9::1")},
			Match:  config.Match{Destination: prefix("2001:db8:" + name + "::/48")}, Options: []config.Option{o}}
	}
	inline := func(name string) config.Encapsulation {
		e := rule(name, trace)
		e.Mode, e.Tunnel = model.ModeInline, nil
		return e
	}
	h := newHarness(t, agenttest.BaseConfig+"encapsulations: [{name: before, interface: eth1, mode: inline, options: [{trace: {namespace: 7, "+
		"type: 0x800000, size: 12}}]}]\n")
	h.System.Router = true
	h.System.Elsewhere = mustAddr("2001:db8:1::2")
	h.Start()
	none := []model.Role{}
	for _, tt := range []struct {
		name   string
		change func() (api.Changed, error)
		want   []health.Code
	}{
		{"a rule that is right", func() (api.Changed, error) { return h.Client.AddEncapsulation(ctx, rule("1", trace)) }, nil},
		{"inline on a router", func() (api.Changed, error) { return h.Client.AddEncapsulation(ctx, inline("2")) }, []health.Code{health.InlineForwarded}},
		{"unknown namespace", func() (api.Changed, error) { return h.Client.AddEncapsulation(ctx, rule("3", foreign)) }, []health.Code{health.NamespaceUnfilled}},
		{"no packet is left for it", func() (api.Changed, error) {
			e := rule("3", trace)
			e.Name = "later"
			e.Match.FlowLabel = new(config.FlowLabel)
			return h.Client.AddEncapsulation(ctx, e)
		}, []health.Code{health.EncapShadowed}},
		{"no collector", func() (api.Changed, error) { return h.Client.AddEncapsulation(ctx, rule("4", export)) }, []health.Code{health.CollectorsUnknown}},
		{"replaced by name", func() (api.Changed, error) { return h.Client.ReplaceEncapsulation(ctx, inline("1"), true) }, []health.Code{health.InlineForwarded}},
		{"replaced by match", func() (api.Changed, error) {
			e := inline("2")
			e.Name = "another"
			return h.Client.ReplaceSameEncapsulation(ctx, e, false)
		}, []health.Code{health.InlineForwarded}},
		{"a tunnel's end", func() (api.Changed, error) {
			return h.Client.AddDecapsulation(ctx, config.Decapsulation{TunnelDestination: mustAddr("2001:db8:ff::5")})
		}, nil},
		{"a role", func() (api.Changed, error) {
			return h.Client.SetInterface(ctx, "eth0", api.InterfaceChange{Role: &none})
		}, nil},
		{"the last role", func() (api.Changed, error) {
			return h.Client.SetInterface(ctx, "eth1", api.InterfaceChange{Role: &[]model.Role{model.RoleEgress}})
		}, []health.Code{health.DecapUnreached}},
		{"a tunnel's end that goes", func() (api.Changed, error) { return h.Client.RemoveDecapsulation(ctx, mustAddr("2001:db8:ff::5")) }, []health.Code{health.TunnelEndRemoved}},
		{"a rule that goes", func() (api.Changed, error) {
			return h.Client.RemoveSelectedEncapsulation(ctx, config.Selection{Name: "2"})
		}, nil},
	} {
		done, err := tt.change()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []health.Code
		for _, w := range done.Warnings {
			got = append(got, w.Code)
			if w.Cure == "" || w.Code == health.InlineForwarded && !strings.Contains(w.Text, "encapsulation "+done.Name+" ") {
				t.Errorf("%s: %+v", tt.name, w)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: advised %v, want %v", tt.name, got, tt.want)
		}
	}
}

// An API client that sets a namespace to export is warned if export-rate suppresses most postcards, or if
// the node has no sink for them.
func TestExportsAreAdvisedOn(t *testing.T) {
	ctx := t.Context()
	h := newHarness(t, agenttest.BaseConfig+"export: [{kind: jsonl}]\n")
	h.Start()
	alone := newHarness(t, agenttest.BaseConfig)
	alone.Start()
	for _, tt := range []struct {
		name   string
		change func() (api.Changed, error)
		want   []health.Code
	}{
		{"every packet, of which the limit allows few", func() (api.Changed, error) {
			return h.Client.SetExport(ctx, 123, api.NamespaceExport{Export: model.ExportEvery})
		}, []health.Code{health.ExportsLimited}},
		{"sums", func() (api.Changed, error) {
			return h.Client.SetExport(ctx, 123, api.NamespaceExport{Export: model.ExportAggregate})
		}, nil},
		{"a namespace that exports every packet", func() (api.Changed, error) {
			return h.Client.AddNamespace(ctx, config.Namespace{ID: 124, Export: model.ExportEvery})
		}, []health.Code{health.ExportsLimited}},
		{"one that exports none", func() (api.Changed, error) { return h.Client.AddNamespace(ctx, config.Namespace{ID: 125}) }, nil},
		{"no sink", func() (api.Changed, error) {
			return alone.Client.SetExport(ctx, 123, api.NamespaceExport{Export: model.ExportEvery})
		}, []health.Code{health.ExportsUnsent}},
	} {
		done, err := tt.change()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var got []health.Code
		for _, w := range done.Warnings {
			got = append(got, w.Code)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: advised %v, want %v", tt.name, got, tt.want)
		}
	}
}

// If no trace ends, nothing is exported and no events are received, the status says why
// there will be no records.
func TestRecordsAreAdvisedOn(t *testing.T) {
	const node = "node: {id: 2}\nmetrics: {listen: none}\ninterfaces: [{name: eth0, role: [ingress]}]\n"
	for more, advised := range map[string]bool{
		"":                          true,
		"namespaces: [{id: 123}]\n": true,
		"namespaces: [{id: 122}, {id: 123, remove: true}]\n":          false,
		"namespaces: [{id: 123, export: aggregate}]\n":                false,
		"decapsulations: [{tunnel-destination: \"2001:db8:3::1\"}]\n": false,
	} {
		h := newHarness(t, node+more)
		h.Start()
		if advice := h.Status().Records.Advice; (advice != "") != advised {
			t.Errorf("%s: %q", more, advice)
		}
	}
	h := newHarness(t, "node: {id: 2, kernel-events: true}\nmetrics: {listen: none}\n")
	h.Start()
	if advice := h.Status().Records.Advice; advice != "" {
		t.Errorf("the kernel's events are heard: %q", advice)
	}
}

// The answer to a reload has the warnings that the new file causes, and none that there
// were before.
func TestReloadsAreAdvisedOn(t *testing.T) {
	rule := func(name, destination string) string {
		return "  - {name: " + name + ", interface: eth1, match: {destination: \"2001:db8:" + name + "::/48\"}, tunnel: {destination: " +
			destination + "}, options: [{trace: {namespace: 7, type: 0x800000, size: 12}}]}\n"
	}
	h := newHarness(t, agenttest.BaseConfig+"encapsulations:\n"+rule("a", "2001:db8:9::1"))
	h.System.Unroutable = mustAddr("2001:db8:9::9")
	h.Start()
	for _, tt := range []struct {
		name, text string
		want       []health.Code
	}{
		{"the same", agenttest.BaseConfig + "encapsulations:\n" + rule("a", "2001:db8:9::1"), nil},
		{"another", agenttest.BaseConfig + "encapsulations:\n" + rule("a", "2001:db8:9::1") + rule("b", "2001:db8:9::9"), []health.Code{health.TunnelUnroutable, health.NamespaceUnfilled}},
		{"every packet, of which the limit allows few", strings.Replace(agenttest.BaseConfig, "{id: 123,", "{id: 123, export: every,", 1) +
			"export: [{kind: jsonl}]\nencapsulations:\n" + rule("b", "2001:db8:9::9"), []health.Code{health.ExportsLimited}},
		{"the first goes", agenttest.BaseConfig + "encapsulations:\n" + rule("b", "2001:db8:9::9"), nil},
	} {
		h.Write(tt.text)
		done, err := h.Client.Reload(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var got []health.Code
		for _, w := range done.Warnings {
			got = append(got, w.Code)
		}
		if done.Warnings == nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: advised %v, want %v", tt.name, done.Warnings, tt.want)
		}
	}
}
