// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/test/e2e"
)

// The narrow path: host – router – far, whose second link has a smaller MTU. In
// some tests the host itself is a router, for the node "behind".
const (
	narrowMTU       = 1400
	narrowInsertion = 80
	narrowTopology  = `
name: narrow
nodes:
  - name: host
    forwarding: false
    routes: [{to: "::/0", via: 2001:db8:71::2}]
    agent:
      node: {id: 1}
      interfaces:
        - {name: eth0, id: 101, attach: ATTACH, role: [ingress, egress]}
      namespaces:
        - {id: 123}
      encapsulations:
        - name: own
          interface: eth0
          match: {destination: "2001:db8:f::/48"}
          MODE
          options:
            - trace: {namespace: 123, type: 0xf80000, size: 60}
  - name: behind
    routes: [{to: "::/0", via: 2001:db8:70::2}]
  - name: router
    routes: [{to: "2001:db8:f::/48", via: 2001:db8:72::2}, {to: "2001:db8:70::/64", via: 2001:db8:71::1}]
  - name: far
    forwarding: false
    routes: [{to: "::/0", via: 2001:db8:72::1}]
links:
  - mtu: 1500
    ends:
      - {node: host, interface: eth0, addresses: "2001:db8:71::1/64"}
      - {node: router, interface: eth0, addresses: "2001:db8:71::2/64"}
  - mtu: 1500
    ends:
      - {node: behind, interface: eth0, addresses: "2001:db8:70::1/64"}
      - {node: host, interface: eth1, addresses: "2001:db8:70::2/64"}
  - mtu: 1400
    ends:
      - {node: router, interface: eth1, addresses: "2001:db8:72::1/64"}
      - {node: far, interface: eth0, addresses: "2001:db8:72::2/64"}
`
)

// knowledge is how the host knows a path's MTU before the path is used.
type knowledge struct {
	name    string
	prepare func(t *testing.T, n *narrowPath, to netip.Addr)
	exact   bool // the host finds out without losing a packet
}

func knowledges() []knowledge {
	route := func(mtu ...string) func(t *testing.T, n *narrowPath, to netip.Addr) {
		return func(t *testing.T, n *narrowPath, to netip.Addr) {
			args := append([]string{"ip", "-6", "route", "replace", to.String(), "via", "2001:db8:71::2"}, mtu...)
			e2e.Must(t, n.Node("host"), args...)
		}
	}
	return []knowledge{
		{"nothing", func(*testing.T, *narrowPath, netip.Addr) {}, false},
		{"learned", func(t *testing.T, n *narrowPath, to netip.Addr) { n.echo(t, to, 1500, 1) }, true},
		{"route", route("mtu", "1400"), true},
		{"locked route", route("mtu", "lock", "1400"), true},
		{"interface", func(t *testing.T, n *narrowPath, to netip.Addr) {
			n.set(t, "net/ipv6/conf/eth0/mtu", "1400")
		}, true},
	}
}

// A host that inserts into its own packets reaches a destination beyond a link
// with a smaller MTU as well as without inserting: packets that have no room for
// the header go without it, whether the host forwards or not, and however it
// learned the path's MTU.
func TestNarrowPath(t *testing.T) {
	t.Parallel()
	type variant struct {
		mode   string
		attach config.Attach
	}
	variants, offloads := []variant{{"inline", "xdp"}, {"inline", e2e.TCModes()[0]}, {"auto", e2e.TCModes()[0]}}, []string{"on", "off"}
	if testing.Short() {
		variants, offloads = variants[1:2], offloads[:1]
	}
	for _, tt := range variants {
		t.Run(fmt.Sprintf("%s/%s", tt.mode, tt.attach), func(t *testing.T) {
			t.Parallel()
			n := raiseNarrow(t, tt.mode, tt.attach)
			for _, forwarding := range []string{"0", "1"} {
				n.set(t, "net/ipv6/conf/all/forwarding", forwarding)
				for _, offload := range offloads {
					e2e.Must(t, n.Node("host"), "ethtool", "-K", "eth0", "tso", offload, "gso", offload, "tx-udp-segmentation", offload)
					for _, k := range knowledges() {
						t.Run(fmt.Sprintf("forwarding=%s/gso=%s/%s", forwarding, offload, k.name), func(t *testing.T) {
							checkNarrow(t, n, k)
						})
					}
				}
			}
		})
	}
}

