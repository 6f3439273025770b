// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/srv6"
)

// Limits of measurement.
const (
	MaxMeasuredFlows     = 1 << 20
	DefaultMeasuredFlows = 65_536
	MaxSegments          = 16 // of a measured flow's list
	MaxSelections        = 8  // combinations of criteria of one direction's flows
	MinBlock             = 100 * time.Millisecond
	MaxBlock             = 10 * time.Minute
	DefaultBlock         = 10 * time.Second
)

// Measurement is alternate marking (RFC 9341) of SRv6 flows. All nodes of a domain use
// one block length and one marking. The zero value measures nothing.
type Measurement struct {
	Block      time.Duration // of fixed time: a packet's block is ⌊UTC/Block⌋; 0 for DefaultBlock
	Guard      time.Duration // how far from its block a packet may be counted without a note, less than half of Block; 0 for DefaultGuard
	Marking    Marking
	MeanDelay  bool           // sums of times are exact, for the mean delay: the clock is read for each packet
	Clear      bool           // packets from a flow's source that leave and are of no flow lose their mark
	ClockError *time.Duration // of this node\'s clock; nil: as the kernel says
	Capacity   int            // the most flows, 0 for DefaultMeasuredFlows
	Flows      []MeasuredFlow
}

// Carrier is where packets carry the mark.
type Carrier uint8

const (
	// CarrierClass is bits of the outer traffic class.
	CarrierClass Carrier = iota
	// CarrierArgument is bits of an octet of the last SID (ARG, RFC 8986 §3.1).
	CarrierArgument
)

// Marking is how packets carry their colour, and the delay mark (RFC 9341 §3). The
// zero value is DefaultMarking.
type Marking struct {
	Carrier Carrier
	Octet   uint8    // CarrierArgument: of the last SID, from 0
	Mask    uint8    // the bits of the octet that carry the mark
	None    uint8    // value without a mark
	Colours [2]uint8 // values of blocks with even and odd numbers
	Delay   *[2]uint8
	ECN     bool // the mask may hold bits of the ECN field (RFC 3168): routers that mark congestion then falsify the measurement
}

// DefaultMarking uses DSCP pools 2 and 3, which are for local use (RFC 2474 §6).
func DefaultMarking() Marking { return Marking{Mask: 0x0c, Colours: [2]uint8{0x04, 0x0c}} }

// Direction is what this node is to a measured flow.
type Direction uint8

const (
	// DirectionOut is the ingress of the path: the node marks and counts what leaves.
	DirectionOut Direction = iota
	// DirectionIn is the egress of the path: the node counts what arrives.
	DirectionIn
	// DirectionTransit is a segment endpoint between them, which counts what arrives.
	DirectionTransit
)

// MeasuredFlow is the packets of one segment routing policy, as this node sees them.
type MeasuredFlow struct {
	Name      string
	Direction Direction
	Source    netip.Addr // of the outer header
	Path      srv6.Path
	// The following select more narrowly; absent ones match everything.
	Destination  netip.Addr // of the outer header, as it arrives or leaves here
	TrafficClass *uint8     // its DSCP is compared, without the bits that carry the mark
	FlowLabel    *uint32

	Points []netip.AddrPort // reflectors of the nodes that count the flow after this one; of DirectionOut
}

// String returns "out", "in" or "transit".
func (d Direction) String() string { return word(d, directionWords) }

// MarshalText is [Direction.String]; an unknown value is an error.
func (d Direction) MarshalText() ([]byte, error) { return marshalWord(d, directionWords, "direction") }

// UnmarshalText reads what MarshalText writes.
func (d *Direction) UnmarshalText(text []byte) error {
	return unmarshalWord(d, text, directionWords, "direction")
}

// DefaultGuard is the guard for a length of block: 100 ms, or a quarter of a short
// block.
func DefaultGuard(block time.Duration) time.Duration { return min(100*time.Millisecond, block/4) }

// WithDefaults replaces zero values by what they stand for.
func (m Measurement) WithDefaults() Measurement {
	if m.Block == 0 {
		m.Block = DefaultBlock
	}
	if m.Guard == 0 {
		m.Guard = DefaultGuard(m.Block)
	}
	if m.Capacity == 0 {
		m.Capacity = DefaultMeasuredFlows
	}
	if m.Marking == (Marking{}) {
		m.Marking = DefaultMarking()
	}
	return m
}
