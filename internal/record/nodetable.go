// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"time"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// nodeTable declares node data (RFC 9197 §4.4.2). In IPFIX they are as in the packet,
// in the order of the trace type's bits, after the time in UTC.
var nodeTable = table[*NodeData]{
	field("hop_limit", "", "Hop limit that the node found.", func(n *NodeData) *Field[uint8] { return &n.HopLimit }, hopLimit()).
		data(ioam.BitNode, "ioamHopLimit"),
	field(
		"node_id",
		"",
		"node_id of RFC 9197.",
		func(n *NodeData) *Field[ioam.NodeID] { return &n.NodeID },
		known(number[ioam.NodeID](), 1<<24-1),
	).
		data(ioam.BitNode, "ioamNodeId"),
	field(
		"ingress_id",
		"",
		"ingress_if_id.",
		func(n *NodeData) *Field[ioam.InterfaceID] { return &n.IngressID },
		known(number[ioam.InterfaceID](), 1<<16-1),
	).
		data(ioam.BitInterfaces, "ioamIngressInterfaceId"),
	field(
		"egress_id",
		"",
		"egress_if_id.",
		func(n *NodeData) *Field[ioam.InterfaceID] { return &n.EgressID },
		known(number[ioam.InterfaceID](), 1<<16-1),
	).
		data(ioam.BitInterfaces, "ioamEgressInterfaceId"),
	field(
		"timestamp",
		"",
		"The node's timestamp. In a trace and in `data` it has the resolution of the node's format: with `posix`, microseconds.",
		func(n *NodeData) *Field[time.Time] { return &n.Timestamp },
		timestamp(),
	).
		ipfix(sectionTime, "ioamTimestampNanoseconds").
		when(bit(ioam.BitTimestampSeconds)),
	hidden(func(n *NodeData) *Field[uint32] { return &n.TimestampSeconds }, known(number[uint32](), 1<<32-1)).
		data(ioam.BitTimestampSeconds, "ioamTimestampSeconds"),
	field("timestamp_fraction", "", "Fraction of the timestamp as in the packet, when the trace type has bit 3 without bit 2.",
		func(n *NodeData) *Field[uint32] { return &n.TimestampFraction }, known(number[uint32](), 1<<32-1)).
		data(ioam.BitTimestampFraction, "ioamTimestampFraction"),
	field("transit_delay_ns", "nanoseconds", "How long the node held the packet. When it is 2³¹ or more, it is `null`.",
		func(n *NodeData) *Field[uint32] { return &n.TransitDelay }, optional(number[uint32]())).
		data(ioam.BitTransitDelay, "ioamTransitDelayNanoseconds").taken(takeTransitDelay),
	field("transit_delay_overflow", "", "The transit delay is 2³¹ ns or more; absent otherwise.",
		func(n *NodeData) *bool { return &n.TransitDelayOverflow }, present(truth())),
	field(
		"namespace_data",
		"",
		"Data of the namespace, 8 digits.",
		func(n *NodeData) *Field[Hex32] { return &n.NamespaceData },
		known(hexadecimal[Hex32](8), 1<<32-1),
	).
		data(ioam.BitNamespaceData, "ioamNamespaceData"),
	field("queue_depth", "as the node counts", "Depth of the egress queue; Waymark's nodes count packets.",
		func(n *NodeData) *Field[uint32] { return &n.QueueDepth }, known(number[uint32](), 1<<32-1)).
		data(ioam.BitQueueDepth, "ioamQueueDepth"),
	field("checksum_complement", "", "Checksum Complement, 8 digits.",
		func(n *NodeData) *Field[Hex32] { return &n.ChecksumComplement }, known(hexadecimal[Hex32](8), 1<<32-1)).
		data(ioam.BitChecksumComplement, "ioamChecksumComplement"),
	hidden(func(n *NodeData) *Field[uint8] { return &n.HopLimit }, hopLimit()).
		data(ioam.BitNodeWide, "ioamHopLimit"),
	field(
		"node_id_wide",
		"",
		"node_id of 56 bits.",
		func(n *NodeData) *Field[ioam.NodeIDWide] { return &n.NodeIDWide },
		known(number[ioam.NodeIDWide](), 1<<56-1),
	).
		data(ioam.BitNodeWide, "ioamNodeIdWide"),
	field("ingress_id_wide", "", "ingress_if_id of 32 bits.",
		func(n *NodeData) *Field[ioam.InterfaceIDWide] { return &n.IngressIDWide }, known(number[ioam.InterfaceIDWide](), 1<<32-1)).
		data(ioam.BitInterfacesWide, "ioamIngressInterfaceIdWide"),
	field("egress_id_wide", "", "egress_if_id of 32 bits.",
		func(n *NodeData) *Field[ioam.InterfaceIDWide] { return &n.EgressIDWide }, known(number[ioam.InterfaceIDWide](), 1<<32-1)).
		data(ioam.BitInterfacesWide, "ioamEgressInterfaceIdWide"),
	field("namespace_data_wide", "", "Data of the namespace, 16 digits.",
		func(n *NodeData) *Field[Hex64] { return &n.NamespaceDataWide }, known(hexadecimal[Hex64](16), 1<<64-1)).
		data(ioam.BitNamespaceDataWide, "ioamNamespaceDataWide"),
	field("buffer_occupancy", "as the node counts", "Occupancy of the egress buffer; of a Waymark node, bytes in all queues of the interface.",
		func(n *NodeData) *Field[uint32] { return &n.BufferOccupancy }, known(number[uint32](), 1<<32-1)).
		data(ioam.BitBufferOccupancy, "ioamBufferOccupancy"),
	within(
		field(
			"snapshot",
			"",
			"Opaque state snapshot.",
			func(n *NodeData) *Field[Snapshot] { return &n.Snapshot },
			optional(object(snapshotTable)),
		),
		snapshotTable,
		sectionHeader,
		snapshotOf,
		snapshotOf,
	).when(bit(ioam.BitSnapshot)).
		taken(takeSchema).
		listed(),
	field(
		"node_name",
		"",
		"Name of the node with that id, absent when it is not known. [Where names come from](../how-to/name-nodes.md).",
		func(n *NodeData) *string { return &n.NodeName },
		present(textual()),
	),
	field(
		"ingress_name",
		"",
		"Name of its interface with the ingress id, absent when it is not known.",
		func(n *NodeData) *string { return &n.IngressName },
		present(textual()),
	),
	field(
		"egress_name",
		"",
		"Name of its interface with the egress id, absent when it is not known.",
		func(n *NodeData) *string { return &n.EgressName },
		present(textual()),
	),
}

