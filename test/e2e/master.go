// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Arrangement describes what moves when interfaces get a master.
type Arrangement struct {
	Master  netlink.Link
	Members []string
	On      string // the interface that gets the addresses; "" is each member
	Table   int
	Address map[string]string   // by member
	Routes  map[string][]string // next hop → prefixes
}

// Arrange gives interfaces of a node a master, and moves their addresses and
// routes.
func Arrange(a Arrangement) error {
	if err := netlink.LinkAdd(a.Master); err != nil {
		return fmt.Errorf("add %s: %w", a.Master.Attrs().Name, err)
	}
	if err := netlink.LinkSetUp(a.Master); err != nil {
		return err
	}
	for _, name := range a.Members {
		member, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		address, err := netlink.ParseAddr(a.Address[name])
		if err != nil {
			return err
		}
		if err := netlink.AddrDel(member, address); err != nil {
			return fmt.Errorf("take the address off %s: %w", name, err)
		}
		if err := netlink.LinkSetMaster(member, a.Master); err != nil {
			return fmt.Errorf("give %s a master: %w", name, err)
		}
		at := member
		if a.On != "" {
			at = a.Master
		}
		address.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(at, address); err != nil {
			return fmt.Errorf("give %s an address: %w", at.Attrs().Name, err)
		}
	}
	for via, prefixes := range a.Routes {
		for _, prefix := range prefixes {
			p := netip.MustParsePrefix(prefix)
			to := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 128)}
			if err := netlink.RouteReplace(&netlink.Route{Dst: to, Gw: net.ParseIP(via), Table: a.Table}); err != nil {
				return fmt.Errorf("add the route to %s: %w", prefix, err)
			}
		}
	}
	return nil
}

// Bridge makes a bridge for a port, with the port's own link-layer address, to
// which neighbours send.
func Bridge(name, port string) (netlink.Link, error) {
	device, err := netlink.LinkByName(port)
	if err != nil {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = name, device.Attrs().HardwareAddr, device.Attrs().MTU
	return &netlink.Bridge{LinkAttrs: attrs}, nil
}
