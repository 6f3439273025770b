// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/ioam"
)

// Interface describes one configured interface.
type Interface struct {
	Name        string
	MTU         int
	Down        bool   // administratively
	NoCarrier   bool   // though it is up: the cable, or who is at its other end
	KernelIOAM6 bool   // net.ipv6.conf.NAME.ioam6_enabled
	LRO         bool   // large receive offload is on
	GRO         bool   // generic receive offload is on
	XDPRefused  string // why attach: auto fell back from native XDP
	Hook        string // the ingress hook that is attached: xdp, tcx or clsact
	Fills       bool   // traces that arrive there are filled, for the stack
	Removes     bool   // headers that arrive there may be removed
	Keeps       bool   // though Removes, some of the traces that are filled stay in their packets
	Veth        bool   // it gets packets of another namespace, as large as that sends them
	Forwards    bool   // it forwards fast
	Differs     bool   // packets that arrive there get headers that differ within a TCP flow, and nodes after this one may have GRO
}

// Encapsulation describes one encapsulation rule.
type Encapsulation struct {
	Name        string
	Interface   string
	Insertion   int        // most bytes that it adds
	Options     int        // options in its Hop-by-Hop header, without padding
	Source      netip.Addr // Source and Destination of the tunnel, if there is one
	Destination netip.Addr
	NotOurs     bool               // the source is not an address of this node
	NoRoute     string             // why the tunnel destination cannot be reached
	PathMTU     int                // of the tunnel, in bytes; 0 when unknown
	PathUntil   time.Time          // when PathMTU expires
	Inline      bool               // it has mode inline
	Own         bool               // it matches only this node's own packets
	Unjoined    bool               // one of its Direct Exports has Sequence Numbers without Flow-IDs
	Exporting   bool               // it inserts a Direct Export, also into matching exports of other nodes
	Unselective bool               // it inserts one into every packet to a prefix, and this node makes a postcard for each
	ShadowedBy  string             // a rule before it that matches all of its packets
	Unknown     []ioam.NamespaceID // namespaces of its options that this node does not know
	TooSmall    []ioam.NamespaceID // namespaces of its traces without room for this node's own data
}

// acceptedOptions is the default of net.ipv6.max_hbh_opts_number: a stack drops
// packets with more options in their Hop-by-Hop header.
const acceptedOptions = 8

// Node holds everything that the checks of a running node examine.
type Node struct {
	TimestampFormat ioam.TimestampFormat
	Clock           Clock
	Interfaces      []Interface
	Missing         []MissingInterface // configured interfaces that do not exist
	Encapsulations  []Encapsulation
	Planned         []Encapsulation // those that mode full would have, in mode observe
	Decapsulations  []Decapsulation
	Unsent          []ioam.NamespaceID // they export, but there is no exporter
	Limited         []ioam.NamespaceID // they export every packet, as far as ExportLimit allows
	ExportLimit     uint32             // packets for one postcard
	Ends            []string           // tunnels and namespaces that should end here
	NoIngress       bool               // no interface has the ingress role
	Unsecured       []string           // collectors on other hosts that get records without TLS
	Indistinct      []string           // flows that loss queries of TWAMP Light may mean, if none has a session
	NoCollectors    bool               // none is configured, and the configuration does not say that there is none
	Forwards        bool               // it forwards packets
	OneClock        bool               // all nodes of the domain read this machine's clock
	Numbers         bool               // it inserts proofs of transit, whose numbers begin with the time
	PrivatePins     bool               // the BPF file system is only mounted in this process's mount namespace
	Anonymous       bool               // it fills traces, and has neither an id nor a wide one
}

// MissingInterface is a configured interface that does not exist.
type MissingInterface struct {
	Name     string
	Boundary string // of an edge that filters: drop or strip; else ""
}

