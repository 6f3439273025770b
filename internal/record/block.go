// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
)

// Block is what one point counted of a flow in one block of alternate marking (RFC 9341).
// Who has the blocks of all points can compute loss and delay.
type Block struct {
	Time              instant.Time // when the counters were read
	Node              string       // the node that counted
	Flow              string       // the flow's name
	FlowID            loss.FlowID
	Source            netip.Addr   // of an SRv6 flow's packets
	SIDs              []netip.Addr // of an SRv6 flow, in the order of the way
	Point, LastPoint  loss.PointID // of the node, and of the egress
	Number            uint64
	Start             instant.Time
	Length, Guard     uint64 // nanoseconds
	Packets, Bytes    uint64
	Late, OutOfTurn   uint64
	Unmarked, Unsized uint64
	TimeSum           Field[int64] // nanoseconds; absent if not measured
	DelayPackets      uint64
	DelayTimeSum      int64
	ClockError        Field[uint64] // nanoseconds
	Flags             loss.Flags
	Selection         loss.Selection // which packets are counted
}

// NewBlock makes the record of what a point of a flow read. m has the time, the node,
// what is known of the flow besides its number, its last point, and the length of blocks.
func NewBlock(m Measurement, guard time.Duration, r *loss.Reading, selected loss.Selection) *Block {
	return &Block{
		Time: m.Time, Node: m.Node, Flow: m.Flow, FlowID: r.Flow, Source: m.Source, SIDs: m.SIDs,
		Point: r.Point, LastPoint: m.To, Number: uint64(r.Block),
		Start: instant.Of(time.Unix(0, r.Block*int64(m.Length))), Length: m.Length, Guard: uint64(guard),
		Packets: r.Packets, Bytes: r.Octets, Late: r.Late, OutOfTurn: r.OutOfTurn, Unmarked: r.Unmarked, Unsized: r.UnsureOctets,
		TimeSum: Field[int64]{
			Value:   r.TimeSum,
			Present: r.Timed,
			Valid:   r.Timed,
		}, DelayPackets: r.DoubleMarked.Packets, DelayTimeSum: r.DoubleMarked.TimeSum,
		ClockError: NewField(uint64(max(r.ClockError, 0)), r.ClockError >= 0), Flags: r.Flags, Selection: selected,
	}
}

// Reading is the inverse of NewBlock.
func (c *Block) Reading() loss.Reading {
	r := loss.Reading{
		Flow: c.FlowID, Point: c.Point, Block: int64(c.Number), Packets: c.Packets, Octets: c.Bytes, TimeSum: c.TimeSum.Value,
		Timed:        c.TimeSum.Valid,
		DoubleMarked: loss.Marked{Packets: c.DelayPackets, TimeSum: c.DelayTimeSum}, Late: c.Late, OutOfTurn: c.OutOfTurn, Unmarked: c.Unmarked,
		UnsureOctets: c.Unsized, Flags: c.Flags, ClockError: loss.UnknownClock,
	}
	if c.ClockError.Valid && c.ClockError.Value < 1<<63 {
		r.ClockError = int64(c.ClockError.Value)
	}
	return r
}

// Kind is "block".
func (c *Block) Kind() string { return KindBlock }

