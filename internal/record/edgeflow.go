// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// EdgeFlow is what a decapsulating node measured of a flow in an interval, from the
// Edge-to-Edge options of its packets (RFC 9197 §4.6). Its JSON names are a contract: they
// are added to, never changed.
type EdgeFlow struct {
	Time        instant.Time // when the record was made
	Node        string       // the node that measured
	Namespace   ioam.NamespaceID
	Type        ioam.EdgeToEdgeType
	Source      netip.Addr // of the packets inside the tunnel, if they came in one
	Destination netip.Addr
	FlowLabel   uint32
	Packets     uint64        // since the record before
	First, Last instant.Time  // when the first and the last of these came
	Lost        Field[uint64] // absent without Sequence Numbers, as the next four
	Duplicates  Field[uint64]
	Reordered   Field[uint64]
	Late        Field[uint64]
	Restarts    Field[uint64]
	Delay       *EdgeDelays // nil when no packet's delay is known
}

// EdgeDelays are one-way delays, in nanoseconds.
type EdgeDelays struct {
	Min, Max, Sum int64
	Count         uint64 // packets whose delay is known
}

// Kind is "edge-flow".
func (f *EdgeFlow) Kind() string { return KindEdgeFlow }

// edgeFlows declares the fields of an EdgeFlow.
var edgeFlows = table[*EdgeFlow]{
	field("time", "", "When the record was made.", func(f *EdgeFlow) *instant.Time { return &f.Time }, moment()).
		ipfix(sectionTime, "observationTimeNanoseconds").also(observationTimes...),
	field("node", "", meaningNode, func(f *EdgeFlow) *string { return &f.Node }, present(textual())),
	field("namespace", "", meaningNamespace, func(f *EdgeFlow) *ioam.NamespaceID { return &f.Namespace }, number[ioam.NamespaceID]()).
		ipfix(sectionHeader, "ioamNamespaceId"),
	field(
		"e2e_type",
		"",
		"IOAM-E2E-Type: which fields the options have.",
		func(f *EdgeFlow) *ioam.EdgeToEdgeType { return &f.Type },
		hexadecimal[ioam.EdgeToEdgeType](4),
	).
		ipfix(sectionHeader, "ioamEdgeToEdgeType"),
	field(
		"source",
		"",
		"Source address of the packets, inside the tunnel if they came in one.",
		func(f *EdgeFlow) *netip.Addr { return &f.Source },
		address(),
	).
		ipfix(sectionPacket, "sourceIPv6Address"),
	field("destination", "", "Destination address of the packets.", func(f *EdgeFlow) *netip.Addr { return &f.Destination }, address()).
		ipfix(sectionPacket, "destinationIPv6Address"),
	field("flow_label", "", "IPv6 flow label of the packets.", func(f *EdgeFlow) *uint32 { return &f.FlowLabel }, number[uint32]()).
		ipfix(sectionPacket, "flowLabelIPv6"),
	field(
		"packets",
		"packets",
		"Packets with the option that came since the previous record of the flow, duplicates among them.",
		func(f *EdgeFlow) *uint64 { return &f.Packets },
		number[uint64](),
	).
		ipfix(sectionHeader, "pmPacketDeltaCount"),
	field(
		"first",
		"",
		"Time of the first of these packets, in the resolution of the kernel's tick: a few milliseconds. Absent without packets.",
		func(f *EdgeFlow) *instant.Time { return &f.First },
		moment(),
	).
		ipfix(sectionHeader, "flowStartNanoseconds", "flowStartMilliseconds").
		firstRead(),
	field("last", "", "Time of the last of these packets.", func(f *EdgeFlow) *instant.Time { return &f.Last }, moment()).
		ipfix(sectionHeader, "flowEndNanoseconds", "flowEndMilliseconds").firstRead(),
	field(
		"lost",
		"packets",
		"Packets that are missing: the Sequence Numbers that were expected, less those that came. "+
			"A packet that comes in a later interval than the following ones "+
			"is counted as lost first, and makes up for a later loss. "+
			"`null` when some did not come and packets may have passed the node without its program: it is not known whether they were lost. "+
			"Absent without Sequence Numbers, as the next four.",
		func(f *EdgeFlow) *Field[uint64] { return &f.Lost },
		optional(number[uint64]()),
	).
		ipfix(sectionHeader, "ioamSequenceGapDeltaCount").
		when(missingKnown),
	field(
		"duplicates",
		"packets",
		"Packets whose Sequence Number had come before.",
		func(f *EdgeFlow) *Field[uint64] { return &f.Duplicates },
		optional(number[uint64]()),
	).
		ipfix(sectionHeader, "ioamDuplicatedPacketDeltaCount").
		when(flowNumbered),
	field(
		"reordered",
		"packets",
		"Packets that came after one with a higher Sequence Number, within the window of the last 961 to 1024 numbers.",
		func(f *EdgeFlow) *Field[uint64] { return &f.Reordered },
		optional(number[uint64]()),
	).
		ipfix(sectionHeader, "ioamReorderedPacketDeltaCount").
		when(flowNumbered),
	field("late", "packets", "Packets with a number below the window or far above it: whether it came before is not known.",
		func(f *EdgeFlow) *Field[uint64] { return &f.Late }, optional(number[uint64]())).
		ipfix(sectionHeader, "ioamLatePacketDeltaCount").when(flowNumbered),
	field("restarts", "", "How often the Sequence Numbers began again; what was lost in between is not known.",
		func(f *EdgeFlow) *Field[uint64] { return &f.Restarts }, optional(number[uint64]())).
		ipfix(sectionHeader, "ioamSequenceRestartDeltaCount").when(flowNumbered),
	within(
		field(
			"delay_ns",
			"nanoseconds",
			"One-way delay from the encapsulating node, by the clocks of both: negative where these differ by more. Absent without timestamps.",
			func(f *EdgeFlow) **EdgeDelays { return &f.Delay },
			pointer(object(edgeDelaysTable)),
		),
		edgeDelaysTable,
		sectionHeader,
		func(f *EdgeFlow) *EdgeDelays { return f.Delay },
		(*EdgeFlow).newDelays,
	).listed(),
}

