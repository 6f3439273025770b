// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// outsider is a host at the edge of a domain of two nodes. aramis learns
// neighbours, and trusts router advertisements and redirects.
const outsider = `
name: outsider
nodes:
  - {name: outside, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: athos
    addresses: 2001:db8:ff::1/128
    routes: [{to: 2001:db8:2::/64, via: 2001:db8:12::2}, {to: 2001:db8:ff::3/128, via: 2001:db8:12::2}]
    agent:
      node: {id: 1}
      interfaces:
        - {name: eth0, id: 101, role: [], boundary: %[1]s, attach: %[3]s}
        - {name: eth1, id: 102, role: [ingress, egress]}
      namespaces: [{id: 123}]
      encapsulations:
        - name: to-beta
          interface: eth1
          match: {destination: 2001:db8:2::/64, next-header: 6}
          mode: encap
          tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}
          options: [{trace: {namespace: 123, type: 0xf80000, size: 40}}]
  - name: aramis
    addresses: 2001:db8:ff::3/128
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}, {to: 2001:db8:ff::1/128, via: 2001:db8:12::1}]
    agent:
      node: {id: 3}
      interfaces:
        - {name: eth0, id: 301, role: [ingress, egress], attach: %[3]s}
        - {name: eth1, id: 302, role: [], boundary: drop}
      namespaces: [{id: 123}]
      decapsulations: [%[2]s]
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:2::1}]}
links:
  - ends:
      - {node: outside, interface: eth0, addresses: 2001:db8:1::2/64}
      - {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}
  - mtu: 1700
    ends:
      - {node: athos, interface: eth1, addresses: 2001:db8:12::1/64}
      - {node: aramis, interface: eth0, addresses: 2001:db8:12::2/64}
  - ends:
      - {node: aramis, interface: eth1, addresses: 2001:db8:2::1/64}
      - {node: beta, interface: eth0, addresses: 2001:db8:2::2/64}
`

var (
	tunnelEnd  = netip.MustParseAddr("2001:db8:ff::3")
	athosInner = netip.MustParseAddr("2001:db8:12::1") // which aramis knows
	falseRoute = net.HardwareAddr{0x02, 0xba, 0xdb, 0xad, 0xba, 0xd0}
)

// An outsider's tunnels to a decapsulating node neither replace its neighbours
// nor give it routers. The edge alone refuses them, and so does the node alone.
func TestTunnelsOfAnOutsider(t *testing.T) {
	t.Parallel()
	for _, attach := range []string{"xdp", string(e2e.TCModes()[0])} {
		for _, tt := range []struct {
			name, boundary, decapsulation string
			bare, traced, harmless        string // outcomes at the node that refuses
		}{
			{"as documented", "drop", "{tunnel-destination: 2001:db8:ff::3}",
				"boundary_tunnel_dropped", "boundary_tunnel_dropped", "boundary_tunnel_dropped"},
			{"the edge alone", "drop", "{tunnel-destination: 2001:db8:ff::3, bare: true}",
				"boundary_tunnel_dropped", "boundary_tunnel_dropped", "boundary_tunnel_dropped"},
			{"the node alone", "ignore", "{tunnel-destination: 2001:db8:ff::3}",
				"decap_refused_bare", "decap_refused_inner", "decap_refused_bare"},
			{"the node alone, sources", "ignore", `{tunnel-destination: 2001:db8:ff::3, sources: ["2001:db8:ff::/64"]}`,
				"decap_refused_source", "decap_refused_source", "decap_refused_source"},
			{"the node alone, bare tunnels", "ignore", "{tunnel-destination: 2001:db8:ff::3, bare: true}",
				"decap_refused_inner", "decap_refused_inner", "tunnel_decapsulated"},
		} {
			t.Run(attach+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				l := e2e.RaiseText(t, "outsider", fmt.Sprintf(outsider, tt.boundary, tt.decapsulation, attach))
				e2e.Must(t, l.Node("aramis"), "sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=2")
				pingTunnelEnd(t, l)
				before := surroundings(t, l)

				attackers := [][]byte{neighbourAdvertisement(t), routerAdvertisement(t), redirect(t)}
				var bare, traced [][]byte
				for _, inner := range attackers {
					bare = append(bare, tunnelFrom(e2e.LeftAddress, nil, inner))
					traced = append(traced, tunnelFrom(e2e.LeftAddress, traceHeader(), inner))
				}
				outcomes := map[string]uint64{}
				for _, sent := range []struct {
					packets [][]byte
					outcome string
				}{
					{bare, tt.bare},
					{traced, tt.traced},
					{[][]byte{tunnelFrom(e2e.LeftAddress, nil, linkDatagram(t))}, tt.harmless},
				} {
					sendToTunnelEnd(t, l, sent.packets)
					outcomes[sent.outcome] += uint64(len(sent.packets))
				}
				decides := "aramis"
				if tt.boundary == "drop" {
					decides = "athos"
				}
				for _, outcome := range []string{"boundary_tunnel_dropped", "boundary_dropped", "decap_refused_bare",
					"decap_refused_source", "decap_refused_inner", "tunnel_decapsulated"} {
					checkReached(t, l, decides, outcome, outcomes[outcome])
				}
				time.Sleep(patience.Of(100 * time.Millisecond)) // time for a vulnerable stack to act
				if after := surroundings(t, l); after != before {
					t.Errorf("aramis had\n%sand has\n%s", before, after)
				}
				pingTunnelEnd(t, l)
				e2e.Send(t, l, "outside", lab.Traffic{Kind: lab.KindTCP, Bytes: 1 << 16, Port: 9001})
				if n := e2e.Counter(t, l, "aramis", "tunnel_decapsulated"); n <= outcomes["tunnel_decapsulated"] {
					t.Errorf("%d packets of the transfer came out of the tunnel", n)
				}
			})
		}
	}
}

