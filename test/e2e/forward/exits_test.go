// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// exits has a router with every kind of egress interface to beta: narrow and with
// encapsulations (eth1), not served (eth2), at the domain's edge (eth3).
const exits = `
name: exits
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: router
    agent:
      node: {id: 2}
      interfaces:
        - {name: eth0, id: 201, role: [ingress, egress], forwarding: fast}
        - {name: eth1, id: 202, role: [ingress, egress]}
        - {name: eth3, id: 203, role: [], boundary: strip}
      namespaces: [{id: 123}]
      encapsulations:
        - name: small
          interface: eth1
          match: {destination: 2001:db8:2::7/128}
          mode: inline
          options: [{trace: {namespace: 123, type: 0x800000, size: 8}}]
        - name: large
          interface: eth1
          match: {destination: 2001:db8:2::8/128}
          mode: inline
          options: [{trace: {namespace: 123, type: 0x800000, size: 240}}, {trace: {namespace: 123, type: 0x800000, size: 240}}]
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:2::1}]}
links:
  - {ends: [{node: alpha, interface: eth0, addresses: "2001:db8:1::2/64"}, {node: router, interface: eth0, addresses: "2001:db8:1::1/64"}]}
  - {mtu: 1400, ends: [{node: router, interface: eth1, addresses: "2001:db8:2::1/64"}, {node: beta, interface: eth0, addresses: "2001:db8:2::2/64"}]}
  - {ends: [{node: router, interface: eth2, addresses: "2001:db8:3::1/64"}, {node: beta, interface: eth1, addresses: "2001:db8:3::2/64"}]}
  - {ends: [{node: router, interface: eth3, addresses: "2001:db8:4::1/64"}, {node: beta, interface: eth2, addresses: "2001:db8:4::2/64"}]}
`

const exitMTU = 1400

// raiseExits raises it. alpha's own stack is silent, so that only the test's
// packets arrive from there and are counted.
func raiseExits(t *testing.T) *lab.Lab {
	t.Helper()
	l := e2e.RaiseText(t, "exits", exits)
	router, beta := l.Node("router"), l.Node("beta")
	mac := linkAddress(t, beta, "eth0").String()
	for _, command := range []string{
		"sysctl -qw net.ipv6.icmp.ratelimit=0 net.ipv6.neigh.eth1.retrans_time_ms=100",
		"ip -6 neigh replace 2001:db8:2::7 lladdr " + mac + " dev eth1 nud permanent",
		"ip -6 neigh replace 2001:db8:2::8 lladdr " + mac + " dev eth1 nud permanent",
		"ip -6 neigh replace 2001:db8:1::77 lladdr " + linkAddress(t, l.Node("alpha"), "eth0").String() + " dev eth0 nud permanent",
		"ip -6 route add prohibit 2001:db8:66::/64",
		"ip -6 route add blackhole 2001:db8:67::/64",
		"ip -6 route add 2001:db8:68::/64 encap seg6 mode encap segs 2001:db8:2::2 dev eth1",
	} {
		e2e.Must(t, router, strings.Fields(command)...)
	}
	e2e.Must(t, beta, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=0")
	e2e.Must(t, beta, "ip", "-6", "addr", "add", "2001:db8:2::77/64", "dev", "eth0", "nodad")
	for _, name := range []string{"eth0", "eth1", "eth2"} {
		e2e.Must(t, beta, "ethtool", "-K", name, "gro", "on")
	}
	e2e.Must(t, l.Node("alpha"), "ethtool", "-K", "eth0", "gro", "on")
	e2e.Must(t, l.Node("alpha"), "sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
	e2e.AwaitRouting(t, l)
	return l
}

// linkLocal is the link-local address of an interface.
func linkLocal(t *testing.T, n *lab.Node, name string) (address string) {
	t.Helper()
	err := n.Do(func() error {
		device, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		all, err := device.Addrs()
		for _, a := range all {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsLinkLocalUnicast() {
				address = p.Addr().String()
			}
		}
		return err
	})
	if err != nil || address == "" {
		t.Fatalf("%s has no address for the link of %s: %v", n.Name(), name, err)
	}
	return address
}

// exitWatch holds what left the router, by node and interface, without neighbour
// discovery.
type exitWatch struct {
	mu   sync.Mutex
	came map[string][][]byte
}

func watchExits(t *testing.T, l *lab.Lab) *exitWatch {
	t.Helper()
	w := &exitWatch{came: map[string][][]byte{}}
	for _, at := range []string{"alpha eth0", "beta eth0", "beta eth1", "beta eth2"} {
		node, name, _ := strings.Cut(at, " ")
		capture, err := l.Capture(node, name, lab.CaptureOptions{Each: func(p lab.Packet) {
			if p.Outgoing || len(p.Data) < 14+40 || p.Data[0]&1 != 0 || p.Data[12] != 0x86 || p.Data[13] != 0xdd || p.Data[14+24] == 0xfe {
				return // link-local packets to beta's stack, among others
			}
			if p.Data[14+6] == 58 && len(p.Data) > 14+40 && slices.Contains([]byte{135, 137}, p.Data[14+40]) {
				return // the stack limits the rate of redirects
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.came[at] = append(w.came[at], bytes.Clone(p.Data[14:]))
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if stats, err := capture.Stop(); err != nil || stats.Dropped > 0 {
				t.Errorf("the capture at %s missed %d packets: %v", at, stats.Dropped, err)
			}
		})
	}
	return w
}

// takeFrames waits for the wanted number of packets and for the answer to the last
// packet; it returns the packets without that answer.
func (w *exitWatch) takeFrames(want map[string]int) map[string][][]byte {
	isLast := func(p []byte) bool { return bytes.Contains(p, lastWords) }
	for deadline := time.Now().Add(patience.Of(5 * time.Second)); ; time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		all := slices.ContainsFunc(w.came["alpha eth0"], isLast)
		for at, n := range want {
			came := slices.DeleteFunc(slices.Clone(w.came[at]), isLast)
			all = all && len(came) >= n
		}
		if all || time.Now().After(deadline) {
			break
		}
		w.mu.Unlock()
	}
	defer w.mu.Unlock()
	out := w.came
	out["alpha eth0"] = slices.DeleteFunc(out["alpha eth0"], isLast)
	w.came = map[string][][]byte{}
	return out
}

var lastWords = []byte("end of the packets")
