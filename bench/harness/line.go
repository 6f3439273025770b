// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

// Site is where an experiment runs: one network namespace with the sources and
// sinks of all lines, and a namespace for each node. The namespaces and the pins'
// file system have no names, so all of it disappears with this process.
//
//	source s ──── n0 node n1 ──── n0 node n1 ──── k sink
//
// All lines exist at the same time, each with its own treatment, so that variants
// can take turns within milliseconds.
type Site struct {
	ends    netns.NsHandle
	Pins    string // a BPF file system
	unpin   func()
	Traffic *traffic

	guard sync.Mutex       // of lines, while they are raised
	Lines map[string]*line // by the treatments of its nodes
}

// line is a chain of nodes between a source and a sink.
type line struct {
	source, sink netlink.Link
	Nodes        []*Node
	pace         float64 // packets per second, as last measured; 0: not yet

	looks      int    // packets that were sent to check how they arrive
	aggregated uint64 // packets that have been added to flows since, and not suppressed
}

// Node forwards what arrives at in through out.
type Node struct {
	Namespace netns.NsHandle
	in, out   netlink.Link
	// counters reads the programs' counters; nil without our programs.
	counters func() ([]datapath.Counters, error)
	// measured visits what measured flows counted in a block; nil without flows.
	measured func(block uint64, visit func(datapath.BlockCounts))
	block    time.Duration  // its length
	reader   *reader        // nil: no reader
	stops    []func() error // each ends a part of the treatment
}

func (n *Node) InIndex() model.IfIndex  { return model.IfIndex(n.in.Attrs().Index) }
func (n *Node) OutIndex() model.IfIndex { return model.IfIndex(n.out.Attrs().Index) }

var nodeSysctls = []struct{ name, value string }{
	{"net/ipv6/conf/all/disable_ipv6", "0"},
	{"net/ipv6/conf/default/disable_ipv6", "0"},
	{"net/ipv6/conf/all/accept_dad", "0"},
	{"net/ipv6/conf/default/accept_dad", "0"},
	{"net/ipv6/conf/default/router_solicitations", "0"},
	{"net/ipv6/conf/all/forwarding", "1"},
	// The kernel drops packets with more than 8 options by default; 9 namespaces
	// need more.
	{"net/ipv6/max_hbh_opts_number", "32"},
}

// NewSite makes the ends; Add adds the lines one by one.
func NewSite() (*Site, error) {
	s := &Site{Lines: make(map[string]*line)}
	var err error
	if s.Pins, s.unpin, err = PrivatePins(); err != nil {
		return nil, err
	}
	if s.ends, err = NewNamespace(); err != nil {
		s.unpin()
		return nil, err
	}
	err = InNamespace(s.ends, func() error { return writeSysctl("net/ipv6/conf/default/disable_ipv6", "1") })
	if err == nil {
		s.Traffic, err = newTraffic(s.ends)
	}
	if err != nil {
		s.ends.Close()
		s.unpin()
		return nil, err
	}
	return s, nil
}

// Close ends all treatments and releases namespaces and pins.
func (s *Site) Close() error {
	var errs []error
	for _, l := range s.Lines {
		errs = append(errs, l.close())
	}
	s.Traffic.close()
	s.ends.Close()
	s.unpin()
	return errors.Join(errs...)
}

// PrivatePins mounts a BPF file system that only this process sees. The path
// leads through its open file, so it disappears with the process and leaves no
// mount.
func PrivatePins() (path string, release func(), err error) {
	directory, err := os.MkdirTemp("", "waymark-bench-")
	if err != nil {
		return "", nil, err
	}
	defer os.Remove(directory)
	if err := unix.Mount("bpf", directory, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return "", nil, problem.Wrap(fmt.Errorf("mount a BPF file system: %w", err), "run as root")
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
	for _, n := range l.Nodes {
		for _, stop := range n.stops {
			errs = append(errs, stop())
		}
		n.Namespace.Close()
	}
	return errors.Join(errs...)
}

// Links say how the links of a line are made, and where packets leave it.
type Links struct {
	Queues    int  // of each link; 0: one for each CPU
	SinkInXDP bool // else in tc
}

// Add raises a line with one node for each treatment, or none; each line has a
// number.
func (s *Site) Add(number int, key string, treatments []Treatment, links Links) (err error) {
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
		l.Nodes = append(l.Nodes, n)
		if *towards, n.in, err = connect(at, name, n.Namespace, "n0", links.Queues); err != nil {
			return err
		}
		at, name, towards = n.Namespace, "n1", &n.out
	}
	if *towards, l.sink, err = connect(at, name, s.ends, fmt.Sprintf("k%d", number), links.Queues); err != nil {
		return err
	}
	for i, n := range l.Nodes {
		next := l.sink
		if i+1 < len(l.Nodes) {
			next = l.Nodes[i+1].in
		}
		if err := n.route(next.Attrs().HardwareAddr); err != nil {
			return err
		}
		if err := n.treat(treatments[i], fmt.Sprintf("%s/%d-%d", s.Pins, number, i)); err != nil {
			return fmt.Errorf("%s: %w", treatments[i].Name, err)
		}
	}
	if err := s.Traffic.collect(l.sink, links.SinkInXDP); err != nil {
		return err
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	s.Lines[key] = l
	return nil
}

func newNode() (*Node, error) {
	ns, err := NewNamespace()
	if err != nil {
		return nil, err
	}
	err = InNamespace(ns, func() error {
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
	return &Node{Namespace: ns}, nil
}

// Addresses of all measurements. Traffic goes from Source to Destination, tunnels
// end at TunnelEnd, and no encapsulation matches Elsewhere.
var (
	Source      = netip.MustParseAddr("2001:db8:1::2")
	Destination = netip.MustParseAddr("2001:db8:2::2")
	Elsewhere   = netip.MustParseAddr("2001:db8:4::2")
	TunnelStart = netip.MustParseAddr("2001:db8:a::1")
	TunnelEnd   = netip.MustParseAddr("2001:db8:b::1")
)

// Addresses of a node's link to the next one, the same for all nodes.
const (
	linkAddress = "2001:db8:f::1/64"
	linkGateway = "2001:db8:f::2"
)

// routed are the prefixes that a node has a route to.
var routed = []netip.Prefix{
	netip.MustParsePrefix("2001:db8:2::/48"), netip.MustParsePrefix("2001:db8:4::/48"), netip.PrefixFrom(TunnelEnd, 128),
}

// route sets up the node's addresses and routes. The neighbour is permanent,
// because the sink does not answer.
func (n *Node) route(next net.HardwareAddr) error {
	h, err := netlink.NewHandleAt(n.Namespace, unix.NETLINK_ROUTE)
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

// addressed is a frame with the link-layer addresses of the source and the first
// node, or of the sink if there is none.
func (l *line) addressed(frame []byte) []byte {
	next := l.sink
	if len(l.Nodes) > 0 {
		next = l.Nodes[0].in
	}
	out := append([]byte(nil), frame...)
	copy(out, next.Attrs().HardwareAddr)
	copy(out[6:], l.source.Attrs().HardwareAddr)
	return out
}
