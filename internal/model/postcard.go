// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/waymark-net/waymark/ioam"
	"net/netip"
)

// NodeRole is the role of an exporting node for a packet (RFC 9326 §3.1).
type NodeRole uint8

const (
	// RoleEncapsulating inserted the option.
	RoleEncapsulating NodeRole = 1 + iota
	// RoleTransit forwarded the packet.
	RoleTransit
	// RoleDecapsulating removed the option.
	RoleDecapsulating
)

// Postcard is what a node reports about a packet with a Direct Export option,
// before any aggregation, sampling and rate limit.
type Postcard struct {
	Role         NodeRole
	Ingress      IfIndex // where the packet arrived, 0 when this node generated it
	Egress       IfIndex // where it left, 0 when decapsulating
	Option       ioam.DirectExport
	HopLimit     uint8  // as in field 0 of a trace
	Time         int64  // of departure; when decapsulating, of arrival; nanoseconds of TAI
	TransitDelay uint32 // as in field 4 of a trace
	QueueDepth   uint32 // as in field 6 of a trace
	// BufferOccupancy is as in field 11 of a trace.
	BufferOccupancy uint32
	Flow            Flow
	Length          int  // bytes of the IPv6 packet that Flow identifies
	Ends            bool // this TCP packet (FIN, RST) ends the flow
}

// Flow identifies the packets that belong together; if the packet is in a tunnel,
// by the inner packet.
type Flow struct {
	Source          netip.Addr
	Destination     netip.Addr
	FlowLabel       uint32
	NextHeader      ioam.NextHeader // the upper layer, or the last that could be reached
	SourcePort      uint16          // 0 when not known
	DestinationPort uint16          // 0 when not known
}