// blocks declares the fields of a Block.
var blocks = table[*Block]{
	field("time", "", "When the counters were read.", func(c *Block) *instant.Time { return &c.Time }, moment()).
		ipfix(sectionTime, "observationTimeNanoseconds").also(observationTimes...),
	field("node", "", meaningNode, func(c *Block) *string { return &c.Node }, present(textual())),
	field("flow", "", "Name of the flow.", func(c *Block) *string { return &c.Flow }, present(textual())).
		ipfix(sectionPacket, "pmFlowName").atMost(maxFlowName),
	field("flow_id", "", "Number of the flow, a hash of its name.", func(c *Block) *loss.FlowID { return &c.FlowID }, number[loss.FlowID]()).
		ipfix(sectionPacket, "flowId[4]"),
	field(
		"source",
		"",
		"Source address of the packets of an SRv6 flow; absent for other flows.",
		func(c *Block) *netip.Addr { return &c.Source },
		present(address()),
	).
		ipfix(sectionPacket, "sourceIPv6Address").
		when(sidsKnown),
	field(
		"sids",
		"",
		"Segments of an SRv6 flow in the order of its way; in IPFIX in the order of the SRH, the last one first.",
		func(c *Block) *[]netip.Addr { return &c.SIDs },
		sidList(),
	).
		ipfix(sectionPacket, "srhSegmentIPv6ListSection").
		when(sidsKnown).
		atMost(maxSIDs * 16),
	field(
		"point",
		"",
		"Number of the point that counted, along the flow's way: 0 is the ingress.",
		func(c *Block) *loss.PointID { return &c.Point },
		number[loss.PointID](),
	).
		ipfix(sectionPlace, "pmPointId"),
	field(
		"last_point",
		"",
		"Number of the flow's last point, the egress.",
		func(c *Block) *loss.PointID { return &c.LastPoint },
		number[loss.PointID](),
	).
		ipfix(sectionPlace, "pmLastPointId"),
	field(
		"block",
		"",
		"Number of the block: `start` since 1970, divided by `length_ns`. Blocks with even numbers have one colour, "+
			"those with odd ones the other.",
		func(c *Block) *uint64 { return &c.Number },
		number[uint64](),
	).
		ipfix(sectionHeader, "pmBlockNumber"),
	field("start", "", "Start of the block.", func(c *Block) *instant.Time { return &c.Start }, moment()).
		ipfix(sectionHeader, "pmStartNanoseconds", "flowStartMilliseconds").firstRead(),
	hidden((*Block).end, moment()).ipfix(sectionHeader, "flowEndMilliseconds").unread(),
	field("length_ns", "nanoseconds", "Length of the block.", func(c *Block) *uint64 { return &c.Length }, number[uint64]()).
		ipfix(sectionHeader, "pmLengthNanoseconds"),
	field(
		"guard_ns",
		"nanoseconds",
		"How far from its block a packet may arrive.",
		func(c *Block) *uint64 { return &c.Guard },
		number[uint64](),
	).
		ipfix(sectionHeader, "pmGuardNanoseconds"),
	field(
		"packets",
		"packets",
		"Packets of the block: of its colour, and counted at a time that fits it.",
		func(c *Block) *uint64 { return &c.Packets },
		number[uint64](),
	).
		ipfix(sectionHeader, "pmPacketDeltaCount"),
	field("bytes", "bytes", "Bytes of the IPv6 packets of the block's colour.", func(c *Block) *uint64 { return &c.Bytes }, number[uint64]()).
		ipfix(sectionHeader, "pmOctetDeltaCount"),
	field(
		"late",
		"packets",
		"Packets of its colour that arrived farther after it than the guard.",
		func(c *Block) *uint64 { return &c.Late },
		present(number[uint64]()),
	).
		ipfix(sectionHeader, "pmLatePacketDeltaCount"),
	field(
		"out_of_turn",
		"packets",
		"Packets of its colour that arrived so far from it that they may belong to another block.",
		func(c *Block) *uint64 { return &c.OutOfTurn },
		present(number[uint64]()),
	).
		ipfix(sectionHeader, "pmOutOfTurnPacketDeltaCount"),
	field(
		"unmarked",
		"packets",
		"Packets of the flow without a mark. This field and the two before it are absent when they are 0; otherwise the counters are uncertain.",
		func(c *Block) *uint64 { return &c.Unmarked },
		present(number[uint64]()),
	).
		ipfix(sectionHeader, "pmUnmarkedPacketDeltaCount"),
	field(
		"unsized",
		"packets",
		"Packets whose bytes are not known exactly; absent when it is 0.",
		func(c *Block) *uint64 { return &c.Unsized },
		present(number[uint64]()),
	).
		ipfix(sectionHeader, "pmUnsizedPacketDeltaCount"),
	field(
		"time_sum_ns",
		"nanoseconds",
		"Sum of the packets' times since the start of the block, which wraps at 64 bits: the difference between two points, "+
			"divided by the packets, is the mean delay. Absent without `mean-delay`.",
		func(c *Block) *Field[int64] { return &c.TimeSum },
		optional(signed()),
	).
		ipfix(sectionHeader, "pmTimeSumNanoseconds").
		when(blockTimed),
	field("delay_packets", "packets", "Packets with a delay mark.", func(c *Block) *uint64 { return &c.DelayPackets }, number[uint64]()).
		ipfix(sectionHeader, "pmDelayMarkedPacketDeltaCount"),
	field(
		"delay_time_sum_ns",
		"nanoseconds",
		"Sum of their times since the start of the block.",
		func(c *Block) *int64 { return &c.DelayTimeSum },
		signed(),
	).
		ipfix(sectionHeader, "pmDelayMarkedTimeSumNanoseconds"),
	field(
		"clock_error_ns",
		"nanoseconds",
		"Greatest error of the node's clock; `null` if it is not known.",
		func(c *Block) *Field[uint64] { return &c.ClockError },
		counter(),
	).
		ipfix(sectionHeader, "pmClockErrorNanoseconds"),
	field(
		"flags",
		"",
		"Why these are not the counters of the whole block: `began` (counting began in it), `interrupted`, "+
			"`outside_window` (they were read at a wrong time), `interfaces_changed`, `unserved_interface`, "+
			"`not_executed` (see the reasons of a [loss](#loss)). Absent when they are.",
		func(c *Block) *loss.Flags { return &c.Flags },
		wordSet(loss.FlagsNamed),
	).
		ipfix(sectionHeader, "pmCountingFlags"),
	field(
		"selection",
		"",
		"Which packets the point counts in the flow: points with equal values select the same ones, in blocks of the same length. "+
			"Four numbers of 8 digits: a hash of source and segment lists, traffic class and flow label, a hash of what narrower flows take, "+
			"a hash of the mark. Absent if it is not known.",
		func(c *Block) *loss.Selection { return &c.Selection },
		selection(),
	).
		ipfix(sectionHeader, "pmSelection").
		atMost(loss.SelectionLen),
}

