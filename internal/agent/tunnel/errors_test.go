// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/test/craft"
)

// exceeded is a router's error about a UDP packet that the running node has
// encapsulated, and the packet.
func (h *harness) exceeded(to string) (m icmpv6.Message, inner []byte) {
	h.T.Helper()
	node, err := reference.NewNode(h.agent.State.Load().Resolved.Node)
	if err != nil {
		h.T.Fatal(err)
	}
	probe := craft.Between("2001:db8:1::2", to, craft.UDP)
	probe.HopLimit = 1
	inner = probe.With([]byte("UDP, a probe"))
	result := node.Egress(reference.Frame{Data: bytes.Clone(inner), Link: reference.LinkNone, Interface: 3, Ingress: 2})
	body := append([]byte{3, 0, 0, 0, 0, 0, 0, 0}, result.Data...)
	return icmpv6.Message{Body: body, Source: netip.MustParseAddr("2001:db8:12::2"), HopLimit: 64}, inner
}

// A router's error reaches the source of the packet in the tunnel, by the rules in
// force at that time; status and metrics count it.
func TestTunnelErrors(t *testing.T) {
	h := newHarness(t, agenttest.TunnelConfig)
	h.System.Elsewhere = netip.MustParseAddr("2001:db8:1::2")
	h.Start()
	m, inner := h.exceeded("2001:db8:a::1")
	h.System.ICMPv6Errors <- m
	select {
	case p := <-h.System.Sent:
		if [16]byte(p[8:24]) != m.Source.As16() || !bytes.Equal(p[24:40], inner[8:24]) || p[7] != 63 || !bytes.Equal(p[48:], inner) {
			t.Errorf("sent %x", p)
		}
	case <-time.After(patience.Of(5 * time.Second)):
		t.Fatal("nothing was sent")
	}
	other, _ := h.exceeded("2001:db8:99::1") // by no rule
	h.System.ICMPv6Errors <- other
	agenttest.Eventually(t, "both are counted", func() bool {
		n := h.Status().TunnelErrors
		return len(n) == 2 && n["relayed"] == 1 && n["foreign"] == 1
	})
	if h.Warned(health.TunnelErrorsUnheard) {
		t.Error("warned, and errors are heard")
	}
	h.Write(strings.ReplaceAll(agenttest.TunnelConfig, "namespace: 123, type: 0x800000, size: 4", "namespace: 123, type: 0x800000, size: 8"))
	if _, err := h.Client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.System.ICMPv6Errors <- m
	agenttest.Eventually(t, "what ran before is foreign", func() bool { return h.Status().TunnelErrors["foreign"] == 2 })
	if len(h.System.Sent) > 0 {
		t.Error("an error about what no rule inserts was relayed")
	}
}

// An error that arrives at the domain's edge cannot come from a router inside.
func TestTunnelErrorsFromOutside(t *testing.T) {
	h := newHarness(t, strings.Replace(agenttest.TunnelConfig, "id: 201, role: [ingress, egress]", "id: 201", 1))
	h.System.Elsewhere = netip.MustParseAddr("2001:db8:1::2")
	h.Start()
	m, _ := h.exceeded("2001:db8:a::1")
	m.Interface = 2
	h.System.ICMPv6Errors <- m
	agenttest.Eventually(t, "it is counted", func() bool { return h.Status().TunnelErrors["outside"] == 1 })
	for _, inside := range []model.IfIndex{3, 9} { // served, and not
		m.Interface = inside
		h.System.ICMPv6Errors <- m
	}
	agenttest.Eventually(t, "two are relayed", func() bool { return h.Status().TunnelErrors["relayed"] == 2 })
	h.Write(agenttest.TunnelConfig)
	if _, err := h.Client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Interface = 2
	h.System.ICMPv6Errors <- m
	agenttest.Eventually(t, "the interface is inside now", func() bool { return h.Status().TunnelErrors["relayed"] == 3 })
	if n := h.Status().TunnelErrors["outside"]; n != 1 || len(h.System.Sent) != 3 {
		t.Errorf("%d from outside, %d sent", n, len(h.System.Sent))
	}
}

// A packet of this node is in no tunnel of mode auto; the kernel is asked for
// this node's addresses once a second, however many addresses are looked up.
func TestTunnelErrorsOfThisNode(t *testing.T) {
	h := newHarness(t, agenttest.TunnelConfig)
	h.Start()
	for to, relayed := range map[string]bool{"2001:db8:a::1": true, "2001:db8:b::1": false} {
		m, _ := h.exceeded(to)
		before := h.Status().TunnelErrors
		h.System.ICMPv6Errors <- m
		agenttest.Eventually(t, to, func() bool {
			now := h.Status().TunnelErrors
			return (now["relayed"] == before["relayed"]+1) == relayed && (now["foreign"] == before["foreign"]+1) == !relayed
		})
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	before, begin := h.System.AddressesRead.Load(), time.Now()
	for i := range uint32(3000) {
		h.errors.hasAddress(netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint32([]byte{0x20, 11: 0}, i))))
	}
	if n, most := h.System.AddressesRead.Load()-before, 1+int32(time.Since(begin)/ownPeriod)+1; n > most {
		t.Errorf("asked the kernel %d times, want %d at most", n, most)
	}
}