func (m MissingInterface) warning() Warning {
	text := fmt.Sprintf("interface %s is configured but does not exist; it will be served as soon as it appears", m.Name)
	if m.Boundary == "" {
		return New(InterfaceMissing, m.Name, text, "create the interface, or remove it from the configuration")
	}
	w := New(InterfaceMissing, m.Name, text+"; if it has another name now, the edge of the domain is open there: boundary: "+m.Boundary+
		" does not apply",
		"create the interface, correct its name in the configuration, or remove it there")
	w.Severity = Error
	return w
}

// CheckNode checks a running node.
func CheckNode(n Node) []Warning {
	var ws []Warning
	for _, m := range n.Missing {
		ws = append(ws, m.warning())
	}
	for _, i := range n.Interfaces {
		ws = append(ws, checkInterface(i)...)
	}
	for _, e := range n.Encapsulations {
		ws = append(ws, checkEncapsulation(n, e)...)
	}
	for _, e := range n.Planned {
		ws = append(ws, plannedMTU(n, e)...)
	}
	if n.NoIngress && len(n.Ends) > 0 {
		ws = append(ws, unreached(n.Ends))
	}
	for _, d := range n.Decapsulations {
		ws = append(ws, checkDecapsulation(d)...)
	}
	if len(n.Unsent) > 0 {
		ws = append(ws, exportsUnsent(n.Unsent))
	}
	if len(n.Limited) > 0 {
		ws = append(ws, exportsLimited(n.Limited, n.ExportLimit))
	}
	if len(n.Unsecured) > 0 {
		ws = append(ws, exportsUnsecured(n.Unsecured))
	}
	if n.NoCollectors && slices.ContainsFunc(n.Encapsulations, func(e Encapsulation) bool { return e.Exporting }) {
		ws = append(ws, collectorsUnknown())
	}
	if len(n.Indistinct) > 0 {
		ws = append(ws, indistinct(n.Indistinct))
	}
	if n.Anonymous {
		ws = append(ws, New(NodeIDUnset, "",
			"this node fills traces and has no id: node.id is not set, and net.ipv6.ioam6_id has its default, which means \"not "+
				"available\"; traces do not say which node it is",
			"set node: {id: NUMBER} in the configuration file, or sysctl -w net.ipv6.ioam6_id=NUMBER"))
	}
	ws = append(ws, checkClock(n)...)
	if n.PrivatePins {
		ws = append(ws, New(BPFFSPrivate, "",
			"the BPF file system is mounted in this process's own mount namespace, so pinned programs and counters are lost when its "+
				"last process ends",
			"start the agent outside 'ip netns exec' and 'unshare -m', or with permission to enter the mount namespace of process 1"))
	}
	Sort(ws)
	return ws
}

// unusable warns of an interface that no packet passes.
func unusable(i Interface) []Warning {
	switch {
	case i.Down:
		return []Warning{New(InterfaceDown, i.Name,
			i.Name+" is served and administratively down: no packet passes it",
			fmt.Sprintf("ip link set %s up, or remove it from the configuration", i.Name))}
	case i.NoCarrier:
		return []Warning{New(InterfaceDown, i.Name,
			i.Name+" is served and has no carrier (NO-CARRIER): no packet passes it",
			fmt.Sprintf("check its cable or the other end (ip link show %s), or remove it from the configuration", i.Name))}
	}
	return nil
}

