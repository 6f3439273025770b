// SPDX-License-Identifier: Apache-2.0

// Package export turns records into what others read: JSON lines and IPFIX.
package export

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Field is a value of a record. The zero Field is absent: the trace type lacks
// it. One that is present without a value is "not available", null in JSON.
type Field[T any] struct {
	Value   T
	Present bool
	Valid   bool // there is a value
}

// IsZero makes omitzero leave absent fields out.
func (f Field[T]) IsZero() bool { return !f.Present }

// MarshalJSON writes the value, or null.
func (f Field[T]) MarshalJSON() ([]byte, error) {
	if !f.Valid {
		return []byte("null"), nil
	}
	if at, ok := any(f.Value).(time.Time); ok {
		return instant.Of(at).MarshalJSON()
	}
	return json.Marshal(f.Value)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *Field[T]) UnmarshalJSON(data []byte) error {
	*f = Field[T]{Present: true}
	if string(data) == "null" {
		return nil
	}
	f.Valid = true
	return json.Unmarshal(data, &f.Value)
}

// TraceRecord is one trace of one packet. Its JSON names are a contract: they
// are added to, never changed.
type TraceRecord struct {
	Kind      string           `json:"kind"` // always "trace"
	Time      instant.Time     `json:"time,omitzero"`
	Node      string           `json:"node,omitempty"`      // the node that reports
	Interface string           `json:"interface,omitempty"` // where the packet was seen
	IfIndex   model.IfIndex    `json:"-"`                   // of Interface
	OnItsWay  bool             `json:"-"`                   // the packet went on with the trace, and other nodes may have written
	Source    Source           `json:"source,omitempty"`    // absent when it is Waymark's programs
	Option    string           `json:"option"`              // IOAM option-type
	Namespace ioam.NamespaceID `json:"namespace"`
	TraceType ioam.TraceType   `json:"trace_type"`
	Overflow  Field[bool]      `json:"overflow,omitzero"`
	Remaining Field[int]       `json:"remaining,omitzero"`     // RemainingLen: free space in 4-byte units
	PathDelay Field[uint32]    `json:"path_delay_us,omitzero"` // see MeasurePathDelay; absent when it is not known
	Packet    Packet           `json:"packet,omitzero"`        // absent when the source of the record does not know it
	Nodes     []TraceNode      `json:"nodes"`                  // in path order

	// Raw is what Nodes was read from, node by node. IPFIX exports it as it is.
	Raw []ioam.NodeData `json:"-"`
}

// TraceNode is what one node wrote (RFC 9197 §4.4.2).
type TraceNode struct {
	HopLimit             Field[uint8]                `json:"hop_limit,omitzero"`
	NodeID               Field[ioam.NodeID]          `json:"node_id,omitzero"`
	IngressID            Field[ioam.InterfaceID]     `json:"ingress_id,omitzero"`
	EgressID             Field[ioam.InterfaceID]     `json:"egress_id,omitzero"`
	Timestamp            Field[time.Time]            `json:"timestamp,omitzero"`
	TimestampFraction    Field[uint32]               `json:"timestamp_fraction,omitzero"` // raw, only when the trace has no seconds
	TransitDelay         Field[uint32]               `json:"transit_delay_ns,omitzero"`
	TransitDelayOverflow bool                        `json:"transit_delay_overflow,omitempty"` // 2^31 ns or more
	NamespaceData        Field[Hex32]                `json:"namespace_data,omitzero"`
	QueueDepth           Field[uint32]               `json:"queue_depth,omitzero"`
	ChecksumComplement   Field[Hex32]                `json:"checksum_complement,omitzero"`
	NodeIDWide           Field[ioam.NodeIDWide]      `json:"node_id_wide,omitzero"`
	IngressIDWide        Field[ioam.InterfaceIDWide] `json:"ingress_id_wide,omitzero"`
	EgressIDWide         Field[ioam.InterfaceIDWide] `json:"egress_id_wide,omitzero"`
	NamespaceDataWide    Field[Hex64]                `json:"namespace_data_wide,omitzero"`
	BufferOccupancy      Field[uint32]               `json:"buffer_occupancy,omitzero"`
	Snapshot             Field[Snapshot]             `json:"snapshot,omitzero"`
}

// Snapshot is an opaque state snapshot; JSON has the data in base64.
type Snapshot struct {
	Schema ioam.SchemaID `json:"schema"`
	Data   []byte        `json:"data"`
}

// Numbers that are written in hexadecimal.
type (
	Hex8  uint8
	Hex32 uint32
	Hex64 uint64
)

func (v Hex8) String() string                { return fmt.Sprintf("0x%02x", uint8(v)) }
func (v Hex32) String() string               { return fmt.Sprintf("0x%08x", uint32(v)) }
func (v Hex64) String() string               { return fmt.Sprintf("0x%016x", uint64(v)) }
func (v Hex8) MarshalText() ([]byte, error)  { return []byte(v.String()), nil }
func (v Hex32) MarshalText() ([]byte, error) { return []byte(v.String()), nil }
func (v Hex64) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (v *Hex8) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "0x%x", (*uint8)(v))
	return err
}

