// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
)

// readyTimeout is how long a lab may take to have carrier on every link and to
// finish with duplicate addresses; both are done in milliseconds unless
// something is wrong.
var readyTimeout = patience.Of(10 * time.Second)

const readyPoll = 5 * time.Millisecond

// sysctls are set in every node before it has an interface. Duplicate address
// detection would keep a router from resolving neighbours for its first
// second; router solicitations would be unwanted traffic.
var sysctls = []struct{ name, value string }{
	{"net/ipv6/conf/all/disable_ipv6", "0"},
	{"net/ipv6/conf/default/disable_ipv6", "0"},
	{"net/ipv6/conf/lo/disable_ipv6", "0"},
	{"net/ipv6/conf/all/accept_dad", "0"},
	{"net/ipv6/conf/default/accept_dad", "0"},
	{"net/ipv6/conf/default/dad_transmits", "0"},
	{"net/ipv6/conf/default/accept_ra", "0"},
	{"net/ipv6/conf/default/router_solicitations", "0"},
	// Paths are chosen by addresses, protocol and ports.
	{"net/ipv6/fib_multipath_hash_policy", "1"},
}

// network raises and wires the links of a topology.
type network struct {
	topology *Topology
	nodes    map[string]netns.NsHandle
	handles  map[string]*netlink.Handle
}

func newNetwork(t *Topology, nodes map[string]netns.NsHandle) (*network, error) {
	n := &network{topology: t, nodes: nodes, handles: map[string]*netlink.Handle{}}
	for name, ns := range nodes {
		h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
		if err != nil {
			n.close()
			return nil, fmt.Errorf("open a netlink socket in %s: %w", name, err)
		}
		n.handles[name] = h
	}
	return n, nil
}

func (n *network) close() {
	for _, h := range n.handles {
		h.Close()
	}
}

// raise makes the whole network, which is removed with the namespaces.
func (n *network) raise(ctx context.Context) error {
	steps := []func(context.Context) error{
		n.prepare, n.connect, n.awaitCarrier, n.address, n.route, n.awaitAddresses, n.addPermanentNeighbours,
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (n *network) prepare(context.Context) error {
	for _, node := range n.topology.Nodes {
		forwarding := "0"
		if node.Forwarding {
			forwarding = "1"
		}
		err := inNamespace(n.nodes[node.Name], func() error {
			for _, s := range sysctls {
				if err := writeSysctl(s.name, s.value); err != nil {
					return err
				}
			}
			if err := writeSysctl("net/ipv6/conf/all/forwarding", forwarding); err != nil {
				return err
			}
			return prepareSegmentRouting(node)
		})
		if err != nil {
			return fmt.Errorf("prepare %s: %w", node.Name, err)
		}
		h := n.handles[node.Name]
		lo, err := h.LinkByName("lo")
		if err == nil {
			err = h.LinkSetUp(lo)
		}
		if err != nil {
			return fmt.Errorf("raise lo of %s: %w", node.Name, err)
		}
		if err := n.addAddresses(node.Name, "lo", node.Addresses); err != nil {
			return err
		}
	}
	return nil
}

// prepareSegmentRouting sets, in this thread's namespace, what segment routing needs
// before there are interfaces: they inherit the default.
func prepareSegmentRouting(node NodeSpec) error {
	if node.SegmentRouting {
		for _, scope := range []string{"all", "default"} {
			if err := writeSysctl("net/ipv6/conf/"+scope+"/seg6_enabled", "1"); err != nil {
				return err
			}
		}
	}
	if node.TunnelSource.IsValid() {
		return setTunnelSource(node.TunnelSource)
	}
	return nil
}

func writeSysctl(name, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0)
}

// connect makes each veth pair directly in its namespaces, so that no name is taken in
// the namespace from which the lab is raised.
func (n *network) connect(ctx context.Context) error {
	for _, link := range n.topology.Links {
		if err := ctx.Err(); err != nil {
			return err
		}
		a, b := link.Ends[0], link.Ends[1]
		veth := netlink.NewVeth(netlink.LinkAttrs{Name: a.Interface, MTU: link.MTU, TxQLen: -1})
		veth.PeerName = b.Interface
		veth.PeerMTU = uint32(link.MTU)
		veth.PeerNamespace = netlink.NsFd(n.nodes[b.Node])
		if err := n.handles[a.Node].LinkAdd(veth); err != nil {
			return fmt.Errorf("make the link %s %s - %s %s: %w", a.Node, a.Interface, b.Node, b.Interface, err)
		}
		for _, end := range link.Ends {
			h := n.handles[end.Node]
			l, err := h.LinkByName(end.Interface)
			if err == nil {
				err = h.LinkSetUp(l)
			}
			if err != nil {
				return fmt.Errorf("raise %s of %s: %w", end.Interface, end.Node, err)
			}
		}
	}
	return nil
}

// awaitCarrier waits until every link is up: the kernel makes no route over an
// interface without carrier.
func (n *network) awaitCarrier(ctx context.Context) error {
	return n.await(ctx, "carrier", func(h *netlink.Handle, end LinkEnd) (bool, error) {
		l, err := h.LinkByName(end.Interface)
		if err != nil {
			return false, err
		}
		return l.Attrs().OperState == netlink.OperUp, nil
	})
}

// awaitAddresses waits until no address, link-local ones included, is tentative.
func (n *network) awaitAddresses(ctx context.Context) error {
	return n.await(ctx, "usable addresses", func(h *netlink.Handle, end LinkEnd) (bool, error) {
		l, err := h.LinkByName(end.Interface)
		if err != nil {
			return false, err
		}
		addrs, err := h.AddrList(l, netlink.FAMILY_V6)
		if err != nil {
			return false, err
		}
		linkLocal := false
		for _, a := range addrs {
			if a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
				return false, nil
			}
			linkLocal = linkLocal || a.IP.IsLinkLocalUnicast()
		}
		return linkLocal, nil
	})
}