// conditions are those of the flow, and whether there are times.
func (c *Block) conditions() conditions {
	var has conditions
	return has.with(sidsKnown, c.Source.IsValid() || len(c.SIDs) > 0).with(blockTimed, c.TimeSum.Valid)
}

func (c *Block) end() *instant.Time { return endOf(c.Start, c.Length) }

// deriveFields makes the source absent if the exporter did not know it.
func (c *Block) deriveFields(*Reading) {
	if c.Source.IsUnspecified() {
		c.Source = netip.Addr{}
	}
	c.settleSelection()
}

// Timing is the time plan of the flow's blocks.
func (c *Block) Timing() loss.Timing {
	guard := time.Duration(min(c.Guard, uint64(loss.MaxBlock)))
	return loss.Timing{Length: time.Duration(min(c.Length, 1<<62)), ClockDifference: guard / 2, MaxDelay: guard - guard/2}
}

// fault checks that the block is one that points of a flow can count.
func (c *Block) fault(*Reading) Fault {
	if t := c.Timing(); t.Validate() != nil || c.Number > math.MaxInt64/c.Length-2 || c.LastPoint == 0 || c.LastPoint >= loss.MaxPoints ||
		c.Point > c.LastPoint {
		return FaultMeasurement
	}
	return NoFault
}

func (c *Block) complete(by Sender) {
	c.Time, c.Node, c.Start = instant.Of(c.Time.Time), by.Node(), instant.Of(c.Start.Time)
}

// Text is the record as a line of readable text.
func (c *Block) Text() string {
	var b strings.Builder
	if !c.Time.IsZero() {
		b.WriteString(c.Time.String() + "  ")
	}
	if c.Node != "" {
		b.WriteString(Printable(c.Node) + "  ")
	}
	fmt.Fprintf(&b, "block %d of flow %d", c.Number, c.FlowID)
	if c.Flow != "" {
		b.WriteString(" " + Printable(c.Flow))
	}
	fmt.Fprintf(&b, ", point %d of %d, %s: %d packets, %d bytes", c.Point, c.LastPoint, nanoseconds(c.Length), c.Packets, c.Bytes)
	for _, n := range []struct {
		count uint64
		what  string
	}{{c.Late, "late"}, {c.OutOfTurn, "out of turn"}, {c.Unmarked, "unmarked"}, {c.Unsized, "of unknown length"}} {
		if n.count > 0 {
			fmt.Fprintf(&b, ", %d %s", n.count, n.what)
		}
	}
	if c.Flags != 0 {
		b.WriteString(", counters " + strings.ReplaceAll(strings.Join(c.Flags.Names(), " and "), "_", " "))
	}
	return b.String() + "\n"
}

// selection is which packets a point counts: hexadecimal digits, absent if it is not known.
func selection() codec[*loss.Selection] {
	return codec[*loss.Selection]{
		coding: coding{
			form:   "hexadecimal",
			absent: func(p any) bool { return !p.(*loss.Selection).Known() },
			show: func(v Visitor, c *Column, p any) {
				v.Text(c, hex.EncodeToString(p.(*loss.Selection).Append(nil)))
			},
			fill: func(p any, from Input) error {
				text, err := from.Text()
				if err != nil {
					return err
				}
				octets, err := hex.DecodeString(text)
				if err == nil && len(octets) != loss.SelectionLen {
					err = fmt.Errorf("%q has not %d digits", text, 2*loss.SelectionLen)
				}
				if err == nil {
					*p.(*loss.Selection) = loss.DecodeSelection(octets, 0)
				}
				return err
			},
		},
		wire: wireSelection(),
	}
}

// settleSelection gives it the length of the record's blocks.
func (c *Block) settleSelection() {
	if c.Selection.Known() {
		c.Selection.Block = uint32(c.Length / uint64(time.Millisecond))
	}
}
