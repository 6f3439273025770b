// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/test/testnet"
)

// Changes that keep packets from being simply routed on a fast interface are
// noticed at once; the stack then forwards until a look has shown that they are
// gone.
func TestWatchEntrance(t *testing.T) {
	enterNamespace(t)
	const plain, stack, soon, later = datapath.RouteByDestination, datapath.RouteByStack, 100 * time.Millisecond, 2500 * time.Millisecond
	testnet.Run(t, "ip link add v4 address 02:00:00:00:00:04 type veth peer name v5;ip link add b0 type bridge")
	p := &fakePlane{}
	p.forwardFast(t, "v4")
	watch(t, p)
	quiet(p)
	for _, tt := range []struct {
		command string
		want    datapath.RouteKey
		within  time.Duration
	}{
		{"ip link set v4 address 02:00:00:00:00:05", stack, soon},
		{"ip link set v4 address 02:00:00:00:00:04", plain, later},
		{"ip link set v4 master b0", stack, soon},
		{"ip link set v4 nomaster", plain, later},
		{"ip link add m0 link v4 type macvlan mode bridge", plain, soon},
		{"ip link add m1 link v4 type macvlan mode source", stack, soon},
		{"ip link del m1", plain, later},
		{"sysctl -qw net.ipv6.conf.v4.disable_ipv6=1", stack, later},
		{"sysctl -qw net.ipv6.conf.v4.disable_ipv6=0", plain, later},
		{"ip -6 neigh add proxy 2001:db8:1::9 dev v4;sysctl -qw net.ipv6.conf.all.proxy_ndp=1", stack, later},
		{"sysctl -qw net.ipv6.conf.all.proxy_ndp=0", plain, later},
		{"ip xfrm policy setdefault fwd block", stack, soon},
		{"ip xfrm policy setdefault fwd accept", plain, later},
		{"ip link del v4", stack, soon},
		{"true", plain, 2 * later},
	} {
		_, before := p.key()
		testnet.Run(t, tt.command)
		await(t, tt.command, tt.within, func() bool {
			key, n := p.key()
			p.mu.Lock()
			defer p.mu.Unlock()
			return n > before && key == tt.want && (p.why != "") == (key == stack)
		})
	}
}

// Of the routes' MTUs, the plane gets the smallest that the kernel's lookup does
// not return, until no route has one.
func TestWatchMTU(t *testing.T) {
	enterNamespace(t)
	p := &fakePlane{}
	watch(t, p)
	quiet(p)
	const soon, later = 100 * time.Millisecond, 15 * time.Second
	for _, tt := range []struct {
		command string
		want    uint16
		within  time.Duration
	}{
		{"ip -6 route add 2001:db8:2::/64 via 2001:db8:1::2 mtu lock 1300", datapath.AnyMTU, soon},
		{"ip -6 route add 2001:db8:3::/64 via 2001:db8:1::2 mtu 1400", 1400, soon},
		{"ip -6 route add 2001:db8:4::/64 via 2001:db8:1::2 mtu 1290", 1290, soon},
		{"ip -6 route del 2001:db8:4::/64", 1400, later},
		{"ip -6 route replace 2001:db8:3::/64 via 2001:db8:1::2", datapath.AnyMTU, later},
		{"ip -6 route add 2001:db8:5::/64 via 2001:db8:1::2 mtu lock 9000", 1500, soon},
		{"ip link set v0 mtu 1400", 1400, soon},
		{"ip link set v0 mtu 1300", 1300, soon},
		{"ip link set v0 mtu 1500", 1500, later},
	} {
		_, before := p.key()
		testnet.Run(t, tt.command)
		await(t, tt.command, tt.within, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.renewals) > before && p.renewals[len(p.renewals)-1].mtu == tt.want
		})
	}
}

// Packets that arrive on a VRF's member are left to the stack, which routes by
// the VRF, while a program's lookup would route by the member.
func TestWatchVRF(t *testing.T) {
	enterNamespace(t)
	if out, err := exec.Command("ip", "link", "add", "red", "type", "vrf", "table", "7").CombinedOutput(); strings.Contains(
		string(out),
		"Unknown device type",
	) {
		t.Skip("this kernel has no VRF")
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := &fakePlane{}
	p.forwardFast(t, "v0")
	watch(t, p)
	quiet(p)
	const soon, later = 100 * time.Millisecond, 2500 * time.Millisecond
	for _, tt := range []struct {
		command string
		want    datapath.RouteKey
		within  time.Duration
	}{
		{"ip link set v1 master red", datapath.RouteByDestination, soon},
		{"ip link set v0 master red", datapath.RouteByStack, soon},
		{"ip link set v0 nomaster", datapath.RouteByDestination, later},
		{"ip link set v0 master red", datapath.RouteByStack, soon},
		{"ip link del red", datapath.RouteByDestination, later},
	} {
		_, before := p.key()
		testnet.Run(t, tt.command)
		await(t, tt.command, tt.within, func() bool { key, n := p.key(); return n > before && key == tt.want })
	}
}