func (n *network) await(ctx context.Context, what string, ready func(*netlink.Handle, LinkEnd) (bool, error)) error {
	deadline := time.Now().Add(readyTimeout)
	for _, link := range n.topology.Links {
		for _, end := range link.Ends {
			for {
				ok, err := ready(n.handles[end.Node], end)
				if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // by a change: it looks again
					return fmt.Errorf("look at %s of %s: %w", end.Interface, end.Node, err)
				}
				if ok {
					break
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("%s of %s has no %s after %v; is IPv6 disabled on this machine?", end.Interface, end.Node, what, readyTimeout)
				}
				if err := sleep(ctx, readyPoll); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (n *network) address(context.Context) error {
	for _, link := range n.topology.Links {
		for _, end := range link.Ends {
			if err := n.addAddresses(end.Node, end.Interface, end.Addresses); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *network) addAddresses(node, name string, prefixes []netip.Prefix) error {
	h := n.handles[node]
	l, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s of %s: %w", name, node, err)
	}
	for _, p := range prefixes {
		if err := h.AddrAdd(l, &netlink.Addr{IPNet: ipNet(p), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("give %s of %s the address %v: %w", name, node, p, err)
		}
	}
	return nil
}

func (n *network) route(context.Context) error {
	for _, node := range n.topology.Nodes {
		for _, r := range node.Routes {
			route, err := n.kernelRoute(node.Name, r)
			if err != nil {
				return err
			}
			if err := n.handles[node.Name].RouteAdd(route); err != nil {
				return fmt.Errorf("give %s the route to %v: %w", node.Name, r.To, err)
			}
		}
	}
	return nil
}

// kernelRoute is a route in the form in which the kernel takes it.
func (n *network) kernelRoute(node string, r RouteSpec) (*netlink.Route, error) {
	route := &netlink.Route{Dst: ipNet(r.To), Protocol: unix.RTPROT_STATIC}
	if r.Encap.local() {
		// The kernel wants a device other than lo, and does not use it.
		l, err := n.handles[node].LinkByName(n.topology.Ends(node)[0].Interface)
		if err != nil {
			return nil, fmt.Errorf("find the first interface of %s: %w", node, err)
		}
		route.LinkIndex, route.Encap = l.Attrs().Index, r.Encap.kernel()
		return route, nil
	}
	for _, via := range r.Via {
		name, ok := n.topology.outgoing(node, via)
		if !ok {
			return nil, fmt.Errorf("next hop %v is on no link of %s", via, node)
		}
		l, err := n.handles[node].LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("find %s of %s: %w", name, node, err)
		}
		route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: l.Attrs().Index, Gw: via.AsSlice(), Encap: r.Encap.kernel()})
	}
	if len(route.MultiPath) == 1 {
		only := route.MultiPath[0]
		route.LinkIndex, route.Gw, route.Encap, route.MultiPath = only.LinkIndex, only.Gw, only.Encap, nil
	}
	return route, nil
}

// addPermanentNeighbours adds the other end's addresses as permanent neighbours, if the topology
// wants that.
func (n *network) addPermanentNeighbours(context.Context) error {
	if !n.topology.PermanentNeighbours {
		return nil
	}
	for _, link := range n.topology.Links {
		for i, end := range link.Ends {
			other := link.Ends[1-i]
			mine, err := n.handles[end.Node].LinkByName(end.Interface)
			if err != nil {
				return fmt.Errorf("find %s of %s: %w", end.Interface, end.Node, err)
			}
			theirs, err := n.handles[other.Node].LinkByName(other.Interface)
			if err != nil {
				return fmt.Errorf("find %s of %s: %w", other.Interface, other.Node, err)
			}
			for _, p := range other.Addresses {
				err := n.handles[end.Node].NeighSet(&netlink.Neigh{
					LinkIndex: mine.Attrs().Index, Family: netlink.FAMILY_V6, State: netlink.NUD_PERMANENT,
					IP: p.Addr().AsSlice(), HardwareAddr: theirs.Attrs().HardwareAddr,
				})
				if err != nil {
					return fmt.Errorf("make %v a neighbour of %s: %w", p.Addr(), end.Node, err)
				}
			}
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// sleep waits unless the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
