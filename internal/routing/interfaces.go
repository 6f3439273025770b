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

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/netlinkattr"
)

// Constants of linux/if_link.h and linux/ipv6.h for an interface's IPv6 settings.
const (
	attributeProtocolInfo = 12 // IFLA_PROTINFO
	attributeSettings     = 2  // IFLA_INET6_CONF, 4 bytes each
	settingForwarding     = 0  // DEVCONF_FORWARDING
	settingMTU            = 2  // DEVCONF_MTU6
	settingRedirects      = 4  // DEVCONF_ACCEPT_REDIRECTS
	settingDisable        = 26 // DEVCONF_DISABLE_IPV6
	settingHMAC           = 45 // DEVCONF_SEG6_REQUIRE_HMAC
)

// link has the properties that decide whether packets that arrive on an interface
// are simply routed.
type link struct {
	index, master, lower model.IfIndex
	name, kind           string
	mode                 uint32 // a macvlan's
	address              []byte
}

// From linux/if_link.h: in these modes, a macvlan receives only packets sent to
// its own address.
const macvlanOwn = 1 | 2 | 4 // private, vepa, bridge

// kindsWithOwnAddress are the kinds of devices on top of another device that receive none of
// the untagged packets which are sent to that device's own address and forwarded
// from there.
var kindsWithOwnAddress = []string{
	"vlan", "veth", "vxlan", "geneve", "gre", "gretap", "ip6gre", "ip6gretap", "erspan", "ip6erspan",
	"ipip", "sit", "ip6tnl", "vti", "vti6", "xfrm",
}

// indexOfLink is the interface that a message about a link concerns; 0: none.
func indexOfLink(message []byte) model.IfIndex {
	if len(message) < unix.SizeofIfInfomsg {
		return 0
	}
	return model.IfIndex(binary.NativeEndian.Uint32(message[4:]))
}

// linkMTU is the MTU in a message about a link; 0: it says none, or the link is the
// loopback interface, by which nothing is forwarded.
func linkMTU(message []byte) (mtu uint32) {
	if indexOfLink(message) == 0 || binary.NativeEndian.Uint32(message[8:])&unix.IFF_LOOPBACK != 0 {
		return 0
	}
	netlinkattr.Each(message[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
		if kind == unix.IFLA_MTU && len(value) == 4 {
			mtu = binary.NativeEndian.Uint32(value)
		}
	})
	return mtu
}

// parseLink reads a message about a link; whole: it could read all of it.
func parseLink(message []byte) (l link, whole bool) {
	if l.index = indexOfLink(message); l.index == 0 {
		return l, false
	}
	elsewhere := false
	whole = netlinkattr.Each(message[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.name = text(value)
		case unix.IFLA_ADDRESS:
			l.address = value
		case unix.IFLA_MASTER:
			l.master = indexIn(value)
		case unix.IFLA_LINK:
			l.lower = indexIn(value)
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		case unix.IFLA_LINKINFO:
			l.readInfo(value)
		}
	})
	if elsewhere {
		l.lower = 0
	}
	return l, whole
}

func (l *link) readInfo(info []byte) {
	netlinkattr.Each(info, func(kind uint16, value []byte) {
		switch kind {
		case unix.IFLA_INFO_KIND:
			l.kind = text(value)
		case unix.IFLA_INFO_DATA:
			netlinkattr.Each(value, func(kind uint16, value []byte) {
				if kind == nl.IFLA_MACVLAN_MODE && len(value) == 4 && (l.kind == "macvlan" || l.kind == "macvtap") {
					l.mode = binary.NativeEndian.Uint32(value)
				}
			})
		}
	})
}

func indexIn(value []byte) model.IfIndex {
	if len(value) != 4 {
		return 0
	}
	return model.IfIndex(binary.NativeEndian.Uint32(value))
}

// diverts says why a link makes the stack do something other than route the
// packets that arrive on an interface that forwards fast; "" if it does not.
func (l link) diverts(entrances map[model.IfIndex]datapath.Entrance) string {
	if e, fast := entrances[l.index]; fast {
		switch {
		case l.address != nil && !bytes.Equal(l.address, e.Address[:]):
			return l.name + " has a new link-layer address, which its program gets when the agent has updated it"
		case l.master != 0:
			return l.name + " is a member of a VRF, bridge or bond, by which the stack routes"
		}
	}
	if _, fast := entrances[l.lower]; !fast || l.lower == l.index || slices.Contains(kindsWithOwnAddress, l.kind) {
		return ""
	}
	if (l.kind == "macvlan" || l.kind == "macvtap") && l.mode != 0 && l.mode&^macvlanOwn == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s) may take packets from an interface with forwarding: fast", l.name, l.kind)
}

