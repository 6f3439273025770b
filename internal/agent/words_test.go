// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
)

// A namespace in use is removed, as the kernel does, with the warning that unknown ones have.
func TestRemoveNamespaceInUse(t *testing.T) {
	h := newHarness(
		t,
		agenttest.BaseConfig+"encapsulations: [{name: a, interface: eth1, mode: inline, options: [{trace: {namespace: 123, type: 0xc00000, "+
			"size: 8}}]}]\n",
	)
	h.Start()
	done, err := h.Client.RemoveNamespace(t.Context(), 123)
	if err != nil || len(done.Warnings) != 1 || done.Warnings[0].Code != health.NamespaceUnfilled ||
		!strings.Contains(done.Warnings[0].Text, "encapsulation a inserts options of namespace 123") {
		t.Errorf("%+v, %v", done, err)
	}
	if node := h.Datapath.Running().Node; len(node.Namespaces) != 0 || len(node.Encapsulations) != 1 {
		t.Errorf("%+v", node)
	}
	if _, err := h.Client.AddNamespace(t.Context(), config.Namespace{ID: 9, Data: 1, DataWide: 1}); err != nil {
		t.Fatal(err)
	}
	if done, err := h.Client.RemoveNamespace(t.Context(), 9); err != nil || len(done.Warnings) != 0 {
		t.Errorf("one that is not in use: %+v, %v", done, err)
	}
}

// A client may ask for mode inline to be refused on a router, and is told the tunnel to use.
func TestInlineIsRefusedOnARouter(t *testing.T) {
	h := newHarness(
		t,
		agenttest.BaseConfig+"encapsulations: [{name: core, interface: eth1, mode: encap, tunnel: {source: \"2001:db8:1::1\", destination: "+
			"\"2001:db8:ff::3\"}, match: {destination: \"2001:db8:7::/64\"}, options: [{trace: {namespace: 123, type: 0xc00000, size: 8}}]}]\n",
	)
	h.System.Router = true
	h.Start()
	rule := func(name, source string) config.Encapsulation {
		e := config.Encapsulation{Name: name, Interface: "eth1", Flows: 1, Frequency: model.Frequency{K: 1, N: 1}, Mode: model.ModeInline,
			Options: []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0xc00000, Size: 8}}}}
		e.Match.Destination = netip.MustParsePrefix("2001:db8:2::/64")
		if source != "" {
			e.Match.Source = netip.MustParsePrefix(source)
		}
		return e
	}
	careful := h.Client.RefusingInline()
	if _, err := careful.AddEncapsulation(t.Context(), rule("one", "")); err == nil ||
		!strings.Contains(err.Error(), "use: mode auto tundst 2001:db8:ff::3") ||
		!strings.Contains(err.Error(), "say force") {
		t.Errorf("refused: %v", err)
	}
	if _, err := careful.ReplaceSameEncapsulation(t.Context(), rule("one", ""), false); err == nil {
		t.Error("replaced")
	}
	if done, err := h.Client.AddEncapsulation(t.Context(), rule("one", "")); err != nil || len(done.Warnings) == 0 {
		t.Errorf("forced: %+v, %v", done, err)
	}
	h.System.Router = false
	if _, err := careful.AddEncapsulation(t.Context(), rule("two", "2001:db8:5::/64")); err != nil {
		t.Errorf("on a host: %v", err)
	}
}