var edgeDelaysTable = table[*EdgeDelays]{
	field("min", "nanoseconds", "The minimum.", func(d *EdgeDelays) *int64 { return &d.Min }, signed()).
		ipfix(sectionHeader, "pmDelayMinNanoseconds").when(delaysKnown),
	field("max", "nanoseconds", "The maximum.", func(d *EdgeDelays) *int64 { return &d.Max }, signed()).
		ipfix(sectionHeader, "pmDelayMaxNanoseconds").when(delaysKnown),
	field("sum", "nanoseconds", "Their sum.", func(d *EdgeDelays) *int64 { return &d.Sum }, signed()).
		ipfix(sectionHeader, "pmDelaySumNanoseconds").when(delaysKnown),
	field("count", "packets", "Packets whose delay is known.", func(d *EdgeDelays) *uint64 { return &d.Count }, number[uint64]()).
		ipfix(sectionHeader, "pmDelaySampleDeltaCount").when(delaysKnown),
	hidden((*EdgeDelays).mean, inMicroseconds()).ipfix(sectionHeader, "pathDelayMeanDeltaMicroseconds").when(onPathDelay).unread(),
	hidden(
		func(d *EdgeDelays) *int64 { return &d.Min },
		inMicroseconds(),
	).ipfix(sectionHeader, "pathDelayMinDeltaMicroseconds").
		when(onPathDelay).
		unread(),
	hidden(
		func(d *EdgeDelays) *int64 { return &d.Max },
		inMicroseconds(),
	).ipfix(sectionHeader, "pathDelayMaxDeltaMicroseconds").
		when(onPathDelay).
		unread(),
}

// newDelays are the delays that are read.
func (f *EdgeFlow) newDelays() *EdgeDelays {
	if f.Delay == nil {
		f.Delay = &EdgeDelays{}
	}
	return f.Delay
}

// mean is the mean delay, 0 without packets.
func (d *EdgeDelays) mean() *int64 {
	mean := d.Sum / int64(max(d.Count, 1))
	return &mean
}

// conditions say what the options had. The elements of RFC 9951 have no negative delays.
func (f *EdgeFlow) conditions() conditions {
	var has conditions
	d := f.Delay
	return has.with(flowNumbered, f.Duplicates.Valid).
		with(missingKnown, f.Lost.Valid).
		with(delaysKnown, d != nil).
		with(onPathDelay, d != nil && onPath(d.Min) && onPath(d.Max))
}

// deriveFields makes delays absent if no packet had one, and losses unknown if the packets had no
// numbers.
func (f *EdgeFlow) deriveFields(*Reading) {
	f.Lost.Present = f.Lost.Present || f.Duplicates.Present
	if f.Delay != nil && f.Delay.Count == 0 {
		f.Delay = nil
	}
}

func (f *EdgeFlow) about() (ioam.NamespaceID, *Packet) {
	return f.Namespace, &Packet{Source: f.Source, Destination: f.Destination, FlowLabel: f.FlowLabel}
}

// fault checks that the times and the delays are in order.
func (f *EdgeFlow) fault(*Reading) Fault {
	if turned(f.First, f.Last) || f.Delay != nil && (f.Delay.Max < f.Delay.Min || f.Delay.Count > f.Packets) {
		return FaultFlow
	}
	return NoFault
}

func (f *EdgeFlow) complete(by Sender) { f.Time, f.Node = dated(f.Time, by), by.Node() }

// Text is the flow as a line of readable text.
func (f *EdgeFlow) Text() string {
	var b strings.Builder
	if !f.Time.IsZero() {
		b.WriteString(f.Time.String() + "  ")
	}
	if f.Node != "" {
		b.WriteString(Printable(f.Node) + "  ")
	}
	fmt.Fprintf(
		&b,
		"%v > %v, flow label %d, namespace %d, edge to edge: %d packets",
		f.Source,
		f.Destination,
		f.FlowLabel,
		f.Namespace,
		f.Packets,
	)
	for _, n := range []struct {
		count Field[uint64]
		what  string
	}{{f.Lost, "lost"}, {f.Duplicates, "duplicated"}, {f.Reordered, "reordered"}, {f.Late, "late"}, {f.Restarts, "restarts"}} {
		if n.count.Valid && (n.count.Value > 0 || n.what == "lost") {
			fmt.Fprintf(&b, ", %d %s", n.count.Value, n.what)
		}
		if n.count.Present && !n.count.Valid && n.what == "lost" {
			b.WriteString(", lost: not known")
		}
	}
	if d := f.Delay; d != nil && d.Count > 0 {
		fmt.Fprintf(
			&b,
			", delay min %s, mean %s, max %s",
			Duration(time.Duration(d.Min)),
			Duration(time.Duration(*d.mean())),
			Duration(time.Duration(d.Max)),
		)
	}
	return b.String() + "\n"
}
