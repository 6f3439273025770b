// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// derivedRule has a tunnel without a source.
func derivedRule() config.Encapsulation {
	return config.Encapsulation{Name: "core", Interface: "eth1", Mode: model.ModeEncap, Frequency: model.Frequency{K: 1, N: 1},
		Tunnel:  &config.Tunnel{Destination: mustAddr("2001:db8:9::1")},
		Options: []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 12}}}}
}

// A tunnel without a source uses the kernel's choice, also when that changes, and waits
// while there is none.
func TestTunnelSourceIsChosen(t *testing.T) {
	ctx := context.Background()
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	if err := failure(h.Client.AddEncapsulation(ctx, derivedRule())); err != nil {
		t.Fatal(err)
	}
	source := func() netip.Addr {
		if es := h.Datapath.Running().Node.Encapsulations; len(es) > 0 {
			return es[0].TunnelSource
		}
		return netip.Addr{}
	}
	if source() != mustAddr("2001:db8::99") {
		t.Errorf("the source is %v", source())
	}
	if es, err := h.Client.Encapsulations(ctx); err != nil || es[len(es)-1].Tunnel.Source.IsValid() {
		t.Errorf("the configuration got a source of its own: %+v, %v", es, err)
	}
	h.System.SetSource(mustAddr("2001:db8::77"), nil)
	agenttest.Eventually(t, "the new source is in force", func() bool { return source() == mustAddr("2001:db8::77") })
	if h.Warned(health.TunnelUnroutable) {
		t.Error("a warning about a tunnel that has a source")
	}

	h.System.SetSource(netip.Addr{}, errors.New("no route to 2001:db8:9::1"))
	agenttest.Eventually(t, "the rule waits", func() bool { return !source().IsValid() })
	agenttest.Eventually(t, "a warning and a line in the log", func() bool {
		return h.Warned(health.TunnelUnroutable) && strings.Contains(h.Log.String(), "no route to 2001:db8:9::1")
	})
	before := h.Datapath.Applications()
	other := derivedRule()
	other.Name = "other"
	const want = "tunnel source: no route to 2001:db8:9::1; set one of this node's addresses with tunsrc"
	if err := failure(h.Client.AddEncapsulation(ctx, other)); err == nil || err.Error() != want || h.Datapath.Applications() != before {
		t.Errorf("a rule that would not be in force: %v, want %s", err, want)
	}
	h.System.SetSource(mustAddr("2001:db8::99"), nil)
	agenttest.Eventually(t, "the rule is back", func() bool { return source() == mustAddr("2001:db8::99") })
	if err := h.Client.RemoveEncapsulation(ctx, "core"); err != nil || source().IsValid() {
		t.Errorf("remove: %v, and it has the source %v", err, source())
	}
}

func TestNames(t *testing.T) {
	a, b := mustAddr("2001:db8::a"), mustAddr("2001:db8::b")
	var answer []netip.Addr
	asked := 0
	n := names{
		peers:  newPeers(nil),
		known:  map[string][]netip.Addr{},
		lookup: func(string) []netip.Addr { asked++; return slices.Clone(answer) },
	}
	for _, step := range []struct {
		answer  []netip.Addr
		changed bool
		known   []netip.Addr
	}{
		{nil, true, nil},
		{nil, false, nil},
		{[]netip.Addr{b, a}, true, []netip.Addr{a, b}},
		{[]netip.Addr{a, b}, false, []netip.Addr{a, b}},
		{nil, false, []netip.Addr{a, b}}, // no answers for a while
		{[]netip.Addr{b}, true, []netip.Addr{b}},
	} {
		answer = step.answer
		if changed := n.refresh("collector"); changed != step.changed {
			t.Errorf("%v: changed %v", step.answer, changed)
		}
		before := asked
		if known := n.addresses("collector"); !slices.Equal(known, step.known) || asked != before {
			t.Errorf("%v: known is %v, asked %d times more", step.answer, known, asked-before)
		}
	}
	if n.addresses("another"); !slices.Equal(slices.Sorted(slices.Values(n.all())), []string{"another", "collector"}) {
		t.Errorf("names %v", n.all())
	}
}

// Packets to collectors get no IOAM, whether these are given by address or by name.
func TestCollectorsAreKnown(t *testing.T) {
	h := newHarness(
		t,
		agenttest.BaseConfig+"export:\n  - {kind: ipfix, address: \"udp://[2001:db8::1]:4000\"}\n"+
			"  - {kind: ipfix, address: \"tcp://collector.invalid\"}\n",
	)
	h.System.SetCollectors(mustAddr("2001:db8::2"))
	h.Start()
	want := []model.Collector{
		{Address: mustAddr("2001:db8::1"), Port: 4000, Protocol: ioam.NextHeaderUDP},
		{Address: mustAddr("2001:db8::2"), Port: 4739, Protocol: ioam.NextHeaderTCP},
	}
	if got := h.Datapath.Running().Node.Collectors; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	h.System.SetCollectors(mustAddr("2001:db8::3"))
	if !only[*names](h).refresh("collector.invalid") {
		t.Fatal("the new address was not noticed")
	}
	h.agent.requestResolve()
	agenttest.Eventually(
		t,
		"the data plane knows",
		func() bool { return h.Datapath.Running().Node.Collectors[1].Address == mustAddr("2001:db8::3") },
	)
}
