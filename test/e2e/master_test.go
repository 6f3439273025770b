// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/lab"
)

// arrangement is what moves along with an interface that gets a master.
type arrangement struct {
	master  netlink.Link
	members []string
	on      string // the interface that gets the addresses; "" is each member
	table   int
	address map[string]string   // by member
	routes  map[string][]string // next hop → prefixes
}

// arrange gives interfaces of a node a master, and it what they had.
func arrange(a arrangement) error {
	if err := netlink.LinkAdd(a.master); err != nil {
		return fmt.Errorf("add %s: %w", a.master.Attrs().Name, err)
	}
	if err := netlink.LinkSetUp(a.master); err != nil {
		return err
	}
	for _, name := range a.members {
		member, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		address, err := netlink.ParseAddr(a.address[name])
		if err != nil {
			return err
		}
		if err := netlink.AddrDel(member, address); err != nil {
			return fmt.Errorf("take the address off %s: %w", name, err)
		}
		if err := netlink.LinkSetMaster(member, a.master); err != nil {
			return fmt.Errorf("give %s a master: %w", name, err)
		}
		at := member
		if a.on != "" {
			at = a.master
		}
		address.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(at, address); err != nil {
			return fmt.Errorf("give %s an address: %w", at.Attrs().Name, err)
		}
	}
	for via, prefixes := range a.routes {
		for _, prefix := range prefixes {
			p := netip.MustParsePrefix(prefix)
			to := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 128)}
			if err := netlink.RouteReplace(&netlink.Route{Dst: to, Gw: net.ParseIP(via), Table: a.table}); err != nil {
				return fmt.Errorf("add the route to %s: %w", prefix, err)
			}
		}
	}
	return nil
}

// bridge is one for a port, with the port's own link-layer address, to which
// neighbours send.
func bridge(name, port string) (netlink.Link, error) {
	device, err := netlink.LinkByName(port)
	if err != nil {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = name, device.Attrs().HardwareAddr, device.Attrs().MTU
	return &netlink.Bridge{LinkAttrs: attrs}, nil
}

// awaitWay sends packets until traces show a way, as the agents learn of what
// has changed; then all of them must.
func awaitWay(t *testing.T, l *lab.Lab, traces *journal, want string) {
	t.Helper()
	one := lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: 1, Size: 100, Port: 9000}
	var got []export.TraceRecord
	await(t, "a trace of the way "+want, 10*time.Second, func() bool {
		if r, err := l.Send(t.Context(), one); err != nil || r.Lost() > 0 {
			return false // neighbours have to be found again
		}
		got = traces.read(t, 1)
		return len(got) == 1 && way(got[0]) == want
	})
	const count = 20
	send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: 9000})
	for i, r := range traces.read(t, count) {
		if got := way(r); got != want || !r.Nodes[1].TransitDelay.Valid {
			t.Fatalf("trace %d: %s, delay of the second node %+v; want %s and a delay", i, got, r.Nodes[1].TransitDelay, want)
		}
	}
}

// Packets that arrive on a port of a bridge seem to arrive on the bridge:
// traces are completed as ever, and nothing is said that is not certain.
func TestArrivalByBridge(t *testing.T) {
	t.Parallel()
	for _, tt := range transfers() {
		if tt.mode != "encap" {
			continue
		}
		t.Run(string(tt.attach), func(t *testing.T) {
			l := raise(t, domain(t, tt))
			traces := keep(t, l, "aramis")
			const rest = ", 2 201>202 hop limit 62, 3 301>- hop limit 61"
			awaitWay(t, l, traces, "1 101>102 hop limit 63"+rest)

			inBridge := func(node, address string, routes map[string][]string) {
				t.Helper()
				err := l.Node(node).Do(func() error {
					br, err := bridge("br0", "eth0")
					if err != nil {
						return err
					}
					return arrange(arrangement{master: br, members: []string{"eth0"}, on: "br0", address: map[string]string{"eth0": address}, routes: routes})
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			inBridge("porthos", "2001:db8:12::2/64", map[string][]string{"2001:db8:12::1": {"2001:db8:1::/64", "2001:db8:ff::1/128"}})
			awaitWay(t, l, traces, "1 101>102 hop limit 63"+rest)
			inBridge("athos", "2001:db8:1::1/64", nil)
			awaitWay(t, l, traces, "1 101>102 hop limit 63"+rest)

			// a port that is not served: it may have been that one
			err := l.Node("athos").Do(func() error {
				attrs := netlink.NewLinkAttrs()
				attrs.Name = "port1"
				if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer1"}); err != nil {
					return err
				}
				port, err := netlink.LinkByName("port1")
				if err != nil {
					return err
				}
				br, err := netlink.LinkByName("br0")
				if err != nil {
					return err
				}
				return netlink.LinkSetMaster(port, br)
			})
			if err != nil {
				t.Fatal(err)
			}
			awaitWay(t, l, traces, "1 ->102 hop limit 63"+rest)
		})
	}
}

// The same for a VRF, which takes the place of both its members.
func TestArrivalByVRF(t *testing.T) {
	t.Parallel()
	for _, tt := range transfers() {
		if tt.mode != "encap" {
			continue
		}
		t.Run(string(tt.attach), func(t *testing.T) {
			const table = 100
			l := raise(t, domain(t, tt))
			traces := keep(t, l, "aramis")
			attrs := netlink.NewLinkAttrs()
			attrs.Name = "domain"
			err := l.Node("porthos").Do(func() error {
				return arrange(arrangement{
					master: &netlink.Vrf{LinkAttrs: attrs, Table: table}, members: []string{"eth0", "eth1"}, table: table,
					address: map[string]string{"eth0": "2001:db8:12::2/64", "eth1": "2001:db8:23::1/64"},
					routes: map[string][]string{
						"2001:db8:12::1": {"2001:db8:1::/64", "2001:db8:ff::1/128"},
						"2001:db8:23::2": {"2001:db8:2::/64", "2001:db8:ff::3/128"},
					},
				})
			})
			if errors.Is(err, unix.EOPNOTSUPP) {
				t.Skip("this kernel has no VRF")
			}
			if err != nil {
				t.Fatal(err)
			}
			awaitWay(t, l, traces, "1 101>102 hop limit 63, 2 201>202 hop limit 62, 3 301>- hop limit 61")
		})
	}
}
