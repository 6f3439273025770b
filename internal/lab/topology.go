// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/problem"
)

// Limits of a topology; a lab is one machine.
const (
	maxNodes        = 64
	maxLinks        = 256
	maxRoutes       = 256 // of one node
	maxPaths        = 16  // of one route
	maxAddresses    = 16  // of one interface
	maxTraffic      = 64
	maxTopologySize = 1 << 20
	defaultMTU      = 1500
	minMTU          = 1280 // RFC 8200 §5
	maxMTU          = 65535
)

// Topology is a network of nodes on one machine. The zero value is empty; Load, Parse
// and Builtin return checked topologies.
type Topology struct {
	Name                string
	Description         string
	PermanentNeighbours bool // every node knows its neighbours from the start
	Nodes               []NodeSpec
	Links               []LinkSpec
	Traffic             []Traffic

	source []byte
}

// NodeSpec is one node: a network namespace.
type NodeSpec struct {
	Name       string
	Forwarding bool           // default: when it has more than one link
	Addresses  []netip.Prefix // of the loopback interface
	Routes     []RouteSpec
	Agent      *AgentSpec // nil: no agent runs there

	SegmentRouting bool       // its interfaces accept segment routing headers
	TunnelSource   netip.Addr // of packets that seg6 routes encapsulate; invalid: the kernel's choice

	at            position
	forwardingSet bool
	doubtful      bool // the node has an error: nothing is reported as missing in it
}

// AgentSpec is the configuration of the agent that runs on a node.
type AgentSpec struct {
	Config   []byte         // as in the agent's own file
	Settings *config.Config // Config, parsed

	at   position
	tree ast.Node
}

// RouteSpec is a static route; several next hops are equal paths.
type RouteSpec struct {
	To    netip.Prefix
	Via   []netip.Addr
	Encap *EncapSpec // nil: packets stay as they are

	at position
}

// LinkSpec is a veth pair.
type LinkSpec struct {
	MTU  int
	Ends [2]LinkEnd

	at position
}

// LinkEnd is one interface of a link.
type LinkEnd struct {
	Node      string
	Interface string
	Addresses []netip.Prefix

	at position
}

// Kinds of traffic.
const (
	KindPing = "ping"
	KindUDP  = "udp"
	KindTCP  = "tcp"
)

// Traffic is one bounded exchange between two nodes.
type Traffic struct {
	Name     string
	Kind     string
	From, To string        // names of nodes
	Count    int           // packets (ping, udp)
	Interval time.Duration // between packets (ping, udp)
	Size     int           // payload bytes of a packet (ping, udp)
	Bytes    int64         // of the transfer (tcp)
	Port     uint16        // of the receiver (udp, tcp)
	Address  netip.Addr    // of the receiver; invalid: the one that Topology.Address gives

	at position
}

//go:embed topologies/*.yaml
var builtin embed.FS

// BuiltinNames lists the topologies that come with the program.
func BuiltinNames() []string {
	entries, err := builtin.ReadDir("topologies")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Builtin returns a topology that comes with the program.
func Builtin(name string) (*Topology, error) {
	source, err := builtin.ReadFile(path.Join("topologies", name+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New(
			fmt.Sprintf("no topology is called %q", name),
			fmt.Sprintf("use one of %s, or the path of a file", strings.Join(BuiltinNames(), ", ")),
		)
	}
	if err != nil {
		return nil, err
	}
	return Parse(name+".yaml", source)
}

// Load returns the topology in a file, or the built-in one of that name.
func Load(nameOrFile string) (*Topology, error) {
	if !strings.ContainsAny(nameOrFile, "/.") {
		return Builtin(nameOrFile)
	}
	info, err := os.Stat(nameOrFile)
	if err != nil {
		return nil, problem.Wrap(
			fmt.Errorf("read the topology: %w", err),
			fmt.Sprintf("built in are %s", strings.Join(BuiltinNames(), ", ")),
		)
	}
	if !info.Mode().IsRegular() || info.Size() > maxTopologySize {
		return nil, problem.New(
			fmt.Sprintf("%s is not a topology", nameOrFile),
			fmt.Sprintf("give a YAML file of at most %d bytes", maxTopologySize),
		)
	}
	source, err := os.ReadFile(nameOrFile)
	if err != nil {
		return nil, fmt.Errorf("read the topology: %w", err)
	}
	return Parse(nameOrFile, source)
}

// Node finds a node by name; nil when there is none.
func (t *Topology) Node(name string) *NodeSpec {
	for i := range t.Nodes {
		if t.Nodes[i].Name == name {
			return &t.Nodes[i]
		}
	}
	return nil
}

// Ends lists the link ends at a node, in the order of the links.
func (t *Topology) Ends(node string) []LinkEnd {
	var ends []LinkEnd
	for _, link := range t.Links {
		for _, end := range link.Ends {
			if end.Node == node {
				ends = append(ends, end)
			}
		}
	}
	return ends
}

// Address is the address at which other nodes reach a node: the first of its
// links, else the first of its loopback interface.
func (t *Topology) Address(node string) (netip.Addr, bool) {
	for _, end := range t.Ends(node) {
		if len(end.Addresses) > 0 {
			return end.Addresses[0].Addr(), true
		}
	}
	if n := t.Node(node); n != nil && len(n.Addresses) > 0 {
		return n.Addresses[0].Addr(), true
	}
	return netip.Addr{}, false
}

// owns reports whether an address is one of a node.
func (t *Topology) owns(node string, a netip.Addr) bool {
	is := func(p netip.Prefix) bool { return p.Addr() == a }
	for _, end := range t.Ends(node) {
		if slices.ContainsFunc(end.Addresses, is) {
			return true
		}
	}
	n := t.Node(node)
	return n != nil && slices.ContainsFunc(n.Addresses, is)
}

// outgoing finds the interface whose link has the next hop on it.
func (t *Topology) outgoing(node string, via netip.Addr) (string, bool) {
	for _, end := range t.Ends(node) {
		for _, p := range end.Addresses {
			if p.Contains(via) && p.Addr() != via {
				return end.Interface, true
			}
		}
	}
	return "", false
}
