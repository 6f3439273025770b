// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// Targets are what taps are to look at.
type Targets struct {
	Programs map[bool]*ebpf.Program // at a member of a bridge or bond, and at others
	At       map[model.IfIndex]bool // whether it is a member
	Names    map[model.IfIndex]string
	Table    *Table
}

// passive are the kinds of devices by which no packet comes that was not seen elsewhere, or
// would be: what is in a tunnel of IPv6 in IPv6 is looked at before that is taken off.
var passive = []string{"ifb", "dummy", "vrf", "ip6tnl", "nlmon"}

// dividing are the kinds of devices whose packets the device below has as they are, but for a
// VLAN tag. Those of others are in a tunnel there, or encrypted, and no hook below finds them.
var dividing = []string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}

const readTags = 2 // VLAN tags that the programs read

// Untouched are the interfaces whose packets no hook sees: neither a hook of their own nor one of a
// device below. The value is true for members of a master that also has the packets of served
// ones, too: only the member shows which of them were not counted.
func Untouched(links []netlink.Link, served, upper map[int]bool) map[model.IfIndex]bool {
	d := devices{links: make(map[int]netlink.Link), served: served, upper: upper}
	for _, l := range links {
		d.links[l.Attrs().Index] = l
	}
	out := make(map[model.IfIndex]bool)
	for _, l := range links {
		a := l.Attrs()
		if a.RawFlags&unix.IFF_LOOPBACK == 0 && !slices.Contains(passive, l.Type()) && !d.seen(a.Index) {
			out[model.IfIndex(a.Index)] = d.shares(a.MasterIndex)
		}
	}
	return out
}

// devices are the interfaces of the host.
type devices struct {
	links         map[int]netlink.Link
	served, upper map[int]bool
}

// seen reports whether a hook sees the device's packets, at the device or below.
func (d *devices) seen(index int) bool {
	tags := 0
	for range len(d.links) { // a chain of devices has no more
		l := d.links[index]
		switch {
		case tags > readTags:
			return false
		case d.served[index]:
			return true
		case l == nil:
			return false
		case d.upper[index] && l.Type() != "vlan":
			return true
		case !slices.Contains(dividing, l.Type()) || l.Attrs().NetNsID >= 0:
			return false
		}
		if l.Type() == "vlan" {
			tags++
		}
		index = l.Attrs().ParentIndex
	}
	return false
}

// shares reports whether a master takes the packets of its members, and has those of served
// ones. A VRF leaves them where they arrived.
func (d *devices) shares(master int) bool {
	l := d.links[master]
	return l != nil && d.upper[master] && !d.served[master] && l.Type() != "vrf"
}
