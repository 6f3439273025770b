// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// network is the line of a forwarding measurement:
//
//	source s0 ──── n0 node n1 ──── k0 sink
//
// Its namespaces have no names: all of it goes with this process.
type network struct {
	source, node, sink netns.NsHandle
	s0, n0, n1, k0     netlink.Link
}

var networkSysctls = []struct{ name, value string }{
	{"net/ipv6/conf/all/disable_ipv6", "0"},
	{"net/ipv6/conf/default/disable_ipv6", "0"},
	{"net/ipv6/conf/all/accept_dad", "0"},
	{"net/ipv6/conf/default/accept_dad", "0"},
	{"net/ipv6/conf/default/router_solicitations", "0"},
	{"net/ipv6/conf/all/forwarding", "1"},
}

func raiseNetwork() (n *network, err error) {
	n = &network{source: netns.None(), node: netns.None(), sink: netns.None()}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	for _, ns := range []*netns.NsHandle{&n.source, &n.node, &n.sink} {
		if *ns, err = newNamespace(); err != nil {
			return nil, err
		}
		err = inNamespace(*ns, func() error {
			for _, s := range networkSysctls {
				if err := writeSysctl(s.name, s.value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if n.s0, n.n0, err = connect(n.source, "s0", n.node, "n0"); err != nil {
		return nil, err
	}
	if n.n1, n.k0, err = connect(n.node, "n1", n.sink, "k0"); err != nil {
		return nil, err
	}
	return n, n.route()
}

func (n *network) close() {
	for _, ns := range []netns.NsHandle{n.source, n.node, n.sink} {
		if ns.IsOpen() {
			ns.Close()
		}
	}
}

func writeSysctl(name, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0)
}

// connect makes a veth pair whose ends receive with NAPI.
func connect(a netns.NsHandle, nameA string, b netns.NsHandle, nameB string) (linkA, linkB netlink.Link, err error) {
	handle, err := netlink.NewHandleAt(a, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer handle.Close()
	peer, err := netlink.NewHandleAt(b, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer peer.Close()
	veth := netlink.NewVeth(netlink.LinkAttrs{Name: nameA, MTU: 1500, TxQLen: -1})
	veth.PeerName, veth.PeerMTU, veth.PeerNamespace = nameB, 1500, netlink.NsFd(b)
	if err := handle.LinkAdd(veth); err != nil {
		return nil, nil, fmt.Errorf("make the link %s - %s: %w; Waymark needs the veth module here", nameA, nameB, err)
	}
	if linkA, err = raise(handle, a, nameA); err != nil {
		return nil, nil, err
	}
	if linkB, err = raise(peer, b, nameB); err != nil {
		return nil, nil, err
	}
	return linkA, linkB, errors.Join(awaitCarrier(handle, nameA), awaitCarrier(peer, nameB))
}

// awaitCarrier waits for the interface: without carrier it has no routes.
func awaitCarrier(handle *netlink.Handle, name string) error {
	for range 1000 {
		now, err := handle.LinkByName(name)
		if err != nil {
			return fmt.Errorf("look at %s: %w", name, err)
		}
		if now.Attrs().OperState == netlink.OperUp {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("%s does not come up", name)
}

// raise brings an interface up and makes it receive with NAPI, in this order:
// only then does its peer become a target of redirects.
func raise(handle *netlink.Handle, ns netns.NsHandle, name string) (netlink.Link, error) {
	l, err := handle.LinkByName(name)
	if err == nil {
		err = handle.LinkSetUp(l)
	}
	if err != nil {
		return nil, fmt.Errorf("raise %s: %w", name, err)
	}
	if err := inNamespace(ns, func() error { return enableGRO(name) }); err != nil {
		return nil, fmt.Errorf("turn generic receive offload of %s on: %w", name, err)
	}
	return l, nil
}

// enableGRO is `ethtool -K NAME gro on`, which makes a veth receive with NAPI.
func enableGRO(name string) error {
	const setGRO = 0x2c // ETHTOOL_SGRO
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{setGRO, 1}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}

// route gives the node what it forwards by. Neighbours are permanent: the sink
// answers nobody.
func (n *network) route() error {
	h, err := netlink.NewHandleAt(n.node, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	defer h.Close()
	for _, a := range []struct {
		link   netlink.Link
		prefix string
	}{{n.n0, "2001:db8:1::1/64"}, {n.n1, "2001:db8:2::1/64"}} {
		p := netip.MustParsePrefix(a.prefix)
		address := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 128)}, Flags: unix.IFA_F_NODAD}
		if err := h.AddrAdd(a.link, address); err != nil {
			return fmt.Errorf("give %s the address %s: %w", a.link.Attrs().Name, a.prefix, err)
		}
	}
	err = h.NeighSet(&netlink.Neigh{
		LinkIndex: n.n1.Attrs().Index, Family: unix.AF_INET6, State: netlink.NUD_PERMANENT,
		IP: destination.AsSlice(), HardwareAddr: n.k0.Attrs().HardwareAddr,
	})
	if err != nil {
		return fmt.Errorf("set the neighbour %s: %w", destination, err)
	}
	err = h.RouteAdd(&netlink.Route{
		LinkIndex: n.n1.Attrs().Index, Gw: destination.AsSlice(),
		Dst: &net.IPNet{IP: tunnelEnd.AsSlice(), Mask: net.CIDRMask(128, 128)},
	})
	if err != nil {
		return fmt.Errorf("add the route to %s: %w", tunnelEnd, err)
	}
	return nil
}

// addressed is a frame from s0 to n0.
func (n *network) addressed(frame []byte) []byte {
	out := append([]byte(nil), frame...)
	copy(out, n.n0.Attrs().HardwareAddr)
	copy(out[6:], n.s0.Attrs().HardwareAddr)
	return out
}
