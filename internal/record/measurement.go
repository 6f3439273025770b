// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
)

// Measurement is what records of loss and of delay have in common: of which flow,
// between which points, and when.
type Measurement struct {
	Time     instant.Time // when the record was made
	Node     string       // the node that exports
	Flow     string       // the flow's name; "" if it has none
	FlowID   loss.FlowID
	Source   netip.Addr   // of an SRv6 flow's packets; invalid for others
	SIDs     []netip.Addr // of an SRv6 flow, in the order of the way
	Scope    Scope
	From, To loss.PointID
	// FromNode and ToNode are names or addresses of the two points; "" if not known.
	FromNode, ToNode string
	Block            Field[uint64] // the first one; absent for test packets
	Start            instant.Time  // of the block or the period
	Length           uint64        // nanoseconds
}

// Scope is which part of a flow's way was measured, with the numbers of IPFIX element
// pmScope.
type Scope uint8

// Scopes of measurements.
const (
	WholeWay   Scope = 1 // from the ingress to the egress
	OneSegment Scope = 2 // between neighbouring points
)

var scopeNames = map[Scope]string{WholeWay: "whole", OneSegment: "segment"}

// String is the scope in a word.
func (s Scope) String() string { return named(scopeNames, s) }

// UnmarshalText reads a scope's word.
func (s *Scope) UnmarshalText(text []byte) (err error) {
	*s, err = lookUp(scopeNames, string(text))
	return err
}

// measurements declares the fields of a Measurement.
var measurements = table[*Measurement]{
	field("time", "", "When the record was made.", func(m *Measurement) *instant.Time { return &m.Time }, moment()).
		ipfix(sectionTime, "observationTimeNanoseconds").also(observationTimes...),
	field("node", "", meaningNode, func(m *Measurement) *string { return &m.Node }, present(textual())),
	field("flow", "", "Name of the flow, absent when it has none.", func(m *Measurement) *string { return &m.Flow }, present(textual())).
		ipfix(sectionPacket, "pmFlowName").atMost(maxFlowName),
	field(
		"flow_id",
		"",
		"Number of the flow, the same at all its points.",
		func(m *Measurement) *loss.FlowID { return &m.FlowID },
		number[loss.FlowID](),
	).
		ipfix(sectionPacket, "flowId[4]"),
	field(
		"source",
		"",
		"Source address of the packets of an SRv6 flow; absent for other flows.",
		func(m *Measurement) *netip.Addr { return &m.Source },
		present(address()),
	).
		ipfix(sectionPacket, "sourceIPv6Address").
		when(sidsKnown),
	field(
		"sids",
		"",
		"Segments of an SRv6 flow in the order of its way; in IPFIX in the order of the SRH (RFC 8754 §2), the last one first. "+
			"Absent for other flows.",
		func(m *Measurement) *[]netip.Addr { return &m.SIDs },
		sidList(),
	).
		ipfix(sectionPacket, "srhSegmentIPv6ListSection").
		when(sidsKnown).
		atMost(maxSIDs * 16),
	field(
		"scope",
		"",
		"`whole`: from the flow's ingress to its egress; `segment`: between two neighbouring points.",
		func(m *Measurement) *Scope { return &m.Scope },
		word[Scope](),
	).
		ipfix(sectionPlace, "pmScope"),
	field(
		"from",
		"",
		"Number of the point at which packets enter the segment.",
		func(m *Measurement) *loss.PointID { return &m.From },
		number[loss.PointID](),
	).
		ipfix(sectionPlace, "pmFromPointId"),
	field(
		"to",
		"",
		"Number of the point at which packets leave the segment.",
		func(m *Measurement) *loss.PointID { return &m.To },
		number[loss.PointID](),
	).
		ipfix(sectionPlace, "pmToPointId"),
	field(
		"from_node",
		"",
		"The node that is point `from`, as the ingress knows it: its own name, and the names or addresses of the `points` of its flow. "+
			"Absent if it is not known.",
		func(m *Measurement) *string { return &m.FromNode },
		present(textual()),
	).
		ipfix(sectionPlace, "pmFromNode").
		when(pointsNamed).
		atMost(maxNodeName),
	field("to_node", "", "The same of point `to`.", func(m *Measurement) *string { return &m.ToNode }, present(textual())).
		ipfix(sectionPlace, "pmToNode").when(pointsNamed).atMost(maxNodeName),
	field(
		"block",
		"",
		"Number of the block of alternate marking (RFC 9341 §4.3), of several blocks the first: `start` since 1970, "+
			"divided by the length of a block. Absent for test packets.",
		func(m *Measurement) *Field[uint64] { return &m.Block },
		optional(number[uint64]()),
	).
		ipfix(sectionHeader, "pmBlockNumber").
		when(blockNumbered),
	field(
		"start",
		"",
		"Start of the block or the period, by the clock of the ingress.",
		func(m *Measurement) *instant.Time { return &m.Start },
		moment(),
	).
		ipfix(sectionHeader, "pmStartNanoseconds", "flowStartMilliseconds").
		firstRead(),
	hidden((*Measurement).end, moment()).ipfix(sectionHeader, "flowEndMilliseconds").unread(),
	field(
		"length_ns",
		"nanoseconds",
		"Length of the block or the period.",
		func(m *Measurement) *uint64 { return &m.Length },
		number[uint64](),
	).
		ipfix(sectionHeader, "pmLengthNanoseconds"),
}

