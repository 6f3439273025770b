// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// site is where an experiment takes place: one network namespace with the
// sources and sinks of all lines, and a namespace for each node. The
// namespaces have no names, nor has the file system of the pins: all of it goes
// with this process.
//
//	source s ──── n0 node n1 ──── n0 node n1 ──── k sink
//
// All lines are there at the same time, each with its own treatment, so that
// variants can take turns within milliseconds.
type site struct {
	ends    netns.NsHandle
	pins    string // a BPF file system
	unpin   func()
	traffic *traffic

	guard sync.Mutex       // of lines, while they are raised
	lines map[string]*line // by the treatments of its nodes
}

// line is a chain of nodes between a source and a sink.
type line struct {
	source, sink netlink.Link
	nodes        []*node
	pace         float64 // packets per second, as last seen; 0: not yet

	looks      int    // packets that were sent to be looked at
	aggregated uint64 // packets that have been added to flows since, and not suppressed
}

// node forwards what arrives at in to out.
type node struct {
	ns      netns.NsHandle
	in, out netlink.Link
	// counters reads what the programs counted; nil without programs of ours.
	counters func() ([]datapath.Counters, error)
	reader   *reader        // nil: nobody wants records
	stops    []func() error // end the treatment
}

func (n *node) inIndex() model.IfIndex  { return model.IfIndex(n.in.Attrs().Index) }
func (n *node) outIndex() model.IfIndex { return model.IfIndex(n.out.Attrs().Index) }

var nodeSysctls = []struct{ name, value string }{
	{"net/ipv6/conf/all/disable_ipv6", "0"},
	{"net/ipv6/conf/default/disable_ipv6", "0"},
	{"net/ipv6/conf/all/accept_dad", "0"},
	{"net/ipv6/conf/default/accept_dad", "0"},
	{"net/ipv6/conf/default/router_solicitations", "0"},
	{"net/ipv6/conf/all/forwarding", "1"},
	// The kernel drops packets with more than 8 options, as 9 namespaces need.
	{"net/ipv6/max_hbh_opts_number", "32"},
}

// newSite makes the ends; lines are added one by one.
func newSite() (*site, error) {
	s := &site{lines: make(map[string]*line)}
	var err error
	if s.pins, s.unpin, err = privatePins(); err != nil {
		return nil, err
	}
	if s.ends, err = newNamespace(); err != nil {
		s.unpin()
		return nil, err
	}
	err = inNamespace(s.ends, func() error { return writeSysctl("net/ipv6/conf/default/disable_ipv6", "1") })
	if err == nil {
		s.traffic, err = newTraffic(s.ends)
	}
	if err != nil {
		s.ends.Close()
		s.unpin()
		return nil, err
	}
	return s, nil
}

// close ends all treatments and lets go of namespaces and pins.
func (s *site) close() error {
	var errs []error
	for _, l := range s.lines {
		errs = append(errs, l.close())
	}
	s.traffic.close()
	s.ends.Close()
	s.unpin()
	return errors.Join(errs...)
}

// privatePins mounts a BPF file system that only this process sees, by a path
// that leads through its open file; it goes with the process, and nothing is
// left of where it was mounted.
func privatePins() (path string, release func(), err error) {
	directory, err := os.MkdirTemp("", "waymark-bench-")
	if err != nil {
		return "", nil, err
	}
	defer os.Remove(directory)
	if err := unix.Mount("bpf", directory, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return "", nil, fmt.Errorf("mount a BPF file system: %w; run as root", err)
	}
	fd, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if unmount := unix.Unmount(directory, unix.MNT_DETACH); err == nil {
		err = unmount
	}
	if err != nil {
		return "", nil, fmt.Errorf("open the BPF file system: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { unix.Close(fd) }, nil
}

func (l *line) close() error {
	var errs []error
	for _, n := range l.nodes {
		for _, stop := range n.stops {
			errs = append(errs, stop())
		}
		n.ns.Close()
	}
	return errors.Join(errs...)
}

// add raises a line whose nodes are treated as said; each has a number.
func (s *site) add(number int, key string, treatments []treatment, sinkInXDP bool) (err error) {
	l := &line{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	at, name := s.ends, fmt.Sprintf("s%d", number)
	towards := &l.source
	for range treatments {
		n, err := newNode()
		if err != nil {
			return err
		}
		l.nodes = append(l.nodes, n)
		if *towards, n.in, err = connect(at, name, n.ns, "n0"); err != nil {
			return err
		}
		at, name, towards = n.ns, "n1", &n.out
	}
	if *towards, l.sink, err = connect(at, name, s.ends, fmt.Sprintf("k%d", number)); err != nil {
		return err
	}
	for i, n := range l.nodes {
		next := l.sink
		if i+1 < len(l.nodes) {
			next = l.nodes[i+1].in
		}
		if err := n.route(next.Attrs().HardwareAddr); err != nil {
			return err
		}
		if err := n.treat(treatments[i], fmt.Sprintf("%s/%d-%d", s.pins, number, i)); err != nil {
			return fmt.Errorf("%s: %w", treatments[i].name, err)
		}
	}
	if err := s.traffic.collect(l.sink, sinkInXDP); err != nil {
		return err
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	s.lines[key] = l
	return nil
}

func newNode() (*node, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	err = inNamespace(ns, func() error {
		for _, s := range nodeSysctls {
			if err := writeSysctl(s.name, s.value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		ns.Close()
		return nil, err
	}
	return &node{ns: ns}, nil
}

// Addresses of a node's link to the next one, the same everywhere.
const (
	linkAddress = "2001:db8:f::1/64"
	linkGateway = "2001:db8:f::2"
)

// routed are the prefixes that a node has a route to.
var routed = []netip.Prefix{
	netip.MustParsePrefix("2001:db8:2::/48"), netip.MustParsePrefix("2001:db8:4::/48"), netip.PrefixFrom(tunnelEnd, 128),
}

// route gives the node what it forwards by. The neighbour is permanent: the
// sink answers nobody.
func (n *node) route(next net.HardwareAddr) error {
	h, err := netlink.NewHandleAt(n.ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	defer h.Close()
	prefix, gateway := netip.MustParsePrefix(linkAddress), netip.MustParseAddr(linkGateway)
	if err := h.AddrAdd(n.out, &netlink.Addr{IPNet: network(prefix), Flags: unix.IFA_F_NODAD}); err != nil {
		return fmt.Errorf("give n1 the address %s: %w", prefix, err)
	}
	index := n.out.Attrs().Index
	err = h.NeighSet(&netlink.Neigh{
		LinkIndex: index, Family: unix.AF_INET6, State: netlink.NUD_PERMANENT, IP: gateway.AsSlice(), HardwareAddr: next,
	})
	if err != nil {
		return fmt.Errorf("set the neighbour %s: %w", gateway, err)
	}
	for _, to := range routed {
		if err := h.RouteAdd(&netlink.Route{LinkIndex: index, Gw: gateway.AsSlice(), Dst: network(to)}); err != nil {
			return fmt.Errorf("add the route to %s: %w", to, err)
		}
	}
	return nil
}

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// addressed is a frame from the source to the first node.
func (l *line) addressed(frame []byte) []byte {
	out := append([]byte(nil), frame...)
	copy(out, l.nodes[0].in.Attrs().HardwareAddr)
	copy(out[6:], l.source.Attrs().HardwareAddr)
	return out
}
