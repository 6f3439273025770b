// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"fmt"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// edges has an encapsulating node and a node with one edge of each policy, where
// packets leave the domain towards a host.
const edges = `
name: edges
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: athos
    routes: [{to: "::/0", via: 2001:db8:12::2}]
    agent:
      node: {id: 1}
      interfaces: [{name: eth1, id: 102, role: [ingress, egress], attach: %[1]s}]
      namespaces: [{id: 123}]
      encapsulations:
        - name: traced
          interface: eth1
          match: {destination-port: 9000-9001}
          mode: inline
          options: [{trace: {namespace: 123, type: 0xf00000, size: 32}}]
  - name: porthos
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}]
    agent:
      node: {id: 2}
      interfaces:
        - {name: eth0, id: 201, role: [ingress, egress], attach: %[1]s}
        - {name: eth1, id: 202, role: [ingress], boundary: drop, attach: %[1]s}
        - {name: eth2, id: 203, role: [ingress], boundary: strip, attach: %[1]s}
        - {name: eth3, id: 204, role: [ingress], boundary: ignore, attach: %[1]s}
      namespaces: [{id: 123}]
  - {name: drop, routes: [{to: "::/0", via: 2001:db8:a::1}]}
  - {name: strip, routes: [{to: "::/0", via: 2001:db8:b::1}]}
  - {name: ignore, routes: [{to: "::/0", via: 2001:db8:c::1}]}
links:
  - ends:
      - {node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}
      - {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}
  - mtu: 1700
    ends:
      - {node: athos, interface: eth1, addresses: 2001:db8:12::1/64}
      - {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}
  - mtu: 1700
    ends:
      - {node: porthos, interface: eth1, addresses: 2001:db8:a::1/64}
      - {node: drop, interface: eth0, addresses: 2001:db8:a::2/64}
  - mtu: 1700
    ends:
      - {node: porthos, interface: eth2, addresses: 2001:db8:b::1/64}
      - {node: strip, interface: eth0, addresses: 2001:db8:b::2/64}
  - mtu: 1700
    ends:
      - {node: porthos, interface: eth3, addresses: 2001:db8:c::1/64}
      - {node: ignore, interface: eth0, addresses: 2001:db8:c::2/64}
`

// Where packets leave the domain through an interface without the role egress,
// each policy treats packets with IOAM as documented, and others not at all.
func TestLeavingEdge(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "edges", fmt.Sprintf(edges, e2e.TCModes()[0]))
	const count = 20
	for _, tt := range []struct {
		policy, outcome, name string
		arrives, marked       bool
	}{
		{policy: "drop", outcome: "boundary_dropped", name: "eth1"},
		{policy: "strip", outcome: "boundary_stripped", name: "eth2", arrives: true},
		{policy: "ignore", outcome: "boundary_ignored", name: "eth3", arrives: true, marked: true},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			added := e2e.Settled(t, l, "athos", "encap_inserted")
			host := e2e.StartScan(t, l, tt.policy, "eth0")
			udp := func(size int, port uint16) lab.TrafficResult {
				r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: tt.policy, Count: count, Size: size, Port: port})
				if err != nil || r.Sent != count || r.Duplicate > 0 {
					t.Errorf("datagrams to port %d: %+v, %v", port, r, err)
				}
				return r
			}
			plain := udp(1452, 9002).Lost() + udp(100, 9002).Lost()
			lost := udp(1452, 9000).Lost() + udp(100, 9000).Lost()
			ping, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindPing, From: "alpha", To: tt.policy, Count: count, Size: 56})
			if plain > 0 || err != nil || ping.Lost() > 0 {
				t.Errorf("without IOAM, %d datagrams were lost; pings: %+v, %v", plain, ping, err)
			}
			if want := map[bool]int{false: 2 * count}[tt.arrives]; lost != want {
				t.Errorf("with IOAM, %d datagrams were lost, want %d", lost, want)
			}
			if tt.arrives {
				if _, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: tt.policy, Bytes: 4 << 20, Port: 9001}); err != nil {
					t.Errorf("a transfer with IOAM: %v", err)
				}
			}
			added = e2e.Settled(t, l, "athos", "encap_inserted") - added
			e2e.Settled(t, l, "porthos", tt.outcome)
			if stats := host.Stop(t); stats.Dropped > 0 {
				t.Errorf("the capture at the host missed %d packets", stats.Dropped)
			}
			egress := e2e.StatusInterface(t, l, "porthos", tt.name).Egress
			if added < 2*count || egress[tt.outcome] != added {
				t.Errorf("athos inserted %d headers; %s of porthos counts %v, want %s for each", added, tt.name, egress, tt.outcome)
			}
			if want := map[bool]uint64{true: added}[tt.marked]; uint64(host.Marked.Load()) != want {
				t.Errorf("%d of %d packets at the host carried IOAM, want %d", host.Marked.Load(), host.Packets.Load(), want)
			}
		})
	}
}
