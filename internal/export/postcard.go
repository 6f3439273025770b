// SPDX-License-Identifier: Apache-2.0

package export

import (
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Postcard is what one node exports for one packet with a Direct Export option
// (RFC 9326). Its JSON names are a contract: they are added to, never changed.
type Postcard struct {
	Kind           string           `json:"kind"` // KindPostcard
	Time           instant.Time     `json:"time,omitzero"`
	Node           string           `json:"node,omitempty"` // the node that exports
	Role           NodeRole         `json:"role"`
	Ingress        string           `json:"ingress,omitempty"` // interface; absent where the packet came from no link
	Egress         string           `json:"egress,omitempty"`  // interface; absent where it is not known
	IngressIfIndex model.IfIndex    `json:"ingress_ifindex,omitempty"`
	EgressIfIndex  model.IfIndex    `json:"egress_ifindex,omitempty"`
	Option         string           `json:"option"` // IOAM option-type
	Namespace      ioam.NamespaceID `json:"namespace"`
	TraceType      ioam.TraceType   `json:"trace_type"`
	Flags          Hex8             `json:"flags"`
	ExtensionFlags Hex8             `json:"extension_flags"`
	FlowID         Field[uint32]    `json:"flow_id,omitzero"`  // absent when the option has none
	Sequence       Field[uint32]    `json:"sequence,omitzero"` // absent when the option has none
	Packet         Packet           `json:"packet,omitzero"`
	Data           TraceNode        `json:"data"` // what the trace type asks for

	// Raw is what Data is read from: node data as in a trace. IPFIX exports it
	// as it is, so whoever makes postcards by the million leaves Data to Decode.
	Raw ioam.NodeData `json:"-"`
}

// Decode reads Data from Raw.
func (p *Postcard) Decode(clock Clock) { p.Data = Node(p.Raw, clock) }

// Flow is what one node exports for the packets of one flow that had a Direct
// Export option, ingress and egress interface: an aggregate of postcards. Its
// JSON names are a contract: they are added to, never changed.
type Flow struct {
	Kind           string           `json:"kind"`           // KindFlow
	Time           instant.Time     `json:"time,omitzero"`  // when the record was made
	Node           string           `json:"node,omitempty"` // the node that exports
	Role           NodeRole         `json:"role"`
	Ingress        string           `json:"ingress,omitempty"`
	Egress         string           `json:"egress,omitempty"`
	IngressIfIndex model.IfIndex    `json:"ingress_ifindex,omitempty"`
	EgressIfIndex  model.IfIndex    `json:"egress_ifindex,omitempty"`
	Namespace      ioam.NamespaceID `json:"namespace"`
	TraceType      ioam.TraceType   `json:"trace_type"`
	FlowID         Field[uint32]    `json:"flow_id,omitzero"` // absent when the options have none
	Packet         Packet           `json:"packet"`           // without a length
	Packets        uint64           `json:"packets"`          // since the record before
	Bytes          uint64           `json:"bytes"`            // since the record before, from the IPv6 header on
	First          instant.Time     `json:"first,omitzero"`   // time of the first of these packets
	Last           instant.Time     `json:"last,omitzero"`    // time of the last of these packets
	TransitDelay   *Delays          `json:"transit_delay_ns,omitempty"`
	SequenceGaps   Field[uint64]    `json:"sequence_gaps,omitzero"` // packets that are missing; absent without sequence numbers
	Reordered      Field[uint64]    `json:"reordered,omitzero"`     // packets that came after one with a later sequence number; absent without them
	HopLimit       HopLimits        `json:"hop_limit"`
	EndReason      EndReason        `json:"end_reason"`
}

// Delays are the times that packets spent in a node, in nanoseconds.
type Delays struct {
	Min   uint32 `json:"min"`
	Max   uint32 `json:"max"`
	Sum   uint64 `json:"sum"`
	Count uint64 `json:"count"` // packets whose time was measured
}

// HopLimits are the least and the greatest hop limit.
type HopLimits struct {
	Min uint8 `json:"min"`
	Max uint8 `json:"max"`
}
