// SPDX-License-Identifier: Apache-2.0

package record

import (
	"math"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// Trace is one trace of one packet. Its JSON names are a contract: they
// are added to, never changed.
type Trace struct {
	Time      instant.Time
	Node      string        // the reporting node
	Interface string        // where the packet was seen
	IfIndex   model.IfIndex // of Interface
	OnItsWay  bool          // the packet kept the trace, and other nodes may have written to it
	Undated   bool          // Time is that of the message, not that of the packet
	Source    Source        // absent when it is Waymark's programs
	Option    string        // IOAM option-type
	Namespace ioam.NamespaceID
	TraceType ioam.TraceType
	TraceFlags
	Copy      bool          // the packet is such a copy, and this node had set the flag
	Remaining Field[int]    // RemainingLen: free space in 4-byte units
	PathDelay Field[uint64] // in nanoseconds, see MeasurePathDelay; absent when it is not known
	Packet    Packet        // absent when the source of the record does not know it
	Nodes     []NodeData    // in path order

	// Raw is what Nodes was read from, node by node. IPFIX exports it unchanged.
	Raw []ioam.NodeData
}

// TraceFlags are the flags of a trace. Without a valid Overflow, none of them is known.
type TraceFlags struct {
	Overflow Field[bool]
	Loopback bool // nodes return copies of the packet (RFC 9322 §4)
	Active   bool // the packet is a probe (RFC 9322 §5)
}

func newTraceFlags(flags ioam.TraceFlags) TraceFlags {
	return TraceFlags{
		Overflow: NewField(flags&ioam.FlagOverflow != 0, true),
		Loopback: flags&ioam.FlagLoopback != 0,
		Active:   flags&ioam.FlagActive != 0,
	}
}

func (f *TraceFlags) octet() (flags byte) {
	for _, one := range []struct {
		set  bool
		flag ioam.TraceFlags
	}{{f.Overflow.Value, ioam.FlagOverflow}, {f.Loopback, ioam.FlagLoopback}, {f.Active, ioam.FlagActive}} {
		if one.set {
			flags |= byte(one.flag)
		}
	}
	return flags
}

// NewTrace makes the record of a trace that packet carried at the time at. An
// inconsistent or cut node data list gives a record of the nodes that can be
// read, and the error.
func NewTrace(at time.Time, trace ioam.Trace, packet Packet, clock Clock) (Trace, error) {
	option := ioam.IOAMPreallocatedTrace
	if trace.Incremental {
		option = ioam.IOAMIncrementalTrace
	}
	r := Trace{
		Option:     option.String(),
		Namespace:  trace.Namespace,
		TraceType:  trace.Type,
		TraceFlags: newTraceFlags(trace.Flags),
		Remaining:  NewField(int(trace.RemainingLen), true),
		Packet:     packet,
		Nodes:      []NodeData{},
		Time:       instant.Of(at),
	}
	nodes, err := trace.Nodes()
	r.Raw = nodes
	for _, data := range nodes {
		r.Nodes = append(r.Nodes, ReadNodeData(data, clock))
	}
	return r, err
}

// NewKernelTrace makes the record of a trace that the kernel's own IOAM reported at the
// time at. The kernel reports neither the packet nor the flags nor the free space.
func NewKernelTrace(at time.Time, trace ioam.Trace, clock Clock) (Trace, error) {
	r, err := NewTrace(at, trace, Packet{}, clock)
	r.Source, r.TraceFlags, r.Remaining = SourceKernel, TraceFlags{}, Field[int]{}
	return r, err
}

// Name adds the names of nodes and interfaces, as far as they are known. A nil names knows none.
func (r *Trace) Name(names *nodenames.Names) {
	for i := range r.Nodes {
		r.Nodes[i].name(names)
	}
}

// Kind is "trace".
func (r *Trace) Kind() string { return KindTrace }

// traces declares the fields of a trace. IPFIX has a record for each of its nodes:
// see hops.
var traces = table[*Trace]{
	field("time", "", "When the packet was seen.", func(r *Trace) *instant.Time { return &r.Time }, moment()).
		ipfix(sectionTime, "observationTimeNanoseconds", "flowStartMilliseconds", "flowEndMilliseconds").firstRead().also(observationTimes...),
	field("node", "", meaningNode, func(r *Trace) *string { return &r.Node }, present(textual())),
	field(
		"interface",
		"",
		"Name of the interface at which the packet was seen.",
		func(r *Trace) *string { return &r.Interface },
		present(textual()),
	),
	hidden(func(r *Trace) *model.IfIndex { return &r.IfIndex }, number[model.IfIndex]()).
		ipfix(sectionPlace, "observationPointId[4]", "ingressInterface").lastRead().when(ownPrograms),
	field(
		"source",
		"",
		"`kernel` for what the kernel's own IOAM filled, otherwise absent.",
		func(r *Trace) *Source { return &r.Source },
		present(word[Source]()),
	).
		ipfix(sectionHop, "ioamRecordSource").
		when(kernelIOAM),
	field(
		"option",
		"",
		"IOAM option-type: `pre-allocated` or `incremental`.",
		func(r *Trace) *string { return &r.Option },
		optionType(ioam.IOAMPreallocatedTrace),
	).
		ipfix(sectionHeader, "ioamOptionType"),
	field("namespace", "", meaningNamespace, func(r *Trace) *ioam.NamespaceID { return &r.Namespace }, number[ioam.NamespaceID]()).
		ipfix(sectionHeader, "ioamNamespaceId"),
	field("trace_type", "", meaningTraceType, func(r *Trace) *ioam.TraceType { return &r.TraceType }, word[ioam.TraceType]()).
		ipfix(sectionHeader, "ioamTraceType"),
	field("overflow", "", "A node found no room.", func(r *Trace) *TraceFlags { return &r.TraceFlags }, overflow()).
		ipfix(sectionHop, "ioamTraceFlags").when(ownPrograms),
	field(
		"active",
		"",
		"The Active flag: the packet was a probe (RFC 9322 §5); absent otherwise.",
		func(r *Trace) *bool { return &r.Active },
		present(truth()),
	).
		carriedBy("ioamTraceFlags"),
	field("loopback", "", "The Loopback flag: nodes return copies of the packet to its source (RFC 9322 §4); absent otherwise.",
		func(r *Trace) *bool { return &r.Loopback }, present(truth())).
		carriedBy("ioamTraceFlags"),
	field(
		"copy",
		"",
		"The packet is such a copy, and this node had set the flag: it says how far the packet came, "+
			"and `packet.source` is the node that returned it; absent otherwise.",
		func(r *Trace) *bool { return &r.Copy },
		present(truth()),
	),
	field("remaining", "4 bytes", "RemainingLen: free space.", func(r *Trace) *Field[int] { return &r.Remaining }, optional(integer[int]())).
		ipfix(sectionHop, "ioamRemainingLength").when(ownPrograms),
	// Statistics over the packets of a record, here only one, so that all are equal.
	// The sum needs a count of packets with it (RFC 9951 §7.2).
	// JSON has whole microseconds, too, because the first version wrote only those. Read are nanoseconds, if there are any.
	field("path_delay_us", "microseconds", "`path_delay_ns` in whole microseconds.", (*Trace).pathDelay, inWholeMicroseconds()).
		carriedBy("pathDelayMeanDeltaMicroseconds").deprecatedFor("path_delay_ns"),
	field(
		"path_delay_ns",
		"nanoseconds",
		"Path delay of RFC 9951, in IPFIX in whole microseconds; absent when it is not known. [What it is of](../records.md#trace).",
		(*Trace).pathDelay,
		codec[*Field[uint64]]{coding: optional(number[uint64]()).coding, wire: wireMicroseconds()},
	).
		ipfix(sectionHop, "pathDelayMeanDeltaMicroseconds", "pathDelayMinDeltaMicroseconds", "pathDelayMaxDeltaMicroseconds").
		firstRead().
		when(pathDelayKnown),
	packetField(func(r *Trace) *Packet { return &r.Packet }, present(object(packetTable))),
	field(
		"nodes",
		"",
		"The [data](#node-data) of each node, in the order of the path.",
		func(r *Trace) *[]NodeData { return &r.Nodes },
		list(object(nodeTable)),
	),
}

func (r *Trace) pathDelay() *Field[uint64] { return &r.PathDelay }

// overflow is that flag, and all flags in IPFIX.
func overflow() codec[*TraceFlags] {
	c := optional(truth())
	return codec[*TraceFlags]{
		coding: coding{
			form: c.form, null: c.null,
			absent: func(p any) bool { return c.absent(&p.(*TraceFlags).Overflow) },
			show:   func(v Visitor, col *Column, p any) { c.show(v, col, &p.(*TraceFlags).Overflow) },
			fill:   func(p any, from Input) error { return c.fill(&p.(*TraceFlags).Overflow, from) },
			blank:  func(p any) { c.blank(&p.(*TraceFlags).Overflow) },
		},
		wire: wireFlags(),
	}
}

// Hop is one IPFIX data record of a trace: one of its nodes.
type Hop struct {
	*Trace
	Report Field[uint32] // identifies the trace at its exporter
	Index  Field[uint8]
	Count  Field[uint8] // nodes of the trace
	Data   NodeData

	raw *ioam.NodeData
	at  time.Time // the node's, in UTC
}

// hops declares the IPFIX fields of a node of a trace.
var hops = append(table[*Hop]{
	hidden(func(h *Hop) *Field[uint32] { return &h.Report }, optional(number[uint32]())).ipfix(sectionHop, "ioamReportId"),
	hidden(func(h *Hop) *Field[uint8] { return &h.Index }, optional(number[uint8]())).ipfix(sectionHop, "ioamHopIndex"),
	hidden(func(h *Hop) *Field[uint8] { return &h.Count }, optional(number[uint8]())).ipfix(sectionHop, "ioamHopCount"),
}, append(part(traces, func(h *Hop) *Trace { return h.Trace }),
	withData(hidden(func(h *Hop) *NodeData { return &h.Data }, object(nodeTable)), sectionHop,
		func(h *Hop) *NodeData { return &h.Data }, func(h *Hop) (*ioam.NodeData, time.Time) { return h.raw, h.at }))...)

// hop sets h to the IPFIX record of the node at an index. A trace that no node wrote
// into has one, too.
func (r *Trace) hop(h *Hop, index int, report uint32) {
	*h = Hop{
		Trace:  r,
		Report: NewField(report, true),
		Index:  NewField(uint8(index), true),
		Count:  NewField(uint8(len(r.Raw)), true),
		raw:    &ioam.NodeData{},
	}
	if len(r.Raw) > 0 {
		h.raw, h.at = &r.Raw[index], r.Nodes[index].Timestamp.Value
	}
}

func (h *Hop) conditions() conditions {
	packet := packetConditions(&h.Packet)
	last := int(h.Index.Value) == len(h.Raw)-1 // once for each trace, so that collectors count it once
	return (bitsOf(h.TraceType)|packet).with(lengthKnown, packet != 0).
		with(pathDelayKnown, h.PathDelay.Valid && h.PathDelay.Value <= mostPathDelay && last).
		with(kernelIOAM, h.Source == SourceKernel).
		with(ownPrograms, h.Source != SourceKernel)
}

// encodable reports why the node cannot be encoded in IPFIX.
func (h *Hop) encodable() error {
	if len(h.Raw) != len(h.Nodes) || !hasAllFields(h.raw) {
		return errData
	}
	return nil
}

// set makes h the IPFIX record of a trace's node at an index.
func (h *Hop) set(of Record, index int, report uint32) { of.(*Trace).hop(h, index, report) }

func (h *Hop) deriveFields(in *Reading) { in.deriveNodeFields(&h.Data, h.TraceType) }

func (h *Hop) fault(*Reading) Fault {
	if h.Count.Valid && h.Index.Value >= max(h.Count.Value, 1) {
		return FaultTraceIndex
	}
	return NoFault
}

// complete adds to what all records of a trace have in common.
func (h *Hop) complete(by Sender) {
	if h.Time.IsZero() {
		h.Time.Time, h.Undated = by.Exported(), true
	}
	h.Time, h.Node, h.Interface = instant.Of(h.Time.Time), by.Node(), by.Interface(h.IfIndex)
}

func (r *Trace) about() (ioam.NamespaceID, *Packet) { return r.Namespace, &r.Packet }

func (r *Trace) incomplete() bool { return r.Overflow.Value }

// weight counts the packet once, with the first node.
func (r *Trace) weight(index int) Weight {
	if index > 0 {
		return Weight{}
	}
	return Weight{1, uint64(r.Packet.Length)}
}

// mostPathDelay is the greatest path delay that IPFIX has room for, in nanoseconds.
const mostPathDelay = math.MaxUint32*1000 + 999

// MeasurePathDelay sets PathDelay: from the timestamp of the
// encapsulating node, the first in the trace, to the time at which the reporting node
// received the packet (RFC 9951). The delay is unknown when that timestamp lacks its
// fraction, when only one node wrote, which may be the reporting one, and when the
// clocks differ so much that it is negative.
func (r *Trace) MeasurePathDelay(received time.Time) {
	if len(r.Raw) == 0 || len(r.Raw) == 1 && !r.Overflow.Value {
		return
	}
	if _, exact := r.Raw[0].TimestampFraction(); !exact || !r.Nodes[0].Timestamp.Valid {
		return
	}
	if ns := received.Sub(r.Nodes[0].Timestamp.Value).Nanoseconds(); ns >= 0 && ns <= mostPathDelay {
		r.PathDelay = NewField(uint64(ns), true)
	}
}
