// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"time"
)

// TransitDelayOverflow in the transit delay means 2^31 ns or more (RFC 9197 §4.4.2.5).
const TransitDelayOverflow uint32 = 1 << 31

// NodeData is what one node wrote into a trace (RFC 9197 §4.4.2). Each
// accessor's last result is false when the trace type lacks the field, when the
// bytes end before it, or when the field is all-ones, which means "not
// available".
type NodeData struct {
	Type  TraceType
	Bytes []byte // this node's fields in bit order, then its snapshot
}

// Field returns the bytes of the field of a bit 0…21, 4 or 8 of them; nil when
// there is none.
func (d NodeData) Field(bit int) []byte {
	if !d.Type.Has(bit) || bit > BitUndefinedLast {
		return nil
	}
	at := 0
	for b := range bit {
		if d.Type.Has(b) {
			at += fieldWidth(b)
		}
	}
	end := at + fieldWidth(bit)
	if end > len(d.Bytes) {
		return nil
	}
	return d.Bytes[at:end:end]
}

// Uint32 returns a 4-byte field as a number.
func (d NodeData) Uint32(bit int) (uint32, bool) {
	field := d.Field(bit)
	if len(field) != 4 {
		return 0, false
	}
	v := binary.BigEndian.Uint32(field)
	return v, v != DataUnavailable
}

// Uint64 returns an 8-byte field as a number.
func (d NodeData) Uint64(bit int) (uint64, bool) {
	field := d.Field(bit)
	if len(field) != 8 {
		return 0, false
	}
	v := binary.BigEndian.Uint64(field)
	return v, v != DataWideUnavailable
}

// HopLimit is the hop limit with which the node sent the packet on
// (§4.4.2.1), from field 0 or else field 8.
func (d NodeData) HopLimit() (uint8, bool) {
	if v, ok := d.Uint32(BitNode); ok {
		return uint8(v >> 24), true
	}
	v, ok := d.Uint64(BitNodeWide)
	return uint8(v >> 56), ok
}

// NodeID is the node's 24-bit id (§4.4.2.1).
func (d NodeData) NodeID() (NodeID, bool) {
	v, ok := d.Uint32(BitNode)
	id := NodeID(v) & NodeIDUnavailable
	return id, ok && id != NodeIDUnavailable
}

// NodeIDWide is the node's 56-bit id (§4.4.2.9).
func (d NodeData) NodeIDWide() (NodeIDWide, bool) {
	v, ok := d.Uint64(BitNodeWide)
	id := NodeIDWide(v) & NodeIDWideUnavailable
	return id, ok && id != NodeIDWideUnavailable
}

// IngressID is the 16-bit id of the interface where the packet arrived (§4.4.2.2).
func (d NodeData) IngressID() (InterfaceID, bool) {
	v, ok := d.Uint32(BitInterfaces)
	id := InterfaceID(v >> 16)
	return id, ok && id != InterfaceIDUnavailable
}

// EgressID is the 16-bit id of the interface where the packet left (§4.4.2.2).
func (d NodeData) EgressID() (InterfaceID, bool) {
	v, ok := d.Uint32(BitInterfaces)
	id := InterfaceID(v)
	return id, ok && id != InterfaceIDUnavailable
}

// IngressIDWide is the 32-bit id of the interface where the packet arrived (§4.4.2.10).
func (d NodeData) IngressIDWide() (InterfaceIDWide, bool) {
	v, ok := d.Uint64(BitInterfacesWide)
	id := InterfaceIDWide(v >> 32)
	return id, ok && id != InterfaceIDWideUnavailable
}

// EgressIDWide is the 32-bit id of the interface where the packet left (§4.4.2.10).
func (d NodeData) EgressIDWide() (InterfaceIDWide, bool) {
	v, ok := d.Uint64(BitInterfacesWide)
	id := InterfaceIDWide(v)
	return id, ok && id != InterfaceIDWideUnavailable
}

