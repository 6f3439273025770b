// SPDX-License-Identifier: Apache-2.0

package record

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Path is the path of one packet, joined from its postcards. Its JSON names are a
// contract: they are added to, never changed.
type Path struct {
	Time      instant.Time // at the first node that reported a time
	Namespace ioam.NamespaceID
	TraceType ioam.TraceType
	FlowID    uint32
	Sequence  uint32
	Packet    Packet
	Complete  bool
	Reason    PathReason // why the path is incomplete
	Verdict   PathVerdict
	Unknown   []Doubtful // why it is not known whether the packet was lost
	Silent    int        // of a lost packet: nodes after LastSeen that report nothing, and that it may have passed
	LastSeen  *LastSeen  // the last node that reported the packet
	Missing   []int      // hop limits that no node reported
	Nodes     []PathNode // in path order
	Delay     *int64     // from the encapsulating to the decapsulating node
}

// LastSeen is the last node that reported a packet.
type LastSeen struct {
	Node     string
	Exporter netip.Addr
	NodeID   Field[ioam.NodeID]
	HopLimit Field[uint8]
	Egress   string
	EgressID Field[model.IfIndex]
}

// PathNode is one node's report about the packet. Timestamp is the node's, or when it
// observed the packet.
type PathNode struct {
	Node           string // name, if its exporter sent it
	Exporter       netip.Addr
	Role           NodeRole
	Ingress        string
	Egress         string
	IngressIfIndex model.IfIndex
	EgressIfIndex  model.IfIndex
	NodeData
	SincePrevious *int64 // negative where clocks differ
}

// Kind is "path".
func (r *Path) Kind() string { return KindPath }

// paths declares the fields of a path.
var paths = table[*Path]{
	field("time", "", "When the packet was at the first node that reported a time.", func(p *Path) *instant.Time { return &p.Time }, moment()),
	field("namespace", "", meaningNamespace, func(p *Path) *ioam.NamespaceID { return &p.Namespace }, number[ioam.NamespaceID]()),
	field("trace_type", "", meaningTraceType, func(p *Path) *ioam.TraceType { return &p.TraceType }, word[ioam.TraceType]()),
	field("flow_id", "", "Flow-ID of the option (RFC 9326 §3.2).", func(p *Path) *uint32 { return &p.FlowID }, number[uint32]()),
	field("sequence", "", "Sequence Number of the option (RFC 9326 §3.2).", func(p *Path) *uint32 { return &p.Sequence }, number[uint32]()),
	field(
		"packet",
		"",
		"The packet within the tunnel, absent when it is not known.",
		func(p *Path) *Packet { return &p.Packet },
		present(object(packetTable)),
	),
	field("complete", "", "Every node of the path reported the packet.", func(p *Path) *bool { return &p.Complete }, truth()),
	field("reason", "", "Why not: [the reasons](../how-to/collect-postcards.md#when-a-path-is-complete). Absent when it is complete.",
		func(p *Path) *PathReason { return &p.Reason }, present(word[PathReason]())),
	field("last_seen", "", "The last node that reported the packet, absent when the decapsulating node did.",
		func(p *Path) **LastSeen { return &p.LastSeen }, pointer(object(lastSeenTable))),
	field("missing_hops", "", "Hop limits between the ends that no node reported; absent when there are none.",
		func(p *Path) *[]int { return &p.Missing }, filled(list(integer[int]()))),
	field("nodes", "", "In the order of the path.", func(p *Path) *[]PathNode { return &p.Nodes }, list(object(pathNodeTable))),
	field("delay_ns", "nanoseconds", "From the encapsulating to the decapsulating node; absent when one of them did not report a time.",
		func(p *Path) **int64 { return &p.Delay }, pointer(integer[int64]())),
	field(
		"verdict",
		"",
		"`arrived`: a decapsulating node reported the packet. `lost`: every node that is known to be after `last_seen` has reported that time "+
			"without a gap, but not this packet. `unknown`: neither is known. Absent in records of earlier versions.",
		func(p *Path) *PathVerdict { return &p.Verdict },
		present(word[PathVerdict]()),
	),
	field("unknown", "", "Why it is not known whether the packet was lost; absent otherwise.",
		func(p *Path) *[]Doubtful { return &p.Unknown }, filled(list(object(doubtfulTable)))),
	field(
		"silent_hops",
		"nodes",
		"Of a lost packet: how many nodes after `last_seen` reported nothing of other packets either, by their hop limits. "+
			"The packet may have passed them. Absent when there are none.",
		func(p *Path) *int { return &p.Silent },
		present(integer[int]()),
	),
}

var lastSeenTable = table[*LastSeen]{
	field("node", "", meaningNode, func(l *LastSeen) *string { return &l.Node }, present(textual())),
	field("exporter", "", "Address from which its records came.", func(l *LastSeen) *netip.Addr { return &l.Exporter }, address()),
	field("node_id", "", "node_id of RFC 9197.", func(l *LastSeen) *Field[ioam.NodeID] { return &l.NodeID }, optional(number[ioam.NodeID]())),
	field(
		"hop_limit",
		"",
		"Hop limit that the node found.",
		func(l *LastSeen) *Field[uint8] { return &l.HopLimit },
		optional(number[uint8]()),
	),
	field("egress", "", meaningEgress, func(l *LastSeen) *string { return &l.Egress }, present(textual())),
	field(
		"egress_ifindex",
		"",
		meaningIfIndex,
		func(l *LastSeen) *Field[model.IfIndex] { return &l.EgressID },
		optional(number[model.IfIndex]()),
	),
}

// pathNodeTable has the node data among its own fields. timestamp is the node's, or
// when it saw the packet.
var pathNodeTable = append(append(table[*PathNode]{
	field("node", "", meaningNode, func(n *PathNode) *string { return &n.Node }, present(textual())),
	field("exporter", "", "Address from which its records came.", func(n *PathNode) *netip.Addr { return &n.Exporter }, address()),
	field("role", "", meaningRole, func(n *PathNode) *NodeRole { return &n.Role }, word[NodeRole]()),
	field("ingress", "", meaningIngress, func(n *PathNode) *string { return &n.Ingress }, present(textual())),
	field("egress", "", meaningEgress, func(n *PathNode) *string { return &n.Egress }, present(textual())),
	field(
		"ingress_ifindex",
		"",
		meaningIfIndex,
		func(n *PathNode) *model.IfIndex { return &n.IngressIfIndex },
		present(number[model.IfIndex]()),
	),
	field(
		"egress_ifindex",
		"",
		meaningIfIndex,
		func(n *PathNode) *model.IfIndex { return &n.EgressIfIndex },
		present(number[model.IfIndex]()),
	),
}, part(nodeTable, func(n *PathNode) *NodeData { return &n.NodeData })...),
	field("since_previous_ns", "nanoseconds", "Time since the node before that reported one; negative where clocks differ.",
		func(n *PathNode) **int64 { return &n.SincePrevious }, pointer(integer[int64]())),
)

func (p *Path) about() (ioam.NamespaceID, *Packet) { return p.Namespace, &p.Packet }

func (p *Path) incomplete() bool { return !p.Complete }