func checkNarrow(t *testing.T, n *narrowPath, k knowledge) {
	n.set(t, "net/ipv6/conf/eth0/mtu", "1500")
	to := n.destination()
	k.prepare(t, n, to)
	if !k.exact && n.echo(t, to, narrowMTU, 1) > 0 {
		t.Fatal("a ping that fills the path arrived with a header; the host was to learn the MTU from its loss")
	}
	for _, length := range []int{100, 1280 - narrowInsertion, narrowMTU - narrowInsertion, narrowMTU - narrowInsertion + 1, 1380, narrowMTU} {
		inserted, skipped := e2e.Settled(t, n.Lab, "host", "encap_inserted"), e2e.Counter(t, n.Lab, "host", "encap_skipped_mtu")
		if got := n.echo(t, to, length, 3); got != 3 {
			t.Errorf("%d of 3 pings of %d bytes were answered", got, length)
		}
		if length+narrowInsertion <= narrowMTU {
			inserted += 3
		} else {
			skipped += 3
		}
		e2e.CheckCounters(t, n.Lab, "host", map[string]uint64{"encap_inserted": inserted, "encap_skipped_mtu": skipped})
	}
	for _, length := range []int{narrowMTU + 1, 1500, 4000} { // in fragments
		if got := n.echo(t, to, length, 3); got != 3 {
			t.Errorf("%d of 3 pings of %d bytes were answered", got, length)
		}
	}
	for name, discover := range map[string]int{
		"want": unix.IPV6_PMTUDISC_WANT, "do": unix.IPV6_PMTUDISC_DO, "probe": unix.IPV6_PMTUDISC_PROBE,
		"interface": unix.IPV6_PMTUDISC_INTERFACE, "omit": unix.IPV6_PMTUDISC_OMIT,
	} {
		for _, length := range []int{1300, 1340, narrowMTU} {
			if got := n.datagrams(t, to, length, 3, discover, 1); got != 3 {
				t.Errorf("%d of 3 datagrams of %d bytes arrived, discovery %s", got, length, name)
			}
		}
	}
	for _, length := range []int{600, 1340} {
		if got := n.datagrams(t, to, length, 2, unix.IPV6_PMTUDISC_WANT, 20); got != 40 {
			t.Errorf("%d of 40 segments of %d bytes arrived", got, length)
		}
	}
	for _, mss := range []int{0, 1220, 1300, 1320, 1340} {
		to := n.destination()
		k.prepare(t, n, to)
		if err := n.transfer(t, to, mss); err != nil {
			t.Errorf("TCP with an MSS of %d: %v", mss, err)
		}
	}
}

// Known path MTUs stay in the programs' maps when an agent ends or its
// configuration changes.
func TestNarrowPathWithoutAgent(t *testing.T) {
	t.Parallel()
	n := raiseNarrow(t, "inline", e2e.TCModes()[0])
	known := n.destination()
	if n.echo(t, known, narrowMTU, 1) > 0 {
		t.Fatal("a ping that fills the path arrived with a header; the host was to learn the MTU from its loss")
	}
	e2e.MustIn(t, n.Lab, "host", "agent", "reload")
	e2e.Must(t, n.Node("host"), "ip", "-6", "route", "flush", "cache") // forget what the kernel has learned
	if got := n.echo(t, known, narrowMTU, 3); got != 3 {
		t.Errorf("after a reload, %d of 3 pings were answered", got)
	}
	e2e.MustIn(t, n.Lab, "host", "agent", "stop")
	e2e.Must(t, n.Node("host"), "ip", "-6", "route", "flush", "cache")
	if got := n.echo(t, known, narrowMTU, 3); got != 3 {
		t.Errorf("without an agent, %d of 3 pings were answered", got)
	}
	if err := n.transfer(t, n.destination(), 1340); err != nil {
		t.Errorf("TCP on a path with unknown MTU, without an agent: %v", err)
	}
}

// Where no Packet Too Big message comes back, TCP still gets through: its
// retransmissions go without a header.
func TestNarrowPathInSilence(t *testing.T) {
	t.Parallel()
	n := raiseNarrow(t, "inline", e2e.TCModes()[0])
	// the router's own ICMPv6 messages find no route
	e2e.Must(t, n.Node("router"), "ip", "-6", "route", "add", "blackhole", "2001:db8:71::1/128", "table", "99")
	e2e.Must(t, n.Node("router"), "ip", "-6", "rule", "add", "iif", "lo", "ipproto", "58", "lookup", "99")
	to := n.destination()
	if n.echo(t, to, narrowMTU, 2) > 0 || n.echo(t, to, narrowMTU, 1) > 0 {
		t.Fatal("the host has learned the path's MTU")
	}
	if err := n.upload(t, upload{from: "host", to: to, mss: 1340, bytes: 1328, limit: 20 * time.Second, times: 5}); err != nil {
		t.Error(err)
	}
}

// A router that inserts into forwarded packets learns from the messages that it
// forwards to their sources.
func TestNarrowPathOfOthers(t *testing.T) {
	t.Parallel()
	for _, attach := range []config.Attach{"xdp", e2e.TCModes()[0]} {
		t.Run(string(attach), func(t *testing.T) {
			n := raiseNarrow(t, "inline", attach)
			n.set(t, "net/ipv6/conf/all/forwarding", "1")
			for _, mss := range []int{1300, 1340} {
				to := n.destination()
				// a large transfer, which the kernel segments, then full segments
				// sent one by one
				for _, s := range []upload{{bytes: 4 << 20}, {bytes: mss - 12, times: 5}} {
					s.from, s.to, s.mss, s.limit = "behind", to, mss, 5*time.Second
					if err := n.upload(t, s); err != nil {
						t.Errorf("TCP with an MSS of %d, %d bytes at once: %v", mss, s.bytes, err)
					}
				}
			}
			if e2e.Counter(t, n.Lab, "host", "encap_inserted") == 0 || e2e.Counter(t, n.Lab, "host", "encap_skipped_mtu") == 0 {
				t.Error("no forwarded packet grew, or none was too large")
			}
		})
	}
}