// diversions reads all links, and returns the reason of the first that diverts.
func diversions(entrances map[model.IfIndex]datapath.Entrance) (why string, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	err = request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(m []byte) bool {
		l, whole := parseLink(m)
		if !whole {
			why = "a link cannot be read"
		} else if why == "" {
			why = l.diverts(entrances)
		}
		return true
	})
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return why, fmt.Errorf("read the interfaces: %w", err)
	}
	return why, nil
}

// settings are the interfaces' IPv6 settings on which a packet's egress
// depends.
type settings struct {
	disabled    map[model.IfIndex]bool // no packet enters or leaves, even if a route leads there
	redirected  map[model.IfIndex]bool // redirects may have changed next hops, which programs do not learn
	smallestMTU uint32
	hmac        bool // some interface refuses SRHs without an HMAC
}

// closed reports whether only the stack may send to an interface.
func (s *settings) closed(index model.IfIndex) bool { return s.disabled[index] || s.redirected[index] }

// isClosed says why packets may be routed to a closed interface; "" if they
// cannot. XDP sends only to listed devices; a program in tc would send to it.
func (s *settings) isClosed(routes shape) string {
	if len(s.redirected) > 0 {
		return "an interface has forwarding 0 and accept_redirects 1, so redirects may change next hops on it"
	}
	for index := range routes.leaves {
		if s.disabled[index] {
			return "a next hop leads to an interface with disable_ipv6"
		}
	}
	return ""
}

func readSettings() (s settings, err error) {
	s = settings{disabled: make(map[model.IfIndex]bool), redirected: make(map[model.IfIndex]bool)}
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_INET6))
	err = request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(m []byte) bool {
		s.readLink(m)
		return true
	})
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return s, fmt.Errorf("read the interfaces' settings: %w", err)
	}
	return s, nil
}

func (s *settings) readLink(message []byte) {
	index := indexOfLink(message)
	if index == 0 || binary.NativeEndian.Uint32(message[8:])&unix.IFF_LOOPBACK != 0 {
		return
	}
	s.smallestMTU = least(s.smallestMTU, linkMTU(message))
	netlinkattr.Each(message[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
		if kind != attributeProtocolInfo {
			return
		}
		netlinkattr.Each(value, func(kind uint16, value []byte) {
			if kind == attributeSettings && len(value) >= 4*(settingDisable+1) {
				s.readInterface(index, value)
			}
		})
	})
}

func (s *settings) readInterface(index model.IfIndex, values []byte) {
	setting := func(n int) uint32 { return binary.NativeEndian.Uint32(values[4*n:]) }
	s.smallestMTU = least(s.smallestMTU, setting(settingMTU))
	if len(values) >= 4*(settingHMAC+1) && int32(setting(settingHMAC)) > 0 {
		s.hmac = true
	}
	if setting(settingDisable) != 0 {
		s.disabled[index] = true
	}
	// a router does not follow redirects, but the kernel asks each interface
	// whether it is one
	if setting(settingForwarding) == 0 && setting(settingRedirects) != 0 {
		s.redirected[index] = true
	}
}

// proxies reports whether the kernel answers for neighbours on an interface that
// forwards fast: it then receives some of the packets that are sent to them.
func proxies(entrances map[model.IfIndex]datapath.Entrance) (bool, error) {
	if on, err := sysctl("conf/all/proxy_ndp"); err != nil || on == 0 {
		return false, err
	}
	list, err := netlink.NeighProxyList(0, unix.AF_INET6)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return true, fmt.Errorf("read the proxied neighbours: %w", err)
	}
	return slices.ContainsFunc(list, func(n netlink.Neigh) bool {
		_, fast := entrances[model.IfIndex(n.LinkIndex)]
		return fast
	}), nil
}

// text is a string of an attribute, which ends with a zero byte.
func text(value []byte) string { return string(bytes.TrimRight(value, "\x00")) }