// TimestampSeconds is field 2, in the node's timestamp format (§4.4.2.3).
func (d NodeData) TimestampSeconds() (uint32, bool) { return d.Uint32(BitTimestampSeconds) }

// TimestampFraction is field 3, in the node's timestamp format (§4.4.2.4).
// All-ones is "not available" here although it is a legitimate NTP fraction.
func (d NodeData) TimestampFraction() (uint32, bool) { return d.Uint32(BitTimestampFraction) }

// Timestamp is the time in fields 2 and 3, UTC. Without the fraction it is the
// full second. The packet does not say the format; taiOffset is TAI − UTC
// and matters only for TimestampPTP. A fraction that the format does not
// allow makes the timestamp unavailable.
func (d NodeData) Timestamp(format TimestampFormat, taiOffset time.Duration) (time.Time, bool) {
	seconds, ok := d.TimestampSeconds()
	if !ok {
		return time.Time{}, false
	}
	fraction, ok := d.TimestampFraction()
	if !ok {
		fraction = 0
	}
	return format.Time(seconds, fraction, taiOffset)
}

// TransitDelay is the time in nanoseconds that the packet spent in the node (§4.4.2.5).
// Overflow means "2^31 ns or more". The RFC defines no other value with the top bit
// set; such a value is not available. A Waymark node leaves one when the packet left by
// an interface that it does not serve.
func (d NodeData) TransitDelay() (ns uint32, overflow, ok bool) {
	v, ok := d.Uint32(BitTransitDelay)
	switch {
	case !ok:
		return 0, false, false
	case v == TransitDelayOverflow:
		return 0, true, true
	case v&TransitDelayOverflow != 0:
		return 0, false, false
	}
	return v, false, true
}

// NamespaceData is field 5 (§4.4.2.6).
func (d NodeData) NamespaceData() (uint32, bool) { return d.Uint32(BitNamespaceData) }

// NamespaceDataWide is field 10 (§4.4.2.11).
func (d NodeData) NamespaceDataWide() (uint64, bool) { return d.Uint64(BitNamespaceDataWide) }

// QueueDepth is field 6, in buffers, or in bytes from a Linux node (§4.4.2.7).
func (d NodeData) QueueDepth() (uint32, bool) { return d.Uint32(BitQueueDepth) }

// ChecksumComplement is field 7 (§4.4.2.8).
func (d NodeData) ChecksumComplement() (uint32, bool) { return d.Uint32(BitChecksumComplement) }

// BufferOccupancy is field 11, in a unit that the node chooses (§4.4.2.12).
func (d NodeData) BufferOccupancy() (uint32, bool) { return d.Uint32(BitBufferOccupancy) }

// Snapshot is an opaque state snapshot (§4.4.2.13).
type Snapshot struct {
	Schema SchemaID
	Data   []byte // padded by the sender to a multiple of 4 bytes
}

// Snapshot is field 22; false also for a node that has no schema.
func (d NodeData) Snapshot() (Snapshot, bool) {
	at := 4 * d.Type.NodeLen()
	if !d.Type.HasSnapshot() || len(d.Bytes) < at+4 {
		return Snapshot{}, false
	}
	word := binary.BigEndian.Uint32(d.Bytes[at:])
	end := at + 4 + 4*int(word>>24)
	schema := SchemaID(word) & SchemaIDNone
	if schema == SchemaIDNone || end > len(d.Bytes) {
		return Snapshot{}, false
	}
	return Snapshot{Schema: schema, Data: d.Bytes[at+4 : end : end]}, true
}

// AppendSnapshot appends a node's opaque state snapshot, its data padded with
// zeros to a multiple of 4 bytes (§4.4.2.13). A node without a schema writes
// SchemaIDNone and no data.
func AppendSnapshot(dst []byte, schema SchemaID, data []byte) []byte {
	units := (len(data) + 3) / 4
	dst = binary.BigEndian.AppendUint32(dst, uint32(units)<<24|uint32(schema))
	dst = append(dst, data...)
	return append(dst, make([]byte, 4*units-len(data))...)
}