func checkInterface(i Interface) []Warning {
	ws := unusable(i)
	if i.KernelIOAM6 {
		ws = append(ws, New(KernelIOAM6, i.Name,
			fmt.Sprintf("net.ipv6.conf.%s.ioam6_enabled is 1: the kernel adds its own node data after this node's, so every trace "+
				"shows this hop twice", i.Name),
			fmt.Sprintf("sysctl -w net/ipv6/conf/%s/ioam6_enabled=0", i.Name)))
	}
	if i.LRO {
		ws = append(ws, New(LROEnabled, i.Name,
			fmt.Sprintf("%s merges received packets (LRO) before Waymark sees them: headers are lost, and drivers refuse native XDP", i.Name),
			fmt.Sprintf("ethtool -K %s lro off", i.Name)))
	}
	ws = append(ws, order(i)...)
	if i.XDPRefused != "" {
		ws = append(ws, New(XDPFallback, i.Name,
			fmt.Sprintf("%s is served by %s, because native XDP was refused: %s", i.Name, i.Hook, i.XDPRefused),
			fmt.Sprintf("set attach: %s to accept it; or remove the other program from XDP or lift the driver's limit (MTU, LRO, queues), "+
				"and set attach: xdp, which a virtual machine's tap cannot have where headers are removed", i.Hook)))
	}
	if i.Veth && i.Hook == "xdp" && !i.Forwards {
		ws = append(ws, New(XDPCopies, i.Name,
			fmt.Sprintf("%s is a veth with native XDP: the kernel copies each packet that its stack gets, and the other end sends no "+
				"large packets (GSO), so TCP through it is several times slower", i.Name),
			"attach: auto prefers tc there, after an 'agent stop --remove' if XDP is in place; or set attach: tcx"))
	}
	return ws
}

func checkEncapsulation(n Node, e Encapsulation) []Warning {
	var ws []Warning
	if n.Forwards && e.Inline && !e.Own {
		ws = append(ws, InlineOnRouter(e.Name, e.Interface))
	}
	if e.Unjoined {
		ws = append(ws, sequenceUnjoined(e.Name, e.Interface))
	}
	if e.Unselective {
		ws = append(ws, exportsUnselective(e.Name, e.Interface))
	}
	if e.ShadowedBy != "" {
		ws = append(ws, shadowed(e))
	}
	ws = append(ws, unfilled(e)...)
	if e.NoRoute != "" {
		ws = append(ws, New(TunnelUnroutable, e.Interface,
			fmt.Sprintf("encapsulation %s: tunnel destination %s: %s", e.Name, e.Destination, e.NoRoute),
			fmt.Sprintf("add a route to %s, or correct tunnel.destination", e.Destination)))
	}
	if e.NotOurs {
		ws = append(ws, New(PathMTUUnwatched, e.Interface,
			fmt.Sprintf("encapsulation %s: tunnel source %s is not an address of this node, so it gets no ICMPv6 errors: packets too "+
				"large for a link of the path are lost, and their senders do not learn of it", e.Name, e.Source),
			fmt.Sprintf("set tunnel.source to an address of this node to which the domain has a route, or: ip address add %s/128 dev lo", e.Source)))
	}
	if e.Options > acceptedOptions {
		ws = append(ws, New(OptionsOverLimit, e.Interface,
			fmt.Sprintf("encapsulation %s puts %d options into one header: by default, Linux routers and hosts on the path drop "+
				"packets with %d options or more", e.Name, e.Options, acceptedOptions+1),
			fmt.Sprintf("sysctl -w net.ipv6.max_hbh_opts_number=%d on every node of the path, or insert at most %d", e.Options, acceptedOptions)))
	}
	return append(ws, checkMTU(n, e)...)
}

func checkClock(n Node) []Warning {
	var ws []Warning
	if !n.Clock.Synchronised && !n.OneClock {
		text := "the kernel's clock is not synchronised (STA_UNSYNC): transit delays of this node are right, times and delays " +
			"between it and nodes of other machines are not"
		if n.Numbers {
			text += "; while it is behind, the last node refuses this node's proofs of transit as old (pot_too_old)"
		}
		ws = append(ws, New(ClockUnsynced, "", text,
			"run an NTP or PTP client (chrony, ptp4l with phc2sys), and wait until it has set the clock"))
	}
	if n.TimestampFormat == ioam.TimestampPTP && n.Clock.TAIOffset == 0 {
		ws = append(ws, New(TAIOffsetZero, "",
			"timestamp-format is ptp, which counts TAI seconds, but the kernel's offset of TAI from UTC is 0: timestamps are UTC",
			"let chrony set it (leapsectz right/UTC), or ptp4l and phc2sys; or use timestamp-format: posix"))
	}
	return ws
}
