// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/netlinkattr"
	"github.com/waymark-net/waymark/ioam"
)

// What linux/if_link.h and linux/ipv6.h say of an interface's IPv6 settings.
const (
	attributeProtocolInfo = 12 // IFLA_PROTINFO
	attributeSettings     = 2  // IFLA_INET6_CONF, 4 bytes each
	settingDisable        = 26 // DEVCONF_DISABLE_IPV6
)

// indexOfLink is the interface that a message about a link is about; 0: none.
func indexOfLink(message []byte) ioam.IfIndex {
	if len(message) < unix.SizeofIfInfomsg {
		return 0
	}
	return ioam.IfIndex(binary.NativeEndian.Uint32(message[4:]))
}

// withoutIPv6 are the interfaces whose disable_ipv6 is set: the kernel neither
// takes nor sends a packet there, though a route may lead to one.
func withoutIPv6() (map[ioam.IfIndex]bool, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_INET6))
	out := make(map[ioam.IfIndex]bool)
	err := request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(m []byte) bool {
		if index := indexOfLink(m); index != 0 && isDisabled(m) {
			out[index] = true
		}
		return true
	})
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return out, fmt.Errorf("read the interfaces' settings: %w", err)
	}
	return out, nil
}

func isDisabled(link []byte) (disabled bool) {
	netlinkattr.Each(link[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
		if kind != attributeProtocolInfo {
			return
		}
		netlinkattr.Each(value, func(kind uint16, value []byte) {
			if kind == attributeSettings && len(value) >= 4*(settingDisable+1) {
				disabled = binary.NativeEndian.Uint32(value[4*settingDisable:]) != 0
			}
		})
	})
	return disabled
}

// meetsVRF tells whether any of the names is a VRF's or that of a member of one:
// there the stack routes by the VRF, and a program's lookup by the member.
func meetsVRF(names map[string]bool) (bool, error) {
	if len(names) == 0 {
		return false, nil
	}
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return true, fmt.Errorf("read the interfaces: %w", err)
	}
	return anyAtVRF(names, links), nil
}

func anyAtVRF(names map[string]bool, links []netlink.Link) bool {
	isVRF := make(map[int]bool)
	for _, l := range links {
		isVRF[l.Attrs().Index] = l.Type() == "vrf"
	}
	return slices.ContainsFunc(links, func(l netlink.Link) bool {
		a := l.Attrs()
		return names[a.Name] && (isVRF[a.Index] || isVRF[a.MasterIndex])
	})
}

// text is a string of an attribute, which ends with a zero byte.
func text(value []byte) string { return string(bytes.TrimRight(value, "\x00")) }
