// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
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
	DefaultProbeInterval = time.Second
)

// Measurement is alternate marking (RFC 9341) of SRv6 flows. All nodes of a domain use
// one block length and one marking. The zero value measures nothing.
type Measurement struct {
	Block      time.Duration // of fixed time: a packet's block is ⌊UTC/Block⌋; 0 for DefaultBlock
	Guard      time.Duration // how far from its block a packet may be counted without a note, less than half of Block; 0 for DefaultGuard
	Marking    Marking
	MeanDelay  bool           // sums of times are exact, for the mean delay: the clock is read for each packet
	Clear      bool           // packets from a flow's source that leave and are of no flow lose their mark
	ClockError *time.Duration // of this node's clock; nil: as the kernel says
	Exchange   Exchange       // how the ingress asks other nodes what they counted
	ProbeEvery time.Duration  // how often delay is measured with test packets, 0 for DefaultProbeInterval
	// SelectionPort is where reflectors of STAMP are asked which packets their nodes select, if
	// the exchange cannot say it; 0 for that of STAMP.
	SelectionPort uint16
	DelayPort     uint16     // of ExchangeRFC6374: UDP port of Delay Measurement at the last points; 0: delay is not asked for
	ProbeFrom     netip.Addr // the source of in-band packets; invalid: as the kernel chooses
	Capacity      int        // the most flows, 0 for DefaultMeasuredFlows
	Flows         []MeasuredFlow
}

// Carrier is where packets carry the mark.
type Carrier uint8

const (
	// CarrierClass is bits of the outer traffic class.
	CarrierClass Carrier = iota
	// CarrierArgument is bits of an octet of the last SID (ARG, RFC 8986 §3.1).
	CarrierArgument
	// CarrierOption is the AltMark option (RFC 9343), in a header of its own.
	CarrierOption
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
	// HopByHop: packets get a Hop-by-Hop Options header with the option, which every
	// node on the way may read, instead of one with Destination Options before the SRH,
	// for the segment endpoints (RFC 9343 §4).
	HopByHop bool
	ECN      bool // the mask may hold bits of the ECN field (RFC 3168): routers that mark congestion then falsify the measurement
}

// DefaultMarking uses DSCP pools 2 and 3, which are for local use (RFC 2474 §6).
func DefaultMarking() Marking { return Marking{Mask: 0x0c, Colours: [2]uint8{0x04, 0x0c}} }

// OptionMarking is the bits of the AltMark option: L is the colour, and D asks for the
// delay (RFC 9343 §3.1), both in the third octet of its data.
func OptionMarking(hopByHop bool) Marking {
	return Marking{Carrier: CarrierOption, Octet: 2, Mask: 0x0c, Colours: [2]uint8{0, 0x08}, Delay: &[2]uint8{0x04, 0x0c}, HopByHop: hopByHop}
}

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
	// MonitorID is the flow's FlowMonID, if one is given (RFC 9343 §5.3).
	MonitorID *uint32

	Points     []netip.AddrPort // reflectors of the nodes that count the flow after this one; of DirectionOut
	PointNames []string         // of each point, "" without one; of any length
	After      []int            // for each point but the last: how many of the segments packets visit before it; nil: not said
	Thresholds loss.Thresholds  // of the flow from here to the last point
	Point      int              // of ExchangeIPFIX: this node's number among those that count the flow; 0 is the ingress
	LastPoint  int              // of ExchangeIPFIX: the number of the egress
	Session    uint16           // by which messages without a flow's name mean this flow; 0: none
	// AssumeSelection: points that do not say which packets they select are taken to select the
	// same as this node.
	AssumeSelection bool
	Metrics         bool         // has metrics of its own, with its name as a label
	Probes          Probes       // how test packets travel; of DirectionOut
	Return          []netip.Addr // SIDs of the way back of in-band packets, the first to visit first; none: as routed
}

// PointName is the name of the point with an index, or its address if it has none.
func (f MeasuredFlow) PointName(i int) string {
	if i < len(f.PointNames) && f.PointNames[i] != "" {
		return f.PointNames[i]
	}
	return f.Points[i].Addr().String()
}

// SegmentsTo is how many of the flow's segments an in-band packet to a point, numbered from 0,
// visits before the point's address, which takes the place of the next one; false: it is not
// known. The last SID of packets that are encapsulated ends their tunnel, so the last point's
// address takes its place. Other points are where After says; without it, each is the endpoint
// of its SID, if there are as many points as endpoints. The address takes the place of that SID,
// too: Linux's End drops packets whose next segment is the node's own address.
func (f MeasuredFlow) SegmentsTo(point int) (n int, ok bool) {
	last, all := len(f.Points)-1, len(f.Path.Segments)
	if f.Path.Mode != srv6.ModeInline {
		all--
	}
	switch {
	case point < 0 || point > last || all < 0:
		return 0, false
	case point == last:
		return all, true
	case len(f.After) == last:
		return min(max(f.After[point], 0), all), true
	case last == all:
		return point, true
	}
	return 0, false
}

// MaxFlowMonID is the greatest FlowMonID (RFC 9343 §3.1).
const MaxFlowMonID = 1<<20 - 1

// FlowMonID is what identifies the flow in the AltMark option: what is given, else a
// hash of its name, so that all nodes have the same.
func (f MeasuredFlow) FlowMonID() uint32 {
	if f.MonitorID != nil {
		return *f.MonitorID
	}
	sum := sha256.Sum256([]byte(f.Name))
	return binary.BigEndian.Uint32(sum[:]) & MaxFlowMonID
}

// SelectedByFlowMonID reports whether packets that arrive are of the flow by their source
// and FlowMonID, whatever their segments.
func (f MeasuredFlow) SelectedByFlowMonID() bool {
	return f.MonitorID != nil && f.Direction != DirectionOut
}

// Exchange is the protocol by which the ingress asks what other nodes counted.
type Exchange uint8

// Protocols of an exchange.
const (
	ExchangeStamp      Exchange = iota // STAMP (RFC 8762) with a private TLV
	ExchangeTWAMPLight                 // loss queries of draft-gandhi-spring-twamp-srpm
	ExchangeRFC6374                    // Loss Measurement messages over UDP
	ExchangeIPFIX                      // none: each node exports its counters, and the collector compares them
)

// String returns "stamp", "twamp-light", "rfc6374" or "ipfix".
func (e Exchange) String() string { return word(e, exchangeWords) }

// Probes is how test packets of a flow travel.
type Probes uint8

// The ways of test packets.
const (
	ProbesNone        Probes = iota // there are none; questions travel as routed
	ProbesOutOfBand                 // as routed
	ProbesInBand                    // through the flow's segments to the last point, and so do questions to all points
	ProbesInBandEncap               // the same, encapsulated as the flow's packets
)

// InBand reports whether test packets travel through the flow's segments.
func (p Probes) InBand() bool { return p >= ProbesInBand }

// String returns "none", "out-of-band", "in-band" or "in-band-encap".
func (p Probes) String() string { return word(p, probesWords) }

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
	if m.ProbeEvery == 0 {
		m.ProbeEvery = DefaultProbeInterval
	}
	if m.Marking == (Marking{}) {
		m.Marking = DefaultMarking()
	}
	return m
}
