// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// Constants of linux/ethtool.h.
const (
	ethFlagLRO     = 1 << 15
	ethtoolGetGRO  = 0x2b // ETHTOOL_GGRO
	ethtoolFeature = 1    // it is on
)

// ReadInterface reads the kernel's settings of an interface; values that cannot
// be read stay zero.
func ReadInterface(name string, mtu int) Interface {
	i := Interface{
		Name:        name,
		MTU:         mtu,
		KernelIOAM6: kernelIOAM6(name),
		LRO:         ethtool(name, unix.ETHTOOL_GFLAGS)&ethFlagLRO != 0,
		GRO:         ethtool(name, ethtoolGetGRO)&ethtoolFeature != 0,
	}
	if link, err := netlink.LinkByName(name); err == nil {
		flags := link.Attrs().RawFlags
		i.Veth = link.Type() == "veth"
		i.Down, i.NoCarrier = flags&unix.IFF_UP == 0, flags&unix.IFF_UP != 0 && flags&unix.IFF_LOWER_UP == 0
	}
	return i
}

func kernelIOAM6(name string) bool {
	b, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv6/conf", name, "ioam6_enabled"))
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

// ethtool is the answer to an ethtool command that gets one word. A driver that does not
// answer has no such feature: 0.
func ethtool(name string, command uint32) uint32 {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	value := struct{ cmd, data uint32 }{cmd: command}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // struct ifreq is a union of up to 24 bytes
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return 0
	}
	return value.data
}

// OwnAddresses reads the addresses of this network namespace, and returns a
// function that reports whether an address is one of them. If they cannot be
// read, it reports true for every address.
func OwnAddresses() func(netip.Addr) bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return func(netip.Addr) bool { return true }
	}
	own := make(map[netip.Addr]bool, len(list))
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own[prefix.Addr()] = true
		}
	}
	return func(a netip.Addr) bool { return own[a] }
}

// InterfaceTo is the interface by which a next hop is reached directly, as the kernel finds it
// for a route that names none.
func InterfaceTo(hop netip.Addr) (string, error) {
	routes, err := netlink.RouteGet(hop.AsSlice())
	if err != nil || len(routes) == 0 {
		return "", problem.New(fmt.Sprintf("via %s: there is no route to it", hop), "add one, or name the interface: dev IF")
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	switch {
	case err != nil:
		return "", problem.Wrap(fmt.Errorf("via %s: its interface cannot be read: %w", hop, err), "name it: dev IF")
	case routes[0].Gw != nil:
		return "", problem.New(
			fmt.Sprintf("via %s: it is no neighbour, but behind %s on %s", hop, routes[0].Gw, link.Attrs().Name),
			fmt.Sprintf("name the neighbour, or dev %s", link.Attrs().Name),
		)
	case link.Attrs().Flags&net.FlagLoopback != 0:
		return "", problem.New(fmt.Sprintf("via %s: it is an address of this node", hop), "name the neighbour, or the interface: dev IF")
	}
	return link.Attrs().Name, nil
}

// NoRoute says why an address cannot be reached, "" when it can.
func NoRoute(dst netip.Addr) string {
	routes, err := netlink.RouteGet(dst.AsSlice())
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return "no route"
	case err != nil:
		return fmt.Sprintf("no usable route (%v)", err)
	case len(routes) == 0:
		return "no route"
	}
	return ""
}
