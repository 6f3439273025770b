// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/test/e2e"
)

// observing would insert, fill, remove and drop, and forward in XDP.
const observing = `
name: observing
permanent-neighbours: true
nodes:
  - {name: left, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: router
    agent:
      node: {id: 2, mode: full}
      interfaces:
        - {name: eth0, id: 201, role: [ingress], boundary: drop, forwarding: fast}
        - {name: eth1, id: 202, role: [egress], boundary: {default: drop, namespaces: {123: strip}}}
      namespaces: [{id: 123, remove: true}, {id: 7}]
      encapsulations:
        - {name: all, interface: eth1, match: {destination: "2001:db8:2::/64"}, frequency: 1/1, mode: inline, options: [{trace: {namespace: 7, type: 0x800000, size: 12}}]}
  - {name: right, routes: [{to: "::/0", via: 2001:db8:2::1}]}
links:
  - ends:
      - {node: left, interface: eth0, addresses: 2001:db8:1::2/64}
      - {node: router, interface: eth0, addresses: 2001:db8:1::1/64}
  - mtu: 1700
    ends:
      - {node: router, interface: eth1, addresses: 2001:db8:2::1/64}
      - {node: right, interface: eth0, addresses: 2001:db8:2::2/64}
`

// A node that did all it can to packets changes none from the reload with mode: observe on:
// each arrives, byte for byte, one hop later. It counts them.
func TestObserveChangesNoPacket(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "observing", observing)
	packets := append(packetsTo(t), withHeader(t, len(filtered)+1, 17, "-"))
	unchanged := func(got map[int][]byte) (n int) {
		for i, sent := range packets {
			want := bytes.Clone(sent)
			want[7]-- // the router's hop
			if bytes.Equal(got[i+1], want) {
				n++
			}
		}
		return n
	}
	if n := unchanged(e2e.Exchange(t, l, packets)); n > len(packets)/2 {
		t.Errorf("mode full left %d of %d packets as they were", n, len(packets))
	}
	e2e.Rewrite(t, l, "router", func(file string) string { return strings.Replace(file, "mode: full", "mode: observe", 1) })
	instance, err := l.Node("router").Instance()
	if err != nil {
		t.Fatal(err)
	}
	client := api.NewClient(instance.Socket())
	if _, err := client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := e2e.StatusInterface(t, l, "router", "eth0")
	if got := e2e.Exchange(t, l, packets); unchanged(got) != len(packets) {
		for i, sent := range packets {
			t.Errorf("sent\n%sgot\n%s", hex.Dump(sent), hex.Dump(got[i+1]))
		}
	}
	after := e2e.StatusInterface(t, l, "router", "eth0")
	counted := uint64(0)
	for outcome, n := range after.Ingress {
		counted += n - before.Ingress[outcome]
	}
	if counted < uint64(len(packets)) || after.IngressHook == "xdp" {
		t.Errorf("the %s hook counted %d of %d packets: %v", after.IngressHook, counted, len(packets), after.Ingress)
	}
	status, err := client.Status(t.Context())
	if err != nil || status.Node.Mode != "observe" || len(status.Namespaces) != 2 || status.Records.Advice == "" {
		t.Errorf("%+v, %v", status.Node, err)
	}
}