// A node that refuses the headers is named in the log, once.
func TestTunnelHeadersRefused(t *testing.T) {
	h := newHarness(t, agenttest.TunnelConfig)
	h.Start()
	m, _ := h.exceeded("2001:db8:a::1")
	m.Body[0], m.Body[1] = byte(icmpv6.ParameterProblem), 2
	for range 3 {
		h.System.ICMPv6Errors <- m
	}
	agenttest.Eventually(t, "all are counted", func() bool { return h.Status().TunnelErrors["tunnel_own"] == 3 })
	if n := strings.Count(h.Log.String(), "refused packets of a tunnel"); n != 1 || !strings.Contains(h.Log.String(), "2001:db8:12::2") {
		t.Errorf("%d lines:\n%s", n, h.Log)
	}
}

func TestTunnelErrorsUnheard(t *testing.T) {
	for _, test := range []struct {
		name, config string
		warned       bool
	}{{"tunnels", agenttest.TunnelConfig, true}, {"no tunnel", agenttest.BaseConfig, false}} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, test.config)
			h.System.ErrorsUnheard = errors.New("operation not permitted")
			h.Start()
			agenttest.Eventually(t, "the agent knows", func() bool { return h.errors.fault.Load() != nil })
			if h.Warned(health.TunnelErrorsUnheard) != test.warned {
				t.Errorf("warned %v, want %v", !test.warned, test.warned)
			}
			for _, w := range h.agent.Warnings() { // a firewall has the same effect, which the agent cannot see
				if (w.Code == health.TunnelErrorsUnheard || w.Code == health.PathMTUUnwatched) && !strings.Contains(w.Cure, "state invalid") {
					t.Errorf("%s: %s", w.Code, w.Cure)
				}
			}
		})
	}
}

// Messages without room in the sockets are counted and, if there are tunnels, warned
// about.
func TestTunnelErrorsLost(t *testing.T) {
	for _, test := range []struct {
		name, config string
		warned       bool
	}{{"tunnels", agenttest.TunnelConfig, true}, {"no tunnel", agenttest.BaseConfig, false}} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, test.config)
			h.Start()
			agenttest.Eventually(t, "the sockets are open", func() bool { h.System.Dropped.Store(7); return h.Status().TunnelErrors["lost"] == 7 })
			agenttest.Eventually(t, "both are in the metrics", func() bool {
				b, err := h.Client.Metrics(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return strings.Contains(string(b), `waymark_tunnel_errors_total{result="lost"} 7`) &&
					strings.Contains(string(b), `waymark_packet_too_big_total{result="lost"} 7`)
			})
			if h.Warned(health.TunnelErrorsLost) != test.warned {
				t.Errorf("warned %v, want %v", !test.warned, test.warned)
			}
			for range service.KeptSamples { // a minute later
				h.errors.noteLost()
			}
			if h.Warned(health.TunnelErrorsLost) {
				t.Error("warned of what is over")
			}
		})
	}
}

// The encapsulating node warns of a tunnel's end that refuses its packets, also by the
// error of a kernel that knows other tunnels.
func TestRefusingTunnelEndIsWarnedOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind icmpv6.Type
		code byte
		says string // "" is no warning
	}{
		{"next header", icmpv6.ParameterProblem, 1, "sources"},
		{"port", icmpv6.Unreachable, 4, "sources"},
		{"option", icmpv6.ParameterProblem, 2, "Hop-by-Hop"},
		{"route", icmpv6.Unreachable, 0, ""},
	} {
		h := newHarness(t, agenttest.TunnelConfig)
		h.Start()
		m, _ := h.exceeded("2001:db8:a::1")
		m.Body[0], m.Body[1] = byte(tt.kind), tt.code
		h.System.ICMPv6Errors <- m
		agenttest.Eventually(t, "it is counted", func() bool { return len(h.Status().TunnelErrors) > 0 })
		agenttest.Eventually(t, tt.name, func() bool { return h.Warned(health.TunnelRefused) == (tt.says != "") })
		for _, w := range h.agent.Warnings() {
			if w.Code == health.TunnelRefused && (!strings.Contains(w.Text, "2001:db8:12::2") || !strings.Contains(w.Cure, tt.says)) {
				t.Errorf("%s: %+v", tt.name, w)
			}
		}
	}
}
