// SPDX-License-Identifier: Apache-2.0

package export

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/ioam"
)

// Packet names the packet that a record is about.
type Packet struct {
	Source          netip.Addr      `json:"source"`
	Destination     netip.Addr      `json:"destination"`
	NextHeader      ioam.NextHeader `json:"next_header"`                // the upper layer, or the last header that could be read
	SourcePort      *uint16         `json:"source_port,omitempty"`      // absent when the protocol has no ports, or they cannot be read
	DestinationPort *uint16         `json:"destination_port,omitempty"` // as SourcePort
	FlowLabel       uint32          `json:"flow_label"`
	Length          int             `json:"length,omitempty"` // bytes, from the IPv6 header on; 0 for a flow
}

// ParsePacket reads the IPv6 packet at the start of b, which may be only its
// first bytes; length is the whole packet's. ok is false when b does not begin
// with an IPv6 header.
func ParsePacket(b []byte, length int) (p Packet, ok bool) {
	s, ok := ipv6.Summarize(b)
	if !ok {
		return Packet{}, false
	}
	p = Packet{
		Source:      s.Source,
		Destination: s.Destination,
		NextHeader:  s.NextHeader,
		FlowLabel:   s.FlowLabel,
		Length:      length,
	}
	if s.HasPorts {
		p.SourcePort, p.DestinationPort = &s.SourcePort, &s.DestinationPort
	}
	return p, true
}
