// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// The data plane knows the address to which a sink sends before the sink may send, and as
// long as it does, whatever the name means.
func TestPeersInUse(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig+"export:\n  - {kind: ipfix, address: \"tcp://collector.invalid\"}\n")
	h.System.SetCollectors(mustAddr("2001:db8::2"))
	h.Start()
	names := only[*names](h)
	known := func(a string) bool {
		to := model.Collector{Address: mustAddr(a), Port: 4739, Protocol: ioam.NextHeaderTCP}
		return slices.Contains(h.Datapath.Running().Node.Collectors, to)
	}
	spare := func(a string) (left <-chan struct{}, release func()) {
		t.Helper()
		left, release, err := names.peers.Spare(t.Context(), "tcp6", "collector.invalid", netip.AddrPortFrom(mustAddr(a), 4739))
		if err != nil || !known(a) {
			t.Fatalf("%s: %v; the data plane knows it: %v", a, err, known(a))
		}
		return left, release
	}
	left, release := spare("2001:db8::2")
	_, releaseOther := spare("2001:db8::7") // of a later lookup
	h.System.SetCollectors(mustAddr("2001:db8::3"))
	for i := range leftAfter {
		select {
		case <-left:
			t.Errorf("the name counts as elsewhere after %d lookups", i)
		default:
		}
		if names.refresh("collector.invalid") {
			h.agent.requestResolve()
		}
	}
	select {
	case <-left:
	default:
		t.Error("the name has moved, and the sink does not know")
	}
	agenttest.Eventually(t, "the new address is known", func() bool { return known("2001:db8::3") })
	if !known("2001:db8::2") || !known("2001:db8::7") {
		t.Errorf("while sinks send to older addresses, the data plane knows %v", h.Datapath.Running().Node.Collectors)
	}
	release()
	releaseOther()
	agenttest.Eventually(
		t,
		"older addresses are forgotten",
		func() bool { return !known("2001:db8::2") && !known("2001:db8::7") && known("2001:db8::3") },
	)

	// Where there is no room, the sink is not let send.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var full []func()
	for i := range model.MaxCollectors {
		_, release, err := names.peers.Spare(
			t.Context(),
			"udp6",
			"many",
			netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i + 1)}), 1),
		)
		if err != nil {
			t.Fatalf("collector %d: %v", i, err)
		}
		full = append(full, release)
	}
	_, _, err := names.peers.Spare(ctx, "udp6", "many", netip.AddrPortFrom(mustAddr("2001:db8::99"), 1))
	if err == nil || !strings.Contains(err.Error(), "2001:db8::99 cannot be kept out") ||
		slices.ContainsFunc(names.peers.all(), func(c model.Collector) bool { return c.Address == mustAddr("2001:db8::99") }) {
		t.Errorf("beyond the limit: %v", err)
	}
	for _, release := range full {
		release()
	}
}

// A sink that a reload removes still sends what it holds: its collector stays known until
// then.
func TestPeersOfRemovedSinks(t *testing.T) {
	c := newIPFIXCollector(t, "[::1]:0")
	with := agenttest.BaseConfig + "export:\n  - {kind: ipfix, address: \"" + c.address() + "\"}\n"
	h := newHarness(t, with)
	h.Start()
	to := mustAddr("::1")
	has := func(c datapath.Config) bool {
		return slices.ContainsFunc(c.Node.Collectors, func(c model.Collector) bool { return c.Address == to })
	}
	agenttest.Eventually(t, "the sink sends", func() bool { return len(only[*names](h).peers.all()) == 1 })
	before := h.Datapath.Applications()
	h.Write(agenttest.BaseConfig)
	if _, err := h.Client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Datapath.Mu.Lock()
	reloaded := h.Datapath.Applied[before]
	h.Datapath.Mu.Unlock()
	if !has(reloaded) {
		t.Error("the sink may still send, and the data plane does not know its collector any more")
	}
	agenttest.Eventually(t, "the collector is forgotten", func() bool { return !has(h.Datapath.Running()) })
}
