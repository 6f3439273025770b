// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
	"github.com/waymark-net/waymark/test/testnet"
)

// awaitWay sends packets until traces show a way, because agents take time to
// learn of changes; after that, all traces must show it.
func awaitWay(t *testing.T, l *lab.Lab, traces *e2e.Journal, want string) {
	t.Helper()
	one := lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: 1, Size: 100, Port: 9000}
	var got []record.Trace
	e2e.Await(t, "a trace of the way "+want, 10*time.Second, func() bool {
		if r, err := l.Send(t.Context(), one); err != nil || r.Lost() > 0 {
			return false // neighbours have to be resolved again
		}
		got = traces.Read(t, 1)
		return len(got) == 1 && e2e.Way(got[0]) == want
	})
	const count = 20
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: 9000})
	for i, r := range traces.Read(t, count) {
		if got := e2e.Way(r); got != want || !r.Nodes[1].TransitDelay.Valid {
			t.Fatalf("trace %d: %s, delay of the second node %+v; want %s and a delay", i, got, r.Nodes[1].TransitDelay, want)
		}
	}
}

// arrivalByBridge has packets arrive on a port of a bridge, so that they seem to arrive on the bridge:
// traces are still completed, and contain only what is certain.
func arrivalByBridge(t *testing.T, l *lab.Lab) {
	t.Helper()
	traces := e2e.Keep(t, l, "aramis")
	const rest = ", 2 201>202 hop limit 62, 3 301>- hop limit 61"
	awaitWay(t, l, traces, "1 101>102 hop limit 63"+rest)

	inBridge := func(node, address string, routes map[string][]string) {
		t.Helper()
		err := l.Node(node).Do(func() error {
			br, err := e2e.Bridge("br0", "eth0")
			if err != nil {
				return err
			}
			return e2e.Arrange(
				e2e.Arrangement{Master: br, Members: []string{"eth0"}, On: "br0", Address: map[string]string{"eth0": address}, Routes: routes},
			)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	inBridge("porthos", "2001:db8:12::2/64", map[string][]string{"2001:db8:12::1": {"2001:db8:1::/64", "2001:db8:ff::1/128"}})
	awaitWay(t, l, traces, "1 101>102 hop limit 63"+rest)
	inBridge("athos", "2001:db8:1::1/64", nil)
	awaitWay(t, l, traces, "1 101>102 hop limit 63"+rest)

	// a port that is not served: packets may have arrived there
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
}

// wayWithoutIDs is that of a trace whose type has no node ids.
const wayWithoutIDs = " 101>102 hop limit ,  201>202 hop limit ,  301>- hop limit "

// Where all members of a bridge are served, a trace needs no node id: egress ids and
// delay are still written.
func TestArrivalByServedMembers(t *testing.T) {
	t.Parallel()
	tt := e2e.Transfer{Mode: "encap", Attach: e2e.TCModes()[0]}
	for _, other := range e2e.Transfers() {
		if other.Mode == tt.Mode && other.Attach == tt.Attach {
			tt = other
		}
	}
	top := e2e.Domain(t, tt)
	e2e.Reconfigure(t, top, "athos", "type: 0xf80000", "type: 0x780000")
	l := e2e.Raise(t, top)
	traces := e2e.Keep(t, l, "aramis")
	err := l.Node("porthos").Do(func() error {
		br, err := e2e.Bridge("br0", "eth0")
		if err != nil {
			return err
		}
		return e2e.Arrange(e2e.Arrangement{
			Master: br, Members: []string{"eth0"}, On: "br0", Address: map[string]string{"eth0": "2001:db8:12::2/64"},
			Routes: map[string][]string{"2001:db8:12::1": {"2001:db8:1::/64", "2001:db8:ff::1/128"}},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	awaitWay(t, l, traces, wayWithoutIDs)
}

// needDevice skips the test on kernels without a kind of device, before any agent starts.
func needDevice(t *testing.T, kind string, device func(below int) netlink.Link) {
	t.Helper()
	err := testnet.New(t).Do(func() error {
		testnet.AddVeth(t, "below", "peer", 1500)
		below, err := netlink.LinkByName("below")
		if err != nil {
			return err
		}
		return netlink.LinkAdd(device(below.Attrs().Index))
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this kernel has no " + kind)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A VLAN device is the interface of arrival, too. Nothing else is below it than the served
// interface, so its packets need no node id: the delay is measured in a trace without one.
func TestArrivalByVLAN(t *testing.T) {
	t.Parallel()
	needDevice(t, "VLAN devices", func(below int) netlink.Link {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = "vlan9", below
		return &netlink.Vlan{LinkAttrs: attrs, VlanId: 9}
	})
	for _, tt := range e2e.Transfers() {
		if tt.Mode != "encap" {
			continue
		}
		t.Run(string(tt.Attach), func(t *testing.T) {
			top := e2e.Domain(t, tt)
			e2e.Reconfigure(t, top, "athos", "type: 0xf80000", "type: 0x780000")
			l := e2e.Raise(t, top)
			traces := e2e.Keep(t, l, "aramis")
			for _, end := range []struct{ node, device, address, to, by string }{
				{"athos", "eth1", "2001:db8:12::1/64", "2001:db8:2::/64", "2001:db8:12::2"},
				{"porthos", "eth0", "2001:db8:12::2/64", "2001:db8:1::/64", "2001:db8:12::1"},
			} {
				n := l.Node(end.node)
				e2e.Must(t, n, "ip", "link", "add", "link", end.device, "name", "vlan7", "type", "vlan", "id", "7")
				e2e.Must(t, n, "ip", "link", "set", "vlan7", "up")
				e2e.Must(t, n, "ip", "addr", "del", end.address, "dev", end.device)
				e2e.Must(t, n, "ip", "addr", "add", end.address, "dev", "vlan7", "nodad")
				e2e.Must(t, n, "ip", "-6", "route", "replace", end.to, "via", end.by)
			}
			awaitWay(t, l, traces, wayWithoutIDs)
		})
	}
}

// The same for a VRF, which hides both its members.
func TestArrivalByVRF(t *testing.T) {
	t.Parallel()
	const table = 100
	vrf := func(int) netlink.Link {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "domain"
		return &netlink.Vrf{LinkAttrs: attrs, Table: table}
	}
	needDevice(t, "VRF", vrf)
	for _, tt := range e2e.Transfers() {
		if tt.Mode != "encap" {
			continue
		}
		t.Run(string(tt.Attach), func(t *testing.T) {
			l := e2e.Raise(t, e2e.Domain(t, tt))
			traces := e2e.Keep(t, l, "aramis")
			err := l.Node("porthos").Do(func() error {
				return e2e.Arrange(e2e.Arrangement{
					Master: vrf(0), Members: []string{"eth0", "eth1"}, Table: table,
					Address: map[string]string{"eth0": "2001:db8:12::2/64", "eth1": "2001:db8:23::1/64"},
					Routes: map[string][]string{
						"2001:db8:12::1": {"2001:db8:1::/64", "2001:db8:ff::1/128"},
						"2001:db8:23::2": {"2001:db8:2::/64", "2001:db8:ff::3/128"},
					},
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			awaitWay(t, l, traces, "1 101>102 hop limit 63, 2 201>202 hop limit 62, 3 301>- hop limit 61")
		})
	}
}