// Bounds of what is read.
const (
	maxFlowName = 1024 // octets
	maxNodeName = 1024 // octets
	maxSIDs     = 128  // an SRH has fewer
)

// conditions are those of the flow.
func (m *Measurement) conditions() conditions {
	var has conditions
	return has.with(sidsKnown, m.Source.IsValid() || len(m.SIDs) > 0).with(blockNumbered, m.Block.Valid).
		with(pointsNamed, m.FromNode != "" || m.ToNode != "")
}

// end is the end of the block or the period: collectors without our elements read the
// times of flows.
func (m *Measurement) end() *instant.Time { return endOf(m.Start, m.Length) }

func endOf(start instant.Time, length uint64) *instant.Time {
	return &instant.Time{Time: start.Add(time.Duration(min(length, 1<<63-1)))}
}

// omitUnknownSource makes the source absent if the exporter did not know it.
func (m *Measurement) omitUnknownSource() {
	if m.Source.IsUnspecified() {
		m.Source = netip.Addr{}
	}
}

// complete adds what exporters do not send with each record.
func (m *Measurement) complete(by Sender) {
	m.Time, m.Node, m.Start = dated(m.Time, by), by.Node(), instant.Of(m.Start.Time)
	if m.From == 0 && m.FromNode == "" { // exporters of before send no nodes, and the ingress exports
		m.FromNode = m.Node
	}
}

// of sets what a result of alternate marking says of itself.
func (m *Measurement) of(r *loss.Result, s *loss.Segment) {
	m.FlowID, m.From, m.To, m.Scope = r.Flow, s.From.Point, s.To.Point, OneSegment
	if m.From == r.Whole.From.Point && m.To == r.Whole.To.Point {
		m.Scope = WholeWay
	}
	m.Block = NewField(uint64(r.Block), true)
	m.Start, m.Length = instant.Of(time.Unix(0, r.Start)), uint64(r.Length)
}

// heading is the begin of a record's text, after its kind.
func (m *Measurement) heading(kind string) string {
	var b strings.Builder
	if !m.Time.IsZero() {
		b.WriteString(m.Time.String() + "  ")
	}
	if m.Node != "" {
		b.WriteString(Printable(m.Node) + "  ")
	}
	fmt.Fprintf(&b, "%s of flow %d", kind, m.FlowID)
	if m.Flow != "" {
		b.WriteString(" " + Printable(m.Flow))
	}
	if m.Source.IsValid() {
		fmt.Fprintf(&b, ", from %v", m.Source)
	}
	for i, sid := range m.SIDs {
		b.WriteString([]string{" by ", ", "}[min(i, 1)] + sid.String())
	}
	fmt.Fprintf(&b, ", points %d%s to %d%s", m.From, inBrackets(m.FromNode), m.To, inBrackets(m.ToNode))
	if m.Scope == WholeWay {
		b.WriteString(" (whole way)")
	}
	if m.Block.Valid {
		fmt.Fprintf(&b, ", block %d", m.Block.Value)
	}
	if !m.Start.IsZero() {
		fmt.Fprintf(&b, ", %s from %v", nanoseconds(m.Length), m.Start)
	}
	return b.String()
}

// inBrackets is a node after its number; nothing if it is not known.
func inBrackets(node string) string {
	if node == "" {
		return ""
	}
	return " (" + Printable(node) + ")"
}

// NamePoints sets the nodes of points in records of loss and delay.
func NamePoints(list []Record, node func(loss.PointID) string) {
	for _, each := range list {
		switch each := each.(type) {
		case *Loss:
			each.FromNode, each.ToNode = node(each.From), node(each.To)
		case *Delay:
			each.FromNode, each.ToNode = node(each.From), node(each.To)
		}
	}
}

// nanoseconds is a time as text.
func nanoseconds(ns uint64) string { return Duration(time.Duration(min(ns, 1<<63-1))) }

// sidList is the segments of an SRv6 path.
func sidList() codec[*[]netip.Addr] {
	c := filled(list(address()))
	c.wire = wireSIDs()
	return c
}

// reasons are a list of words.
func reasons() codec[*loss.Reasons] { return wordSet(loss.ReasonsNamed) }
