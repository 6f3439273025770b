// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// Device is what the programs need to know about an interface besides its
// configuration.
type Device struct {
	LinkHeader uint8 // bytes before an untagged packet
	Address    [6]byte
	Veth       bool
	Fast       bool // configured to forward without the stack
	// virtual: the offset of a frame's checksum may be passed outside the frame,
	// where the driver looks after XDP. If XDP removes bytes, it is wrong.
	Virtual, tap bool
	// why it cannot forward fast at all, or not in XDP; "" when it can
	notRouted, notInXDP string
}

// Ethernet is an interface that forwards through the stack.
func Ethernet(model.IfIndex) Device { return Device{LinkHeader: 14} }

// FastEthernet is an interface that is configured to forward without the stack, and does where the kernel can.
func FastEthernet(model.IfIndex) Device {
	return Device{LinkHeader: 14, Fast: true, notInXDP: kernelNotInXDP()}
}

// DeviceOf reads what the programs need to know about a device.
func DeviceOf(link netlink.Link, fast bool) Device {
	d := Device{Veth: link.Type() == "veth", Fast: fast, tap: isTap(link)}
	d.Virtual = d.tap && !handsOverWhole(link)
	if link.Attrs().EncapType == "ether" || link.Attrs().EncapType == "loopback" {
		d.LinkHeader = 14
	}
	if len(link.Attrs().HardwareAddr) == len(d.Address) {
		copy(d.Address[:], link.Attrs().HardwareAddr)
	}
	if fast {
		d.notRouted, d.notInXDP = notRouted(link), notInXDP(link)
	}
	return d
}

// notRouted says why packets that arrive at a device are not simply routed; ""
// when they are.
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

// notInXDP says why frames of a device cannot be forwarded in XDP: the device
// hides something from XDP that forwarding needs.
func notInXDP(link netlink.Link) string {
	switch {
	case kernelNotInXDP() != "":
		return kernelNotInXDP()
	case link.Type() == "veth": // a veth hides the same, but in a way that the program can see
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

// kernelNotInXDP says why no frame can be forwarded in XDP on this kernel; "" when frames can. Programs that
// forward are not loaded there: the verifier of such a kernel may find the largest ones too large.
var kernelNotInXDP = func() string {
	if known := xdpAnswer.Load(); known != nil {
		return *known
	}
	family, err := netlink.GenlFamilyGet("netdev")
	why := notReported(family, err)
	if err == nil || why != "" { // other errors say nothing: the kernel is asked again
		xdpAnswer.Store(&why)
	}
	return why
}

// xdpAnswer is the kernel's answer, once it has given one.
var xdpAnswer atomic.Pointer[string]

// notReported judges the answer to a look for the family that reports what devices can do.
func notReported(_ *netlink.GenlFamily, err error) string {
	if !errors.Is(err, unix.ENOENT) {
		return ""
	}
	return "the kernel does not report which devices can send what XDP redirects (needs Linux 6.3); set attach: clsact"
}

func isTap(link netlink.Link) bool { return link.Type() == "tuntap" || link.Type() == "tun" }

// handsOverWhole reports whether a tap's frames have no header in front, so that
// nothing in them can be left open.
func handsOverWhole(link netlink.Link) bool {
	tap, ok := link.(*netlink.Tuntap)
	return ok && tap.Mode == netlink.TUNTAP_MODE_TAP && tap.Flags&netlink.TUNTAP_VNET_HDR == 0
}

// NotCutInXDP is why XDP may not remove headers from a virtual device's frames.
const NotCutInXDP = "packets of virtual machines may lack their checksums, whose place is told beside them and would be wrong " +
	"when XDP removes a header"

// Constants of linux/ethtool.h.
const (
	ethtoolGetFlags = 0x25
	ethtoolRxVLAN   = 1 << 8
)

// takesTags reports whether a device removes VLAN tags from arriving frames, or
// may.
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
		return false // the device has no such features
	}
	return true
}

// FastIn reports whether a program in a mode may forward without the stack.
func (d Device) FastIn(mode Mode) bool {
	return d.Fast && d.Refused(mode) == ""
}

// OnlyInTC reports whether a kernel on which nothing can be forwarded in XDP can forward the device's packets in tc.
func (d Device) OnlyInTC() bool {
	return d.FastIn(TCX) && d.notInXDP != "" && d.notInXDP == kernelNotInXDP()
}

// Refused says why an interface that is configured to forward fast does not; ""
// when it does, or is not configured to.
func (d Device) Refused(mode Mode) string {
	switch {
	case !d.Fast:
		return ""
	case d.notRouted != "":
		return d.notRouted
	case mode == XDP:
		return d.notInXDP
	}
	return ""
}

// IsCurrent reports whether the device still matches what the programs were
// given, as far as that can change: a process that opens a tap sets the tap's
// properties.
func (d Device) IsCurrent(index model.IfIndex) bool {
	if !d.Fast && !d.tap {
		return true
	}
	link, err := netlink.LinkByIndex(int(index))
	if err != nil {
		return true // the watch of interfaces will notice that it is gone
	}
	now := DeviceOf(link, d.Fast)
	return now.Virtual == d.Virtual && (!d.Fast || bytes.Equal(now.Address[:], d.Address[:])) &&
		now.notRouted == d.notRouted && now.notInXDP == d.notInXDP
}