// checkReached waits until a node has counted an outcome this many times.
func checkReached(t *testing.T, l *lab.Lab, node, outcome string, want uint64) {
	t.Helper()
	var got uint64
	for deadline := time.Now().Add(patience.Of(2 * time.Second)); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got = e2e.Counter(t, l, node, outcome); got == want {
			return
		}
	}
	t.Errorf("%s: %s %d, want %d", node, outcome, got, want)
}

// pingTunnelEnd checks that the tunnel's destination answers outsiders like any
// other host, and makes athos a neighbour of aramis.
func pingTunnelEnd(t *testing.T, l *lab.Lab) {
	t.Helper()
	e2e.Must(t, l.Node("outside"), "ping", "-6", "-c", "1", "-W", "5", tunnelEnd.String())
}

// surroundings is what aramis has learned: its neighbour entry for athos, default
// routes, addresses, and the link's MTU.
func surroundings(t *testing.T, l *lab.Lab) string {
	t.Helper()
	var b strings.Builder
	err := l.Node("aramis").Do(func() error {
		device, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		neighbours, err := netlink.NeighList(device.Attrs().Index, unix.AF_INET6)
		if err != nil {
			return err
		}
		for _, n := range neighbours {
			if n.IP.Equal(athosInner.AsSlice()) {
				fmt.Fprintf(&b, "neighbour %v at %v\n", n.IP, n.HardwareAddr)
			}
		}
		routes, err := netlink.RouteList(device, unix.AF_INET6)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r.Protocol == unix.RTPROT_RA || r.Dst == nil || r.Dst.IP.IsUnspecified() {
				fmt.Fprintf(&b, "route to %v by %v, protocol %d\n", r.Dst, r.Gw, r.Protocol)
			}
		}
		addresses, err := netlink.AddrList(device, unix.AF_INET6)
		for _, a := range addresses {
			fmt.Fprintf(&b, "address %v\n", a.IPNet)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + "mtu " + e2e.Must(t, l.Node("aramis"), "sysctl", "-n", "net.ipv6.conf.eth0.mtu")
}

// sendToTunnelEnd sends packets from outside through athos.
func sendToTunnelEnd(t *testing.T, l *lab.Lab, packets [][]byte) {
	t.Helper()
	var router net.HardwareAddr
	err := l.Node("athos").Do(func() error {
		device, err := netlink.LinkByName("eth0")
		if err == nil {
			router = device.Attrs().HardwareAddr
		}
		return err
	})
	if err == nil {
		err = l.Node("outside").Do(func() error { return e2e.Inject("eth0", router, packets) })
	}
	if err != nil {
		t.Fatal(err)
	}
}
