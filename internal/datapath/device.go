// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// device is what the programs have to know of an interface beside its
// configuration.
type device struct {
	linkHeader uint8 // bytes before an untagged packet
	address    [6]byte
	veth       bool
	fast       bool // it is to forward without the stack
	// virtual: frames may come with the place of their checksum told beside them,
	// where the driver looks behind XDP. Bytes that XDP cuts out make it wrong.
	virtual, tap bool
	// why it cannot do that at all, or not in XDP; "" when it can
	notRouted, notInXDP string
}

// ethernet is an interface that forwards through the stack.
func ethernet(model.IfIndex) device { return device{linkHeader: 14} }

// deviceOf reads what the programs have to know of a device.
func deviceOf(link netlink.Link, fast bool) device {
	d := device{veth: link.Type() == "veth", fast: fast, tap: isTap(link)}
	d.virtual = d.tap && !handsOverWhole(link)
	if link.Attrs().EncapType == "ether" || link.Attrs().EncapType == "loopback" {
		d.linkHeader = 14
	}
	if len(link.Attrs().HardwareAddr) == len(d.address) {
		copy(d.address[:], link.Attrs().HardwareAddr)
	}
	if fast {
		d.notRouted, d.notInXDP = notRouted(link), notInXDP(link)
	}
	return d
}

// notRouted says why what arrives at a device is not simply routed.
func notRouted(link netlink.Link) string {
	switch {
	case link.Attrs().EncapType != "ether":
		return "it is not an Ethernet interface"
	case link.Attrs().MasterIndex == 0:
		return ""
	}
	if master, err := netlink.LinkByIndex(link.Attrs().MasterIndex); err != nil || master.Type() != "vrf" {
		return "it is a member of a bridge or bond, which gets its packets"
	}
	return ""
}

// notInXDP says why frames of a device cannot be forwarded in XDP: because it
// keeps from XDP what they need.
func notInXDP(link netlink.Link) string {
	switch {
	case link.Type() == "veth": // keeps the same, but shows it
		return ""
	case isTap(link):
		if handsOverWhole(link) {
			return ""
		}
		return "packets of virtual machines may lack their checksums, which XDP cannot see; set attach: tcx"
	case link.Type() == "bond", link.Type() == "team":
		return "an inactive member's packets are not for the stack, which XDP cannot see; set attach: tcx"
	}
	if takesTags(link.Attrs().Name) {
		return "the device takes VLAN tags off, which XDP cannot see; ethtool -K " + link.Attrs().Name + " rxvlan off, or set attach: tcx"
	}
	return ""
}

func isTap(link netlink.Link) bool { return link.Type() == "tuntap" || link.Type() == "tun" }

// handsOverWhole tells of a tap whose frames have no header before them: nothing
// can be left open in them.
func handsOverWhole(link netlink.Link) bool {
	tap, ok := link.(*netlink.Tuntap)
	return ok && tap.Mode == netlink.TUNTAP_MODE_TAP && tap.Flags&netlink.TUNTAP_VNET_HDR == 0
}

// notCutInXDP is why XDP may not take headers out of a virtual device's frames.
const notCutInXDP = "packets of virtual machines may lack their checksums, whose place is told beside them and would be wrong when XDP removes a header"

// Of linux/ethtool.h.
const (
	ethtoolGetFlags = 0x25
	ethtoolRxVLAN   = 1 << 8
)

// takesTags tells whether a device removes VLAN tags from what arrives, or may.
func takesTags(name string) bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{command: ethtoolGetFlags}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	switch errno {
	case 0:
		return value.data&ethtoolRxVLAN != 0
	case unix.EOPNOTSUPP:
		return false // it has no features to turn on
	}
	return true
}

// fastIn tells whether a program of a mode may forward without the stack.
func (d device) fastIn(mode AttachMode) bool {
	return d.fast && d.refused(mode) == ""
}

// refused says why an interface that is to forward fast does not; "" when it
// does, or need not.
func (d device) refused(mode AttachMode) string {
	switch {
	case !d.fast:
		return ""
	case d.notRouted != "":
		return d.notRouted
	case mode == AttachXDP:
		return d.notInXDP
	}
	return ""
}

// isCurrent tells whether the device is still what the programs were told, as
// far as that can change: a tap is what the last one to open it asked for.
func (d device) isCurrent(index model.IfIndex) bool {
	if !d.fast && !d.tap {
		return true
	}
	link, err := netlink.LinkByIndex(int(index))
	if err != nil {
		return true // who watches interfaces will see that it is gone
	}
	now := deviceOf(link, d.fast)
	return now.virtual == d.virtual && (!d.fast || bytes.Equal(now.address[:], d.address[:])) &&
		now.notRouted == d.notRouted && now.notInXDP == d.notInXDP
}
