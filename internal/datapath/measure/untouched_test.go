// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"maps"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// TestUntouched checks which interfaces are looked at: those whose packets no hook has seen.
func TestUntouched(t *testing.T) {
	link := func(kind, name string, index, parent int) netlink.Link {
		a := netlink.LinkAttrs{Name: name, Index: index, ParentIndex: parent, NetNsID: -1}
		if kind == "loopback" {
			a.RawFlags = unix.IFF_LOOPBACK
		}
		return &netlink.GenericLink{LinkAttrs: a, LinkType: kind}
	}
	served, upper := map[int]bool{2: true, 3: true}, map[int]bool{10: true, 30: true, 6: true, 40: true}
	peer := link("veth", "peer", 8, 2)
	foreign := link("macvlan", "container", 9, 2)
	foreign.Attrs().NetNsID = 4
	member := func(kind, name string, index, master, parent int) netlink.Link {
		l := link(kind, name, index, parent)
		l.Attrs().MasterIndex = master
		return l
	}
	links := []netlink.Link{
		link("loopback", "lo", 1, 0), link("device", "served", 2, 0), link("veth", "outside", 3, 50), link("device", "eth2", 4, 0),
		link("vlan", "eth2.7", 5, 4), link("vlan", "served.7", 6, 2), link("macvlan", "above", 7, 6), peer, foreign,
		link("ip6tnl", "tunnel", 11, 0), link("wireguard", "wg0", 12, 0), link("vlan", "loop", 13, 13),
		link("vlan", "two-tags", 14, 6), link("vlan", "three-tags", 15, 14), // the hook reads two
		// the interface below has their packets in a tunnel, or encrypted
		link(
			"gre",
			"gre",
			16,
			2,
		), link("ip6gre", "ip6gre", 17, 2), link("sit", "sit", 18, 2), link("xfrm", "xfrm", 19, 2), link("macsec", "macsec", 20, 2),
		link("vti6", "vti6", 21, 2), link("vxlan", "vxlan", 22, 2), link("netkit", "netkit", 23, 2), link("ipvlan", "ipvlan", 24, 2),
		// some of these masters' members are served
		link(
			"bridge",
			"br0",
			10,
			0,
		), member("device", "port", 25, 10, 0), member("vlan", "port.7", 26, 10, 4), member("device", "served", 2, 10, 0), member("vlan", "served.8", 27, 10, 2),
		link("bond", "bond0", 30, 0), member("device", "slave", 31, 30, 0), link("vlan", "bond0.7", 32, 30),
		link("vrf", "vrf0", 40, 0), member("device", "in-vrf", 41, 40, 0),
		// and none of this one's
		link("bridge", "br1", 50, 0), member("device", "port-of-br1", 51, 50, 0),
	}
	names := map[bool][]string{}
	at := Untouched(links, served, upper)
	for _, l := range links {
		if isMember, ok := at[model.IfIndex(l.Attrs().Index)]; ok {
			names[isMember] = append(names[isMember], l.Attrs().Name)
		}
	}
	slices.Sort(names[false])
	slices.Sort(names[true])
	want := map[bool][]string{
		false: {"br1", "container", "eth2", "eth2.7", "gre", "in-vrf", "ip6gre", "loop", "macsec", "netkit", "peer", "port-of-br1", "sit",
			"three-tags", "vti6", "vxlan", "wg0", "xfrm"},
		true: {"port", "port.7", "slave"},
	}
	if !maps.EqualFunc(names, want, slices.Equal[[]string]) {
		t.Errorf("%v, want %v", names, want)
	}
}
