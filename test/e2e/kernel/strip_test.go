// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/e2e"
)

// edged is two hosts. athos puts a trace into the packets of sockets that have options of their
// own; porthos is the edge that strips it again, on arrival or where packets leave.
const edged = `
name: edged
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: athos
    routes: [{to: "::/0", via: 2001:db8:12::2}]
    agent:
      node: {id: 7}
      interfaces: [{name: eth0}, {name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 123}]
      encapsulations:
        - {name: merged, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9000}, mode: inline, options: [{trace: {namespace: 123, type: 0x800000, size: 12}}, {dex: {namespace: 123, trace-type: 0x800000}}]}
  - name: porthos
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}]
    agent:
      node: {id: 8}
      interfaces: [{name: eth0, %[1]s, attach: %[3]s}, {name: eth1, %[2]s, attach: %[3]s}]
      namespaces: [{id: 123}]
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:4::1}]}
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}]
  - {mtu: 2000, ends: [{node: athos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}]}
  - {mtu: 2000, ends: [{node: porthos, interface: eth1, addresses: 2001:db8:4::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:4::2/64}]}
`

// The receiver's kernel gets a socket's Hop-by-Hop header as it was sent, after an edge has
// stripped IOAM from it; nothing is lost.
func TestKernelAcceptsStrippedHeaders(t *testing.T) {
	t.Parallel()
	const inside, outside = "role: [ingress, egress]", "role: [], boundary: strip"
	tc := string(e2e.TCModes()[0])
	for _, tt := range []struct{ name, in, out, attach, at string }{
		{"on arrival, XDP", outside, inside, "xdp", "eth0"},
		{"on arrival, tc", outside, inside, tc, "eth0"},
		{"where it leaves", inside, outside, tc, "eth1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := e2e.RaiseText(t, "edged", fmt.Sprintf(edged, tt.in, tt.out, tt.attach))
			for _, header := range sendDatagrams(t, l, 9000, unix.IPV6_HOPOPTS, own) {
				if !bytes.Equal(header[1:], own[1:]) {
					t.Errorf("arrived with %x, sent with %x", header, own)
				}
			}
			sendStream(t, l, 9000, own)
			inserted := e2e.Settled(t, l, "athos", "encap_inserted")
			e2e.Settled(t, l, "porthos", "boundary_stripped")
			edge := e2e.StatusInterface(t, l, "porthos", tt.at)
			counts := map[bool]map[string]uint64{true: edge.Ingress, false: edge.Egress}[tt.at == "eth0"]
			if counts["boundary_stripped"] < 6 || counts["boundary_strip_partial"] != 0 || inserted < 6 {
				t.Errorf("athos inserted into %d packets, and the edge counts %v", inserted, counts)
			}
			if n := headerErrors(t, l.Node("beta")); n != "0" {
				t.Errorf("beta refused %s headers", n)
			}
		})
	}
}