// UnmarshalText reads what MarshalText wrote.
func (v *Hex32) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "0x%x", (*uint32)(v))
	return err
}

// UnmarshalText reads what MarshalText wrote.
func (v *Hex64) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "0x%x", (*uint64)(v))
	return err
}

// Clock says how to read the timestamps of a trace: nothing in the packet does.
type Clock struct {
	Format    ioam.TimestampFormat
	TAIOffset time.Duration // TAI − UTC, for PTP timestamps
}

// Trace makes the record of a trace that packet carried at the time at. An
// inconsistent or cut node data list gives a record of the nodes that can be
// read, and the error.
func Trace(at time.Time, trace ioam.Trace, packet Packet, clock Clock) (TraceRecord, error) {
	option := ioam.IOAMPreallocatedTrace
	if trace.Incremental {
		option = ioam.IOAMIncrementalTrace
	}
	r := TraceRecord{
		Kind:      "trace",
		Option:    option.String(),
		Namespace: trace.Namespace,
		TraceType: trace.Type,
		Overflow:  NewField(trace.Flags&ioam.FlagOverflow != 0, true),
		Remaining: NewField(int(trace.RemainingLen), true),
		Packet:    packet,
		Nodes:     []TraceNode{},
		Time:      instant.Of(at),
	}
	nodes, err := trace.Nodes()
	r.Raw = nodes
	for _, data := range nodes {
		r.Nodes = append(r.Nodes, Node(data, clock))
	}
	return r, err
}

// KernelTrace makes the record of a trace of which the kernel's own IOAM told at
// the time at: it names neither the packet nor the flags nor the free space.
func KernelTrace(at time.Time, trace ioam.Trace, clock Clock) (TraceRecord, error) {
	r, err := Trace(at, trace, Packet{}, clock)
	r.Source, r.Overflow, r.Remaining = SourceKernel, Field[bool]{}, Field[int]{}
	return r, err
}

// NewField makes a field that is present; ok is whether there is a value.
func NewField[T any](v T, ok bool) Field[T] {
	return Field[T]{Value: v, Present: true, Valid: ok}
}

// Node reads what one node wrote: the fields that the trace type asks for.
func Node(d ioam.NodeData, clock Clock) TraceNode {
	var n TraceNode
	shortFields(d, clock, &n)
	if d.Type.Has(ioam.BitNode) || d.Type.Has(ioam.BitNodeWide) {
		n.HopLimit = NewField(d.HopLimit())
	}
	if d.Type.Has(ioam.BitNodeWide) {
		n.NodeIDWide = NewField(d.NodeIDWide())
	}
	if d.Type.Has(ioam.BitInterfacesWide) {
		n.IngressIDWide = NewField(d.IngressIDWide())
		n.EgressIDWide = NewField(d.EgressIDWide())
	}
	if d.Type.Has(ioam.BitNamespaceDataWide) {
		v, ok := d.NamespaceDataWide()
		n.NamespaceDataWide = NewField(Hex64(v), ok)
	}
	if d.Type.Has(ioam.BitBufferOccupancy) {
		n.BufferOccupancy = NewField(d.BufferOccupancy())
	}
	if d.Type.HasSnapshot() {
		s, ok := d.Snapshot()
		n.Snapshot = NewField(Snapshot(s), ok)
	}
	return n
}

// shortFields reads the fields of bits 0 to 7, 4 bytes each.
func shortFields(d ioam.NodeData, clock Clock, n *TraceNode) {
	if d.Type.Has(ioam.BitNode) {
		n.NodeID = NewField(d.NodeID())
	}
	if d.Type.Has(ioam.BitInterfaces) {
		n.IngressID = NewField(d.IngressID())
		n.EgressID = NewField(d.EgressID())
	}
	if d.Type.Has(ioam.BitTimestampSeconds) {
		n.Timestamp = NewField(d.Timestamp(clock.Format, clock.TAIOffset))
	} else if d.Type.Has(ioam.BitTimestampFraction) {
		n.TimestampFraction = NewField(d.TimestampFraction())
	}
	if d.Type.Has(ioam.BitTransitDelay) {
		ns, overflow, ok := d.TransitDelay()
		n.TransitDelay = NewField(ns, ok && !overflow)
		n.TransitDelayOverflow = overflow
	}
	if d.Type.Has(ioam.BitNamespaceData) {
		v, ok := d.NamespaceData()
		n.NamespaceData = NewField(Hex32(v), ok)
	}
	if d.Type.Has(ioam.BitQueueDepth) {
		n.QueueDepth = NewField(d.QueueDepth())
	}
	if d.Type.Has(ioam.BitChecksumComplement) {
		v, ok := d.ChecksumComplement()
		n.ChecksumComplement = NewField(Hex32(v), ok)
	}
}
