// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

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
	h.t.Helper()
	node, err := reference.NewNode(h.agent.state.Load().resolved.Node)
	if err != nil {
		h.t.Fatal(err)
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
	h := newHarness(t, tunnelConfig)
	h.system.elsewhere = netip.MustParseAddr("2001:db8:1::2")
	h.start()
	m, inner := h.exceeded("2001:db8:a::1")
	h.system.errors <- m
	select {
	case p := <-h.system.sent:
		if [16]byte(p[8:24]) != m.Source.As16() || !bytes.Equal(p[24:40], inner[8:24]) || p[7] != 63 || !bytes.Equal(p[48:], inner) {
			t.Errorf("sent %x", p)
		}
	case <-time.After(patience.Of(5 * time.Second)):
		t.Fatal("nothing was sent")
	}
	other, _ := h.exceeded("2001:db8:99::1") // by no rule
	h.system.errors <- other
	eventually(t, "both are counted", func() bool {
		n := h.status().TunnelErrors
		return len(n) == 2 && n["relayed"] == 1 && n["foreign"] == 1
	})
	if h.warned(health.TunnelErrorsUnheard) {
		t.Error("warned, and errors are heard")
	}
	h.write(strings.ReplaceAll(tunnelConfig, "namespace: 123, type: 0x800000, size: 4", "namespace: 123, type: 0x800000, size: 8"))
	if _, err := h.client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.system.errors <- m
	eventually(t, "what ran before is foreign", func() bool { return h.status().TunnelErrors["foreign"] == 2 })
	if len(h.system.sent) > 0 {
		t.Error("an error about what no rule inserts was relayed")
	}
}

// An error that arrives at the domain's edge cannot come from a router inside.
func TestTunnelErrorsFromOutside(t *testing.T) {
	h := newHarness(t, strings.Replace(tunnelConfig, "id: 201, role: [ingress, egress]", "id: 201", 1))
	h.system.elsewhere = netip.MustParseAddr("2001:db8:1::2")
	h.start()
	m, _ := h.exceeded("2001:db8:a::1")
	m.Interface = 2
	h.system.errors <- m
	eventually(t, "it is counted", func() bool { return h.status().TunnelErrors["outside"] == 1 })
	for _, inside := range []model.IfIndex{3, 9} { // served, and not
		m.Interface = inside
		h.system.errors <- m
	}
	eventually(t, "two are relayed", func() bool { return h.status().TunnelErrors["relayed"] == 2 })
	h.write(tunnelConfig)
	if _, err := h.client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Interface = 2
	h.system.errors <- m
	eventually(t, "the interface is inside now", func() bool { return h.status().TunnelErrors["relayed"] == 3 })
	if n := h.status().TunnelErrors["outside"]; n != 1 || len(h.system.sent) != 3 {
		t.Errorf("%d from outside, %d sent", n, len(h.system.sent))
	}
}

// A packet of this node is in no tunnel of mode auto; the kernel is asked for
// this node's addresses once a second, however many addresses are looked up.
func TestTunnelErrorsOfThisNode(t *testing.T) {
	h := newHarness(t, tunnelConfig)
	h.start()
	for to, relayed := range map[string]bool{"2001:db8:a::1": true, "2001:db8:b::1": false} {
		m, _ := h.exceeded(to)
		before := h.status().TunnelErrors
		h.system.errors <- m
		eventually(t, to, func() bool {
			now := h.status().TunnelErrors
			return (now["relayed"] == before["relayed"]+1) == relayed && (now["foreign"] == before["foreign"]+1) == !relayed
		})
	}
	if err := h.end(); err != nil {
		t.Fatal(err)
	}
	before, begin := h.system.addressesRead.Load(), time.Now()
	for i := range uint32(3000) {
		only[*tunnelErrors](h).hasAddress(netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint32([]byte{0x20, 11: 0}, i))))
	}
	if n, most := h.system.addressesRead.Load()-before, 1+int32(time.Since(begin)/ownPeriod)+1; n > most {
		t.Errorf("asked the kernel %d times, want %d at most", n, most)
	}
}

// A node that refuses the headers is named in the log, once.
func TestTunnelHeadersRefused(t *testing.T) {
	h := newHarness(t, tunnelConfig)
	h.start()
	m, _ := h.exceeded("2001:db8:a::1")
	m.Body[0], m.Body[1] = byte(icmpv6.ParameterProblem), 2
	for range 3 {
		h.system.errors <- m
	}
	eventually(t, "all are counted", func() bool { return h.status().TunnelErrors["tunnel_own"] == 3 })
	if n := strings.Count(h.log.String(), "refused packets of a tunnel"); n != 1 || !strings.Contains(h.log.String(), "2001:db8:12::2") {
		t.Errorf("%d lines:\n%s", n, h.log)
	}
}

func TestTunnelErrorsUnheard(t *testing.T) {
	for _, test := range []struct {
		name, config string
		warned       bool
	}{{"tunnels", tunnelConfig, true}, {"no tunnel", baseConfig, false}} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, test.config)
			h.system.deaf = errors.New("operation not permitted")
			h.start()
			eventually(t, "the agent knows", func() bool { return only[*tunnelErrors](h).fault.Load() != nil })
			if h.warned(health.TunnelErrorsUnheard) != test.warned {
				t.Errorf("warned %v, want %v", !test.warned, test.warned)
			}
			for _, w := range h.agent.warnings() { // a firewall has the same effect, which the agent cannot see
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
	}{{"tunnels", tunnelConfig, true}, {"no tunnel", baseConfig, false}} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, test.config)
			h.start()
			eventually(t, "the sockets are open", func() bool { h.system.dropped.Store(7); return h.status().TunnelErrors["lost"] == 7 })
			eventually(t, "both are in the metrics", func() bool {
				b, err := h.client.Metrics(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return strings.Contains(string(b), `waymark_tunnel_errors_total{result="lost"} 7`) &&
					strings.Contains(string(b), `waymark_packet_too_big_total{result="lost"} 7`)
			})
			if h.warned(health.TunnelErrorsLost) != test.warned {
				t.Errorf("warned %v, want %v", !test.warned, test.warned)
			}
			only[*tunnelErrors](h).noteLost()
			only[*tunnelErrors](h).lostLate.mu.Lock() // a minute later
			only[*tunnelErrors](h).lostLate.samples = only[*tunnelErrors](h).lostLate.samples[len(only[*tunnelErrors](h).lostLate.samples)-1:]
			only[*tunnelErrors](h).lostLate.mu.Unlock()
			if h.warned(health.TunnelErrorsLost) {
				t.Error("warned of what is over")
			}
		})
	}
}
