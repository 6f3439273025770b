// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// oneEnd is a line of nodes: athos inserts a trace inline, porthos puts a tunnel around it, aramis another one,
// and all end at dartagnan.
const oneEnd = `
name: oneend
permanent-neighbours: true
nodes:
  - name: alpha
    routes: [{to: "::/0", via: 2001:db8:1::1}]
  - name: athos
    addresses: 2001:db8:ff::1/128
    routes: [{to: "::/0", via: 2001:db8:12::2}]
    agent:
      node: {id: 1}
      interfaces: [{name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 1}]
      encapsulations:
        - {name: inline, interface: eth1, match: {destination: 2001:db8:5::/64}, mode: inline, options: [{trace: {namespace: 1, type: 0xc00000, size: 32}}]}
  - name: porthos
    addresses: 2001:db8:ff::2/128
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}, {to: "::/0", via: 2001:db8:23::2}]
    agent:
      node: {id: 2}
      interfaces: [{name: eth0, role: [ingress, egress]}, {name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 1}, {id: 2}]
      encapsulations:
        - {name: tunnel, interface: eth1, match: {destination: 2001:db8:5::/64}, mode: encap, nested: true, tunnel: {source: 2001:db8:ff::2, destination: 2001:db8:ff::4}, options: [{trace: {namespace: 2, type: 0xc00000, size: 32}}]}
  - name: aramis
    addresses: 2001:db8:ff::3/128
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:23::1}, {to: "::/0", via: 2001:db8:34::2}]
    agent:
      node: {id: 3}
      interfaces: [{name: eth0, role: [ingress, egress]}, {name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 1}, {id: 2}, {id: 3}]
      encapsulations:
        - {name: around, interface: eth1, match: {destination: 2001:db8:ff::4/128}, mode: encap, nested: true, tunnel: {source: 2001:db8:ff::3, destination: 2001:db8:ff::44}, options: [{trace: {namespace: 3, type: 0xc00000, size: 32}}]}
  - name: dartagnan
    addresses: [2001:db8:ff::4/128, 2001:db8:ff::44/128]
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:34::1}]
    agent:
      node: {id: 4}
      interfaces: [{name: eth0, role: [ingress, egress], attach: %s}, {name: eth1, boundary: drop}]
      namespaces: [{id: 1, remove: true}, {id: 2, remove: true}, {id: 3, remove: true}]
      decapsulations: [{tunnel-destination: 2001:db8:ff::4}, {tunnel-destination: 2001:db8:ff::44}]
  - name: beta
    routes: [{to: "::/0", via: 2001:db8:5::1}]
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}]
  - ends: [{node: athos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}]
  - ends: [{node: porthos, interface: eth1, addresses: 2001:db8:23::1/64}, {node: aramis, interface: eth0, addresses: 2001:db8:23::2/64}]
  - ends: [{node: aramis, interface: eth1, addresses: 2001:db8:34::1/64}, {node: dartagnan, interface: eth0, addresses: 2001:db8:34::2/64}]
  - ends: [{node: dartagnan, interface: eth1, addresses: 2001:db8:5::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:5::2/64}]
`

// A trace in a tunnel in a tunnel, all of which end at one node: it removes each, and the kernel delivers the
// packets as they were sent, by either hook.
func TestAllEndAtOneNode(t *testing.T) {
	t.Parallel()
	const packets = 20
	tc := e2e.TCModes()[0]
	l := e2e.RaiseText(t, "oneend", fmt.Sprintf(oneEnd, tc))
	file := string(l.Topology().Node("dartagnan").Agent.Config)
	for round, attach := range []config.Attach{tc, "xdp"} {
		if round > 0 {
			e2e.Rewrite(t, l, "dartagnan", func(string) string {
				return strings.Replace(file, "attach: "+string(tc), "attach: "+string(attach), 1)
			})
			e2e.MustIn(t, l, "dartagnan", "agent", "reload")
		}
		if hook := e2e.StatusInterface(t, l, "dartagnan", "eth0").IngressHook; hook != string(attach) {
			t.Fatalf("dartagnan's ingress hook is %s, want %s", hook, attach)
		}
		removed, beta := e2e.Keep(t, l, "dartagnan"), e2e.StartScan(t, l, "beta", "eth0")
		r, err := l.Send(
			t.Context(),
			lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: packets, Interval: time.Millisecond, Size: 100, Port: 9000},
		)
		if err != nil || r.Received != packets {
			t.Errorf("%s: %d of %d packets arrived: %v", attach, r.Received, packets, err)
		}
		ways := make(map[string]int)
		for _, r := range removed.Read(t, 3*packets) {
			way := fmt.Sprint(r.Namespace, ":")
			for _, n := range r.Nodes {
				way += " " + e2e.Value(n.NodeID)
			}
			ways[way]++
		}
		want := map[string]int{"3: 3 4": packets, "2: 2 3 4": packets, "1: 1 2 4": packets}
		if !maps.Equal(ways, want) {
			t.Errorf("%s: removed %v, want %v", attach, ways, want)
		}
		if beta.Stop(t); beta.Packets.Load() < packets || beta.IOAMBytes.Load() > 0 {
			t.Errorf("%s: beta received %d packets with %d bytes of IOAM", attach, beta.Packets.Load(), beta.IOAMBytes.Load())
		}
		sum := uint64(packets * (round + 1))
		e2e.CheckCounters(t, l, "dartagnan", map[string]uint64{"tunnel_decapsulated": 2 * sum, "inline_removed": sum, "removal_partial": 0,
			"decap_refused_bare": 0, "boundary_dropped": 0})
	}
}
