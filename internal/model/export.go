// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/waymark-net/waymark/ioam"
	"net/netip"
)

// ExportRole is what an exporting node was to the packet (RFC 9326 §3.1).
type ExportRole uint8

const (
	// RoleEncapsulating inserted the option.
	RoleEncapsulating ExportRole = 1 + iota
	// RoleTransit forwarded the packet.
	RoleTransit
	// RoleDecapsulating removed the option.
	RoleDecapsulating
)

// Export is what a node has to tell about one Direct Export option of one
// packet, before any aggregation, sampling and limit of rates.
type Export struct {
	Role         ExportRole
	Ingress      IfIndex // where the packet arrived, 0 when this node generated it
	Egress       IfIndex // where it left, 0 when decapsulating
	Option       ioam.DirectExport
	HopLimit     uint8  // as field 0 of a trace has it
	Time         int64  // of departure, decapsulating: of arrival; nanoseconds of TAI
	TransitDelay uint32 // as field 4 of a trace has it
	QueueDepth   uint32 // as field 6 of a trace has it
	Flow         Flow
	Length       int  // bytes of the IPv6 packet that Flow names
	Ends         bool // TCP says with this packet (FIN, RST) that the flow ends
}

// Flow names the packets that belong together: of the packet in the tunnel
// where there is one.
type Flow struct {
	Source          netip.Addr
	Destination     netip.Addr
	FlowLabel       uint32
	NextHeader      ioam.NextHeader // the upper layer, or the last that could be reached
	SourcePort      uint16          // 0 when not known
	DestinationPort uint16          // 0 when not known
}
