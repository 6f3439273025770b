// SPDX-License-Identifier: Apache-2.0

package record

import (
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Flow is what one node exports for the packets of one flow that had a Direct
// Export option, ingress and egress interface: an aggregate of postcards. Its
// JSON names are a contract: they are added to, never changed.
type Flow struct {
	Time           instant.Time // when the record was made
	Node           string       // the node that exports
	Role           NodeRole
	Ingress        string
	Egress         string
	IngressIfIndex model.IfIndex
	EgressIfIndex  model.IfIndex
	Namespace      ioam.NamespaceID
	TraceType      ioam.TraceType
	FlowID         Field[uint32] // absent when the options have no Flow-ID
	Packet         Packet        // without a length
	Packets        uint64        // since the record before
	Bytes          uint64        // since the record before, from the IPv6 header on
	First          instant.Time  // time of the first of these packets
	Last           instant.Time  // time of the last of these packets
	TransitDelay   *Delays
	SequenceGaps   Field[uint64] // packets that are missing; absent without sequence numbers
	Reordered      Field[uint64] // packets that came after one with a later sequence number; absent without them
	HopLimit       HopLimits
	EndReason      EndReason
}

// Kind is "flow".
func (f *Flow) Kind() string { return KindFlow }

// flows declares the fields of a flow.
var flows = table[*Flow]{
	field("time", "", "When the record was made.", func(f *Flow) *instant.Time { return &f.Time }, moment()).
		ipfix(sectionTime, "observationTimeNanoseconds").also(observationTimes...),
	field("node", "", meaningNode, func(f *Flow) *string { return &f.Node }, present(textual())),
	field("role", "", meaningRole, func(f *Flow) *NodeRole { return &f.Role }, word[NodeRole]()).
		ipfix(sectionHeader, "ioamNodeRole"),
	field("ingress", "", meaningIngress, func(f *Flow) *string { return &f.Ingress }, present(textual())),
	field("egress", "", meaningEgress, func(f *Flow) *string { return &f.Egress }, present(textual())),
	hidden((*Flow).point, number[model.IfIndex]()).ipfix(sectionPlace, "observationPointId[4]").unread(),
	field("ingress_ifindex", "", meaningIfIndex, func(f *Flow) *model.IfIndex { return &f.IngressIfIndex }, present(number[model.IfIndex]())).
		ipfix(sectionPlace, "ingressInterface"),
	field("egress_ifindex", "", meaningIfIndex, func(f *Flow) *model.IfIndex { return &f.EgressIfIndex }, present(number[model.IfIndex]())).
		ipfix(sectionPlace, "egressInterface"),
	field("namespace", "", meaningNamespace, func(f *Flow) *ioam.NamespaceID { return &f.Namespace }, number[ioam.NamespaceID]()).
		ipfix(sectionHeader, "ioamNamespaceId"),
	field("trace_type", "", meaningTraceType, func(f *Flow) *ioam.TraceType { return &f.TraceType }, word[ioam.TraceType]()).
		ipfix(sectionHeader, "ioamTraceType"),
	field("flow_id", "", meaningFlowID, func(f *Flow) *Field[uint32] { return &f.FlowID }, optionalNumber[uint32]()).
		ipfix(sectionHeader, "ioamDexFlowId").when(flowIDThere),
	packetField((*Flow).packet, object(packetTable)),
	field(
		"packets",
		"packets",
		"Packets since the previous record of the flow; add them up.",
		func(f *Flow) *uint64 { return &f.Packets },
		number[uint64](),
	).
		ipfix(sectionHeader, "packetDeltaCount"),
	field("bytes", "bytes", "Bytes of these packets, from the IPv6 header on.", func(f *Flow) *uint64 { return &f.Bytes }, number[uint64]()).
		ipfix(sectionHeader, "octetDeltaCount"),
	field(
		"first",
		"",
		"Time of the first of these packets, in the resolution of the kernel's tick: a few milliseconds. Absent when another exporter sent none.",
		func(f *Flow) *instant.Time { return &f.First },
		moment(),
	).
		ipfix(sectionHeader, "flowStartMilliseconds").
		also("flowStartSeconds", "flowStartMicroseconds"),
	field("last", "", "Time of the last of these packets.", func(f *Flow) *instant.Time { return &f.Last }, moment()).
		ipfix(sectionHeader, "flowEndMilliseconds").also("flowEndSeconds", "flowEndMicroseconds"),
	hidden(func(f *Flow) *instant.Time { return &f.First }, moment()).ipfix(sectionHeader, "flowStartNanoseconds"),
	hidden(func(f *Flow) *instant.Time { return &f.Last }, moment()).ipfix(sectionHeader, "flowEndNanoseconds"),
	within(
		field(
			"transit_delay_ns",
			"nanoseconds",
			"How long the node held packets. Absent when the trace type does not ask for it, or no packet's delay was measured.",
			func(f *Flow) **Delays { return &f.TransitDelay },
			pointer(object(delaysTable)),
		),
		delaysTable,
		sectionHeader,
		(*Flow).delays,
		(*Flow).newDelays,
	).listed(),
	field(
		"sequence_gaps",
		"packets",
		"Missing packets: the Sequence Numbers that were expected since the previous record, less those that came; "+
			"packets that came twice [hide as many](../how-to/collect-postcards.md#flows). 0 at the encapsulating node, which assigns the numbers; "+
			"absent without them; `null` when some did not come and "+
			"[it is not known to which flow they belong](../data-plane/direct-export.md#missing-numbers): flows share the Flow-ID, "+
			"or packets were not counted, or may have passed the node without its program. "+
			"Add the numbers up: packets that are late when an interval ends are in a later record.",
		func(f *Flow) *Field[uint64] { return &f.SequenceGaps },
		optional(number[uint64]()),
	).
		ipfix(sectionHeader, "ioamSequenceGapDeltaCount").
		when(missingKnown),
	field("reordered", "packets", "Packets that came after one with a later Sequence Number on the same CPU; absent without Sequence Numbers.",
		func(f *Flow) *Field[uint64] { return &f.Reordered }, optional(number[uint64]())).
		ipfix(sectionHeader, "ioamReorderedPacketDeltaCount").when(flowNumbered),
	within(field("hop_limit", "", "Hop limits of these packets.", func(f *Flow) *HopLimits { return &f.HopLimit }, object(hopLimitsTable)),
		hopLimitsTable, sectionHeader, func(f *Flow) *HopLimits { return &f.HopLimit }, func(f *Flow) *HopLimits { return &f.HopLimit }).listed(),
	field(
		"end_reason",
		"",
		"`interval` (`export-interval` is over), `end` (a TCP connection has ended in this direction: reported at once if no packet is missing, "+
			"else when the interval is over; its last acknowledgements may make another flow), `evicted` (replaced by another flow); "+
			"from other exporters also `idle`.",
		func(f *Flow) *EndReason { return &f.EndReason },
		word[EndReason](),
	).
		ipfix(sectionHeader, "flowEndReason"),
}

var delaysTable = table[*Delays]{
	field(
		"min",
		"nanoseconds",
		"The minimum.",
		func(d *Delays) *uint32 { return &d.Min },
		number[uint32](),
	).ipfix(sectionHeader, "ioamTransitDelayMinNanoseconds"),
	field(
		"max",
		"nanoseconds",
		"The maximum.",
		func(d *Delays) *uint32 { return &d.Max },
		number[uint32](),
	).ipfix(sectionHeader, "ioamTransitDelayMaxNanoseconds"),
	field(
		"sum",
		"nanoseconds",
		"Their sum.",
		func(d *Delays) *uint64 { return &d.Sum },
		number[uint64](),
	).ipfix(sectionHeader, "ioamTransitDelaySumNanoseconds"),
	field(
		"count",
		"packets",
		"Packets whose delay was measured.",
		func(d *Delays) *uint64 { return &d.Count },
		number[uint64](),
	).ipfix(sectionHeader, "ioamTransitDelayDeltaCount"),
}

var hopLimitsTable = table[*HopLimits]{
	field("min", "", "The minimum.", func(h *HopLimits) *uint8 { return &h.Min }, number[uint8]()).ipfix(sectionHeader, "minimumTTL"),
	field("max", "", "The maximum.", func(h *HopLimits) *uint8 { return &h.Max }, number[uint8]()).ipfix(sectionHeader, "maximumTTL"),
}

// noDelays is what IPFIX records of a flow without delays contain.
var noDelays = Delays{Min: ioam.DataUnavailable, Max: ioam.DataUnavailable}

func (f *Flow) delays() *Delays {
	if f.TransitDelay == nil {
		return &noDelays
	}
	return f.TransitDelay
}

func (f *Flow) newDelays() *Delays {
	if f.TransitDelay == nil {
		f.TransitDelay = &Delays{}
	}
	return f.TransitDelay
}

func (f *Flow) packet() *Packet { return &f.Packet }

// point is the same as for a postcard.
func (f *Flow) point() *model.IfIndex {
	if f.Role == Encapsulating || f.IngressIfIndex == 0 {
		return &f.EgressIfIndex
	}
	return &f.IngressIfIndex
}

func (f *Flow) conditions() conditions {
	return packetConditions(&f.Packet).with(flowIDThere, f.FlowID.Present).
		with(missingKnown, f.SequenceGaps.Valid).with(flowNumbered, f.Reordered.Valid)
}

func (f *Flow) about() (ioam.NamespaceID, *Packet) { return f.Namespace, &f.Packet }

func (f *Flow) weight(int) Weight { return Weight{f.Packets, f.Bytes} }

// deriveFields sets fields that depend on several elements.
func (f *Flow) deriveFields(*Reading) {
	if f.Reordered.Present && !f.SequenceGaps.Present {
		f.SequenceGaps.Present = true // there are numbers, but the number of missing packets is unknown
	}
	if f.TransitDelay != nil && f.TransitDelay.Count == 0 {
		f.TransitDelay = nil
	}
}

func (f *Flow) fault(in *Reading) Fault {
	if turned(f.First, f.Last) || f.HopLimit.Max != 0 && f.HopLimit.Max < f.HopLimit.Min ||
		in.packets && f.Packets == 0 && f.Bytes > 0 || f.TransitDelay != nil && f.TransitDelay.Max < f.TransitDelay.Min {
		return FaultFlow
	}
	return NoFault
}

func (f *Flow) complete(by Sender) {
	f.Time, f.Node = dated(f.Time, by), by.Node()
	f.Ingress, f.Egress = by.Interface(f.IngressIfIndex), by.Interface(f.EgressIfIndex)
}

// Delays are the times that packets spent in a node, in nanoseconds.
type Delays struct {
	Min   uint32
	Max   uint32
	Sum   uint64
	Count uint64 // packets whose time was measured
}

// HopLimits are the lowest and the highest hop limit.
type HopLimits struct {
	Min uint8
	Max uint8
}