var snapshotTable = table[*Snapshot]{
	field("schema", "", "Schema ID.", func(s *Snapshot) *ioam.SchemaID { return &s.Schema }, number[ioam.SchemaID]()).
		ipfix(sectionHeader, "ioamSchemaId"),
	field("data", "", "The opaque data.", func(s *Snapshot) *[]byte { return &s.Data }, octets()).
		ipfix(sectionHeader, "ioamOpaqueStateSnapshot").atMost(maxSnapshot),
}

// maxSnapshot is how many octets an opaque state snapshot can have: 8 bits count
// units of 4 octets (RFC 9197 §4.4.2.13).
const maxSnapshot = 4 * 255

func snapshotOf(n *NodeData) *Snapshot { return &n.Snapshot.Value }

// data names the element for the node data of a trace type's bit.
func (c column[R]) data(n int, spec string) column[R] {
	return c.ipfix(sectionHeader, spec).when(bit(n))
}

// taken sets a separate function to read each element.
func (c column[R]) taken(takes ...func(R, ipfix.Value)) column[R] {
	for i, setValue := range takes {
		c.names[i].readValue = func(r any, v ipfix.Value) { setValue(r.(R), v) }
	}
	return c
}

// hopLimit is the hop limit of bit 0 or bit 8: a template with room for both has
// all-ones in the one that the trace type lacks.
func hopLimit() codec[*Field[uint8]] {
	c := optional(number[uint8]())
	c.readValue = func(p any, v ipfix.Value) bool {
		n, ok := v.Uint()
		if f := p.(*Field[uint8]); ok && (!f.Present || f.Value == 0xff) {
			*f = NewField(uint8(n), true)
		}
		return ok
	}
	return c
}

// delayOverflow is the transit delay that means 2³¹ ns or more (RFC 9197 §4.4.2.5); a
// greater value is not available.
const delayOverflow = 1 << 31

func takeTransitDelay(n *NodeData, v ipfix.Value) {
	if ns, ok := v.Uint(); ok {
		n.TransitDelay = NewField(uint32(ns), ns < delayOverflow)
		n.TransitDelayOverflow = ns == delayOverflow
	}
}

func takeSchema(n *NodeData, v ipfix.Value) {
	if id, ok := v.Uint(); ok {
		n.Snapshot.Present, n.Snapshot.Valid = true, ioam.SchemaID(id) != ioam.SchemaIDNone
		n.Snapshot.Value.Schema = ioam.SchemaID(id)
	}
}

// withData declares a node's data. IPFIX has them as in the packet: raw returns the
// octets, and the time in UTC.
func withData[R any](c column[R], in section, at func(R) *NodeData, raw func(R) (*ioam.NodeData, time.Time)) column[R] {
	c = within(c, nodeTable, in, at, at)
	c.put = func(has conditions, _ []ipfix.Field) step[R] {
		wanted := has.traceType()
		return func(b []byte, r R) []byte {
			data, at := raw(r)
			return putData(b, wanted, data, at)
		}
	}
	return c
}

// unavailable is node data of maximum length with no field available.
var unavailable = bytes.Repeat([]byte{0xff}, 4*typeFixed.NodeLen())

// putData writes a node's data into a template with the fields of a trace type. The
// timestamp in UTC comes first, all zero when it is not available.
func putData(b []byte, wanted ioam.TraceType, raw *ioam.NodeData, at time.Time) []byte {
	if wanted.Has(ioam.BitTimestampSeconds) {
		if _, ok := raw.TimestampSeconds(); ok && !at.IsZero() {
			b = ipfix.AppendTime(b, ipfix.DateTimeNanoseconds, at.Unix(), uint64(at.Nanosecond()))
		} else {
			b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
		}
	}
	fixed := wanted & typeFixed
	switch raw.Type & typeFixed {
	case fixed:
		b = append(b, raw.Bytes[:4*fixed.NodeLen()]...)
	case 0:
		b = append(b, unavailable[:4*fixed.NodeLen()]...)
	default:
		b = spread(b, fixed, raw)
	}
	if !wanted.HasSnapshot() {
		return b
	}
	snapshot, ok := raw.Snapshot()
	if !ok {
		snapshot.Schema = ioam.SchemaIDNone
	}
	id := snapshot.Schema
	return putOctets(append(b, byte(id>>16), byte(id>>8), byte(id)), snapshot.Data)
}

// spread writes the fields of a trace type from node data that may lack some of them.
func spread(b []byte, wanted ioam.TraceType, raw *ioam.NodeData) []byte {
	for n := range ioam.BitSnapshot {
		if !wanted.Has(n) {
			continue
		}
		field := raw.Field(n)
		if field == nil {
			field = unavailable[:4*(ioam.TraceType(1)<<(23-n)).NodeLen()]
		}
		b = append(b, field...)
	}
	return b
}
